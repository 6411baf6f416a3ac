#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/keyspace.h"
#include "dice.h"

static struct slice check_name(const char *policy, unsigned level, struct slice path, char *room)
{
	size_t n = keyspace_check(ALGORITHM_TOKEN_BUCKET, slice_of(policy), level, path, room);

	cr_assert_leq(n, KEYSPACE_NAME_MAX);
	return (struct slice){room, n};
}

static void expect(const char *policy, unsigned level, const char *path, const char *name)
{
	char room[KEYSPACE_NAME_MAX];
	struct slice got = check_name(policy, level, slice_of(path), room);

	cr_assert(slice_equal(got, slice_of(name)), "%.*s, not %s", (int)got.len, got.ptr, name);
}

Test(keyspace, names)
{
	char room[KEYSPACE_NAME_MAX];

	expect("api", 0, "acme", "k:b{acme}api:0");
	expect("api", 1, "acme/bob", "k:b{acme}api:1/bob");
	expect("api", 10, "acme/bob/x", "k:b{acme}api:10/bob/x");
	expect("api", 0, "a}b", "k:b{a%7Db}api:0");
	expect("api", 0, "a%7Db", "k:b{a%257Db}api:0");
	expect("api", 0, "/x", "k:b{%}api:0/x");
	expect("api", 0, "%", "k:b{%25}api:0");
	expect("api", 0, "{a}", "k:b{{a%7D}api:0");
	cr_assert(slice_equal((struct slice){room, keyspace_throttle(SLICE("a/b"), room)},
			      SLICE("k:t{a}/b")));
	cr_assert(
		slice_equal((struct slice){room, keyspace_receipt(SLICE("a"), SLICE("xyz"), room)},
			    SLICE("k:r{a}xyz")));
	cr_assert(slice_equal(
		(struct slice){room, keyspace_id(SLICE("a"), SLICE("0123456789"), room)},
		SLICE("k:i{a}10:0123456789")));
}

Test(keyspace, what_is_kept_of_a_policy_and_root)
{
	char room[KEYSPACE_NAME_MAX];
	struct slice check = SLICE("k:b{a%7Db}api:1/x:y");

	cr_assert(slice_equal((struct slice){room, keyspace_ledger(check, room)},
			      SLICE("k:u{a%7Db}api")));
	cr_assert(slice_equal((struct slice){room, keyspace_quota(check, room)},
			      SLICE("k:q{a%7Db}api")));
}

Test(keyspace, the_longest_key_fits)
{
	char key[1024], room[KEYSPACE_NAME_MAX], policy[65] = {0};

	memset(key, '}', sizeof key);
	memset(policy, 'p', 64);
	check_name(policy, 7, (struct slice){key, sizeof key}, room);
}

Test(keyspace, paths_of_levels)
{
	const char *key = "acme/bob/search/x";
	const char *three[] = {"acme", "acme/bob", "acme/bob/search/x"};
	struct slice path = SLICE("untouched");

	for (unsigned i = 0; i < 3; i++) {
		cr_assert(keyspace_path(slice_of(key), i, 3, &path));
		cr_assert(slice_equal(path, slice_of(three[i])));
	}
	cr_assert(keyspace_path(slice_of(key), 0, 1, &path));
	cr_assert(slice_equal(path, slice_of(key)), "one level takes all");
	cr_assert(keyspace_path(SLICE("acme"), 0, 2, &path));
	path = SLICE("untouched");
	cr_assert_not(keyspace_path(SLICE("acme"), 1, 2, &path));
	cr_assert(slice_equal(path, SLICE("untouched")));
	cr_assert(keyspace_path(SLICE("acme/"), 1, 2, &path), "an empty part is one");
	cr_assert(slice_equal(path, SLICE("acme/")));
	cr_assert(keyspace_path(SLICE("//x"), 1, 3, &path));
	cr_assert(slice_equal(path, SLICE("/")));
}

/* Case 7: no two pairs of policy and key share a name. */
Test(keyspace, is_injective)
{
	static const char *const policies[] = {"a", "b", "aa", "a_b", "a-", "0", "a.0"};
	static const char *const keys[] = {"c",    "b_c",      "b",   "ab",    "a",   "a}",
					   "a%7D", "a{",       "%",   "/",     "//",  "a/",
					   "a/b",  "a/b/c",    "}:0", ":0",    "a:0", "",
					   "\xff", "\xc3\xa9", "a b", "a\r\nb"};
	enum { P = sizeof policies / sizeof *policies, K = sizeof keys / sizeof *keys };
	static char room[P * K * 2][KEYSPACE_NAME_MAX];
	static struct slice name[P * K * 2];
	size_t n = 0;

	for (size_t p = 0; p < P; p++)
		for (size_t k = 0; k < K; k++)
			for (unsigned level = 0; level < 2; level++, n++)
				name[n] =
					check_name(policies[p], level, slice_of(keys[k]), room[n]);
	for (size_t i = 0; i < n; i++)
		for (size_t j = i + 1; j < n; j++)
			cr_assert_not(slice_equal(name[i], name[j]), "%.*s", (int)name[i].len,
				      name[i].ptr);
}

