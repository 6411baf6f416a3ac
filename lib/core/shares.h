/*
 * What the active children of a parent bucket have of it, where their level has a weight: weighted max-min fairness.
 *
 * The parent's tokens are split into a reserve for each child, and what is free. New tokens go into the reserves by
 * weight, each up to its part of the burst, and are free once all are full; a child takes what is
 * free, then from its reserve. So each child is guaranteed its weighted share while it asks, lends what it leaves (in the terms of HTB, Devera
 * 2002: rate and borrowing; the fluid ideal is generalised processor sharing, Parekh and Gallager 1993), and one that is
 * alone has all. Nothing here adds tokens: the parent's own bound is what it is without.
 *
 * Amounts are in µtokens, as whole numbers in doubles, with the operations of the twin lua/shares.lua in its order: quotients that
 * are rounded must be rounded alike. The scripts serve the agents; this one is what the properties are tested on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bucket.h"
#include "core/limit.h"
#include "core/verdict.h"

enum {
	SHARES_MAX = 64, /* children with a reserve at a time; of more, those that asked last */
	SHARE_WEIGHT_MAX = 1000000, /* from 1 */
};
#define SHARES_IDLE_MIN_US UINT64_C(10000000)
#define SHARES_IDLE_MAX_US UINT64_C(3600000000)

/* Who asks. */
struct share_claim {
	uint64_t id;     /* of the child, among those of its parent */
	uint32_t weight; /* 1..SHARE_WEIGHT_MAX; 0: no claim */
	uint32_t
		most; /* tokens that the child could use at once, 1..LIMIT_MAX: no more is reserved for it */
};

struct share {
	struct share_claim claim;
	double reserve_ut;
	uint64_t asked_s;
};

/* All zeros: nobody asked lately. */
struct shares {
	struct share child[SHARES_MAX];
	unsigned n;
	/* Of the last settlement: */
	double sum_ut, free_ut, cap_ut, all_caps_ut;
	double caps_ut[SHARES_MAX];
	bool settled;
	bool changed; /* beyond what another settlement would find again: to be kept. Set, never cleared */
};

/* How long a child counts as active after it asked: the parent's time from empty to full, 10 s at least, 1 h at most. */
uint64_t shares_idle_us(const struct limit *parent);

/*
 * `claim` takes `cost` (1..LIMIT_MAX) from the parent's bucket, or nothing. A refusal's wait is enough, if nobody
 * else asks meanwhile; the remaining tokens are those of the claim.
 */
void shares_take(struct shares *p, struct bucket *b, const struct limit *l, uint64_t now_us,
		 const struct share_claim *claim, uint64_t cost,
		 struct limiter_verdict *ret_verdict);
