/* Homes of keys: the published vectors, and that a change of the regions moves only its share. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/hash.h"
#include "core/keyspace.h"
#include "core/rendezvous.h"
#include "dice.h"

enum { SITES_MAX = 8, KEYS = 40000 };

static json_t *vectors(void)
{
	const char *directory = getenv("KOVA_SOURCE_DIR");
	char path[4096];
	json_error_t error;

	snprintf(path, sizeof path, "%s/tests/vectors/home.json",
		 directory == NULL ? "." : directory);
	json_t *document = json_load_file(path, 0, &error);

	cr_assert_not_null(document, "%s:%d: %s", path, error.line, error.text);
	return document;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	cr_assert_not_null(text, "%s", name);
	return text;
}

static uint64_t hex_of(const json_t *object, const char *name)
{
	return strtoull(text_of(object, name), NULL, 16);
}

static uint64_t fnv(struct slice s)
{
	uint64_t h = HASH_FNV_INIT;

	for (size_t i = 0; i < s.len; i++)
		h = hash_fnv_add(h, (unsigned char)s.ptr[i]);
	return h;
}

Test(rendezvous, hashes_and_logarithms_are_those_of_the_vectors)
{
	json_t *document = vectors(), *v;
	size_t i;

	json_array_foreach(json_object_get(document, "fnv1a64"), i, v)
		cr_expect_eq(fnv(slice_of(text_of(v, "text"))), hex_of(v, "hash"));
	json_array_foreach(json_object_get(document, "hash"), i, v)
		cr_expect_eq(rendezvous_hash(slice_of(text_of(v, "text"))), hex_of(v, "hash"));
	json_array_foreach(json_object_get(document, "distance"), i, v)
		cr_expect_eq((json_int_t)rendezvous_distance(hex_of(v, "x")),
			     json_integer_value(json_object_get(v, "distance")), "%s",
			     text_of(v, "x"));
	json_decref(document);
}

/* The regions of a vector, in the order of their names. */
static size_t sites_of(const json_t *regions, const char *names[SITES_MAX],
		       struct rendezvous_site sites[SITES_MAX])
{
	size_t n = 0;
	const char *name;
	json_t *weight;

	json_object_foreach((json_t *)(uintptr_t)regions, name, weight) {
		size_t at = n++;

		for (; at > 0 && strcmp(names[at - 1], name) > 0; at--) {
			names[at] = names[at - 1];
			sites[at] = sites[at - 1];
		}
		names[at] = name;
		sites[at].hash = rendezvous_hash(slice_of(name));
		sites[at].weight = (uint32_t)json_integer_value(weight);
	}
	return n;
}

Test(rendezvous, homes_are_those_of_the_vectors)
{
	json_t *document = vectors(), *home, *v;
	size_t i, j;

	json_array_foreach(json_object_get(document, "homes"), i, home) {
		const char *names[SITES_MAX];
		struct rendezvous_site sites[SITES_MAX];
		size_t n = sites_of(json_object_get(home, "regions"), names, sites);

		json_array_foreach(json_object_get(home, "keys"), j, v) {
			struct slice root = keyspace_root(slice_of(text_of(v, "key")));
			size_t at = rendezvous_choose(sites, n, rendezvous_hash(root));

			cr_expect(slice_equal(root, slice_of(text_of(v, "root"))));
			cr_expect_str_eq(names[at], text_of(v, "region"), "%s", text_of(v, "key"));
		}
	}
	json_decref(document);
}

/* Of powers it is exact, of products it is the sum, and more is nearer. */
Test(rendezvous, the_logarithm_is_one)
{
	const uint64_t all = UINT64_C(64) << 32;
	struct dice dice = {1};

	for (unsigned k = 32; k < 64; k++)
		cr_expect_eq(rendezvous_distance(UINT64_C(1) << k), all - ((uint64_t)k << 32),
			     "2^%u", k);
	for (int i = 0; i < 10000; i++) {
		uint64_t x = dice_next(&dice) >> 33 | 1, y = dice_next(&dice) >> 33 | 1;
		uint64_t sum = rendezvous_distance(x) + rendezvous_distance(y);
		int64_t error = (int64_t)(sum - rendezvous_distance(x * y) - all);

		cr_assert(error > -32 && error < 32, "%d", (int)error);
		cr_assert(x == y || (x > y) == (rendezvous_distance(x) < rendezvous_distance(y)));
	}
}

