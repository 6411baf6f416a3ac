/*
 * How long to wait before trying again: twice as long each time, up to a bound, and never the same
 * for two nodes, so that a server that comes back is not met by all of them at once.
 * After "Exponential Backoff And Jitter" (M. Brooker, AWS Architecture Blog, 2015).
 */
#pragma once

#include <stdint.h>

struct backoff {
	uint32_t min_ms, max_ms; /* 1 <= min <= max */
	uint32_t ceiling_ms;     /* the longest that the next wait may be */
	uint64_t random;         /* state of the generator; not 0 */
};

/* `seed`: differs from node to node; the same seed gives the same waits. */
void backoff_init(struct backoff *b, uint32_t min_ms, uint32_t max_ms, uint64_t seed);

/*
 * The wait before the next try: from a quarter of the ceiling up to all of it; the ceiling is then
 * doubled.
 */
uint32_t backoff_next(struct backoff *b);

/* It worked: the next wait is short again. */
void backoff_reset(struct backoff *b);
