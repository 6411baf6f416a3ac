#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/leased_bucket.h"
#include "core/script.h"
#include "lease_schedule.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static struct limit make(uint64_t limit, uint64_t per_us, uint64_t burst)
{
	struct limit l = {.limit = limit, .per_us = per_us, .burst = burst};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

/* ---- In every interval, whatever the holders do ---- */

struct world {
	struct limit limit;
	struct leased_bucket bucket;
	unsigned doubted_in; /* of so many calls one is in doubt; 0: none */
	struct dice doubt;
	bool lazy; /* the bug that piecewise refill is there against: what has ended is dropped before the refill */
};

static struct leased_bucket *bucket_of(struct world *w, uint64_t now_us)
{
	struct outstanding *o = &w->bucket.leases;

	while (w->lazy && o->n > 0 && o->lease[0].end_us <= now_us)
		outstanding_remove_first(o);
	return &w->bucket;
}

static bool doubts(struct world *w)
{
	return w->doubted_in > 0 && dice_below(&w->doubt, w->doubted_in) == 0;
}

static bool world_take(void *state, uint64_t now_us, uint64_t cost)
{
	struct world *w = state;
	struct limiter_verdict v;

	leased_bucket_take(bucket_of(w, now_us), &w->limit, now_us, doubts(w), cost, &v);
	return v.allowed;
}

static uint64_t world_lease(void *state, uint64_t now_us, uint64_t id, uint64_t amount,
			    uint64_t sharers, uint64_t ttl_us, bool *ret_leased)
{
	struct world *w = state;
	struct leased_bucket_request r = {1, amount, sharers, id, script_lease_hold_us(ttl_us)};
	struct limiter_verdict v;
	uint64_t granted;

	*ret_leased = leased_bucket_lease(bucket_of(w, now_us), &w->limit, now_us, doubts(w), &r,
					  &granted, &v);
	return v.allowed ? granted : 0;
}

static void world_unlease(void *state, uint64_t now_us, uint64_t id, uint64_t unspent)
{
	struct world *w = state;
	uint64_t given;

	leased_bucket_unlease(bucket_of(w, now_us), &w->limit, now_us, doubts(w), id, unspent,
			      &given);
}

/* One schedule under a random limit. Returns whether every interval was within it. */
static bool within(unsigned seed, bool lazy, unsigned doubted_in, uint64_t *ret_by_lease)
{
	struct lease_schedule *s = calloc(1, sizeof *s);
	struct world w = {.lazy = lazy, .doubted_in = doubted_in, .doubt = {seed}};
	struct lease_store store = {&w, world_take, world_lease, world_unlease};
	bool holds;

	s->dice.state = seed;
	w.limit = make(1 + dice_below(&s->dice, 100), 1000 * (1 + dice_below(&s->dice, 5000)),
		       1 + dice_below(&s->dice, 60));
	s->start_us = START;
	s->step_us = 1 + w.limit.per_us / w.limit.limit;
	s->ttl_max_us = 1 + 20 * s->step_us;
	s->amount_max = w.limit.burst;
	s->steps = 600;
	lease_schedule_run(s, &store);
	holds = spent_within_bucket(s->spent, s->n_spent, &w.limit);
	*ret_by_lease += s->n_by_lease;
	free(s);
	return holds;
}

Test(leased_bucket, no_interval_admits_more_than_burst_and_refill)
{
	uint64_t by_lease = 0;

	for (unsigned seed = 1; seed <= 1000; seed++)
		cr_assert(within(seed, false, 0, &by_lease), "seed %u", seed);
	cr_assert_gt(by_lease, 100000, "%lu: the schedules are about leases",
		     (unsigned long)by_lease);
}

Test(leased_bucket, nor_when_the_clock_is_doubted_now_and_then)
{
	uint64_t by_lease = 0;

	for (unsigned seed = 1; seed <= 900; seed++)
		cr_assert(within(seed, false, 2 + seed % 3, &by_lease), "seed %u", seed);
	cr_assert_gt(by_lease, 10000, "%lu: leases go on", (unsigned long)by_lease);
}

Test(leased_bucket, a_lazy_refill_would_be_noticed)
{
	unsigned noticed = 0;
	uint64_t by_lease = 0;

	for (unsigned seed = 1; seed <= 200; seed++)
		noticed += !within(seed, true, 0, &by_lease);
	cr_assert_gt(noticed, 60, "by %u of 200", noticed);
}

/* The example of docs/leases.md: 100 at most, 10 a second, a lease of 100 for 10 s. */
static uint64_t there_at_the_end(bool lazy)
{
	struct world w = {.limit = make(10, SECOND, 100), .lazy = lazy};
	struct leased_bucket_request r = {1, 100, 1, 7, 10 * SECOND};
	struct limiter_verdict v;
	uint64_t granted;

	cr_assert(leased_bucket_lease(&w.bucket, &w.limit, START, false, &r, &granted, &v) &&
		  granted == 100);
	leased_bucket_take(bucket_of(&w, START + 10 * SECOND), &w.limit, START + 10 * SECOND, false,
			   100, &v);
	return v.allowed ? 100 : v.remaining;
}

Test(leased_bucket, the_example_of_the_proof)
{
	cr_assert_eq(there_at_the_end(false), 0);
	cr_assert_eq(there_at_the_end(true), 100);
}

/* ---- Its answers ---- */

Test(leased_bucket, a_wait_is_exact)
{
	struct dice d = {1};

	for (int i = 0; i < 2000; i++) {
		struct limit l = make(1 + dice_below(&d, 50), 1000 * (1 + dice_below(&d, 5000)),
				      1 + dice_below(&d, 100));
		struct leased_bucket b = {0}, early;
		uint64_t now_us = START + dice_below(&d, SECOND), granted;
		uint64_t cost = 1 + dice_below(&d, l.burst);
		struct limiter_verdict v = {0}, then;

		for (uint64_t id = 1; id <= 4; id++) {
			struct leased_bucket_request r = {
				1, dice_below(&d, l.burst), 1 + dice_below(&d, 3), id,
				1 + dice_below(&d, 30 * l.per_us / l.limit)};

			leased_bucket_lease(&b, &l, now_us, false, &r, &granted, &v);
			now_us += dice_below(&d, l.per_us / l.limit);
		}
		leased_bucket_take(&b, &l, now_us, false, cost, &v);
		if (v.allowed)
			continue;
		early = b;
		leased_bucket_take(&early, &l, now_us + (uint64_t)v.wait_us - 1, false, cost,
				   &then);
		cr_assert(!then.allowed && then.wait_us == 1, "case %d", i);
		leased_bucket_take(&b, &l, now_us + (uint64_t)v.wait_us, false, cost, &then);
		cr_assert(then.allowed, "case %d", i);
	}
}

Test(leased_bucket, a_reset_is_when_it_is_full)
{
	struct limit l = make(10, SECOND, 100);
	struct leased_bucket b = {0};
	struct leased_bucket_request r = {1, 30, 1, 7, 2 * SECOND};
	struct limiter_verdict v;
	uint64_t granted, at_us = START - START % SECOND;

	cr_assert(leased_bucket_lease(&b, &l, at_us, false, &r, &granted, &v));
	cr_assert_eq(v.reset_us, 5 * SECOND, "nothing until the end, then 30 at 10 a second");
	leased_bucket_take(&b, &l, at_us, false, 10, &v);
	cr_assert_eq(v.reset_us, 5 * SECOND, "these 10 come back meanwhile");
	leased_bucket_take(&b, &l, at_us, false, 15, &v);
	cr_assert_eq(v.reset_us, 5500000);
}

/* ---- When the limit changes ---- */

Test(leased_bucket, a_lowered_limit_forgets_debt_but_not_what_is_outstanding)
{
	struct limit wide = make(10, SECOND, 100), narrow = make(10, SECOND, 10);
	struct leased_bucket b = {0};
	struct leased_bucket_request r = {1, 60, 1, 7, 2 * SECOND};
	struct limiter_verdict v;
	uint64_t granted, given;

	cr_assert(leased_bucket_lease(&b, &wide, START, false, &r, &granted, &v) && granted == 60);
	leased_bucket_take(&b, &wide, START, false, 40, &v);
	cr_assert(v.allowed);
	leased_bucket_take(&b, &narrow, START, false, 1, &v);
	cr_assert(!v.allowed && v.remaining == 0);
	cr_assert_eq(b.bucket.debt_ut, 60 * LIMIT_UT, "what is outstanding is all that is owed");
	cr_assert(leased_bucket_unlease(&b, &narrow, START + 1, false, 7, 60, &given) &&
		  given == 60);
	leased_bucket_take(&b, &narrow, START + 1, false, 10, &v);
	cr_assert(v.allowed && v.remaining == 0, "the new burst, and no more");
}

Test(leased_bucket, a_limit_of_0_refuses_and_leaves_the_state_alone)
{
	struct limit l = make(10, SECOND, 100), none = make(0, SECOND, 100);
	struct leased_bucket b = {0};
	struct leased_bucket_request r = {1, 60, 1, 7, 2 * SECOND}, second = {1, 1, 1, 8, SECOND};
	struct limiter_verdict v;
	uint64_t granted, given;

	cr_assert(leased_bucket_lease(&b, &l, START, false, &r, &granted, &v));
	leased_bucket_take(&b, &none, START + 1, false, 1, &v);
	cr_assert(!v.allowed && v.wait_us == VERDICT_NEVER);
	cr_assert_not(leased_bucket_lease(&b, &none, START + 1, false, &second, &granted, &v));
	cr_assert_not(v.allowed);
	cr_assert_not(leased_bucket_unlease(&b, &none, START + 1, false, 7, 60, &given));
	cr_assert_eq(leased_bucket_give(&b, &none, START + 1, false, 1), 0);
	cr_assert(b.leases.n == 1 && b.bucket.debt_ut == 60 * LIMIT_UT);
}
