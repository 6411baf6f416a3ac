/* Roots and their ledgers, round by round. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "drift_table.h"

enum { REST = 100, EU = 0, US = 1, BOTH = 3 };

static void find(struct drift_table *t, const char *root, unsigned region, int64_t ledger,
		 int64_t kafka)
{
	const struct drift_found f = {SLICE("p"), slice_of(root), region, false, ledger, kafka};

	cr_assert_eq(drift_table_found(t, &f), KOVA_OK);
}

static const struct drift_series *series(const struct drift_table *t, unsigned region)
{
	static const struct drift_series none;

	for (size_t i = 0; i < t->n_series; i++)
		if (t->series[i].region == region)
			return &t->series[i];
	return &none;
}

Test(drift_table, roots_add_up_once_they_rest)
{
	struct drift_table t = {0};
	char root[16];

	for (unsigned round = 1; round <= 3; round++) {
		for (int i = 0; i < 1000; i++) {
			snprintf(root, sizeof root, "r%d", i);
			find(&t, root, EU, i == 7 ? 100 + (int)round : 10, i % 2 == 0 ? 10 : 7);
			find(&t, root, EU, 10, 9); /* the scan named it twice */
		}
		drift_table_end_round(&t, BOTH, round * REST, REST);
		cr_expect_eq(series(&t, EU)->roots, 1000);
		cr_expect_eq(series(&t, EU)->moving, round == 1 ? 1000 : 1);
		cr_expect_eq(series(&t, EU)->drift, round == 1 ? 0 : 3 * 499);
	}
	cr_expect_eq(series(&t, EU)->ledger - series(&t, EU)->kafka, 3 * 499);
	cr_expect_eq(series(&t, EU)->ledger, 999 * 10);
	drift_table_release(&t);
}

Test(drift_table, a_root_whose_ledger_is_gone_is_forgotten)
{
	struct drift_table t = {0};

	for (unsigned round = 1; round <= 2; round++) {
		find(&t, "a", EU, 5, 3);
		drift_table_end_round(&t, BOTH, round * REST, REST);
	}
	cr_expect_eq(series(&t, EU)->drift, 2);
	drift_table_end_round(&t, US == 1 ? 2 : 0, 3 * REST, REST); /* eu was not seen */
	cr_expect_eq(series(&t, EU)->drift, 2);
	drift_table_end_round(&t, BOTH, 4 * REST, REST);
	cr_expect_eq(series(&t, EU)->roots, 0);
	cr_expect_eq(series(&t, EU)->drift, 0);
	cr_expect_eq(t.n, 0);
	drift_table_release(&t);
}

Test(drift_table, a_home_that_moved_counts_with_both)
{
	struct drift_table t = {0};

	for (unsigned round = 1; round <= 2; round++) {
		find(&t, "a", EU, 50, 50);
		drift_table_end_round(&t, BOTH, round * REST, REST);
	}
	cr_expect_eq(series(&t, EU)->drift, 0);
	for (unsigned round = 3; round <= 5; round++) {
		find(&t, "a", EU, 50, 64);
		find(&t, "a", US, 20, 64);
		drift_table_end_round(&t, BOTH, round * REST, REST);
	}
	cr_expect_eq(series(&t, EU)->drift, 6);
	cr_expect_eq(series(&t, US)->roots, 0);
	find(&t, "a", US, 20, 64);
	drift_table_end_round(&t, 2, 6 * REST, REST); /* eu can't be asked: its part is not known */
	cr_expect_eq(series(&t, EU)->drift + series(&t, US)->drift, 6);
	drift_table_release(&t);
}

Test(drift_table, regions_whose_usage_is_apart)
{
	struct drift_table t = {0};

	for (unsigned round = 1; round <= 2; round++) {
		for (unsigned region = EU; region <= US; region++) {
			const struct drift_found f = {SLICE("p"), SLICE("a"),  region,
						      true,       10 + region, 10};

			cr_assert_eq(drift_table_found(&t, &f), KOVA_OK);
		}
		drift_table_end_round(&t, BOTH, round * REST, REST);
	}
	cr_expect_eq(series(&t, EU)->drift, 0);
	cr_expect_eq(series(&t, US)->drift, 1);
	drift_table_release(&t);
}

Test(drift_table, a_round_that_is_given_up_says_nothing)
{
	struct drift_table t = {0};

	find(&t, "a", EU, 50, 50);
	drift_table_end_round(&t, BOTH, REST, REST);
	find(&t, "a", EU, 70, 50);
	drift_table_drop_round(&t);
	find(&t, "a", EU, 50, 50);
	drift_table_end_round(&t, BOTH, 2 * REST, REST);
	cr_expect_eq(series(&t, EU)->moving, 0);
	cr_expect_eq(series(&t, EU)->drift, 0);
	drift_table_release(&t);
}
