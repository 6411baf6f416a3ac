/*
 * Concurrency: at most N permits at any instant; each ends by itself after limit.hold_us or when it is released. Twin
 * of lua/concurrency.lua.
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

/* Gives a permit of weight `cost` (1..LIMIT_MAX) under `name`, or nothing. 0: without a name, it ends by itself. A name is
 * the caller's to keep unique (a hash of the permit). Out of memory: refused for `hold`. */
void concurrency_take(struct concurrency *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		      uint64_t name, struct limiter_verdict *ret_verdict);

/* Ends the permit, or lets it live for `hold` again. False: it is not held (any more). */
bool concurrency_end(struct concurrency *c, uint64_t now_us, uint64_t name);
bool concurrency_renew(struct concurrency *c, const struct limit *l, uint64_t now_us,
		       uint64_t name);
