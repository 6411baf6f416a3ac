/*
 * A hybrid logical clock (Kulkarni, Demirbas et al., "Logical Physical Clocks", 2014): stamps that never go
 * back, are close to wall time, and order what happened after what was heard. Time is an argument.
 *
 * By clocks that agree within E, no stamp is further than E ahead of its own wall clock, and none is behind it: the
 * paper's bounds. hlc_hear() sees to that: it refuses what is further ahead.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * A stamp: ms since the epoch << 11 | counter, below 2^53 until the year 2109, so that a JSON number holds it exactly in any
 * language (RFC 7493). 0 is older than any stamp that a clock gives.
 */
enum { HLC_COUNTER_BITS = 11 };

struct hlc {
	uint64_t last; /* the greatest stamp given or heard */
};

/* ms since the epoch of `stamp`. */
static inline uint64_t hlc_ms(uint64_t stamp)
{
	return stamp >> HLC_COUNTER_BITS;
}

/* A stamp greater than any given or heard before; `now_ms` is the wall clock (< 2^47). */
uint64_t hlc_now(struct hlc *h, uint64_t now_ms);

/* Something of `stamp` arrived: stamps given from now on are greater. False: it is more than `max_ahead_ms` ahead of the
 * wall clock, and was refused. */
bool hlc_hear(struct hlc *h, uint64_t stamp, uint64_t now_ms, uint64_t max_ahead_ms);
