/*
 * What share of a limit a region has, and when: piecewise constant, by the region's own clock (Redis TIME), in its past as
 * far as it matters and in its future as far as it is known (a grant ends by itself). Whoever looks at a key later
 * than a change must still see it: a bucket refills piece by piece, and is capped in each by that piece's burst.
 *
 * A share is `parts` of a whole. Of a rate the whole is SHARE_RATE_WHOLE, and the share of R and B are whole µtokens; of a
 * window or calendar it is the limit itself, and parts are tokens.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/limit.h"

enum {
	SHARE_RATE_WHOLE = 1000,
	SHARE_QUANTUM_US = 100,  /* a share's refill comes in steps of so long at most ... */
	SHARE_QUANTUM_UT = 1000, /* ... or so much */
	SHARE_PIECES_MAX = 16,
	SHARE_PIECES_AHEAD = 3, /* of which so many are at most in the future */
};

struct share_piece {
	uint64_t from_us;
	uint32_t parts;
};

struct share_plan {
	uint64_t
		clock; /* grows each time that the region's clock is set: instants of another one say nothing */
	struct share_piece
		piece[SHARE_PIECES_MAX]; /* ascending; the first one holds before it as well */
	uint32_t n;                      /* at least 1 */
};

void share_plan_init(struct share_plan *p, uint64_t clock, uint64_t now_us, uint32_t parts);

/* The share at an instant. */
uint32_t share_plan_at(const struct share_plan *p, uint64_t at_us);

/*
 * From now on it is `parts`, and no change is planned. Where there are too many pieces the two oldest become one of the
 * lesser share: never more than it was.
 */
void share_plan_set(struct share_plan *p, uint64_t now_us, uint32_t parts);

/* From `at_us` on, later than every change before; at most SHARE_PIECES_AHEAD - 1 times after a share_plan_set(). */
void share_plan_then(struct share_plan *p, uint64_t at_us, uint32_t parts);

/*
 * The clock was set: of the past only the least share is known, from now on it is at most `parts`. What was written
 * under another number of the clock is older than this.
 */
void share_plan_restart(struct share_plan *p, uint64_t clock, uint64_t now_us, uint32_t parts);

/* The whole became another (`to` for `from`): all pieces do alike, rounded down. */
void share_plan_scale(struct share_plan *p, uint32_t from, uint32_t to);

/* parts of `from` as parts of `to`, rounded down or up; `from` is not 0. */
uint32_t share_scale_down(uint32_t parts, uint32_t from, uint32_t to);
uint32_t share_scale_up(uint32_t parts, uint32_t from, uint32_t to);

/* The whole that a limit's shares are parts of. */
uint32_t share_whole(const struct limit *l);

/*
 * A region's part of a limit: token buckets (rate and burst), windows and calendars, rounded down (a rate by a thousandth at
 * most). Of the derived fields those for buckets are set: cap, quantum. parts <= whole; whole is
 * share_whole() of this limit, or of another level's of the same algorithm.
 */
struct limit share_of(const struct limit *l, uint32_t parts, uint32_t whole);