Test(keyspace, one_root_is_one_slot)
{
	char a[KEYSPACE_NAME_MAX], b[KEYSPACE_NAME_MAX];
	const char *root = "we}ird%{root";
	char path[64];

	snprintf(path, sizeof path, "%s/user}/{x}", root);
	for (unsigned i = 0; i < 3; i++) {
		struct slice na = check_name("one", i, slice_of(path), a);
		struct slice nb = {b, keyspace_receipt(slice_of(root), SLICE("n"), b)};

		cr_assert_eq(keyspace_slot(na), keyspace_slot(nb));
		nb.len = keyspace_throttle(slice_of(path), b);
		cr_assert_eq(keyspace_slot(na), keyspace_slot(nb));
		nb.len = keyspace_id(slice_of(root), SLICE("}{"), b);
		cr_assert_eq(keyspace_slot(na), keyspace_slot(nb));
	}
}

/* Values of CLUSTER KEYSLOT. */
Test(keyspace, slots_are_redis_s)
{
	cr_assert_eq(keyspace_slot(SLICE("123456789")), 0x31c3);
	cr_assert_eq(keyspace_slot(SLICE("foo")), 12182);
	cr_assert_eq(keyspace_slot(SLICE("{foo}bar")), 12182);
	cr_assert_eq(keyspace_slot(SLICE("x{foo}{bar}")), 12182);
	cr_assert_eq(keyspace_slot(SLICE("foo{}{bar}")), keyspace_slot(SLICE("foo{}{bar}")));
	cr_assert_neq(keyspace_slot(SLICE("foo{}{bar}")), keyspace_slot(SLICE("bar")));
	cr_assert_eq(keyspace_slot(SLICE("")), 0);
	cr_assert_eq(keyspace_slot(SLICE("{foo")), keyspace_slot(SLICE("{foo")));
}

Test(keyspace, there_is_a_probe_for_each_slot)
{
	char name[KEYSPACE_PROBE_MAX];

	for (unsigned slot = 0; slot < 16384; slot += slot < 16300 ? 97 : 1) {
		keyspace_probe((uint16_t)slot, name);
		cr_assert_eq(keyspace_slot(slice_of(name)), slot, "%s", name);
		cr_assert_eq(memcmp(name, "k:probe{", 8), 0, "%s", name);
	}
}

Test(keyspace, ledgers_are_read_back)
{
	static const char *const roots[] = {"", "a", "%", "}", "a%7Db}}%", "{", "%25", "x y\n"};
	struct dice dice = {5};
	char check[KEYSPACE_NAME_MAX], name[KEYSPACE_NAME_MAX], root[REQUEST_KEY_MAX];
	char random[REQUEST_KEY_MAX];
	struct slice policy;
	size_t len;

	for (size_t i = 0; i < 1000 + sizeof roots / sizeof roots[0]; i++) {
		struct slice key = {random, dice_below(&dice, sizeof random + 1)};

		for (size_t j = 0; j < key.len; j++)
			random[j] = "ab%}{:.7D25\0"[dice_below(&dice, 12)];
		if (i < sizeof roots / sizeof roots[0])
			key = slice_of(roots[i]);
		struct slice made = {
			check, keyspace_check(ALGORITHM_TOKEN_BUCKET, SLICE("p.q"), 0, key, check)};

		made = (struct slice){name, keyspace_ledger(made, name)};
		cr_assert(keyspace_ledger_parse(made, root, &len, &policy));
		cr_assert(slice_equal((struct slice){root, len}, key));
		cr_assert(slice_equal(policy, SLICE("p.q")));
	}
}

Test(keyspace, what_is_no_ledger)
{
	static const char *const names[] = {"",          "k:u",       "k:u{",       "k:u{a",
					    "k:u{a}",    "k:u{a}b:c", "k:u{}p",     "k:b{a}p:0",
					    "k:u{a%}p",  "k:u{a%2}p", "k:u{a%26}p", "k:u{a/b}p",
					    "k:u{a}p q", "x:u{a}p"};
	char root[REQUEST_KEY_MAX], name[REQUEST_KEY_MAX + 8] = "k:u{";
	struct slice policy;
	size_t len;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		cr_expect_not(keyspace_ledger_parse(slice_of(names[i]), root, &len, &policy), "%s",
			      names[i]);
	memset(name + 4, 'a', REQUEST_KEY_MAX + 1);
	memcpy(name + 4 + REQUEST_KEY_MAX + 1, "}p", 2);
	cr_expect_not(keyspace_ledger_parse((struct slice){name, 4 + REQUEST_KEY_MAX + 3}, root,
					    &len, &policy));
}
