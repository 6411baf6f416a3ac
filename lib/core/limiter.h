/* The state of a limit under any algorithm, in memory: for leases and for decisions while Redis is away. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bucket.h"
#include "core/calendar.h"
#include "core/concurrency.h"
#include "core/counter.h"
#include "core/gcra.h"
#include "core/limit.h"
#include "core/verdict.h"
#include "core/window.h"

struct limiter_state {
	enum algorithm algorithm;
	union {
		struct bucket bucket;
		struct gcra gcra;
		struct window window;
		struct counter counter;
		struct calendar calendar;
		struct concurrency concurrency;
	};
};

/* Full, or `empty`: buckets begin with nothing, windows as if all had been taken now. False: out of memory. */
bool limiter_init(struct limiter_state *s, const struct limit *l, uint64_t now_us, bool empty);
void limiter_release(struct limiter_state *s);

/*
 * Takes `cost` (1..LIMIT_MAX) or nothing; `l` may differ from the limit of the last call, but not in its
 * algorithm. Concurrency gives a permit without a name.
 */
void limiter_admit(const struct limit *l, struct limiter_state *s, uint64_t now_us, uint64_t cost,
		   struct limiter_verdict *ret_verdict);

/* The same while the clock is doubted (lua/prelude.lua): nothing is refilled, what is there may be taken.
 * Not for token buckets: leased_bucket.h. */
void limiter_admit_doubted(const struct limit *l, struct limiter_state *s, uint64_t now_us,
			   uint64_t cost, struct limiter_verdict *ret_verdict);

/*
 * Undoes the last limiter_admit(), which allowed `cost` at `now_us`: the state is as `before`, a plain copy made before the
 * call.
 */
void limiter_untake(const struct limit *l, struct limiter_state *s,
		    const struct limiter_state *before, uint64_t now_us, uint64_t cost);
