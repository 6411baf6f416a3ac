/* Sliding window log: at most N in any span of W, exactly. Twin of lua/sliding_window.lua. */
#pragma once

#include <stdint.h>

#include "core/admission_log.h"
#include "core/limit.h"
#include "core/verdict.h"

/* All zeros: empty. window_release() frees what it owns. */
struct window {
	struct admission_log log;
};

/* As if the whole limit had been taken now. False: out of memory. */
bool window_init_empty(struct window *w, const struct limit *l, uint64_t now_us);
void window_release(struct window *w);

/* Takes `cost` (1..LIMIT_MAX) or nothing. Out of memory: refused, to be asked again after the window. */
void window_take(struct window *w, const struct limit *l, uint64_t now_us, uint64_t cost,
		 struct limiter_verdict *ret_verdict);

/* The same while the clock is doubted (lua/prelude.lua): nothing is refilled, what is there may be taken. */
void window_take_doubted(struct window *w, const struct limit *l, uint64_t now_us, uint64_t cost,
			 struct limiter_verdict *ret_verdict);
