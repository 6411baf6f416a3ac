/*
 * Random sequences of takes by the children of one parent through the script in a real Redis and through shares.c: equal
 * answers, while limits and weights change, children come, go quiet and are more than can be remembered, and the clock leaps
 * and goes back.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/shares.h"
#include "dice.h"
#include "script_rig.h"

#define START UINT64_C(4102444800123457) /* the year 2100: keys don't expire meanwhile */

enum { KEYS = 2, OPS_MAX = 12 };

struct run {
	struct script_rig rig;
	unsigned seed, children;
	struct dice dice;
	struct limit limit[KEYS];
	struct shares twin[KEYS];
	struct bucket bucket[KEYS];
	char name[KEYS][32];
};

static uint64_t pick(struct run *r, uint64_t n)
{
	return dice_below(&r->dice, n);
}

/* Of scale 1: else a changed limit has the twin round its state an operation earlier than the script. */
static void random_limit(struct run *r, struct limit *ret_limit)
{
	static const uint64_t per_us[] = {1000, 33000, 100000, 1000000, 7000000, 60000000};
	uint64_t most = pick(r, 8) == 0 ? LIMIT_MAX : 60;
	struct limit l;

	do {
		l = (struct limit){.limit = pick(r, 30) == 0 ? 0 : 1 + pick(r, most),
				   .burst = 1 + pick(r, most)};
		l.per_us = per_us[pick(r, sizeof per_us / sizeof *per_us)];
		cr_assert_eq(limit_init(&l), KOVA_OK);
	} while (l.limit > 0 && l.scale_ut > 1);
	*ret_limit = l;
}

static struct script_op random_op(struct run *r, struct script_check *check, unsigned key)
{
	const struct limit *l = &r->limit[key];
	uint64_t id = pick(r, r->children);

	*check = (struct script_check){.limit = l, .key = slice_of(r->name[key])};
	check->cost = pick(r, 6) == 0 ? 1 + pick(r, l->burst + 1) : 1 + pick(r, 3);
	check->cost = check->cost < LIMIT_MAX ? check->cost : LIMIT_MAX;
	check->share = (struct share_claim){id * UINT64_C(0x123456789abcdef) + 1,
					    (uint32_t)(1 + id % 4), (uint32_t)(1 + id % 50)};
	if (pick(r, 50) == 0)
		check->share.weight = 1 + (uint32_t)pick(r, SHARE_WEIGHT_MAX);
	return (struct script_op){.kind = pick(r, 8) == 0 ? SCRIPT_PEEK : SCRIPT_TAKE,
				  .checks = check,
				  .n_checks = 1};
}

static void compare(struct run *r, const struct script_op *op, const struct script_answer *lua,
		    unsigned key)
{
	const struct script_check *check = op->checks;
	struct shares shares = r->twin[key];
	struct bucket bucket = r->bucket[key];
	struct limiter_verdict c;
	bool same;

	shares_take(&shares, &bucket, check->limit, lua->now_us, &check->share, check->cost, &c);
	if (op->kind == SCRIPT_TAKE) {
		r->twin[key] = shares;
		r->bucket[key] = bucket;
	}
	same = (lua->status == SCRIPT_ALLOWED) == c.allowed;
	if (op->kind == SCRIPT_TAKE)
		same = same && lua->remaining == c.remaining && lua->reset_us == c.reset_us;
	if (op->kind == SCRIPT_TAKE || !c.allowed)
		same = same && lua->wait_us == c.wait_us;
	cr_assert(same,
		  "seed %u cost %lu limit %lu per %lu burst %lu now %lu: lua %d %lu %ld %lu, c %d "
		  "%lu %ld "
		  "%lu",
		  r->seed, (unsigned long)check->cost, (unsigned long)check->limit->limit,
		  (unsigned long)check->limit->per_us, (unsigned long)check->limit->burst,
		  (unsigned long)lua->now_us, lua->status, (unsigned long)lua->remaining,
		  (long)lua->wait_us, (unsigned long)lua->reset_us, c.allowed,
		  (unsigned long)c.remaining, (long)c.wait_us, (unsigned long)c.reset_us);
}

static void one_batch(struct run *r)
{
	struct script_check check[OPS_MAX];
	struct script_op op[OPS_MAX];
	struct script_answer answer[OPS_MAX];
	struct shares before[KEYS];
	unsigned key[OPS_MAX];
	uint32_t n = 1 + (uint32_t)pick(r, OPS_MAX);

	for (uint32_t i = 0; i < n; i++) {
		key[i] = (unsigned)pick(r, KEYS);
		op[i] = random_op(r, &check[i], key[i]);
	}
	memcpy(before, r->twin, sizeof before);
	for (int i = 0; i < KEYS; i++)
		r->twin[i].settled = r->twin[i].changed = false;
	script_rig_run(&r->rig, op, n, answer);
	for (uint32_t i = 0; i < n; i++)
		compare(r, &op[i], &answer[i], key[i]);
	for (int i = 0; i < KEYS; i++)
		if (!r->twin[i].changed) /* the script writes nothing either */
			r->twin[i] = before[i];
}

/* Mostly short steps, so that reserves are in use; some as long as children live, now and then back. */
static void pass_time(struct run *r)
{
	uint64_t step_us = pick(r, UINT64_C(1) << pick(r, pick(r, 4) == 0 ? 28 : 18));

	if (pick(r, 16) == 0)
		r->rig.virtual_us -= step_us;
	else if (pick(r, 3) > 0)
		r->rig.virtual_us += step_us;
	r->rig.clock_us = r->rig.virtual_us;
}

Test(shares_differential, children_of_a_bucket)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct run r = {.seed = seed, .dice = {seed}, .children = seed % 3 == 0 ? 100 : 5};

		script_rig_start(&r.rig);
		r.rig.virtual_us = START + pick(&r, 1000000);
		for (int i = 0; i < KEYS; i++) {
			snprintf(r.name[i], sizeof r.name[i], "k:b{key}%d", i);
			random_limit(&r, &r.limit[i]);
		}
		for (int i = 0; i < 400; i++) {
			pass_time(&r);
			if (pick(&r, 40) == 0) {
				unsigned key = (unsigned)pick(&r, KEYS);

				random_limit(&r, &r.limit[key]);
			}
			one_batch(&r);
		}
		script_rig_stop(&r.rig);
	}
}

/* What the parent lacks comes in by a clock that nobody trusts: whoever waits for it asks no more often than that is worth. */
Test(shares_differential, in_doubt_a_share_is_waited_for_as_anything_else)
{
	struct script_rig rig;
	struct limit l = {.limit = 1000000, .per_us = 1000000, .burst = 10};
	struct script_check check = {.limit = &l, .key = SLICE("k:b{a}"), .cost = 1};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = &check, .n_checks = 1};
	struct script_answer a;

	cr_assert_eq(limit_init(&l), KOVA_OK);
	script_rig_start(&rig);
	rig.doubted = true;
	check.share = (struct share_claim){1, 1, 10};
	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(a.status, SCRIPT_ALLOWED);
	check.share.id = 2;
	for (int i = 0; i < 4; i++) {
		script_rig_run(&rig, &op, 1, &a);
		cr_assert_eq(a.status, SCRIPT_ALLOWED);
	}
	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(a.status, SCRIPT_REFUSED, "half of nine is not five");
	cr_assert_eq(a.wait_us, 100000, "%ld", (long)a.wait_us);
	script_rig_stop(&rig);
}
