/* Weighted max-min fairness: all of the whole, floors first, and nobody who wants more has less than who has more. */
#include <criterion/criterion.h>

#include "core/waterfill.h"
#include "dice.h"

static uint64_t sum(const uint32_t *share, unsigned n)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += share[i];
	return sum;
}

Test(waterfill, what_one_does_not_want_others_get)
{
	const struct waterfill_claim claims[] = {{33, 0, 1}, {33, 2000, 1}, {33, 100, 1}};
	uint32_t share[3];

	waterfill(1000, claims, 3, share);
	cr_expect_eq(share[0], 33);
	cr_expect_eq(share[1], 867);
	cr_expect_eq(share[2], 100);
}

Test(waterfill, weights_count_where_all_want_more)
{
	const struct waterfill_claim claims[] = {{0, 5000, 1}, {0, 5000, 3}};
	uint32_t share[2];

	waterfill(1000, claims, 2, share);
	cr_expect_eq(share[0], 250);
	cr_expect_eq(share[1], 750);
}

Test(waterfill, a_floor_is_kept_above_the_level)
{
	const struct waterfill_claim claims[] = {{600, 700, 1}, {0, 5000, 1}, {0, 5000, 1}};
	uint32_t share[3];

	waterfill(1000, claims, 3, share);
	cr_expect_eq(share[0], 600);
	cr_expect_eq(share[1], 200);
	cr_expect_eq(share[2], 200);
}

Test(waterfill, what_nobody_wants_is_spread_by_weight)
{
	const struct waterfill_claim claims[] = {{0, 100, 1}, {0, 200, 2}, {50, 0, 0}};
	uint32_t share[3];

	waterfill(1000, claims, 3, share);
	cr_expect_eq(share[0], 100 + 217);
	cr_expect_eq(share[1], 200 + 433);
	cr_expect_eq(share[2], 50);
}

static uint32_t any(struct dice *d, uint64_t most)
{
	return (uint32_t)dice_below(d, 1 + (most >> dice_below(d, 30)));
}

struct drawn {
	uint32_t whole;
	unsigned n;
	struct waterfill_claim claims[WATERFILL_MAX];
};

static void draw(struct drawn *w, struct dice *d)
{
	uint32_t floors;

	w->whole = any(d, WATERFILL_WHOLE_MAX);
	w->n = 1 + (unsigned)dice_below(d, WATERFILL_MAX);
	floors = w->whole / 2;
	for (unsigned i = 0; i < w->n; i++) {
		uint32_t floor = any(d, floors);

		floors -= floor;
		w->claims[i] = (struct waterfill_claim){
			floor, any(d, 2 * (uint64_t)w->whole),
			dice_below(d, 8) > 0 ? 1 + any(d, WATERFILL_WEIGHT_MAX - 1) : 0};
	}
}

/* Whether j takes what i, with less for its weight, could use. */
static bool is_unfair(const struct waterfill_claim *c, const uint32_t *share, unsigned i,
		      unsigned j)
{
	if (c[i].weight == 0 || share[i] >= c[i].demand || share[j] <= c[j].floor)
		return false;
	return (uint64_t)(share[j] - 1) * c[i].weight > (uint64_t)(share[i] + 1) * c[j].weight;
}

Test(waterfill, properties)
{
	for (uint64_t seed = 1; seed <= 20000; seed++) {
		struct dice d = {seed};
		struct drawn w;
		uint32_t share[WATERFILL_MAX];
		uint64_t weights = 0, wanted = 0;

		draw(&w, &d);
		waterfill(w.whole, w.claims, w.n, share);
		for (unsigned i = 0; i < w.n; i++) {
			const struct waterfill_claim *c = &w.claims[i];

			weights += c->weight;
			wanted += c->weight > 0 && c->demand > c->floor ? c->demand : c->floor;
			cr_assert(share[i] >= c->floor, "seed %lu", seed);
			for (unsigned j = 0; j < w.n; j++)
				cr_assert_not(is_unfair(w.claims, share, i, j),
					      "seed %lu: %u and %u", seed, i, j);
		}
		cr_assert(sum(share, w.n) <= w.whole, "seed %lu", seed);
		if (weights > 0)
			cr_assert_eq(sum(share, w.n), w.whole, "seed %lu", seed);
		for (unsigned i = 0; i < w.n && wanted > w.whole; i++)
			cr_assert(share[i] <= w.claims[i].demand || share[i] == w.claims[i].floor,
				  "seed %lu", seed);
	}
}
