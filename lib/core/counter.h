/*
 * Sliding window counter: about N in any span of W, from the counts of two windows that are aligned to the epoch.
 * Approximate (docs/algorithms.md). Twin of lua/sliding_counter.lua.
 */
#pragma once

#include <stdint.h>

#include "core/limit.h"
#include "core/verdict.h"

/* All zeros: empty. */
struct counter {
	uint64_t start_us; /* of the current window */
	uint64_t before;   /* taken in the window before it */
	uint64_t current;
	uint64_t last_us; /* when it was written, not in doubt */
};

/* As if the whole limit had been taken in this window. */
void counter_init_empty(struct counter *c, const struct limit *l, uint64_t now_us);

/* Takes `cost` (1..LIMIT_MAX) or nothing. */
void counter_take(struct counter *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		  struct limiter_verdict *ret_verdict);

/* The same while the clock is doubted (lua/prelude.lua): nothing is refilled, what is there may be taken. */
void counter_take_doubted(struct counter *c, const struct limit *l, uint64_t now_us, uint64_t cost,
			  struct limiter_verdict *ret_verdict);
