/* The heaviest keys of a stream: the bounds that the header promises, over random streams, halved and merged. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/space_saving.h"

enum { KEYS = 400, STREAMS = 60, ADDITIONS = 4000 };

static uint64_t seed;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static struct slice name_of(unsigned key, char text[static 16])
{
	return (struct slice){text, (size_t)snprintf(text, 16, "k%u", key)};
}

/* Which key comes next: all alike, a few often, or each new one once and one key in between. */
static unsigned next_key(unsigned shape, unsigned i)
{
	unsigned u = (unsigned)(next_random() % KEYS);

	if (shape == 0)
		return u;
	if (shape == 1)
		return u * u / KEYS * u / KEYS;
	return i % 3 == 0 ? 7 : i % KEYS;
}

/* A stream into `s`; adds to `truth` and returns its weight. */
static uint64_t feed(struct space_saving *s, unsigned shape, uint64_t *truth)
{
	uint64_t sum = 0;
	char text[16];

	for (unsigned i = 0; i < ADDITIONS; i++) {
		unsigned key = next_key(shape, i);
		uint64_t weight = 1 + next_random() % 5;

		cr_assert_eq(space_saving_add(s, name_of(key, text), weight), KOVA_OK);
		truth[key] += weight;
		sum += weight;
	}
	return sum;
}

/* The bounds, with `slack` for what halving has rounded. */
static void expect_bounds(const struct space_saving *s, unsigned capacity, uint64_t total,
			  const uint64_t *truth, uint64_t slack)
{
	struct space_saving_key top[SPACE_SAVING_MAX];
	unsigned n = space_saving_top(s, top, SPACE_SAVING_MAX);
	bool is_there[KEYS] = {false};

	cr_assert_leq(n, capacity);
	for (unsigned i = 0; i < n; i++) {
		char text[16] = "";
		unsigned key;

		memcpy(text, top[i].key.ptr, top[i].key.len);
		key = (unsigned)atoi(text + 1);
		is_there[key] = true;
		cr_assert_geq(top[i].count + slack, truth[key], "seed %lu", seed);
		cr_assert_leq(top[i].count, truth[key] + top[i].error + slack, "seed %lu", seed);
		cr_assert_leq(top[i].error, total / capacity + slack);
		cr_assert(i == 0 || top[i - 1].count >= top[i].count);
	}
	for (unsigned key = 0; key < KEYS; key++)
		cr_assert(is_there[key] || truth[key] <= total / capacity + slack,
			  "k%u of %lu, seed %lu", key, truth[key], seed);
}

Test(space_saving, the_bounds_hold)
{
	for (unsigned i = 1; i <= STREAMS; i++) {
		unsigned capacity = 1 + i % 70;
		struct space_saving *s = space_saving_new(capacity);
		uint64_t truth[KEYS] = {0};

		seed = i * UINT64_C(0x9e3779b97f4a7c15);
		uint64_t total = feed(s, i % 3, truth);

		cr_assert_eq(space_saving_total(s), total);
		expect_bounds(s, capacity, total, truth, 0);
		space_saving_free(s);
	}
}

Test(space_saving, it_is_exact_while_there_is_room)
{
	struct space_saving *s = space_saving_new(KEYS);
	uint64_t truth[KEYS] = {0};
	struct space_saving_key top[KEYS];

	seed = 4711;
	feed(s, 1, truth);
	unsigned n = space_saving_top(s, top, KEYS);

	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(top[i].error, 0);
	expect_bounds(s, KEYS, 0, truth, 0);
	space_saving_free(s);
}

Test(space_saving, halving)
{
	for (unsigned i = 1; i <= STREAMS; i++) {
		unsigned capacity = 2 + i % 50;
		struct space_saving *s = space_saving_new(capacity);
		uint64_t truth[KEYS] = {0}, total = 0;

		seed = i * UINT64_C(0x2545f4914f6cdd1d);
		for (unsigned round = 0; round < 3; round++) {
			total += feed(s, i % 3, truth);
			space_saving_halve(s);
			total /= 2;
			for (unsigned key = 0; key < KEYS; key++)
				truth[key] /= 2;
		}
		expect_bounds(s, capacity, total, truth, 3);
		space_saving_free(s);
	}
}

Test(space_saving, what_is_halved_long_enough_is_forgotten)
{
	struct space_saving *s = space_saving_new(8);
	struct space_saving_key top[8];

	for (unsigned key = 0; key < 8; key++) {
		char text[16];

		cr_assert_eq(space_saving_add(s, name_of(key, text), 1 << key), KOVA_OK);
	}
	space_saving_halve(s);
	cr_assert_eq(space_saving_top(s, top, 8), 7);
	cr_assert_eq(top[0].count, 64);
	for (int i = 0; i < 6; i++)
		space_saving_halve(s);
	cr_assert_eq(space_saving_top(s, top, 8), 1);
	cr_assert(slice_equal(top[0].key, SLICE("k7")));
	space_saving_halve(s);
	cr_assert_eq(space_saving_top(s, top, 8), 0);
	cr_assert_eq(space_saving_add(s, SLICE("k3"), 5), KOVA_OK);
	cr_assert_eq(space_saving_top(s, top, 8), 1);
	cr_assert_eq(top[0].error, 0);
	space_saving_free(s);
}

Test(space_saving, the_bounds_hold_of_a_sum)
{
	for (unsigned i = 1; i <= STREAMS; i++) {
		unsigned capacity = 1 + i % 70;
		struct space_saving *sum = space_saving_new(capacity);
		uint64_t truth[KEYS] = {0}, total = 0;

		seed = i * UINT64_C(0xd1342543de82ef95);
		for (unsigned part = 0; part < 4; part++) {
			struct space_saving *s = space_saving_new(capacity);

			total += feed(s, (i + part) % 3, truth);
			cr_assert_eq(space_saving_merge(sum, s), KOVA_OK);
			space_saving_free(s);
		}
		cr_assert_eq(space_saving_total(sum), total);
		expect_bounds(sum, capacity, total, truth, 0);
		space_saving_free(sum);
	}
}

Test(space_saving, keys_are_bytes)
{
	struct space_saving *s = space_saving_new(2);
	struct space_saving_key top[2];

	cr_assert_eq(space_saving_add(s, (struct slice){"a\0b", 3}, 2), KOVA_OK);
	cr_assert_eq(space_saving_add(s, (struct slice){"a\0c", 3}, 3), KOVA_OK);
	cr_assert_eq(space_saving_add(s, (struct slice){"a\0b", 3}, 2), KOVA_OK);
	cr_assert_eq(space_saving_top(s, top, 2), 2);
	cr_assert(slice_equal(top[0].key, (struct slice){"a\0b", 3}));
	cr_assert_eq(top[0].count, 4);
	cr_assert_eq(space_saving_top(s, top, 1), 1);
	space_saving_free(s);
}
