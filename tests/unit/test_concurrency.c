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
				   uint64_t cost, uint64_t name)
{
	struct limiter_verdict v;

	concurrency_take(c, l, now_us, cost, name, &v);
	return v;
}

Test(concurrency, permits_are_bounded_released_and_end)
{
	struct limit l = make(2, SECOND);
	struct concurrency c = {0};

	cr_assert_eq(take(&c, &l, START, 1, 1).remaining, 1);
	cr_assert(take(&c, &l, START + 10, 1, 2).allowed);
	cr_assert_eq(take(&c, &l, START + 20, 1, 3).wait_us, (int64_t)SECOND - 20);
	cr_assert(concurrency_end(&c, START + 30, 1));
	cr_assert_not(concurrency_end(&c, START + 30, 1));
	cr_assert(take(&c, &l, START + 30, 1, 3).allowed);
	cr_assert_not(concurrency_end(&c, START + 10 + SECOND, 2), "it ended by itself");
	cr_assert(take(&c, &l, START + 10 + SECOND, 1, 4).allowed);
	concurrency_release(&c);
}

Test(concurrency, a_renewed_permit_stays)
{
	struct limit l = make(1, SECOND);
	struct concurrency c = {0};

	take(&c, &l, START, 1, 7);
	for (uint64_t i = 1; i < 10; i++)
		cr_assert(concurrency_renew(&c, &l, START + i * (SECOND - 1), 7));
	cr_assert_not(take(&c, &l, START + 9 * SECOND, 1, 8).allowed);
	cr_assert_not(concurrency_renew(&c, &l, START + 9 * (SECOND - 1) + SECOND, 7));
	concurrency_release(&c);
}

/* I1: permits held at any instant never exceed the limit, by an accounting of the test's own. */
Test(concurrency, never_more_than_the_limit_is_held)
{
	enum { NAMES = 40 };

	for (unsigned seed = 1; seed <= 30; seed++) {
		struct dice d = {seed};
		struct limit l = make(1 + dice_below(&d, 10), 1000 + dice_below(&d, 20000));
		struct concurrency c = {0};
		uint64_t ends_us[NAMES] = {0}, now_us = START;

		for (int i = 0; i < 5000; i++) {
			uint64_t name = dice_below(&d, NAMES), held = 0;
			bool is_held = ends_us[name] > now_us;

			for (int j = 0; j < NAMES; j++)
				held += ends_us[j] > now_us;
			if (!is_held) {
				bool allowed = take(&c, &l, now_us, 1, name + 1).allowed;

				cr_assert_eq(allowed, held < l.limit, "seed %u step %d", seed, i);
				ends_us[name] = allowed ? now_us + l.hold_us : 0;
			} else if (dice_below(&d, 2) == 0) {
				cr_assert(concurrency_end(&c, now_us, name + 1));
				ends_us[name] = 0;
			} else {
				cr_assert(concurrency_renew(&c, &l, now_us, name + 1));
				ends_us[name] = now_us + l.hold_us;
			}
			now_us += dice_below(&d, 2000);
		}
		concurrency_release(&c);
	}
}

Test(concurrency, weights_never_and_empty)
{
	struct limit l = make(5, SECOND);
	struct concurrency c = {0};

	cr_assert_eq(take(&c, &l, START, 6, 0).wait_us, VERDICT_NEVER);
	cr_assert(take(&c, &l, START, 5, 0).allowed);
	cr_assert_eq(take(&c, &l, START, 1, 0).wait_us, (int64_t)SECOND);
	concurrency_release(&c);
	cr_assert(concurrency_init_empty(&c, &l, START));
	cr_assert_not(take(&c, &l, START + SECOND - 1, 1, 0).allowed);
	cr_assert(take(&c, &l, START + SECOND, 5, 0).allowed);
	concurrency_release(&c);
}
