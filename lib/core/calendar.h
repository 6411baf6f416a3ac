/*
 * Calendar window: at most N in each day, week or month of a time zone, whose edges the caller brings
 * (limit.edges). Twin of lua/calendar.lua.
 */
#pragma once

#include <stdint.h>

#include "core/limit.h"
#include "core/verdict.h"

/* How many of the edges are not after `now_us`: the window of now begins with the last of these. */
uint32_t calendar_edges_passed(const struct calendar_edges *e, uint64_t now_us);

/* The number of the window that begins at `start_us`, the same for all who have edges of its zone; 0: it is none of these. */
uint32_t calendar_window_number(const struct calendar_edges *e, uint64_t start_us);

/* All zeros: nothing taken. */
struct calendar {
	uint64_t start_us; /* of the window that `used` belongs to */
	uint64_t used;
	uint64_t
		before; /* taken before it, and still counted: nobody has seen it begin without doubt */
};

/* As if the whole limit had been taken in this window. */
void calendar_init_empty(struct calendar *c, const struct limit *l, uint64_t now_us);

/* Takes `cost` (1..LIMIT_MAX) or nothing. Where the edges don't reach `now_us` nothing is given, to be asked again in a
 * second, when the caller may have others. */
void calendar_take(struct calendar *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		   struct limiter_verdict *ret_verdict);

/* The same while the clock is doubted (lua/prelude.lua): nothing is refilled, what is there may be taken. */
void calendar_take_doubted(struct calendar *c, const struct limit *l, uint64_t now_us,
			   uint64_t cost, struct limiter_verdict *ret_verdict);
