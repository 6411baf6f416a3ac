/*
 * One limit: an algorithm and its parameters, checked and brought into the units in which the
 * algorithms count (µs and µtokens, all below 2^53 so that the Lua twins are exact in doubles).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { LIMIT_MAX = 1000000000 };                       /* of limit, burst and cost */
#define LIMIT_PER_MIN_US UINT64_C(1000)                /* 1 ms */
#define LIMIT_PER_MAX_US (UINT64_C(400) * 86400000000) /* 400 days */
#define LIMIT_UT UINT64_C(1000000)                     /* µtokens in a token */

/* A span that is not finite in practice: times saturate here (285 years, exact in a double). */
#define LIMIT_FOREVER_US (UINT64_C(1) << 53)

/* The fastest refill that is counted: 10⁹ tokens, the largest burst, in 100 ms. */
#define LIMIT_RATE_MAX_UT_PER_US UINT64_C(10000000000)

enum algorithm {
	ALGORITHM_TOKEN_BUCKET,
	ALGORITHM_GCRA,
	ALGORITHM_SLIDING_WINDOW,
	ALGORITHM_SLIDING_COUNTER,
	ALGORITHM_CALENDAR,
	ALGORITHM_CONCURRENCY,
	ALGORITHM_N
};

/* Edges of a calendar's windows in one time zone: ascending, µs since the epoch. */
struct calendar_edges {
	const uint64_t *edge_us; /* borrowed for as long as the limit lives */
	uint32_t n;
	uint32_t first; /* number of the window that begins with the first; the next has the next */
};

struct limit {
	enum algorithm algorithm;
	uint64_t limit;   /* 0..LIMIT_MAX; 0 denies all */
	uint64_t per_us;  /* LIMIT_PER_MIN_US..LIMIT_PER_MAX_US; unused by calendar, concurrency */
	uint64_t burst;   /* buckets: 1..LIMIT_MAX */
	uint64_t hold_us; /* concurrency: the longest time a permit lives; 1 ms..400 days */
	struct calendar_edges edges; /* calendar; not looked at by limit_init() */

	/* Derived by limit_init(). */
	uint64_t cap_ut;     /* bucket: burst in µtokens; 0 when limit is 0 */
	uint64_t quantum_ut; /* bucket: p, credited each ... */
	uint64_t quantum_us; /* ... q: p/q is limit·10⁶/per_us in lowest terms */
	uint64_t scale_ut; /* bucket: unit of the stored debt: 1, 10, 1000 or 10⁶ µtokens ... */
	uint64_t scale_code;          /* ... and its code, 0..3 */
	uint64_t interval_us;         /* gcra: emission interval, whole µs ... */
	uint64_t interval_millionths; /* ... and millionths of a µs, rounded up */
	uint64_t tick_us;             /* sliding counter: unit in which its window is counted */
	uint64_t window_ticks;        /* sliding counter: ceil(per_us / tick_us) */
};

/*
 * Fills the derived fields from the given ones. KOVA_ERANGE: a field is outside its range, or a
 * gcra whose time from empty to full, burst·per/limit, is more than 100 years.
 */
KOVA_MUST_CHECK kova_status limit_init(struct limit *l);

/* The burst of a bucket that names none: twice what comes in a second, 1..LIMIT_MAX. */
uint64_t limit_default_burst(uint64_t limit, uint64_t per_us);

/* What can be taken at once when nothing was: burst, N of a window, permits. 0 when limit is 0. */
uint64_t limit_capacity(const struct limit *l);

/*
 * µs from empty to full (buckets; at most LIMIT_FOREVER_US), the window's length (of a calendar the
 * first of its edges), or how long a permit lives; 0 when it has none (limit 0).
 */
uint64_t limit_horizon_us(const struct limit *l);
