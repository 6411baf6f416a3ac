#include "core/backoff.h"

#include <assert.h>

void backoff_init(struct backoff *b, uint32_t min_ms, uint32_t max_ms, uint64_t seed)
{
	assert(min_ms >= 1 && min_ms <= max_ms && max_ms <= UINT32_MAX / 2);
	*b = (struct backoff){
		.min_ms = min_ms,
		.max_ms = max_ms,
		.ceiling_ms = min_ms,
		.random = seed != 0 ? seed : UINT64_C(0x9E3779B97F4A7C15),
	};
}

/* xorshift64* (S. Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016) */
static uint32_t random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)(*state * UINT64_C(0x2545F4914F6CDD1D) >> 32);
}

uint32_t backoff_next(struct backoff *b)
{
	uint32_t least = b->ceiling_ms / 4;
	uint32_t wait = least + random_next(&b->random) % (b->ceiling_ms - least + 1);

	b->ceiling_ms = b->ceiling_ms > b->max_ms / 2 ? b->max_ms : b->ceiling_ms * 2;
	return wait > 0 ? wait : 1;
}

void backoff_reset(struct backoff *b)
{
	b->ceiling_ms = b->min_ms;
}
