#include <criterion/criterion.h>
#include <stdio.h>

#include "usage.h"
#include "usage_feed.h"

Test(usage, sums_by_outcome)
{
	struct usage *u = usage_new(16, NULL);
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
	struct usage *u = usage_new(16, NULL);
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
	struct usage *u = usage_new(64, NULL);
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

/* ---- What a feed is told ---- */

static uint64_t take_all(struct usage_feed *f, const char *root)
{
	struct tally_key key;
	struct tally_counts counts;
	uint64_t admitted = 0;

	while (tally_take(f->active, &key, &counts)) {
		cr_expect(slice_equal(key.policy, SLICE("p")));
		if (root == NULL || slice_equal(key.root, slice_of(root)))
			admitted += counts.admitted;
	}
	return admitted;
}

Test(usage, a_feed_is_told_what_was_added_since)
{
	struct usage_feed f;

	cr_assert(usage_feed_init(&f));
	struct usage *u = usage_new(16, &f);

	usage_add(u, SLICE("p"), SLICE("a/1"), USAGE_ADMITTED, 3, 1);
	usage_add(u, SLICE("p"), SLICE("a/2"), USAGE_ADMITTED, 4, 1);
	usage_add(u, SLICE("p"), SLICE("b"), USAGE_REFUSED, 5, 1);
	cr_expect_eq(tally_unsettled(f.active), 0);
	usage_report(u);
	cr_expect_eq(tally_unsettled(f.active), 2);
	cr_expect_eq(take_all(&f, "a"), 7);
	usage_report(u);
	cr_expect_eq(take_all(&f, NULL), 0);
	usage_add(u, SLICE("p"), SLICE("a/1"), USAGE_ADMITTED, 1, 2);
	usage_free(u);
	cr_expect_eq(take_all(&f, "a"), 1);
	usage_feed_release(&f);
}

Test(usage, a_feed_is_told_of_keys_that_make_room)
{
	enum { KEYS = 5000, TIMES = 3 };
	struct usage_feed f;

	cr_assert(usage_feed_init(&f));
	struct usage *u = usage_new(64, &f);

	for (int i = 0; i < KEYS * TIMES; i++) {
		char key[16];
		int len = snprintf(key, sizeof key, "%d", i % KEYS);

		usage_add(u, SLICE("p"), (struct slice){key, (size_t)len}, USAGE_ADMITTED, 2, i);
	}
	usage_report(u);
	cr_expect_eq(tally_unsettled(f.active), KEYS);
	cr_expect_eq(take_all(&f, NULL), 2 * KEYS * TIMES);
	usage_free(u);
	usage_feed_release(&f);
}

/* Names of all lengths take each other's places. */
Test(usage, names_of_any_length)
{
	struct usage *u = usage_new(4, NULL);
	struct usage_counts c;
	char key[1024];

	memset(key, 'x', sizeof key);
	for (size_t i = 0; i < 5000; i++) {
		size_t n = 1 + i * 37 % sizeof key;

		usage_add(u, SLICE("p"), (struct slice){key, n}, USAGE_ADMITTED, n, (int64_t)i);
		if (i % 7 != 0)
			continue;
		cr_assert(usage_find(u, SLICE("p"), (struct slice){key, n}, &c));
		cr_assert_eq(c.admitted, n);
		cr_assert_eq(c.since_ms, (int64_t)i);
	}
	usage_free(u);
}
