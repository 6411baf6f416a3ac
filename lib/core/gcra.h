/*
 * Generic cell rate algorithm (ITU-T I.371), as a virtual schedule: the state is the theoretical arrival time of the next
 * cell, with the emission interval it was counted in. Twin of lua/gcra.lua.
 */
#pragma once

#include <stdint.h>

#include "core/limit.h"
#include "core/verdict.h"

/* Whole µs and millionths of one, 0..999999. */
struct gcra_span {
	uint64_t us;
	uint64_t millionths;
};

/* All zeros: full. */
struct gcra {
	struct gcra_span arrival;  /* since the epoch */
	struct gcra_span interval; /* of the limit it was counted under */
	uint64_t last_us;          /* when it was written, not in doubt */
	struct gcra_span taken;    /* in doubt since then, on top of what is outstanding at ... */
	uint64_t stop_us;          /* ... the last of those takes */
};

void gcra_init_empty(struct gcra *g, const struct limit *l, uint64_t now_us);

/* Takes `cost` (1..LIMIT_MAX) or nothing. */
void gcra_take(struct gcra *g, const struct limit *l, uint64_t now_us, uint64_t cost,
	       struct limiter_verdict *ret_verdict);

/* The same while the clock is doubted (lua/prelude.lua): nothing is refilled, what is there may be taken. */
void gcra_take_doubted(struct gcra *g, const struct limit *l, uint64_t now_us, uint64_t cost,
		       struct limiter_verdict *ret_verdict);
