/*
 * A region's part of a global token bucket, with leases: a bucket whose rate and burst change in time, by the plan of the
 * region's share. Tokens and what is outstanding never exceed the burst of the piece that is in force, at any
 * instant; a share that grows adds room, never tokens; one that shrinks takes what is above it. Refill is piecewise over the
 * pieces and the ends of the leases (docs/global.md).
 *
 * In each piece whole quanta are counted from the epoch, the first whole one after its begin: a change of the share loses
 * part of a quantum and gains none.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/limit.h"
#include "core/outstanding.h"
#include "core/share_plan.h"

/* All zeros: absent. It is what it would be had it been full when the plan begins. */
struct shared_bucket {
	uint64_t clock; /* the plan's when it was written; 0: absent */
	uint64_t at_us;
	uint64_t tokens_ut;
	struct outstanding leases;
};

/* The key's limit (whole, of limit_init()), the region's share of it, and how long a lease may at most count. */
struct shared_bucket_terms {
	const struct limit *limit;
	const struct share_plan *plan;
	uint64_t lease_max_us;
};

/* µtokens that may be taken now. Times that go back refill nothing. */
uint64_t shared_bucket_tokens_ut(struct shared_bucket *b, const struct shared_bucket_terms *t,
				 uint64_t now_us);

/* Takes `cost` (1..LIMIT_MAX) or nothing. */
bool shared_bucket_take(struct shared_bucket *b, const struct shared_bucket_terms *t,
			uint64_t now_us, uint64_t cost);

/*
 * Takes `amount` (1..LIMIT_MAX) for the lease `id`, which counts until `end_us`: at most lease_max_us from now, and not later
 * than region_share_lease_end_us(). False: nothing is taken, for there is less, too many leases, or one of that id.
 */
bool shared_bucket_lease(struct shared_bucket *b, const struct shared_bucket_terms *t,
			 uint64_t now_us, uint64_t id, uint64_t amount, uint64_t end_us);

/* Ends the lease `id`; gives `back` tokens back, at most its amount. False: there is none, nothing changes. */
bool shared_bucket_unlease(struct shared_bucket *b, const struct shared_bucket_terms *t,
			   uint64_t now_us, uint64_t id, uint64_t back);
