/*
 * Adaptive limit of one key: what a server elsewhere can take is seldom known, so its answers say. In both modes the
 * limit rises by a step while it is used and nothing is wrong, and falls by a part: additive increase, multiplicative
 * decrease converge to a fair and efficient share (D. Chiu, R. Jain, "Analysis of the Increase and Decrease Algorithms for
 * Congestion Avoidance", 1989), each at most once a window, so that what went wrong at one moment counts once.
 *
 *   AIMD      falls on errors.
 *   GRADIENT  falls also as latency grows over its long-term lowest (L. Brakmo, L. Peterson, "TCP Vegas", 1995; Netflix's
 *             concurrency-limits), by their ratio, but not far below the rate at which answers came meanwhile: that is
 *             what the server can do. It rises only once latency is near that lowest again, so that a queue that has grown
 *             elsewhere drains, and what is taken for the lowest stays true.
 *
 * Pure: time is an argument, µs since the epoch, Redis's. Twin: lua/adaptive.lua.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bucket.h"
#include "core/limit.h"

enum adaptive_mode { ADAPTIVE_AIMD, ADAPTIVE_GRADIENT };

enum {
	ADAPTIVE_TOLERANCE_MAX = 1000,
	ADAPTIVE_SAMPLES_MIN = 5,     /* latencies by which a window is judged */
	ADAPTIVE_SAMPLES_MAX = 65535, /* ... more of one window are left out */
	ADAPTIVE_ERA_WINDOWS =
		60, /* the lowest latency is that of this era of so many windows, and of the one before */
};
#define ADAPTIVE_WINDOW_MIN_US UINT64_C(10000)
#define ADAPTIVE_WINDOW_MAX_US UINT64_C(3600000000)
#define ADAPTIVE_LATENCY_MAX_US UINT64_C(86400000000)

struct adaptive_rule {
	enum adaptive_mode mode;
	uint32_t min, max; /* of the limit: 1..max, ..LIMIT_MAX */
	uint32_t increase; /* 1..LIMIT_MAX: a step up */
	uint8_t decrease;  /* 1..99: per cent that an error takes off */
	uint16_t
		tolerance; /* GRADIENT, 1..ADAPTIVE_TOLERANCE_MAX: per cent by which latency may grow */
	uint64_t window_us; /* ADAPTIVE_WINDOW_MIN_US..ADAPTIVE_WINDOW_MAX_US */
};

/* All zeros: nothing was heard yet, the limit is `max`. */
struct adaptive {
	uint32_t limit;
	uint64_t cut_us;   /* when it last fell; 0: not yet */
	uint64_t since_us; /* the beginning of this window */
	uint64_t sum_us;   /* of this window's latencies ... */
	uint16_t samples;  /* ... and their number */
	uint32_t served;   /* this window's successes */
	uint64_t lowest_us,
		lowest_before_us; /* window's mean latency in this era, in the last one; 0: none */
	uint64_t era_us;          /* the beginning of this era */
};

struct adaptive_outcome {
	bool congested;      /* the server said, or showed, that it was too much */
	bool spent;          /* at least half of what the limit allows at once */
	uint64_t latency_us; /* 0..ADAPTIVE_LATENCY_MAX_US; 0: not known */
};

enum adaptive_change { ADAPTIVE_SAME, ADAPTIVE_RAISED, ADAPTIVE_LOWERED };

/* The limit in force: min..max, whatever the rule was when it was last changed. */
uint32_t adaptive_limit(const struct adaptive *a, const struct adaptive_rule *rule);

/* What became of one request; the limit is one for `per_us`. A clock that went back begins the window anew. */
enum adaptive_change adaptive_feed(struct adaptive *a, const struct adaptive_rule *rule,
				   uint64_t per_us, uint64_t now_us,
				   const struct adaptive_outcome *outcome);

/*
 * `whole`, a token bucket, with the limit `n` (1..whole->limit) instead of its own: its burst shrinks in the same
 * proportion, to no less than 1.
 */
void adaptive_bucket_limit(const struct limit *whole, uint32_t n, struct limit *ret_limit);

/* The limit of `b` changes: the tokens stay, as far as there is room; a larger limit adds room, never tokens. */
void adaptive_bucket_move(struct bucket *b, const struct limit *from, const struct limit *to,
			  uint64_t now_us);
