/*
 * An engine without Redis for the tests of the fronts: it defines what request.h and agent.h
 * promise of the engine, so that the linker does not look for the real one. Include it in one file
 * of a test.
 *
 * What it answers is read off the first pair's key:
 *   "later…"    nothing until fake_answer_all() or fake_answer()
 *   "refuse…"   refused, limited:user, retry after 1500 ms
 *   "never…"    refused, retry −1
 *   anything else: allowed; remaining counts 0, 1, 2, … over all requests
 * and off the policy: "nope" is none; "malformed", "range" and "down" are those errors.
 */
#pragma once

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "engine_life.h"
#include "fake_engine_numbers.h"
#include "request.h"

enum { FAKE_REQUESTS_MAX = 8192, FAKE_TEXT_MAX = 2048 };

struct fake_request {
	struct request request; /* first: the two convert into each other */
	struct request *next;   /* in engine.later */
};

struct engine {
	unsigned live;      /* allocated and not freed */
	unsigned decided;   /* calls of decide() */
	unsigned abandoned; /* calls of request_abandon() */
	unsigned max;       /* more than so many live ones: request_new() gives NULL */
	unsigned answered;
	struct request *later;    /* list, oldest first */
	char last[FAKE_TEXT_MAX]; /* what decide() was given last, as text */
};

static inline bool fake_starts(struct slice s, const char *with)
{
	return s.len >= strlen(with) && memcmp(s.ptr, with, strlen(with)) == 0;
}

/* The one that was put off after `r`. */
static inline struct request **fake_next(struct request *r)
{
	return &((struct fake_request *)r)->next;
}

struct request *request_new(struct engine *e)
{
	struct request *r;

	if (e->max != 0 && e->live >= e->max)
		return NULL;
	r = calloc(1, sizeof(struct fake_request));
	assert(r != NULL);
	r->refund_amount = -1;
	e->live++;
	return r;
}

/* The only engine of the process: request_free() is not told which. */
static struct engine fake;

void request_free(struct request *r)
{
	assert(fake.live > 0);
	fake.live--;
	free(r);
}

static inline void fake_describe(const struct request *r)
{
	size_t n = (size_t)snprintf(fake.last, sizeof fake.last, "%d", (int)r->kind);

	for (unsigned i = 0; i < r->n_pairs && n < sizeof fake.last; i++)
		n += (size_t)snprintf(fake.last + n, sizeof fake.last - n, " %.*s/%.*s*%llu",
				      (int)r->pairs[i].policy.len, r->pairs[i].policy.ptr,
				      (int)r->pairs[i].key.len, r->pairs[i].key.ptr,
				      (unsigned long long)r->pairs[i].cost);
	n += (size_t)snprintf(fake.last + n, sizeof fake.last - n,
			      " wait=%llu id=%.*s receipt=%d permit=%.*s refund=%.*s:%lld "
			      "throttle=%lld,%lld,%lld,%lld",
			      (unsigned long long)r->wait_ms, (int)r->id.len, r->id.ptr,
			      r->want_receipt, (int)r->permit.len, r->permit.ptr,
			      (int)r->receipt.len, r->receipt.ptr, (long long)r->refund_amount,
			      (long long)r->throttle.max_burst, (long long)r->throttle.count,
			      (long long)r->throttle.period_s, (long long)r->throttle.quantity);
	if (r->kind == REQUEST_FEEDBACK)
		snprintf(fake.last + n, sizeof fake.last - n, " feedback=%d,%.*s,%lld,%llu",
			 r->feedback.ok, (int)r->feedback.retry_after.len,
			 r->feedback.retry_after.ptr,
			 r->feedback.has_remaining ? (long long)r->feedback.remaining : -1,
			 (unsigned long long)r->feedback.reset_ms);
}

static inline void fake_error(struct request *r, enum request_error error, const char *text)
{
	r->answer.error = error;
	snprintf(r->answer.message, sizeof r->answer.message, "%s", text);
}

static inline void fake_verdict(struct request *r)
{
	struct answer *a = &r->answer;
	struct slice key = r->n_pairs > 0 ? r->pairs[0].key : SLICE("");

	a->limit = 20;
	a->reset_after_ms = 2001;
	a->amount = r->refund_amount >= 0 ? r->refund_amount : 1;
	if (fake_starts(key, "refuse") || fake_starts(key, "never")) {
		a->retry_after_ms = fake_starts(key, "never") ? -1 : 1500;
		a->reason = REASON_LIMITED;
		snprintf(a->level, sizeof a->level, "user");
		return;
	}
	a->allowed = true;
	a->remaining = fake.answered++;
	if (r->want_receipt)
		a->receipt = SLICE("receipt-1");
	if (r->kind == REQUEST_ACQUIRE) {
		a->permit = SLICE("permit-1");
		a->hold_ms = 10000;
	}
}

static inline void fake_answer_one(struct request *r)
{
	struct slice policy = r->n_pairs > 0 ? r->pairs[0].policy : SLICE("");

	if (slice_equal(policy, SLICE("nope")))
		fake_error(r, REQUEST_NO_POLICY, "no policy 'no\r\npe'");
	else if (slice_equal(policy, SLICE("malformed")))
		fake_error(r, REQUEST_MALFORMED, "use KOVA.ACQUIRE");
	else if (slice_equal(policy, SLICE("range")))
		fake_error(r, REQUEST_RANGE, "a key must have 1 to 1024 bytes");
	else if (slice_equal(policy, SLICE("down")))
		fake_error(r, REQUEST_UNAVAILABLE, "the store can't be reached");
	else
		fake_verdict(r);
	r->on_done(r);
}

void decide(struct engine *e, struct request *r)
{
	struct request **at = &e->later;

	e->decided++;
	fake_describe(r);
	if (r->n_pairs == 0 || !fake_starts(r->pairs[0].key, "later")) {
		fake_answer_one(r);
		return;
	}
	r->pairs[0].policy = SLICE("p"); /* as the engine does: borrowed until decide() returns */
	r->pairs[0].key = SLICE("k");
	while (*at != NULL)
		at = fake_next(*at);
	*at = r;
}

/* Answers the i-th of those that were put off, the oldest being 0. */
static inline void fake_answer(unsigned i)
{
	struct request **at = &fake.later;
	struct request *r;

	for (; i > 0; i--)
		at = fake_next(*at);
	r = *at;
	*at = *fake_next(r);
	fake_answer_one(r);
}

static inline void fake_answer_all(void)
{
	while (fake.later != NULL)
		fake_answer(0);
}

void request_abandon(struct request *r)
{
	struct request **at = &fake.later;

	while (*at != r)
		at = fake_next(*at);
	*at = *fake_next(r);
	fake.abandoned++;
	request_free(r);
}

size_t answer_reason(const struct answer *a, char ret_text[static 80])
{
	return (size_t)snprintf(ret_text, 80, a->reason == REASON_LIMITED ? "limited:%s" : "ok",
				a->level);
}

uint64_t engine_outage_full(const struct engine *e)
{
	(void)e;
	return 0;
}

struct engine_health engine_health(const struct engine *e)
{
	return (struct engine_health){.shards = 1, .shards_up = 1, .requests = e->live};
}

struct redis_counters engine_redis_counters(const struct engine *e)
{
	(void)e;
	return (struct redis_counters){0};
}
