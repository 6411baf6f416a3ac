#include <criterion/criterion.h>

#include "core/gcra.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static struct limit make(uint64_t limit, uint64_t per_us, uint64_t burst)
{
	struct limit l = {
		.algorithm = ALGORITHM_GCRA, .limit = limit, .per_us = per_us, .burst = burst};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct limiter_verdict take(struct gcra *g, const struct limit *l, uint64_t now_us,
				   uint64_t cost)
{
	struct limiter_verdict v;

	gcra_take(g, l, now_us, cost, &v);
	return v;
}

Test(gcra, a_burst_then_evenly)
{
	struct limit l = make(30, 60 * SECOND, 16);
	struct gcra g = {0};
	struct limiter_verdict v;

	for (uint64_t i = 0; i < 16; i++) {
		v = take(&g, &l, START, 1);
		cr_assert(v.allowed && v.remaining == 15 - i);
		cr_assert_eq(v.reset_us, (i + 1) * 2 * SECOND);
	}
	v = take(&g, &l, START, 1);
	cr_assert(!v.allowed && v.wait_us == 2 * (int64_t)SECOND);
	cr_assert_not(take(&g, &l, START + 2 * SECOND - 1, 1).allowed);
	cr_assert(take(&g, &l, START + 2 * SECOND, 1).allowed);
}

Test(gcra, a_wait_is_exact)
{
	struct dice d = {3};

	for (int i = 0; i < 2000; i++) {
		struct limit l = make(1 + dice_below(&d, 5000), 1000 * (1 + dice_below(&d, 100000)),
				      1 + dice_below(&d, 100));
		struct gcra g = {0}, before;
		uint64_t now_us = START, cost = 1 + dice_below(&d, l.burst);
		struct limiter_verdict v;

		take(&g, &l, now_us, l.burst);
		now_us += dice_below(&d, limit_horizon_us(&l) + 1);
		v = take(&g, &l, now_us, cost);
		if (v.allowed)
			continue;
		before = g;
		cr_assert_not(take(&before, &l, now_us + (uint64_t)v.wait_us - 1, cost).allowed,
			      "case %d", i);
		cr_assert(take(&g, &l, now_us + (uint64_t)v.wait_us, cost).allowed, "case %d", i);
	}
}

/* Never faster than the limit, and slower by less than a millionth of a µs an interval. */
Test(gcra, the_long_run_is_the_limit)
{
	const uint64_t rates[][2] = {{3, 7 * SECOND}, {7, 1000}, {999, 1001000}, {100000, SECOND}};

	for (size_t i = 0; i < 4; i++) {
		struct limit l = make(rates[i][0], rates[i][1], 10);
		struct gcra g = {0};
		uint64_t now_us = START, n = 0;

		take(&g, &l, now_us, 10);
		while (n < 20000) {
			struct limiter_verdict v = take(&g, &l, now_us, 1);

			n += v.allowed;
			now_us += v.allowed ? 0 : (uint64_t)v.wait_us;
		}
		double exact_us = 20000.0 * (double)rates[i][1] / (double)rates[i][0];

		cr_assert_geq((double)(now_us - START), exact_us - 1e-6 * exact_us - 11);
		cr_assert_leq((double)(now_us - START), exact_us + 1.02);
	}
}

Test(gcra, remaining_is_what_can_be_taken)
{
	struct dice d = {5};

	for (int i = 0; i < 500; i++) {
		struct limit l = make(1 + dice_below(&d, LIMIT_MAX),
				      1000 * (1 + dice_below(&d, 1000)), 1 + dice_below(&d, 1000));
		struct gcra g = {0}, probe;
		uint64_t now_us = START;
		struct limiter_verdict v = take(&g, &l, now_us, 1 + dice_below(&d, l.burst));

		probe = g;
		if (v.remaining > 0)
			cr_assert(take(&probe, &l, now_us, v.remaining).allowed);
		probe = g;
		cr_assert_not(take(&probe, &l, now_us, v.remaining + 1).allowed);
	}
}

Test(gcra, never_and_none)
{
	struct limit l = make(10, SECOND, 20), none = make(0, SECOND, 20);
	struct gcra g = {0};

	cr_assert_eq(take(&g, &l, START, 21).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&g, &none, START, 1).wait_us, VERDICT_NEVER);
	cr_assert(take(&g, &l, START, 20).allowed);
}

Test(gcra, a_changed_limit_keeps_the_number_taken)
{
	struct limit day = make(10, 86400 * SECOND, 10), second = make(20, SECOND, 20);
	struct gcra g = {0};
	struct limiter_verdict v;

	take(&g, &day, START, 10);
	v = take(&g, &second, START, 10);
	cr_assert(v.allowed && v.remaining == 0, "20 in all");
	v = take(&g, &day, START, 1);
	cr_assert(!v.allowed, "20 taken, 10 allowed");
	cr_assert_eq(v.reset_us, 86400 * SECOND, "what is beyond the burst is forgotten");
}

Test(gcra, a_clock_that_goes_back_gives_nothing)
{
	struct limit l = make(10, SECOND, 10);
	struct gcra g = {0};

	take(&g, &l, START, 10);
	for (uint64_t back = 0; back < 10 * SECOND; back += 100000)
		cr_assert_not(take(&g, &l, START - back, 1).allowed);
	cr_assert(take(&g, &l, START + 100000, 1).allowed);
}

Test(gcra, empty)
{
	struct limit l = make(10, SECOND, 20);
	struct gcra g;

	gcra_init_empty(&g, &l, START);
	cr_assert_eq(take(&g, &l, START, 1).wait_us, 100000);
	cr_assert(take(&g, &l, START + 2 * SECOND, 20).allowed);
}
