#include <criterion/criterion.h>

#include "core/calendar.h"

#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)
#define EDGE (UINT64_C(1796000000) * SECOND)

/* Days of 24, 23 and 25 hours. */
static const uint64_t edge[] = {EDGE, EDGE + 24 * HOUR, EDGE + 47 * HOUR, EDGE + 72 * HOUR};

static struct limit make(uint64_t limit)
{
	struct limit l = {.algorithm = ALGORITHM_CALENDAR,
			  .limit = limit,
			  .edges = {.edge_us = edge, .n = 4}};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct limiter_verdict take(struct calendar *c, const struct limit *l, uint64_t now_us,
				   uint64_t cost)
{
	struct limiter_verdict v;

	calendar_take(c, l, now_us, cost, &v);
	return v;
}

Test(calendar, each_window_has_its_quota)
{
	struct limit l = make(10);
	struct calendar c = {0};

	for (int i = 0; i < 3; i++) {
		cr_assert(take(&c, &l, edge[i], 10).allowed, "at the very edge");
		cr_assert_eq(take(&c, &l, edge[i] + 5, 1).wait_us,
			     (int64_t)(edge[i + 1] - edge[i] - 5));
		cr_assert_not(take(&c, &l, edge[i + 1] - 1, 1).allowed);
	}
}

Test(calendar, the_reset_stays_where_it_is)
{
	struct limit l = make(1000);
	struct calendar c = {0};

	for (uint64_t t = edge[1]; t < edge[2]; t += HOUR / 7)
		cr_assert_eq(t + take(&c, &l, t, 1).reset_us, edge[2]);
}

Test(calendar, a_window_that_was_begun_counts_when_the_clock_goes_back)
{
	struct limit l = make(10);
	struct calendar c = {0};
	struct limiter_verdict v;

	take(&c, &l, edge[1] + 1, 8);
	v = take(&c, &l, edge[1] - HOUR, 3);
	cr_assert_not(v.allowed);
	cr_assert_eq(v.remaining, 2);
	cr_assert_eq(v.wait_us, (int64_t)(edge[2] - edge[1] + HOUR));
	cr_assert(take(&c, &l, edge[1] - HOUR, 2).allowed);
	cr_assert_not(take(&c, &l, edge[1] + 2, 1).allowed);
}

Test(calendar, outside_of_the_edges_nothing_is_given)
{
	struct limit l = make(10);
	struct calendar c = {0};

	cr_assert_not(take(&c, &l, edge[0] - 1, 1).allowed);
	cr_assert_not(take(&c, &l, edge[3], 1).allowed);
	l.edges.n = 0;
	cr_assert_gt(take(&c, &l, edge[0], 1).wait_us, 0);
}

Test(calendar, never_none_and_empty)
{
	struct limit l = make(10), none = make(0);
	struct calendar c = {0};

	cr_assert_eq(take(&c, &l, edge[0], 11).wait_us, VERDICT_NEVER);
	cr_assert_eq(take(&c, &none, edge[0], 1).wait_us, VERDICT_NEVER);
	calendar_init_empty(&c, &l, edge[0] + 5);
	cr_assert_not(take(&c, &l, edge[1] - 1, 1).allowed);
	cr_assert(take(&c, &l, edge[1], 10).allowed);
}

Test(calendar, a_changed_limit_counts_what_was_taken)
{
	struct limit low = make(5), high = make(8);
	struct calendar c = {0};

	take(&c, &low, edge[0], 5);
	cr_assert(take(&c, &high, edge[0], 3).allowed);
	cr_assert_eq(take(&c, &low, edge[0], 1).remaining, 0);
}
