#include <criterion/criterion.h>

#include "core/window.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static struct limit make(uint64_t limit, uint64_t per_us)
{
	struct limit l = {.algorithm = ALGORITHM_SLIDING_WINDOW, .limit = limit, .per_us = per_us};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct limiter_verdict take(struct window *w, const struct limit *l, uint64_t now_us,
				   uint64_t cost)
{
	struct limiter_verdict v;

	window_take(w, l, now_us, cost, &v);
	return v;
}

Test(window, is_half_open)
{
	struct limit l = make(2, SECOND);
	struct window w = {0};

	cr_assert(take(&w, &l, START, 1).allowed);
	cr_assert(take(&w, &l, START + 10, 1).allowed);
	cr_assert_eq(take(&w, &l, START + 20, 1).wait_us, (int64_t)SECOND - 20);
	cr_assert_not(take(&w, &l, START + SECOND - 1, 1).allowed);
	cr_assert(take(&w, &l, START + SECOND, 1).allowed);
	cr_assert_not(take(&w, &l, START + SECOND, 1).allowed);
	window_release(&w);
}

/* I1, in every window that begins at an admission: in others there are no more. */
Test(window, no_window_admits_more_than_the_limit)
{
	enum { ASKED = 1500 };

	for (unsigned seed = 1; seed <= 40; seed++) {
		struct dice d = {seed};
		struct limit l = make(1 + dice_below(&d, 50), 1000 * (1 + dice_below(&d, 50)));
		struct window w = {0};
		static struct {
			uint64_t at_us, cost;
		} a[ASKED];
		uint64_t now_us = START;
		size_t n = 0;

		for (int i = 0; i < ASKED; i++) {
			uint64_t cost = 1 + dice_below(&d, 4);

			now_us += dice_below(&d, 3 * l.per_us / l.limit);
			if (!take(&w, &l, now_us, cost).allowed)
				continue;
			a[n].at_us = now_us;
			a[n++].cost = cost;
		}
		for (size_t i = 0; i < n; i++) {
			uint64_t sum = 0;

			for (size_t j = i; j < n && a[j].at_us < a[i].at_us + l.per_us; j++)
				sum += a[j].cost;
			cr_assert_leq(sum, l.limit, "seed %u", seed);
		}
		window_release(&w);
	}
}

Test(window, a_wait_is_exact)
{
	struct dice d = {2};

	for (int i = 0; i < 300; i++) {
		struct limit l = make(1 + dice_below(&d, 30), SECOND);
		struct window w = {0};
		uint64_t now_us = START, cost = 1 + dice_below(&d, l.limit);
		struct limiter_verdict v = {.allowed = true};

		while ((v = take(&w, &l, now_us, 1)).allowed)
			now_us += dice_below(&d, 20000);
		v = take(&w, &l, now_us, cost);
		cr_assert_not(take(&w, &l, now_us + (uint64_t)v.wait_us - 1, cost).allowed);
		cr_assert(take(&w, &l, now_us + (uint64_t)v.wait_us, cost).allowed);
		window_release(&w);
	}
}

Test(window, a_changed_limit_counts_what_is_there)
{
	struct limit low = make(3, SECOND), high = make(5, SECOND), brief = make(5, 1000);
	struct window w = {0};

	take(&w, &low, START, 3);
	cr_assert(take(&w, &high, START + 10, 2).allowed);
	cr_assert_eq(take(&w, &low, START + 20, 1).remaining, 0);
	cr_assert(take(&w, &brief, START + 2000, 1).allowed);
	window_release(&w);
}

Test(window, never_and_empty)
{
	struct limit l = make(3, SECOND), none = make(0, SECOND);
	struct window w = {0};

	cr_assert_eq(take(&w, &l, START, 4).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&w, &none, START, 1).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&w, &l, START, 3).reset_us, SECOND);
	window_release(&w);
	cr_assert(window_init_empty(&w, &l, START));
	cr_assert_eq(take(&w, &l, START, 1).wait_us, (int64_t)SECOND);
	cr_assert(take(&w, &l, START + SECOND, 3).allowed);
	window_release(&w);
}

Test(window, later_entries_count_when_the_clock_went_back)
{
	struct limit l = make(2, SECOND);
	struct window w = {0};

	take(&w, &l, START, 2);
	cr_assert_not(take(&w, &l, START - 10 * SECOND, 1).allowed);
	cr_assert_not(take(&w, &l, START + SECOND - 1, 1).allowed);
	window_release(&w);
}

Test(window, memory_is_bounded_and_never_admits_more)
{
	struct limit l = make(LIMIT_MAX, LIMIT_PER_MAX_US);
	struct window w = {0};

	for (uint64_t i = 0; i < ADMISSION_LOG_MAX + 1000; i++)
		cr_assert(take(&w, &l, START + i, 1).allowed);
	cr_assert_eq(w.log.n, ADMISSION_LOG_MAX);
	cr_assert_eq(w.log.total, ADMISSION_LOG_MAX + 1000);
	window_release(&w);
}

/* Of several loops' clocks some are behind the others: what is undone is what was taken, not the latest. */
Test(window, what_was_taken_by_a_clock_that_is_behind_can_be_undone)
{
	struct limit l = make(10, SECOND);
	struct window w = {0};

	cr_assert(take(&w, &l, START + 10, 1).allowed);
	cr_assert(take(&w, &l, START, 5).allowed);
	admission_log_untake(&w.log, START, 5);
	cr_assert_eq(w.log.n, 1);
	cr_assert_eq(w.log.total, 1);
	cr_assert(take(&w, &l, START, 2).allowed);
	cr_assert(take(&w, &l, START, 3).allowed);
	admission_log_untake(&w.log, START, 3);
	cr_assert_eq(w.log.n, 2);
	cr_assert_eq(take(&w, &l, START + 20, 1).remaining, 6);
	window_release(&w);
}
