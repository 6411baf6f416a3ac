#include <criterion/criterion.h>

#include "core/concurrency.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static struct limit make(uint64_t limit, uint64_t hold_us)
{
	struct limit l = {.algorithm = ALGORITHM_CONCURRENCY, .limit = limit, .hold_us = hold_us};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct limiter_verdict take(struct concurrency *c, const struct limit *l, uint64_t now_us,
				   uint64_t cost)
{
	struct limiter_verdict v;

	concurrency_take(c, l, now_us, cost, &v);
	return v;
}

Test(concurrency, permits_are_bounded_and_end)
{
	struct limit l = make(2, SECOND);
	struct concurrency c = {0};

	cr_assert_eq(take(&c, &l, START, 1).remaining, 1);
	cr_assert(take(&c, &l, START + 10, 1).allowed);
	cr_assert_eq(take(&c, &l, START + 20, 1).wait_us, (int64_t)SECOND - 20);
	cr_assert_not(take(&c, &l, START + SECOND - 1, 1).allowed);
	cr_assert(take(&c, &l, START + SECOND, 1).allowed);
	cr_assert_not(take(&c, &l, START + SECOND, 1).allowed);
	concurrency_release(&c);
}

/* I1: permits held at any instant never exceed the limit, by an accounting of the test's own. */
Test(concurrency, never_more_than_the_limit_is_held)
{
	enum { STEPS = 2000 };

	for (unsigned seed = 1; seed <= 30; seed++) {
		struct dice d = {seed};
		struct limit l = make(1 + dice_below(&d, 10), 1000 + dice_below(&d, 20000));
		struct concurrency c = {0};
		uint64_t ends_us[STEPS] = {0}, now_us = START;

		for (int i = 0; i < STEPS; i++) {
			uint64_t held = 0;

			for (int j = 0; j < i; j++)
				held += ends_us[j] > now_us;
			bool allowed = take(&c, &l, now_us, 1).allowed;

			cr_assert_eq(allowed, held < l.limit, "seed %u step %d", seed, i);
			ends_us[i] = allowed ? now_us + l.hold_us : 0;
			now_us += dice_below(&d, 2000);
		}
		concurrency_release(&c);
	}
}

Test(concurrency, weights_never_and_empty)
{
	struct limit l = make(5, SECOND);
	struct concurrency c = {0};

	cr_assert_eq(take(&c, &l, START, 6).wait_us, VERDICT_NEVER);
	cr_assert(take(&c, &l, START, 5).allowed);
	cr_assert_eq(take(&c, &l, START, 1).wait_us, (int64_t)SECOND);
	concurrency_release(&c);
	cr_assert(concurrency_init_empty(&c, &l, START));
	cr_assert_not(take(&c, &l, START + SECOND - 1, 1).allowed);
	cr_assert(take(&c, &l, START + SECOND, 5).allowed);
	concurrency_release(&c);
}
