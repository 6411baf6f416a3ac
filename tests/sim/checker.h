/*
 * Exact checks of what was admitted under one limit, in the order in which it was, each at an instant of Redis's clock.
 * Independent of the algorithms they check.
 *
 * Redis's clock may be set, so an interval from one admission to a later one is as long as the clock moved on from the first:
 * the most that it showed until the second, less what it showed at the first. For a clock that never goes back that is
 * the difference.
 *
 * A bucket that is full is a key that is absent, which remembers no time: an interval over such an instant is as long as its parts.
 * With leases an interval is as long as time passed on the clock, steps back left out, for Redis does not know what its clock
 * showed when a permit was spent.
 *
 * Rates: admitted in every interval of length T, ends included, is at most B + R·T; of a bucket in whole quanta. One step
 * an admission, amortised: for every begin i the running value A(i..j) - R·T(i, j) differs from that of another begin by a
 * constant for as long as both have seen the same greatest time, so only the largest of these is kept.
 * Windows: those from which less than W passed until an admission are, with it, at most N. Calendars: in each window at most N.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/limit.h"

enum { CHECKER_STACK = 64 };

/* Begins that have seen the same greatest time. */
struct checker_begins {
	int64_t seen; /* that time, in units refilled until it */
	int64_t most; /* over the begins: units refilled until it less what was admitted before it */
};

struct checker_entry {
	uint64_t at_us, stamp_us, cost; /* stamp: by Redis's clock */
};

struct checker {
	const struct limit *limit;
	bool leases;
	uint64_t origin_us,
		latest_us;            /* latest: the most that it showed when something was taken */
	uint64_t shown_us, passed_us; /* what it showed last; steps back left out */
	int64_t passed_units;         /* refilled meanwhile */
	uint64_t admitted;            /* in all, net of refunds */

	/* Rates. */
	int64_t quantum_us, quantum_units, cost_units, cap_units;
	int64_t sum;                                 /* admitted in all, in units */
	struct checker_begins begins[CHECKER_STACK]; /* descending by `seen` */
	unsigned n_begins;

	/* Windows: ascending, [first, n). */
	struct checker_entry *entries;
	uint64_t first, n, room;
	uint64_t inside; /* of a calendar: in the window that `latest_us` is in */
	uint64_t before; /* of a calendar: in the one before */
};

void checker_init(struct checker *c, const struct limit *l, bool leases, uint64_t redis_us);
void checker_release(struct checker *c);

/* Redis's clock shows `redis_us`. */
void checker_observe(struct checker *c, uint64_t redis_us);
/* The same, and something was taken under the limit: a calendar's window has begun for good. */
void checker_taken(struct checker *c, uint64_t redis_us);
/* False: more was admitted than the limit allows. */
bool checker_admit(struct checker *c, uint64_t redis_us, uint64_t cost);
/* The same of a permit of a lease that Redis granted at `granted_us`: a calendar counts it in the window of the grant. */
bool checker_spend(struct checker *c, uint64_t redis_us, uint64_t granted_us, uint64_t cost);
/* The bucket's key is absent now. */
void checker_full(struct checker *c);
/* `cost` of what was admitted at `stamp_us` is given back now. */
void checker_refund(struct checker *c, uint64_t stamp_us, uint64_t cost);
