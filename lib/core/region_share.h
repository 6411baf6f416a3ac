/*
 * A region's side of a global quota: which share is in force, by the region's own clock (Redis TIME) and nothing else.
 * Its floor needs no one's permission; above it, a grant that ends by itself. Every rule is one of docs/global.md.
 *
 * The state is one for the region, kept where its buckets are: whoever reads a grant writes it once. Times are µs of the
 * region's clock; one that goes back counts as standing still, unless it is a jump.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/share_plan.h"
#include "core/share_record.h"

struct region_share_terms {
	uint64_t
		lend_us; /* a promise binds for so long from the reading of the grant that it echoes */
	uint64_t lease_max_us; /* no lease counts for longer */
	bool loose;            /* "global": "loose": without news the last grant goes on */
};

struct region_share {
	struct share_plan plan; /* what the buckets go by */
	uint32_t whole;         /* of which all here are parts */
	uint64_t seen_us;       /* the most that the clock showed */
	uint64_t seq;           /* of the last grant that was read, in force or not */
	uint32_t granted;       /* its parts, in force until ... */
	uint64_t until_us;      /* ... this; 0: none is */
	uint64_t epoch, c0_us,
		read_us; /* of the allocator, and when it was read; epoch 0: nothing was */

	uint32_t floor, floors;   /* in force, and the version whose cuts are */
	uint32_t risen, risen_at; /* what the floor becomes once version `risen_at` is confirmed */
	uint32_t confirmed;       /* version of the floors */
	uint32_t lent;            /* of the floor, until lent_until_us */
	uint64_t lent_until_us, lent_epoch, lent_c0_us;

	uint64_t leases_until_us; /* by then every lease that was given has ended */
	/* What reports say for as long as leases of a larger share may be spent. */
	uint64_t settles_us, told_seq;
	uint32_t told_floors;
	bool told_live;
};

/* `clock`: from 1; a region that remembers nothing takes a greater one than ever before. */
void region_share_init(struct region_share *s, uint64_t clock, uint64_t now_us, uint32_t whole,
		       uint32_t floor);

/*
 * The limit of a window or calendar is another from now on (1..LIMIT_MAX): every share is the same fraction of it, so a limit
 * that was lowered is in force where it is known. Of a rate the whole is always the same. `floor`: that of version `floors`
 * in parts of the new one. Of the version that is in force already it is exact, however often the limit changed.
 */
void region_share_set_whole(struct region_share *s, uint64_t now_us, uint32_t whole,
			    uint32_t floors, uint32_t floor);

/* The share now. */
uint32_t region_share_now(struct region_share *s, uint64_t now_us);

/* Whether a grant is in force. */
bool region_share_is_granted(const struct region_share *s, uint64_t now_us);

/*
 * A committed grant was read; how late does not matter. False: it is one of before. `window_end_us`: calendars, where the
 * window of its t0 ends; else LIMIT_FOREVER_US.
 */
bool region_share_read(struct region_share *s, const struct region_share_terms *t, uint64_t now_us,
		       const struct share_grant *g, uint64_t window_end_us);

/* The configuration has floors of this version: a cut applies at once, a rise once it is confirmed by a grant record. */
void region_share_set_floor(struct region_share *s, uint64_t now_us, uint32_t floors,
			    uint32_t floor);

/* The clock was set (skew guard), or Redis is another: nothing but the floor until a grant answers a report of this clock. */
void region_share_jump(struct region_share *s, const struct region_share_terms *t, uint64_t now_us);

/*
 * Promises not to use `parts` of the floor (0 < parts <= floor) for lend_us from the reading of the last grant. `used`: parts
 * that count in a window. False: not now, for the floor would be exceeded, leases may be out, or there is no fresh
 * grant to echo.
 */
bool region_share_lend(struct region_share *s, const struct region_share_terms *t, uint64_t now_us,
		       uint32_t parts, uint32_t used);

/* The latest end of a lease that is given now: not after the grant that it rests on. Not later than now: none. */
uint64_t region_share_lease_end_us(const struct region_share *s, const struct region_share_terms *t,
				   uint64_t now_us);
/* A lease that counts until `end_us` was given. */
void region_share_leased(struct region_share *s, uint64_t end_us);

/* Fills in all of a report but demand, used and window. */
void region_share_report(struct region_share *s, uint64_t now_us, struct share_report *ret_report);
