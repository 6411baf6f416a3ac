#include <criterion/criterion.h>

#include "core/pool_blame.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static const struct pool_rule rule = {
	.blame_within = 10 * SECOND, .blame_min = 3, .blame_share = 0.5};

/* Of `n` endpoints the first `turned_away` were, and the others not. */
static bool is_targets(unsigned n, unsigned turned_away, uint64_t ago_us)
{
	struct pool_blame b = {0};

	for (unsigned i = 0; i < n; i++) {
		struct pool_recent r = {.n = 0};

		pool_recent_add(&r, START - ago_us, i < turned_away);
		pool_blame_add(&b, &r, &rule, START);
	}
	return pool_blame_is_targets(&b, &rule);
}

Test(pool_blame, by_concentration)
{
	cr_assert_not(is_targets(10, 1, 0));
	cr_assert_not(is_targets(10, 4, 0));
	cr_assert(is_targets(10, 5, 0));
	cr_assert(is_targets(10, 9, 0));
	cr_assert_not(is_targets(2, 2, 0), "too few were there");
	cr_assert(is_targets(3, 2, 0));
	cr_assert_not(is_targets(0, 0, 0));
}

Test(pool_blame, of_long_ago_nothing_counts)
{
	cr_assert(is_targets(4, 4, 10 * SECOND - 1000));
	cr_assert_not(is_targets(4, 4, 10 * SECOND));
}

Test(pool_blame, of_an_endpoint_most_outcomes_count)
{
	struct pool_recent r = {.n = 0};
	struct pool_blame b = {0};

	pool_recent_add(&r, START, true);
	pool_recent_add(&r, START, false);
	pool_blame_add(&b, &r, &rule, START);
	cr_assert_eq(b.turned_away, 0);
	pool_recent_add(&r, START, true);
	pool_blame_add(&b, &r, &rule, START);
	cr_assert_eq(b.turned_away, 1);
	cr_assert_eq(b.there, 2);
}

Test(pool_blame, the_last_ones_are_remembered)
{
	struct pool_recent r = {.n = 0};
	struct pool_blame b = {0};

	for (int i = 0; i < POOL_RECENT_MAX; i++)
		pool_recent_add(&r, START, true);
	for (int i = 0; i < POOL_RECENT_MAX / 2; i++)
		pool_recent_add(&r, START, false);
	cr_assert_eq(r.n, POOL_RECENT_MAX);
	pool_blame_add(&b, &r, &rule, START);
	cr_assert_eq(b.turned_away, 0);
}