/* Sites with names and weights by chance; at least one weight is above 0. */
static size_t sites_by_chance(struct dice *dice, struct rendezvous_site sites[SITES_MAX])
{
	size_t n = 1 + dice_below(dice, SITES_MAX - 1);

	for (size_t i = 0; i < n; i++) {
		char name[32];

		snprintf(name, sizeof name, "region-%llu", (unsigned long long)dice_next(dice));
		sites[i] = (struct rendezvous_site){rendezvous_hash(slice_of(name)),
						    (uint32_t)dice_below(dice, 5)};
	}
	sites[0].weight++;
	return n;
}

static uint64_t key_of(unsigned i)
{
	char text[32];

	snprintf(text, sizeof text, "tenant-%u", i);
	return rendezvous_hash(slice_of(text));
}

/* Chi-squared of what each site got, against its share; its 99.99 % point for 7 degrees of freedom is 29.9. */
Test(rendezvous, each_site_has_its_share)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct dice dice = {seed};
		struct rendezvous_site sites[SITES_MAX];
		size_t n = sites_by_chance(&dice, sites);
		unsigned got[SITES_MAX] = {0};
		double sum = 0, chi = 0;

		for (unsigned i = 0; i < KEYS; i++)
			got[rendezvous_choose(sites, n, key_of(i))]++;
		for (size_t i = 0; i < n; i++)
			sum += sites[i].weight;
		for (size_t i = 0; i < n; i++) {
			double share = KEYS * sites[i].weight / sum;

			cr_assert(sites[i].weight > 0 || got[i] == 0, "seed %d", (int)seed);
			chi += share > 0 ? (got[i] - share) * (got[i] - share) / share : 0;
		}
		cr_expect_lt(chi, 30, "seed %d: %f", (int)seed, chi);
	}
}

/* Keys whose home differs went to the site that became heavier, or came from the one that became lighter. */
Test(rendezvous, a_change_moves_only_its_share)
{
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct dice dice = {seed};
		struct rendezvous_site before[SITES_MAX], after[SITES_MAX];
		size_t n = sites_by_chance(&dice, before), changed = dice_below(&dice, n);
		double sum = 0, share[2];
		unsigned moved = 0;

		memcpy(after, before, sizeof after);
		after[changed].weight = (uint32_t)dice_below(&dice, 6);
		after[0].weight += after[0].weight == 0;
		bool heavier = after[changed].weight > before[changed].weight;

		for (unsigned i = 0; i < KEYS; i++) {
			size_t was = rendezvous_choose(before, n, key_of(i));
			size_t is = rendezvous_choose(after, n, key_of(i));

			if (was == is)
				continue;
			moved++;
			cr_assert_eq(heavier ? is : was, changed, "seed %d", (int)seed);
		}
		for (size_t i = 0; i < n; i++)
			sum += i != changed ? before[i].weight : 0;
		share[0] = before[changed].weight / (sum + before[changed].weight);
		share[1] = after[changed].weight / (sum + after[changed].weight);
		/* Five standard deviations of a binomial count. */
		double expected = KEYS * (heavier ? share[1] - share[0] : share[0] - share[1]);

		cr_expect_leq((moved - expected) * (moved - expected), 25 * expected + 1e-9,
			      "seed %d: %u moved, of %f", (int)seed, moved, expected);
	}
}

Test(rendezvous, equals_go_to_the_first)
{
	const struct rendezvous_site sites[] = {{7, 0}, {9, 2}, {9, 2}};

	cr_expect_eq(rendezvous_choose(sites, 3, 1), 1);
}
