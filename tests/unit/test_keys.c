/* The table of keys: whatever is set, grows, shrinks and goes, each key has the parts that it was given last. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "dice.h"
#include "keys.h"

enum { KEYS = 2000, PARTS = 4, STEPS = 60000, BYTES_MAX = 300 };

/* What should be there: as many bytes `byte`, 0xff: no such part. */
struct truth {
	size_t len[PARTS];
	unsigned char byte[PARTS];
	bool marked[PARTS], there[PARTS];
};

static uint32_t make(struct keys *k, uint32_t policy, const char *root, bool other)
{
	const struct keys_name name = {policy, slice_of(root), other};
	uint32_t key = UINT32_MAX;

	cr_assert_eq(keys_make(k, &name, &key), KOVA_OK);
	return key;
}

static void set(struct keys *k, uint32_t key, uint32_t number, bool marked, const char *text)
{
	const struct keys_part part = {number, marked, slice_of(text)};

	cr_assert_eq(keys_set(k, key, &part), KOVA_OK);
}

static const char *text_of(const struct keys *k, uint32_t key, uint32_t number)
{
	static char text[64];
	struct keys_part part;

	if (!keys_part(k, key, number, &part))
		return "none";
	snprintf(text, sizeof text, "%s%.*s", part.marked ? "*" : "", (int)part.bytes.len,
		 part.bytes.ptr);
	return text;
}

Test(keys, a_key_is_a_policy_and_a_root)
{
	struct keys k = {0};
	uint32_t p, q, again, key;

	cr_assert_eq(keys_policy(&k, SLICE("p"), &p), KOVA_OK);
	cr_assert_eq(keys_policy(&k, SLICE("q"), &q), KOVA_OK);
	cr_assert_eq(keys_policy(&k, SLICE("p"), &again), KOVA_OK);
	cr_expect_eq(p, again);
	cr_expect_neq(p, q);
	cr_expect_eq(keys_policy_find(&k, SLICE("r")), UINT32_MAX);
	cr_expect_eq(keys_find(&k, &(struct keys_name){p, SLICE("a"), false}), UINT32_MAX);
	key = make(&k, p, "a", false);
	cr_expect_eq(make(&k, p, "a", false), key);
	cr_expect_neq(make(&k, q, "a", false), key);
	cr_expect_neq(make(&k, p, "", true), make(&k, p, "", false));
	cr_expect(slice_equal(keys_name(&k, key).root, SLICE("a")));
	cr_expect(slice_equal(keys_policy_name(&k, keys_name(&k, key).policy), SLICE("p")));
	cr_expect(keys_name(&k, make(&k, p, "", true)).other);
	cr_expect_eq(k.n, 4);
	keys_release(&k);
}

Test(keys, parts_are_set_marked_and_dropped)
{
	struct keys k = {0};
	struct keys_part part;
	uint32_t p, key;

	cr_assert_eq(keys_policy(&k, SLICE("p"), &p), KOVA_OK);
	key = make(&k, p, "root", false);
	cr_expect_not(keys_part_at(&k, key, 0, &part));
	set(&k, key, 5, false, "five");
	set(&k, key, 0, true, "zero");
	set(&k, key, 70, false, "");
	cr_expect_str_eq(text_of(&k, key, 5), "five");
	cr_expect_str_eq(text_of(&k, key, 0), "*zero");
	cr_expect_str_eq(text_of(&k, key, 70), "");
	cr_expect_str_eq(text_of(&k, key, 1), "none");
	set(&k, key, 5, true, "a longer one");
	keys_mark(&k, key, 0, false);
	cr_expect_str_eq(text_of(&k, key, 5), "*a longer one");
	cr_expect_str_eq(text_of(&k, key, 0), "zero");
	cr_assert(keys_part_at(&k, key, 2, &part));
	cr_expect_eq(part.number, 70);
	keys_drop(&k, key, 0);
	keys_drop(&k, key, 1);
	cr_expect_str_eq(text_of(&k, key, 0), "none");
	cr_expect_str_eq(text_of(&k, key, 5), "*a longer one");
	cr_expect_str_eq(text_of(&k, key, 70), "");
	cr_expect(slice_equal(keys_name(&k, key).root, SLICE("root")));
	keys_release(&k);
}

Test(keys, one_may_be_larger_than_a_page_and_others_come_after_it)
{
	enum { LARGE = 700000, SMALL = 2000 };
	char *bytes = calloc(1, LARGE);
	struct keys k = {0};
	struct keys_part part = {1, false, {bytes, LARGE}};
	uint32_t p, large, key;

	cr_assert_eq(keys_policy(&k, SLICE("p"), &p), KOVA_OK);
	large = make(&k, p, "large", false);
	cr_assert_eq(keys_set(&k, large, &part), KOVA_OK);
	for (unsigned i = 0; i < SMALL; i++) {
		char root[16];

		snprintf(root, sizeof root, "r%u", i);
		key = make(&k, p, root, false);
		set(&k, key, 1, false, root);
		set(&k, key, 2, false, "and more than before");
	}
	cr_assert(keys_part(&k, large, 1, &part));
	cr_expect_eq(part.bytes.len, LARGE);
	cr_expect_eq(memcmp(part.bytes.ptr, bytes, LARGE), 0);
	keys_drop(&k, large, 1);
	set(&k, large, 1, false, "small");
	cr_expect_str_eq(text_of(&k, large, 1), "small");
	cr_expect_str_eq(text_of(&k, make(&k, p, "r7", false), 1), "r7");
	keys_release(&k);
	free(bytes);
}

static uint32_t key_of(struct keys *k, uint64_t i)
{
	char root[32];

	snprintf(root, sizeof root, "tenant-%lu", i);
	return make(k, (uint32_t)(i % 3), root, false);
}

static void check(struct keys *k, const struct truth *truth, uint64_t i)
{
	uint32_t key = key_of(k, i);

	for (uint32_t number = 0; number < PARTS; number++) {
		struct keys_part part;
		bool there = keys_part(k, key, number, &part);

		cr_assert_eq(there, truth->there[number]);
		if (!there)
			continue;
		cr_assert_eq(part.bytes.len, truth->len[number]);
		cr_assert_eq(part.marked, truth->marked[number]);
		for (size_t at = 0; at < part.bytes.len; at++)
			cr_assert_eq((unsigned char)part.bytes.ptr[at], truth->byte[number]);
	}
}

Test(keys, many_change_at_random)
{
	static struct truth truth[KEYS];
	struct dice d = {11};
	struct keys k = {0};
	char bytes[BYTES_MAX];

	for (unsigned step = 0; step < STEPS; step++) {
		uint64_t i = dice_below(&d, KEYS);
		uint32_t number = (uint32_t)dice_below(&d, PARTS), key = key_of(&k, i);
		struct truth *t = &truth[i];

		t->there[number] = dice_below(&d, 4) > 0;
		if (!t->there[number]) {
			keys_drop(&k, key, number);
			continue;
		}
		t->len[number] = dice_below(&d, dice_below(&d, 10) > 0 ? 40 : BYTES_MAX);
		t->byte[number] = (unsigned char)dice_below(&d, 256);
		t->marked[number] = dice_below(&d, 2) > 0;
		memset(bytes, t->byte[number], t->len[number]);
		const struct keys_part part = {number, t->marked[number], {bytes, t->len[number]}};

		cr_assert_eq(keys_set(&k, key, &part), KOVA_OK);
		check(&k, t, i);
	}
	for (uint64_t i = 0; i < KEYS; i++)
		check(&k, &truth[i], i);
	cr_expect_eq(k.n, KEYS);
	keys_release(&k);
}
