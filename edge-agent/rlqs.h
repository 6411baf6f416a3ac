/*
 * Envoy's rate limit quota service on one loop: streams on which clients report what they were asked and are told what they
 * may admit. Buckets, one a domain and id, are bound to policies and keys; what all clients of a bucket need is leased in
 * one call (allot.h) and split among them (core/allowance.h). docs/protocol-grpc.md has the users' side.
 *
 *   front_rlqs.c    streams: reports come, actions go
 *   rlqs.c          buckets and subscriptions; the timer
 *   rlqs_bind.c     the policies and keys of a bucket
 *   rlqs_round.c    what the clients of a bucket are told
 *   rlqs_metrics.c  what was counted
 */
#pragma once

#include <stdint.h>

#include "core/bytes.h"

struct agent;
struct rlqs;

enum {
	RLQS_STREAMS_MAX = 1024,       /* of a loop */
	RLQS_STREAM_BUCKETS_MAX = 512, /* of a stream: a report of so many fits into a message */
	RLQS_BUCKETS_MAX = 65536,      /* subscriptions of a loop */
	RLQS_REPORTS_AHEAD = 1024,     /* messages that a stream may send in advance ... */
	RLQS_REPORTS_PER_S = 100,      /* ... and so many more a second */
};

/* `a` (borrowed) has its loop, control and engine. NULL: out of memory. */
struct rlqs *rlqs_new(struct agent *a);
/* On its loop, before the engine is closed: no stream is open any more. It is gone with its timer. NULL is nothing. */
void rlqs_close(struct rlqs *r);

/* Of a loop, in its `ops`. */
struct rlqs_counters {
	uint64_t streams, buckets;                     /* open; subscribed to */
	uint64_t reports;                              /* of a bucket */
	uint64_t allowances, allows, denies, abandons; /* told */
	uint64_t granted;                              /* requests, by allowances */
	uint64_t unassigned;                           /* admitted without an allowance */
	uint64_t too_many, unusable, unleasable, flooded, stalled;
};

struct metrics_writer;
void rlqs_metrics_write(struct metrics_writer *w, const struct rlqs_counters *n);
