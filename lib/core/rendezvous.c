#include "core/rendezvous.h"

#include <assert.h>

#include "core/hash.h"

enum { FRACTION_BITS = 32 };

static uint64_t finalize(uint64_t h)
{
	h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 33;
}

uint64_t rendezvous_hash(struct slice bytes)
{
	uint64_t h = HASH_FNV_INIT;

	for (size_t i = 0; i < bytes.len; i++)
		h = hash_fnv_add(h, (unsigned char)bytes.ptr[i]);
	return finalize(h);
}

/* The digits of the logarithm come out of squaring (Knuth, TAOCP 1.2.2, exercise 25, in binary). */
uint64_t rendezvous_distance(uint64_t x)
{
	unsigned zeros = (unsigned)__builtin_clzll(x | 1);
	uint64_t m = (x | 1) << zeros >> 32, fraction = 0; /* 2^31 <= m < 2^32 */

	for (unsigned i = 0; i < FRACTION_BITS; i++) {
		m = m * m >> 31;
		fraction = fraction << 1 | m >> 32;
		m >>= m >> 32;
	}
	return ((uint64_t)(zeros + 1) << FRACTION_BITS) - fraction;
}

/* The least distance ÷ weight; compared without dividing. */
size_t rendezvous_choose(const struct rendezvous_site *sites, size_t n, uint64_t key)
{
	uint64_t least = 0;
	size_t best = n;

	for (size_t i = 0; i < n; i++) {
		uint64_t distance = rendezvous_distance(finalize(key ^ sites[i].hash));

		if (sites[i].weight == 0 ||
		    (best < n && distance * sites[best].weight >= least * sites[i].weight))
			continue;
		best = i;
		least = distance;
	}
	assert(best < n);
	return best;
}
