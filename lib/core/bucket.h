/*
 * Token bucket. The state is what is missing to full, in µtokens, as of a whole tenth of a second; refilled
 * from then on in whole quanta (limit.quantum_ut each limit.quantum_us, counted from the epoch), so no fraction is lost
 * however often it is asked. Twin of lua/token_bucket.lua.
 */
#pragma once

#include <stdint.h>

#include "core/limit.h"
#include "core/verdict.h"

#define BUCKET_STAMP_US UINT64_C(100000)

/* All zeros: full. */
struct bucket {
	uint64_t debt_ut;  /* a multiple of the scale of the limit it was written under */
	uint64_t stamp_us; /* a multiple of 100 ms */
};

void bucket_init_empty(struct bucket *b, const struct limit *l, uint64_t now_us);

/* Takes `cost` (1..LIMIT_MAX) or nothing. A clock before the state's refills nothing. */
void bucket_take(struct bucket *b, const struct limit *l, uint64_t now_us, uint64_t cost,
		 struct limiter_verdict *ret_verdict);

/*
 * What becomes of `cost` (1..LIMIT_MAX) where `debt_ut` is missing to full: of the limit, its derived numbers of a bucket
 * are looked at. Returns the debt after it.
 */
uint64_t bucket_decide(const struct limit *l, uint64_t now_us, uint64_t debt_ut, uint64_t cost,
		       struct limiter_verdict *ret_verdict);

/* Gives `cost` back, at most up to full. */
void bucket_give(struct bucket *b, const struct limit *l, uint64_t now_us, uint64_t cost);

/* ---- The arithmetic, for leased_bucket.c ---- */

/* What is refilled from `from_us` to `to_us`, no less; at most `most`. */
uint64_t bucket_credit_ut(const struct limit *l, uint64_t from_us, uint64_t to_us, uint64_t most);

/* What is missing to full now. */
uint64_t bucket_debt_ut(const struct bucket *b, const struct limit *l, uint64_t now_us);

/*
 * More debt than this is from before the limit was lowered. It may be above the burst by what a stamp's 100 ms refill, for
 * where the clock goes back, so does the debt: to what it will be when the clock comes there again.
 */
uint64_t bucket_most_ut(const struct limit *l);

/* Makes it so. A state later than now stays so: should the clock come back, nothing is refilled twice. */
void bucket_set_debt(struct bucket *b, const struct limit *l, uint64_t now_us, uint64_t debt_ut);

/* µs from now until `lack_ut` more has been refilled; at most LIMIT_FOREVER_US. The limit is not 0. */
uint64_t bucket_time_us(const struct limit *l, uint64_t now_us, uint64_t lack_ut);
