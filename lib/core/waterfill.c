#include "core/waterfill.h"

#include <assert.h>
#include <stdbool.h>

/* The level of the water is counted in so many parts of a unit for a weight of 1: one step raises no claim by more than a unit. */
enum { LEVEL_BITS = 20 };

_Static_assert(WATERFILL_WEIGHT_MAX < 1 << LEVEL_BITS, "a step of the level is a unit at most");

static uint32_t at_level(const struct waterfill_claim *c, uint64_t level)
{
	uint64_t share = level * c->weight >> LEVEL_BITS;
	uint64_t brim = c->demand > c->floor ? c->demand : c->floor;

	share = share < brim ? share : brim;
	return (uint32_t)(share > c->floor ? share : c->floor);
}

static uint64_t sum_at(const struct waterfill_claim *claims, unsigned n, uint64_t level)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n; i++)
		sum += at_level(&claims[i], level);
	return sum;
}

/* The highest level at which the claims take no more than the whole; at most `highest`. */
static uint64_t find_level(uint32_t whole, const struct waterfill_claim *claims, unsigned n,
			   uint64_t highest)
{
	uint64_t low = 0;

	assert(sum_at(claims, n, 0) <= whole);
	while (low < highest) {
		uint64_t middle = low + (highest - low + 1) / 2;

		if (sum_at(claims, n, middle) <= whole)
			low = middle;
		else
			highest = middle - 1;
	}
	return low;
}

static void spread(uint64_t surplus, const struct waterfill_claim *claims, unsigned n,
		   uint32_t *share)
{
	uint64_t weights = 0, left = surplus;

	for (unsigned i = 0; i < n; i++)
		weights += claims[i].weight;
	if (weights == 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		uint64_t more = surplus * claims[i].weight / weights;

		share[i] += (uint32_t)more;
		left -= more;
	}
	for (unsigned i = 0; left > 0; i++)
		if (claims[i].weight > 0) {
			share[i]++;
			left--;
		}
}

void waterfill(uint32_t whole, const struct waterfill_claim *claims, unsigned n,
	       uint32_t *ret_share)
{
	uint64_t highest = (uint64_t)whole << LEVEL_BITS, level, left;

	assert(n >= 1 && n <= WATERFILL_MAX && whole <= WATERFILL_WHOLE_MAX);
	level = find_level(whole, claims, n, highest);
	left = whole - sum_at(claims, n, level);
	for (unsigned i = 0; i < n; i++)
		ret_share[i] = at_level(&claims[i], level);
	if (level == highest) {
		spread(left, claims, n, ret_share);
		return;
	}
	/* At the next level more would rise than there is left for. */
	for (unsigned i = 0; i < n && left > 0; i++)
		if (at_level(&claims[i], level + 1) > ret_share[i]) {
			ret_share[i]++;
			left--;
		}
}
