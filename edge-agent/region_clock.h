/*
 * The clocks of a region: this agent's own, and what is known of Redis's, of each shard by itself. Makes what goes with
 * every call (core/script.h), learns from every answer, and says so when the clocks differ: a log line, counters.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/clock_offset.h"
#include "core/hlc.h"
#include "core/script.h"

enum { REGION_PEER_BYTES = 96 };

struct shard_clock;

/* region_clock_init() before, region_clock_release() after. */
struct region_clock {
	uint64_t max_skew_us, patience_us;
	bool by_shard; /* peers have numbers */
	const char *
		far; /* borrowed: the name of the region, if it is another; NULL: it is the own one */
	struct hlc hlc;
	struct shard_clock *shards; /* as many as were asked so far */
	unsigned n_shards;
	bool heard;
	uint64_t heard_boot_us;  /* CLOCK_BOOTTIME of the last answer */
	int64_t redis_offset_us; /* Redis's clock, of the shard heard last, minus CLOCK_BOOTTIME */
	uint64_t leaps, refusals;
};

/* `patience_ms`: how long an answer is waited for. */
void region_clock_init(struct region_clock *c, uint64_t max_skew_ms, uint64_t patience_ms,
		       bool by_shard);
void region_clock_release(struct region_clock *c);

/* What goes with a call to `shard` that leaves now, and now. */
struct script_call region_clock_call(struct region_clock *c, unsigned shard,
				     struct clock_reading *ret_sent);

/*
 * The answer to a call that left at `sent`: what Redis's clock said, and whether it refused to refill. That counts where the
 * clocks differ, not where the call was held up on its way.
 */
void region_clock_hear(struct region_clock *c, unsigned shard, const struct clock_reading *sent,
		       uint64_t redis_us, bool refill_refused);

/* Redis's clock, as last heard and carried on by CLOCK_BOOTTIME; before that, our wall clock. */
uint64_t region_clock_now_us(const struct region_clock *c);

/* How logs and metrics call a shard: "redis", in a Cluster with its number, elsewhere with its region. Returns `ret_name`. */
const char *region_clock_peer(const struct region_clock *c, unsigned shard,
			      char ret_name[REGION_PEER_BYTES]);

/* What is known of a shard's clock, for people. */
struct region_skew {
	bool known;
	bool refused; /* nothing was refilled in the last call, and our clock was not set since */
	int64_t us;   /* its clock minus ours */
	uint64_t heard_us; /* CLOCK_BOOTTIME of its last answer; 0: none */
};
/* `shard` < c->n_shards */
struct region_skew region_clock_skew(const struct region_clock *c, unsigned shard);
