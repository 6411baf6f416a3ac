#include <criterion/criterion.h>

#include "core/counter.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define EDGE (UINT64_C(1796000000) * SECOND)

static struct limit make(uint64_t limit, uint64_t per_us)
{
	struct limit l = {.algorithm = ALGORITHM_SLIDING_COUNTER, .limit = limit, .per_us = per_us};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct limiter_verdict take(struct counter *c, const struct limit *l, uint64_t now_us,
				   uint64_t cost)
{
	struct limiter_verdict v;

	counter_take(c, l, now_us, cost, &v);
	return v;
}

Test(counter, the_window_before_counts_by_what_is_covered)
{
	struct limit l = make(100, SECOND);
	struct counter c = {0};

	cr_assert(take(&c, &l, EDGE, 100).allowed);
	cr_assert_eq(take(&c, &l, EDGE, 1).wait_us, (int64_t)(SECOND + SECOND / 100),
		     "a hundredth of the next");
	cr_assert_eq(take(&c, &l, EDGE + SECOND + SECOND / 4, 1).remaining, 24);
	cr_assert_eq(take(&c, &l, EDGE + SECOND + SECOND / 2, 49).remaining, 0);
	cr_assert_eq(take(&c, &l, EDGE + 3 * SECOND, 100).remaining, 0, "both windows are over");
}

/* The fixed windows themselves never exceed the limit, and no sliding one is above twice. */
Test(counter, a_fixed_window_never_exceeds)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct dice d = {seed};
		struct limit l = make(1 + dice_below(&d, 200), 1000 * (1 + dice_below(&d, 9000)));
		struct counter c = {0};
		uint64_t now_us = EDGE, window = 0, sum = 0;

		for (int i = 0; i < 3000; i++) {
			uint64_t cost = 1 + dice_below(&d, 3);

			now_us += dice_below(&d, 2 * l.per_us / l.limit);
			if (now_us / l.per_us != window) {
				window = now_us / l.per_us;
				sum = 0;
			}
			if (take(&c, &l, now_us, cost).allowed)
				sum += cost;
			cr_assert_leq(sum, l.limit, "seed %u", seed);
		}
	}
}

Test(counter, a_wait_is_exact)
{
	struct dice d = {9};

	for (int i = 0; i < 3000; i++) {
		struct limit l = make(1 + dice_below(&d, dice_below(&d, 2) ? 50 : LIMIT_MAX),
				      1000 * (1 + dice_below(&d, 100000)));
		struct counter c = {0}, before;
		uint64_t now_us = EDGE + dice_below(&d, l.per_us),
			 cost = 1 + dice_below(&d, l.limit);
		struct limiter_verdict v;

		take(&c, &l, now_us, 1 + dice_below(&d, l.limit));
		now_us += dice_below(&d, 2 * l.per_us);
		take(&c, &l, now_us, 1 + dice_below(&d, l.limit));
		now_us += dice_below(&d, l.per_us);
		v = take(&c, &l, now_us, cost);
		if (v.allowed)
			continue;
		before = c;
		cr_assert_not(take(&before, &l, now_us + (uint64_t)v.wait_us - 1, cost).allowed,
			      "case %d", i);
		cr_assert(take(&c, &l, now_us + (uint64_t)v.wait_us, cost).allowed, "case %d", i);
	}
}

Test(counter, a_clock_that_goes_back_gives_nothing)
{
	struct limit l = make(10, SECOND);
	struct counter c = {0};

	take(&c, &l, EDGE + 10 * SECOND, 10);
	cr_assert_not(take(&c, &l, EDGE, 1).allowed);
	cr_assert_not(take(&c, &l, EDGE + 10 * SECOND + 10, 1).allowed);
}

Test(counter, never_none_and_empty)
{
	struct limit l = make(10, SECOND), none = make(0, SECOND);
	struct counter c = {0};

	cr_assert_eq(take(&c, &l, EDGE, 11).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&c, &none, EDGE, 1).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&c, &l, EDGE, 1).reset_us, 2 * SECOND);
	counter_init_empty(&c, &l, EDGE);
	cr_assert_not(take(&c, &l, EDGE + SECOND - 1, 1).allowed);
	cr_assert(take(&c, &l, EDGE + 2 * SECOND, 10).allowed);
}
