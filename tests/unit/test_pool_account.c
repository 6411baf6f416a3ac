#include <criterion/criterion.h>

#include "core/pool_account.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static void learn(struct pool_account *a, const char *name, int64_t left, uint64_t reset_us)
{
	struct pool_quota q = {.limit = 60, .left = left, .reset_us = reset_us};

	cr_assert_lt(strlen(name), sizeof q.name);
	strcpy(q.name, name);
	pool_account_learn(a, START, &q);
}

Test(pool_account, a_hold_never_ends_earlier)
{
	struct pool_account a = {0};

	pool_account_hold(&a, START, 5 * SECOND);
	pool_account_hold(&a, START + SECOND, SECOND);
	pool_account_hold(&a, START, 0);
	cr_assert_eq(pool_account_wait_us(&a, START), 5 * SECOND);
	cr_assert_eq(pool_account_wait_us(&a, START + 5 * SECOND), 0);
}

Test(pool_account, the_latest_reset_of_those_that_have_nothing_left)
{
	struct pool_account a = {0};

	learn(&a, "requests", 10, 900 * SECOND);
	learn(&a, "tokens", 0, 300 * SECOND);
	learn(&a, "input-tokens", 0, 20 * SECOND);
	cr_assert_eq(pool_account_wait_us(&a, START), 300 * SECOND);
	cr_assert_eq(pool_account_wait_us(&a, START + 300 * SECOND), 0);
}

Test(pool_account, what_is_left_never_grows_in_its_window)
{
	struct pool_account a = {0};

	learn(&a, "requests", 5, 20 * SECOND);
	learn(&a, "requests", 9, 21 * SECOND);
	cr_assert_eq(a.quotas[0].left, 5);
	learn(&a, "requests", -1, 20 * SECOND);
	cr_assert_eq(a.quotas[0].left, 5);
	learn(&a, "requests", 3, 20 * SECOND);
	cr_assert_eq(a.quotas[0].left, 3);
	learn(&a, "requests", 59, 80 * SECOND);
	cr_assert_eq(a.quotas[0].left, 59);
}

Test(pool_account, each_request_takes_one_off)
{
	struct pool_account a = {0};

	pool_account_use(&a, START, false);
	learn(&a, "requests", 1, 20 * SECOND);
	pool_account_use(&a, START, false);
	cr_assert_eq(pool_account_wait_us(&a, START), 20 * SECOND);
	pool_account_use(&a, START, false);
	cr_assert_eq(a.quotas[0].left, 0);
	pool_account_use(&a, START, true);
	cr_assert_eq(pool_account_wait_us(&a, START), 0);
}

Test(pool_account, resets_that_say_nothing)
{
	struct pool_account a = {0};
	struct pool_quota past = {
		.name = "requests", .limit = 60, .absolute = true, .reset_us = START};

	pool_account_learn(&a, START, &past);
	learn(&a, "requests", 0, 86401 * SECOND);
	cr_assert_eq(a.n, 0);
	learn(&a, "requests", 0, 86400 * SECOND);
	cr_assert_eq(a.n, 1);
}

Test(pool_account, so_many_quotas_and_no_more)
{
	struct pool_account a = {0};

	for (char name[] = "a"; name[0] <= 'a' + POOL_QUOTAS_MAX; name[0]++)
		learn(&a, name, 0, SECOND);
	cr_assert_eq(a.n, POOL_QUOTAS_MAX);
}
