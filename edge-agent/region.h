/*
 * The region's Redis as the engine sees it: operations of the decide script, gathered into one call a
 * loop turn, each answered exactly once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/script.h"
#include "io/redis_store.h"
#include "region_clock.h"

struct region;

/*
 * `answer` is NULL unless status is KOVA_OK. Any other status is a doubt: the operation may or may not
 * have been carried out, except KOVA_ECONN before it was sent and KOVA_EREPLY (it was refused whole).
 */
typedef void region_answer(kova_status status, const struct script_answer *answer, void *data);

/* `store` is owned from here on; `conf` is what it was made by. NULL: out of memory. */
struct region *region_new(uv_loop_t *loop, struct redis_store *store,
			  const struct redis_conf *conf);
/* It is one of `loops` regions of this agent that ask the same store: each asks for less at once. Before it is used. */
void region_share(struct region *r, unsigned loops);

/* It is that of another region, `name` (borrowed), a long way off: up to `calls` may be under way. Before it is used. */
void region_is_far(struct region *r, const char *name, unsigned calls);

/* Ends every operation in progress (KOVA_ECLOSED) before it returns; frees itself when its handles and
 * the store's are gone, and then calls `on_closed` (may be NULL). */
void region_close(struct region *r, void (*on_closed)(void *data), void *data);

/* Whether operations on `slot` can be asked now. */
bool region_up(const struct region *r, uint16_t slot);

/* No operation waits for its answer. */
bool region_is_idle(const struct region *r);

/* Slots that differ need calls of their own: true for a Cluster. */
bool region_by_slot(const struct region *r);

/*
 * Adds `op` (copied) to the call that leaves at the end of this loop turn. Operations of one slot are
 * carried out in the order in which they were submitted. `n_after`: as many further operations
 * will follow at once that must share this one's call (chained ones).
 */
void region_submit(struct region *r, uint16_t slot, const struct script_op *op, unsigned n_after,
		   region_answer *on_answer, void *data);

/*
 * For operations that another script's call carries to `slot`: what goes with one that leaves now, and what its reply tells. Each
 * operation has a stamp of its own.
 */
struct script_call region_call(struct region *r, uint16_t slot, struct clock_reading *ret_sent);
void region_heard(struct region *r, uint16_t slot, const struct clock_reading *sent,
		  const struct script_reader *reader);

/* Redis's clock, µs since the epoch, as last heard and carried on by the local steady clock; before
 * anything was heard, the local wall clock. Read once in a turn of the loop, after it has waited, and once after each answer. For choices that Redis checks again. */
uint64_t region_now_us(struct region *r);

/* How often Redis's clock or ours was found to have been set: what was computed from them before is no longer good. */
uint64_t region_clock_leaps(const struct region *r);

/* From a call's leaving to its answer, as of late; 0 before the first. */
uint64_t region_round_trip_us(const struct region *r);

const struct region_clock *region_clock(const struct region *r);

struct redis_store *region_store(const struct region *r);

struct region_counters {
	uint64_t calls, operations; /* script calls sent, operations in them */
	uint64_t out_of_step;       /* replies that belonged to another call */
	uint64_t script_loads;      /* NOSCRIPT: sent again with the body */
	uint64_t
		refills_refused; /* calls in which nothing was refilled, because the clocks differ */
	uint64_t clock_leaps;    /* region_clock_leaps() */
};
/* Adds its counters and its store's. */
void region_count(const struct region *r, struct redis_counters *redis,
		  struct region_counters *region);
