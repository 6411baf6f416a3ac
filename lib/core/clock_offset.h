/*
 * How far a peer's wall clock is from ours: no estimate, but the interval in which it is for certain, from when calls
 * left, what the peer's clock said, and when the answers came (Marzullo 1984; RFC 5905 §10). A queue or a long link
 * makes the interval wider, never wrong. Pure: both of our clocks are arguments.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Two clocks that are slewed at once run so far apart, at most; one that moved further against the steady one was set. */
enum { CLOCK_OFFSET_DRIFT_PPM = 20000, CLOCK_OFFSET_STEP_US = 10000 };

/* What max_skew may be. */
enum { CLOCK_SKEW_MIN_MS = 100, CLOCK_SKEW_MAX_MS = 500 };

/* Both clocks at one instant. */
struct clock_reading {
	uint64_t wall_us; /* since the epoch, < 2^53 */
	uint64_t boot_us; /* CLOCK_BOOTTIME: never set, goes on in sleep */
};

/* Our wall clock was set between the two. */
bool clock_was_set(const struct clock_reading *from, const struct clock_reading *to);

/* All zeros: nothing is known. */
struct clock_offset {
	bool known;
	int64_t least_us, most_us;  /* the peer's wall clock minus ours was in between ... */
	struct clock_reading heard; /* ... then */
};

/*
 * A call left at `sent`, its answer was there at `received`, and in between the peer's clock said `peer_us` (< 2^53). False: that
 * contradicts what was known, or our own clock was set meanwhile; what was known is forgotten.
 */
bool clock_offset_hear(struct clock_offset *o, const struct clock_reading *sent,
		       const struct clock_reading *received, uint64_t peer_us);

/* Whether the clocks differ by more than `max_skew_us` for certain. */
bool clock_offset_differs(const struct clock_offset *o, const struct clock_reading *now,
			  uint64_t max_skew_us);

/* What the peer's clock can say when it carries out a call that leaves now, if the clocks agree. */
struct clock_bounds {
	uint64_t earliest_us, latest_us; /* latest < earliest: nothing, they differ */
};

/* `patience_us`: how long the answer is waited for. */
struct clock_bounds clock_offset_bounds(const struct clock_offset *o,
					const struct clock_reading *now, uint64_t max_skew_us,
					uint64_t patience_us);

/*
 * What a peer of which something is known can say when it carries out a call that leaves now, if its clock is set by no more than
 * `max_skew_us` until then.
 */
struct clock_bounds clock_offset_expected(const struct clock_offset *o,
					  const struct clock_reading *now, uint64_t max_skew_us,
					  uint64_t patience_us);

/* The middle of the interval, for people; 0 where nothing is known. */
int64_t clock_offset_us(const struct clock_offset *o);
