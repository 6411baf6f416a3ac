#include <criterion/criterion.h>

#include "core/bucket.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static struct limit make(uint64_t limit, uint64_t per_us, uint64_t burst)
{
	struct limit l = {.limit = limit, .per_us = per_us, .burst = burst};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct limiter_verdict take(struct bucket *b, const struct limit *l, uint64_t now_us,
				   uint64_t cost)
{
	struct limiter_verdict v;

	bucket_take(b, l, now_us, cost, &v);
	return v;
}

/* Capacity 20, 10 a second: 15 at 0 s, 15 at 1 s, 10 at 2 s. */
Test(bucket, the_timeline_of_the_source)
{
	struct limit l = make(10, SECOND, 20);
	struct bucket b = {0};
	struct limiter_verdict v;

	v = take(&b, &l, START, 15);
	cr_assert(v.allowed && v.remaining == 5);
	v = take(&b, &l, START + SECOND, 15);
	cr_assert(v.allowed && v.remaining == 0);
	v = take(&b, &l, START + 2 * SECOND, 10);
	cr_assert(v.allowed && v.remaining == 0 && v.reset_us == 2 * SECOND && v.wait_us == 100000);
	v = take(&b, &l, START + 2 * SECOND, 1);
	cr_assert(!v.allowed && v.wait_us == 100000);
}

/* Found by the simulator (tests/sim): where the clock went back within the stamp's tenth, or before it, the debt was above the
 * burst, was taken for one of a limit that had been lowered, and the difference was forgotten. */
Test(bucket, a_clock_that_goes_back_and_comes_again_refills_nothing)
{
	struct limit l = make(100, SECOND, 10);
	uint64_t at_us = START - START % SECOND + 95000;

	for (uint64_t back_us = 1000; back_us < 3 * SECOND; back_us *= 3) {
		struct bucket b = {0};

		cr_assert(take(&b, &l, at_us, 10).allowed);
		cr_assert_not(take(&b, &l, at_us - back_us, 1).allowed);
		bucket_give(&b, &l, at_us - back_us, 2);
		cr_assert_eq(take(&b, &l, at_us, 2).remaining, 0, "%lu", (unsigned long)back_us);
		cr_assert_not(take(&b, &l, at_us, 1).allowed, "%lu", (unsigned long)back_us);
	}
}

Test(bucket, polling_never_loses_a_fraction)
{
	struct limit l = make(1, 2 * SECOND, 1);
	struct bucket b = {0};

	cr_assert(take(&b, &l, START, 1).allowed);
	for (uint64_t t = 1; t < 2 * SECOND; t += 997)
		cr_assert_not(take(&b, &l, START + t, 1).allowed);
	cr_assert(take(&b, &l, START + 2 * SECOND, 1).allowed);
}

/* Case 3: waiting exactly as long as was said is enough, and no less is. */
Test(bucket, a_wait_is_exact)
{
	struct dice d = {1};

	for (int i = 0; i < 2000; i++) {
		struct limit l = make(1 + dice_below(&d, 50), 1000 * (1 + dice_below(&d, 100000)),
				      1 + dice_below(&d, 100));
		struct bucket b = {0}, before;
		uint64_t now_us = START + dice_below(&d, 1000000000),
			 cost = 1 + dice_below(&d, l.burst);
		struct limiter_verdict v;

		take(&b, &l, now_us, l.burst);
		now_us += dice_below(&d, limit_horizon_us(&l));
		v = take(&b, &l, now_us, cost);
		if (v.allowed)
			continue;
		cr_assert_gt(v.wait_us, 0);
		before = b;
		cr_assert_not(take(&before, &l, now_us + (uint64_t)v.wait_us - 1, cost).allowed,
			      "case %d", i);
		cr_assert(take(&b, &l, now_us + (uint64_t)v.wait_us, cost).allowed, "case %d", i);
	}
}

struct admitted {
	uint64_t at_us, cost;
};

/* I1: in every interval of length T at most B + R·T, where an interval may begin and end within a quantum. */
static void check_every_interval(const struct limit *l, const struct admitted *a, size_t n,
				 unsigned seed)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t sum = 0;

		for (size_t j = i; j < n; j++) {
			uint64_t span_us = a[j].at_us - a[i].at_us + l->quantum_us - 1;
			uint64_t most_ut = l->cap_ut + span_us / l->quantum_us * l->quantum_ut +
					   span_us % l->quantum_us * l->quantum_ut / l->quantum_us;

			sum += a[j].cost;
			cr_assert_leq(sum * LIMIT_UT, most_ut, "seed %u", seed);
		}
	}
}

