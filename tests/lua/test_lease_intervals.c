/*
 * I1 with leases, by the script itself in a real Redis with a clock of the test's: random schedules of takes and of leases whose
 * holders spend at the worst times. Of what was admitted every interval is checked; with levels, against each level.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "lease_schedule.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define START (UINT64_C(4102444800) * SECOND) /* the year 2100: keys don't expire meanwhile */

enum { BUCKET = 1, WINDOW = 2, CALENDAR = 4, EDGES = 20000, LEVELS_MAX = 3 };

struct world {
	struct script_rig rig;
	struct limit limit[LEVELS_MAX];
	struct script_check check[LEVELS_MAX];
	uint16_t n;
	bool doubts; /* the clock is doubted in every third call */
	struct dice doubt;
	uint64_t edge[EDGES];
};

static struct script_answer run(struct world *w, struct script_op *op, uint64_t now_us,
				uint64_t cost)
{
	struct script_answer a;

	for (unsigned i = 0; i < w->n; i++)
		w->check[i].cost = cost;
	op->checks = w->check;
	op->n_checks = w->n;
	w->rig.virtual_us = w->rig.clock_us = now_us;
	w->rig.doubted = w->doubts && dice_below(&w->doubt, 3) == 0;
	script_rig_run(&w->rig, op, 1, &a);
	cr_assert_neq(a.status, SCRIPT_EDGES);
	return a;
}

static bool world_take(void *state, uint64_t now_us, uint64_t cost)
{
	struct script_op op = {.kind = SCRIPT_TAKE};

	return run(state, &op, now_us, cost).status == SCRIPT_ALLOWED;
}

static uint64_t world_lease(void *state, uint64_t now_us, uint64_t id, uint64_t amount,
			    uint64_t sharers, uint64_t ttl_us, bool *ret_leased)
{
	struct script_op op = {.kind = SCRIPT_LEASE,
			       .amount = amount,
			       .sharers = (uint32_t)sharers,
			       .ttl_us = ttl_us};
	struct script_answer a;

	memcpy(op.lease, &id, sizeof op.lease);
	a = run(state, &op, now_us, 1);
	*ret_leased = a.lease_us > 0;
	cr_assert(!*ret_leased || a.lease_us == ttl_us);
	return a.status == SCRIPT_ALLOWED ? a.amount : 0;
}

static void world_unlease(void *state, uint64_t now_us, uint64_t id, uint64_t unspent)
{
	struct script_op op = {.kind = SCRIPT_UNLEASE, .amount = unspent};

	memcpy(op.lease, &id, sizeof op.lease);
	run(state, &op, now_us, 1);
}

/* Rates a permit in some ms, for the shortest lease is counted for 21 ms. */
static void random_limit(struct world *w, enum algorithm a, struct dice *d, uint64_t start_us)
{
	static const char *const key[LEVELS_MAX] = {"k:x{a}0", "k:x{a}1", "k:x{a}2"};
	struct limit *l = &w->limit[w->n];
	uint64_t at_us = start_us - SECOND;

	*l = (struct limit){.algorithm = a, .limit = 1 + dice_below(d, 60)};
	l->burst = 1 + dice_below(d, 60);
	l->per_us = l->limit * (1000 + dice_below(d, 20000));
	cr_assert_eq(limit_init(l), KOVA_OK);
	for (int i = 0; i < EDGES && a == ALGORITHM_CALENDAR;
	     i++, at_us += 20000 + dice_below(d, 300000))
		w->edge[i] = at_us;
	l->edges = (struct calendar_edges){.edge_us = w->edge, .n = EDGES};
	w->check[w->n] = (struct script_check){.limit = l, .key = slice_of(key[w->n])};
	w->n++;
}

static void check(const struct lease_schedule *s, const struct world *w, unsigned seed)
{
	for (unsigned i = 0; i < w->n; i++) {
		const struct limit *l = &w->limit[i];

		if (l->algorithm == ALGORITHM_TOKEN_BUCKET)
			cr_assert(spent_within_bucket(s->spent, s->n_spent, l), "bucket, seed %u",
				  seed);
		if (l->algorithm == ALGORITHM_SLIDING_WINDOW)
			cr_assert(spent_within_windows(s->spent, s->n_spent, l), "window, seed %u",
				  seed);
		if (l->algorithm == ALGORITHM_CALENDAR)
			cr_assert(spent_within_calendar(s->spent, s->n_spent, l),
				  "calendar, seed %u", seed);
	}
}

/* Returns how much was spent from leases. */
static uint64_t schedule(unsigned levels, unsigned seed, struct world *w)
{
	struct lease_schedule *s = calloc(1, sizeof *s);
	struct lease_store store = {w, world_take, world_lease, world_unlease};
	struct redis_answer a = redis_client_command(&w->rig.client, "FLUSHALL");
	uint64_t by_lease;

	redis_answer_release(&a);
	s->dice.state = w->doubt.state = seed;
	s->start_us = START + dice_below(&s->dice, SECOND);
	w->n = 0;
	if ((levels & BUCKET) != 0)
		random_limit(w, ALGORITHM_TOKEN_BUCKET, &s->dice, s->start_us);
	if ((levels & WINDOW) != 0)
		random_limit(w, ALGORITHM_SLIDING_WINDOW, &s->dice, s->start_us);
	if ((levels & CALENDAR) != 0)
		random_limit(w, ALGORITHM_CALENDAR, &s->dice, s->start_us);
	s->step_us = 1 + dice_below(&s->dice, 10000);
	s->ttl_max_us = 1 + dice_below(&s->dice, 100000);
	s->amount_max = 60;
	s->steps = 400;
	lease_schedule_run(s, &store);
	check(s, w, seed);
	by_lease = s->n_by_lease;
	free(s);
	return by_lease;
}

static void schedules(unsigned levels, unsigned seeds, bool doubts)
{
	struct world *w = calloc(1, sizeof *w);
	uint64_t by_lease = 0;

	w->doubts = doubts;
	script_rig_start(&w->rig);
	for (unsigned seed = 1; seed <= seeds; seed++)
		by_lease += schedule(levels, seed, w);
	script_rig_stop(&w->rig);
	free(w);
	cr_assert_gt(by_lease, doubts ? 50 : 2000, "%lu", (unsigned long)by_lease);
}

Test(lease_intervals, token_bucket)
{
	schedules(BUCKET, 60, false);
}

Test(lease_intervals, sliding_window)
{
	schedules(WINDOW, 60, false);
}

Test(lease_intervals, calendar)
{
	schedules(CALENDAR, 60, false);
}

Test(lease_intervals, levels)
{
	schedules(BUCKET | WINDOW | CALENDAR, 60, false);
}

Test(lease_intervals, levels_in_doubt)
{
	schedules(BUCKET, 10, true);
	schedules(WINDOW, 10, true);
	schedules(CALENDAR, 10, true);
	schedules(BUCKET | WINDOW | CALENDAR, 10, true);
}
