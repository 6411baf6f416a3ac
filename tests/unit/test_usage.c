#include <criterion/criterion.h>
#include <stdio.h>

#include "usage.h"

Test(usage, sums_by_outcome)
{
	struct usage *u = usage_new(16);
	struct usage_counts c;

	cr_assert_not(usage_find(u, SLICE("p"), SLICE("k"), &c));
	usage_add(u, SLICE("p"), SLICE("k"), USAGE_ADMITTED, 3, 1000);
	usage_add(u, SLICE("p"), SLICE("k"), USAGE_ADMITTED_LATE, 2, 2000);
	usage_add(u, SLICE("p"), SLICE("k"), USAGE_REFUSED, 7, 3000);
	cr_assert(usage_find(u, SLICE("p"), SLICE("k"), &c));
	cr_assert_eq(c.admitted, 5);
	cr_assert_eq(c.waited, 2);
	cr_assert_eq(c.refused, 7);
	cr_assert_eq(c.since_ms, 1000);
	usage_free(u);
}

Test(usage, names_that_only_join_alike_are_apart)
{
	struct usage *u = usage_new(16);
	struct usage_counts c;

	usage_add(u, SLICE("a"), SLICE("bc"), USAGE_ADMITTED, 1, 1);
	cr_assert_not(usage_find(u, SLICE("ab"), SLICE("c"), &c));
	usage_add(u, SLICE("ab"), SLICE("c"), USAGE_ADMITTED, 4, 1);
	cr_assert(usage_find(u, SLICE("a"), SLICE("bc"), &c));
	cr_assert_eq(c.admitted, 1);
	usage_free(u);
}

Test(usage, a_hot_key_survives_a_flood_of_others)
{
	struct usage *u = usage_new(64);
	struct usage_counts c;

	for (int i = 0; i < 10000; i++) {
		char key[16];
		int len = snprintf(key, sizeof key, "k%d", i);

		usage_add(u, SLICE("p"), (struct slice){key, (size_t)len}, USAGE_ADMITTED, 1,
			  i * 2);
		usage_add(u, SLICE("p"), SLICE("hot"), USAGE_ADMITTED, 1, i * 2 + 1);
	}
	cr_assert(usage_find(u, SLICE("p"), SLICE("hot"), &c));
	cr_assert_eq(c.admitted, 10000);
	usage_free(u);
}
