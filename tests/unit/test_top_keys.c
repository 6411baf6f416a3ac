/* The keys that ask for most and of which most is refused, policy by policy, of several loops. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "top_keys.h"

#define T0 INT64_C(1700000000000)

static void add(struct top_keys *t, const char *policy, const char *key, bool refused,
		uint64_t cost, int64_t now_ms)
{
	top_keys_add(t, slice_of(policy), slice_of(key), refused, cost, now_ms);
}

static void expect(const struct top_keys *t, enum top_kind kind, const char *policy,
		   const char *text)
{
	struct top_key keys[10];
	char found[256] = "";
	size_t at = 0;
	unsigned n = top_keys_list(t, kind, slice_of(policy), keys, 10);

	for (unsigned i = 0; i < n; i++)
		at += (size_t)snprintf(found + at, sizeof found - at, "%s/%.*s %lu ",
				       keys[i].policy, (int)keys[i].of.key.len, keys[i].of.key.ptr,
				       keys[i].of.count);
	cr_assert_str_eq(found, text);
}

Test(top_keys, by_policy_and_over_all)
{
	struct top_keys *t = top_keys_new();

	add(t, "p", "a", false, 5, T0);
	add(t, "p", "b", true, 7, T0);
	add(t, "q", "a", true, 6, T0);
	add(t, "p", "a", true, 1, T0);
	expect(t, TOP_ASKED, "", "p/b 7 p/a 6 q/a 6 ");
	expect(t, TOP_REFUSED, "", "p/b 7 q/a 6 p/a 1 ");
	expect(t, TOP_REFUSED, "p", "p/b 7 p/a 1 ");
	expect(t, TOP_REFUSED, "none", "");
	cr_assert_str_eq(top_keys_policy(t, 1), "q");
	cr_assert_null(top_keys_policy(t, 2));
	top_keys_free(t);
}

Test(top_keys, the_first_of_many)
{
	struct top_keys *t = top_keys_new();
	struct top_key keys[3];
	char name[16];

	for (unsigned i = 0; i < 50; i++) {
		snprintf(name, sizeof name, "k%02u", i * 7 % 50);
		add(t, i % 2 == 0 ? "p" : "q", name, true, 1 + i * 7 % 50, T0);
	}
	cr_assert_eq(top_keys_list(t, TOP_REFUSED, SLICE(""), keys, 3), 3);
	cr_assert_eq(keys[0].of.count, 50);
	cr_assert_eq(keys[1].of.count, 49);
	cr_assert_eq(keys[2].of.count, 48);
	top_keys_free(t);
}

Test(top_keys, what_was_asked_long_ago_counts_less)
{
	struct top_keys *t = top_keys_new();

	add(t, "p", "old", true, 1000, T0);
	add(t, "p", "new", true, 10, T0 + TOP_HALVED_MS - 1);
	expect(t, TOP_REFUSED, "", "p/old 1000 p/new 10 ");
	add(t, "p", "new", true, 300, T0 + 2 * TOP_HALVED_MS);
	expect(t, TOP_REFUSED, "", "p/new 302 p/old 250 ");
	top_keys_age(t, T0); /* a clock that was set back */
	expect(t, TOP_REFUSED, "", "p/new 302 p/old 250 ");
	top_keys_age(t, T0 + 1000 * (int64_t)TOP_HALVED_MS);
	expect(t, TOP_REFUSED, "", "");
	add(t, "p", "new", true, 1, T0 + 1000 * (int64_t)TOP_HALVED_MS + 1);
	expect(t, TOP_REFUSED, "", "p/new 1 ");
	top_keys_free(t);
}

Test(top_keys, several_loops)
{
	struct top_keys *sum = top_keys_new(), *one = top_keys_new(), *two = top_keys_new();

	add(one, "p", "a", true, 5, T0);
	add(one, "p", "b", false, 5, T0);
	add(two, "q", "a", true, 4, T0);
	add(two, "p", "a", true, 6, T0);
	top_keys_merge(sum, one);
	top_keys_merge(sum, two);
	expect(sum, TOP_REFUSED, "", "p/a 11 q/a 4 ");
	expect(sum, TOP_ASKED, "", "p/a 11 p/b 5 q/a 4 ");
	top_keys_free(sum);
	top_keys_free(one);
	top_keys_free(two);
}

Test(top_keys, policies_are_bounded)
{
	struct top_keys *t = top_keys_new();
	char name[16];

	for (unsigned i = 0; i < TOP_POLICIES_MAX + 5; i++) {
		snprintf(name, sizeof name, "p%u", i);
		add(t, name, "k", true, 1, T0);
	}
	cr_assert_eq(top_keys_overflows(t), 5);
	cr_assert_not_null(top_keys_policy(t, TOP_POLICIES_MAX - 1));
	cr_assert_null(top_keys_policy(t, TOP_POLICIES_MAX));
	top_keys_free(t);
}