Test(bucket, no_interval_admits_more_than_burst_and_refill)
{
	enum { ASKED = 800 };

	for (unsigned seed = 1; seed <= 60; seed++) {
		struct dice d = {seed};
		struct limit l = make(1 + dice_below(&d, 100), 1000 * (1 + dice_below(&d, 5000)),
				      1 + dice_below(&d, 20));
		struct bucket b = {0};
		struct admitted a[ASKED];
		uint64_t now_us = START, step_us = 1 + 2 * l.per_us / l.limit;
		size_t n = 0;

		for (int i = 0; i < ASKED; i++) {
			uint64_t cost = 1 + dice_below(&d, 3);

			now_us += dice_below(&d, dice_below(&d, 30) == 0 ? 40 * step_us : step_us);
			if (take(&b, &l, now_us, cost).allowed)
				a[n++] = (struct admitted){now_us, cost};
		}
		check_every_interval(&l, a, n, seed);
	}
}

Test(bucket, all_that_is_refilled_is_used)
{
	const uint64_t rates[][2] = {{3, 7 * SECOND},
				     {10, SECOND},
				     {7, 86400 * SECOND},
				     {999, 1001000},
				     {100, 60 * SECOND}};

	for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
		struct limit l = make(rates[i][0], rates[i][1], 2);
		struct bucket b = {0};
		uint64_t now_us = START, n = 0;

		take(&b, &l, now_us, 2);
		while (n < 10 * rates[i][0]) {
			struct limiter_verdict v = take(&b, &l, now_us, 1);

			n += v.allowed;
			now_us += v.allowed ? 0 : (uint64_t)v.wait_us;
		}
		cr_assert_leq(now_us - START, 10 * rates[i][1], "not a µs is lost in ten periods");
	}
}

Test(bucket, cost_beyond_capacity_never_fits)
{
	struct limit l = make(10, SECOND, 20), none = make(0, SECOND, 20);
	struct bucket b = {0};

	cr_assert_eq(take(&b, &l, START, 21).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&b, &l, START, LIMIT_MAX).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&b, &none, START, 1).wait_us, VERDICT_NEVER);
	cr_assert(take(&b, &l, START, 20).allowed, "and nothing was taken");
}

Test(bucket, a_clock_that_goes_back_refills_nothing)
{
	struct limit l = make(10, SECOND, 20);
	struct bucket b = {0};

	take(&b, &l, START, 20);
	for (uint64_t back = SECOND; back < 100 * SECOND; back += SECOND)
		cr_assert_not(take(&b, &l, START - back, 1).allowed);
	cr_assert_eq(take(&b, &l, START + SECOND, 10).remaining, 0);

	b = (struct bucket){0};
	take(&b, &l, START, 5);
	cr_assert(take(&b, &l, START - 50 * SECOND, 10).allowed, "what is there may be spent");
	cr_assert(!take(&b, &l, START, 6).allowed, "the clock came back: not refilled twice");
}

Test(bucket, a_changed_limit_keeps_what_was_taken)
{
	struct limit low = make(5, 60 * SECOND, 5), high = make(10, 60 * SECOND, 10),
		     tiny = make(1, SECOND, 1);
	struct bucket b = {0};

	take(&b, &low, START, 5);
	cr_assert_not(take(&b, &low, START, 1).allowed);
	cr_assert(take(&b, &high, START, 5).allowed, "raised: room at once");
	cr_assert_not(take(&b, &high, START, 1).allowed);
	cr_assert_eq(take(&b, &tiny, START, 1).wait_us, (int64_t)SECOND, "lowered: capped");
	cr_assert(take(&b, &tiny, START + SECOND, 1).allowed);
}

Test(bucket, empty_and_given_back)
{
	struct limit l = make(10, SECOND, 20);
	struct bucket b;

	bucket_init_empty(&b, &l, START);
	cr_assert_eq(take(&b, &l, START, 1).wait_us, 100000);
	bucket_give(&b, &l, START, 3);
	cr_assert_eq(take(&b, &l, START, 1).remaining, 2);
	bucket_give(&b, &l, START, LIMIT_MAX);
	cr_assert_eq(take(&b, &l, START, 1).remaining, 19);
}

Test(bucket, extremes_stay_in_range)
{
	const uint64_t limits[] = {1, 999999937, LIMIT_MAX},
		       pers[] = {LIMIT_PER_MIN_US, 7001000, LIMIT_PER_MAX_US};

	for (int i = 0; i < 9; i++) {
		struct limit l = make(limits[i / 3], pers[i % 3], LIMIT_MAX);
		struct bucket b = {0};
		struct limiter_verdict v = take(&b, &l, START, LIMIT_MAX);

		cr_assert(v.allowed && v.remaining == 0);
		cr_assert(b.debt_ut / b.stamp_us < LIMIT_FOREVER_US &&
			  b.debt_ut * 4 / l.scale_ut < LIMIT_FOREVER_US);
		v = take(&b, &l, START, LIMIT_MAX);
		cr_assert(!v.allowed && v.wait_us > 0 && (uint64_t)v.wait_us <= LIMIT_FOREVER_US);
	}
}
