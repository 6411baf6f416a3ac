/*
 * What Redis keeps of one key: a limit's state under its algorithm, with leases where that has them. The arithmetic is
 * lib/core's; the leases of windows and calendars follow lua/sliding_window.lua and lua/calendar.lua. Here are the switches
 * of the rules that are Redis's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/calendar.h"
#include "core/gcra.h"
#include "core/leased_bucket.h"
#include "core/limit.h"
#include "core/window.h"
#include "mutation.h"

struct quota {
	const struct limit *limit;
	enum mutation mutation;
	struct leased_bucket bucket;
	struct gcra gcra;
	struct window window; /* a lease is an entry with its id as name and its end as time */
	struct calendar calendar;
	struct outstanding leases; /* the calendar's */
};

void quota_release(struct quota *q);
/* A plain copy with entries of its own, as what is on disk. */
void quota_copy(struct quota *to, const struct quota *from);

/* What could be taken now. Changes nothing. */
uint64_t quota_room(const struct quota *q, uint64_t now_us);
/* µs until `cost` may fit, when it does not now. */
uint64_t quota_wait_us(const struct quota *q, uint64_t now_us, uint64_t cost);

/* There is room for it. */
void quota_take(struct quota *q, uint64_t now_us, uint64_t cost);
bool quota_leasable(const struct quota *q, uint64_t now_us, uint64_t id, uint64_t end_us);
/* There is room, and it is leasable. */
void quota_lease(struct quota *q, uint64_t now_us, uint64_t amount, uint64_t id, uint64_t end_us);
/* False: it is not outstanding. */
bool quota_unlease(struct quota *q, uint64_t now_us, uint64_t id, uint64_t back);
/* Gives back what was taken at `stamp_us`; returns how much. */
uint64_t quota_give(struct quota *q, uint64_t now_us, uint64_t stamp_us, uint64_t cost);
