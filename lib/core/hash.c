#include "core/hash.h"

__extension__ typedef unsigned __int128 hash_wide;

#define MULTIPLIER_1 UINT64_C(0xa0761d6478bd642f)
#define MULTIPLIER_2 UINT64_C(0xe7037ed1a0b428db)

static uint64_t fold(uint64_t a, uint64_t b)
{
	hash_wide product = (hash_wide)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t load(const char *at, size_t n)
{
	uint64_t word = 0;

	memcpy(&word, at, n);
	return word;
}

uint64_t hash_mix(uint64_t h)
{
	return fold(h ^ MULTIPLIER_1, MULTIPLIER_2);
}

uint64_t hash_bytes(struct slice s, uint64_t seed)
{
	uint64_t h = seed ^ MULTIPLIER_2;
	size_t at = 0;

	for (; s.len - at > 8; at += 8)
		h = fold(h ^ load(s.ptr + at, 8), MULTIPLIER_1);
	if (s.len > at)
		h = fold(h ^ load(s.ptr + at, s.len - at), MULTIPLIER_1 ^ (s.len - at));
	return fold(h ^ s.len, MULTIPLIER_2);
}
