/*
 * Token bucket with leases: tokens that a holder took to spend by itself until the lease's end. What is missing to full
 * includes what is outstanding, and never falls below it: tokens and outstanding together never exceed the burst. So
 * refill is piecewise (docs/leases.md). Twin of lua/leased_bucket.lua, which serves the agents; this one is what the
 * proof is tested on.
 *
 * `doubted`: the agent's clock and Redis's differ, and nothing is refilled (lua/prelude.lua); what is there may be taken.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bucket.h"
#include "core/limit.h"
#include "core/outstanding.h"
#include "core/verdict.h"

/* All zeros: full. */
struct leased_bucket {
	struct bucket bucket;
	struct outstanding leases;
	bool is_exact; /* its stamp is the instant, not of 100 ms: with leases, and in doubt */
};

struct leased_bucket_request {
	uint64_t cost;    /* 1..LIMIT_MAX: the least that is granted */
	uint64_t amount;  /* 0..LIMIT_MAX: the most, should it be more than the cost */
	uint64_t sharers; /* at least 1: no more than what is there divided by this, or the cost */
	uint64_t id;
	uint64_t hold_us; /* from now until it ends by itself */
};

/* Takes `cost` (1..LIMIT_MAX) or nothing. The verdict's times are too long if a lease is returned early. */
void leased_bucket_take(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			bool doubted, uint64_t cost, struct limiter_verdict *ret_verdict);

/*
 * Grants a lease or nothing. *ret_granted: its amount. False: an ordinary take of the cost, for the bucket remembers no
 * more leases or has one of this id; or nothing, if the verdict says so.
 */
bool leased_bucket_lease(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			 bool doubted, const struct leased_bucket_request *r, uint64_t *ret_granted,
			 struct limiter_verdict *ret_verdict);

/* Ends the lease `id`; gives `back` tokens of it back, at most its amount. False: no such lease, nothing is changed. */
bool leased_bucket_unlease(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			   bool doubted, uint64_t id, uint64_t back, uint64_t *ret_given);

/* Gives `cost` back, at most up to full without what is outstanding. Returns how much, rounded up to a token. */
uint64_t leased_bucket_give(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			    bool doubted, uint64_t cost);
