/*
 * Concurrency: at most N permits at any instant; each ends by itself after limit.hold_us. Twin of lua/concurrency.lua,
 * which alone knows them by name: without Redis no permit is released or renewed.
 */
#pragma once

#include <stdint.h>

#include "core/admission_log.h"
#include "core/limit.h"
#include "core/verdict.h"

/* All zeros: no permit is held. concurrency_release() frees what it owns. */
struct concurrency {
	struct admission_log log; /* at_us: when the permit ends */
};

/* As if all permits had been given now. False: out of memory. */
bool concurrency_init_empty(struct concurrency *c, const struct limit *l, uint64_t now_us);
void concurrency_release(struct concurrency *c);

/* Gives a permit of weight `cost` (1..LIMIT_MAX), or nothing. Out of memory: refused for `hold`. */
void concurrency_take(struct concurrency *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		      struct limiter_verdict *ret_verdict);

/* The same while the clock is doubted (lua/prelude.lua): nothing is refilled, what is there may be taken. */
void concurrency_take_doubted(struct concurrency *c, const struct limit *l, uint64_t now_us,
			      uint64_t cost, struct limiter_verdict *ret_verdict);
