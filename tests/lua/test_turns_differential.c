/*
 * Random callers of several loops, with and without a claim, through the script in a real Redis and through turns.c: equal
 * decisions, waits and places in line, while loops go silent, queues fill, callers leave and the clock leaps and goes back.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/turns.h"
#include "dice.h"
#include "script_rig.h"

#define START UINT64_C(4102444800123457) /* the year 2100: keys don't expire meanwhile */

enum { KEYS = 2, OPS_MAX = 8 };

struct run {
	struct script_rig rig;
	unsigned seed, loops, flows;
	struct dice dice;
	struct limit limit[KEYS];
	struct turns twin[KEYS];
	struct bucket bucket[KEYS];
	uint64_t start[KEYS]; /* as was last heard */
	char name[KEYS][32];
	unsigned taken, refused, full, behind;
};

static uint64_t pick(struct run *r, uint64_t n)
{
	return dice_below(&r->dice, n);
}

/* Of scale 1: else the twin rounds its state an operation earlier than the script. */
static void random_limit(struct run *r, struct limit *ret_limit)
{
	uint64_t most = pick(r, 2) == 0 ? 5000 : 60;
	struct limit l;

	do {
		l = (struct limit){
			.limit = 1 + pick(r, most), .per_us = 1000000, .burst = 1 + pick(r, 20)};
		cr_assert_eq(limit_init(&l), KOVA_OK);
	} while (l.scale_ut > 1);
	*ret_limit = l;
}

static struct turn_claim random_claim(struct run *r, unsigned key, uint64_t cost)
{
	struct turn_claim c = {.loop = 1 + pick(r, r->loops) * 1000003,
			       .flow = 1 + pick(r, r->flows) * UINT64_C(0x9e3779b97f4a7c15),
			       .size = cost * (pick(r, 9) == 0 ? TURN_SIZE_MAX / 32 : 1000000),
			       .n = 1 + (uint32_t)pick(r, 4),
			       .most = pick(r, 4) == 0 ? 0 : 8,
			       .left_us = pick(r, 8) == 0 ? pick(r, 100000) : 30000000,
			       .retry_us = pick(r, 3) == 0 ? 50000 : TURN_DUE_MAX_US,
			       .is_new = pick(r, 4) == 0,
			       .joins = pick(r, 3) == 0};

	c.arrival_us = r->rig.virtual_us - 100000 * pick(r, 8);
	c.start = r->start[key] + pick(r, 3) * 1000000;
	c.behind = c.joins && pick(r, 2) == 0;
	return c;
}

static struct script_op random_op(struct run *r, struct script_check *check, unsigned key)
{
	uint64_t burst = r->limit[key].burst;

	*check = (struct script_check){
		.limit = &r->limit[key], .key = slice_of(r->name[key]), .cost = 1 + pick(r, 3)};
	if (pick(r, 8) == 0)
		check->cost = 1 + pick(r, burst + 1);
	if (pick(r, 6) > 0)
		check->turn = random_claim(r, key, check->cost);
	return (struct script_op){.kind = check->turn.loop != 0 && pick(r, 10) == 0 ? SCRIPT_LEAVE
										    : SCRIPT_TAKE,
				  .checks = check,
				  .n_checks = 1};
}

static void compare(struct run *r, const struct script_op *op, const struct script_answer *lua,
		    unsigned key)
{
	const struct script_check *check = op->checks;
	const struct turn_claim *claim = check->turn.loop != 0 ? &check->turn : NULL;
	struct limiter_verdict c;
	struct turn_place place = {0};
	enum turn_outcome outcome;
	bool same;

	if (op->kind == SCRIPT_LEAVE) {
		turns_leave(&r->twin[key], lua->now_us, claim);
		return;
	}
	outcome = turns_take(&r->twin[key], &r->bucket[key], check->limit, lua->now_us, claim,
			     check->cost, &c, &place);
	same = (lua->status == SCRIPT_ALLOWED) == (outcome == TURN_TAKEN) &&
	       (outcome == TURN_TAKEN ||
		(lua->why == SCRIPT_QUEUE_FULL) == (outcome == TURN_QUEUE_FULL));
	same = same && lua->wait_us == c.wait_us;
	same = same && lua->turn.known == place.known && lua->turn.start == place.start &&
	       lua->turn.now == place.now && lua->turn.behind_others == place.behind_others;
	cr_assert(same,
		  "seed %u: lua %d %d wait %ld place %d %lu %lu %d, c %d wait %ld place %d %lu %lu "
		  "%d",
		  r->seed, lua->status, lua->why, (long)lua->wait_us, lua->turn.known,
		  (unsigned long)lua->turn.start, (unsigned long)lua->turn.now,
		  lua->turn.behind_others, outcome, (long)c.wait_us, place.known,
		  (unsigned long)place.start, (unsigned long)place.now, place.behind_others);
	if (place.known)
		r->start[key] = place.start;
	r->taken += outcome == TURN_TAKEN;
	r->refused += outcome == TURN_REFUSED;
	r->full += outcome == TURN_QUEUE_FULL;
	r->behind += place.behind_others;
}

static void one_batch(struct run *r)
{
	struct script_check check[OPS_MAX];
	struct script_op op[OPS_MAX];
	struct script_answer answer[OPS_MAX];
	struct turns before[KEYS];
	unsigned key[OPS_MAX];
	uint32_t n = 1 + (uint32_t)pick(r, OPS_MAX);

	for (uint32_t i = 0; i < n; i++) {
		key[i] = (unsigned)pick(r, KEYS);
		op[i] = random_op(r, &check[i], key[i]);
	}
	memcpy(before, r->twin, sizeof before);
	for (int i = 0; i < KEYS; i++)
		turns_begin(&r->twin[i], r->rig.virtual_us);
	script_rig_run(&r->rig, op, n, answer);
	for (uint32_t i = 0; i < n; i++)
		compare(r, &op[i], &answer[i], key[i]);
	for (int i = 0; i < KEYS; i++)
		if (r->twin[i].changed)
			turns_end(&r->twin[i]);
		else /* the script writes nothing either */
			r->twin[i] = before[i];
}

/* Mostly short steps, so that tickets are live; some beyond their time, now and then back. */
static void pass_time(struct run *r)
{
	uint64_t step_us = pick(r, UINT64_C(1) << pick(r, pick(r, 8) == 0 ? 22 : 17));

	if (pick(r, 16) == 0)
		r->rig.virtual_us -= step_us;
	else if (pick(r, 3) > 0)
		r->rig.virtual_us += step_us;
	r->rig.clock_us = r->rig.virtual_us;
}

Test(turns_differential, callers_of_a_bucket)
{
	unsigned taken = 0, refused = 0, full = 0, behind = 0;

	for (unsigned seed = 1; seed <= 40; seed++) {
		struct run r = {.seed = seed,
				.dice = {seed},
				.loops = seed % 5 == 0 ? 100 : 2 + seed % 3,
				.flows = 1 + seed % 4};

		script_rig_start(&r.rig);
		r.rig.virtual_us = START + pick(&r, 1000000);
		for (int i = 0; i < KEYS; i++) {
			snprintf(r.name[i], sizeof r.name[i], "k:b{key}%d", i);
			random_limit(&r, &r.limit[i]);
			if (seed % 2 == 0) /* soon it is that late */
				r.start[i] = TURN_TIME_MAX - 50 * UINT64_C(1000000);
		}
		for (int i = 0; i < 400; i++) {
			pass_time(&r);
			one_batch(&r);
		}
		taken += r.taken;
		refused += r.refused;
		full += r.full;
		behind += r.behind;
		script_rig_stop(&r.rig);
	}
	cr_assert_gt(taken, 1000);
	cr_assert_gt(refused, 1000);
	cr_assert_gt(full, 100);
	cr_assert_gt(behind, 1000);
}
