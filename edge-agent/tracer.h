/*
 * Where spans go: a queue that all loops fill, and a collector that gets it batch by batch, from the owner's loop. The queue is
 * bounded, and nobody waits for a collector: what there is no room for is dropped and counted.
 *
 * A batch leaves when there are TRACER_BATCH spans, else a second after the first. What a collector does not take now (no
 * connection, no answer in time, 429, 502, 503, 504) is sent again, after its Retry-After or with growing pauses, for a minute;
 * what it refuses is not.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "core/span.h"
#include "edge_conf.h"

enum { TRACER_BATCH = 512, TRACER_CLOSE_MS = 2000 };

struct tracer;

/* On the owner's `loop`; `conf` is borrowed, and has an endpoint. NULL: out of memory. */
struct tracer *tracer_new(uv_loop_t *loop, const struct edge_conf *conf);
/*
 * When no more spans come: sends what there is, for TRACER_CLOSE_MS at most, and frees the tracer. `on_closed` comes from
 * the loop when it is gone. NULL is nothing: it comes at once.
 */
void tracer_close(struct tracer *t, void (*on_closed)(void *data), void *data);

/* In millionths: of the requests that come without a trace. Never changes. */
uint32_t tracer_sample(const struct tracer *t);

/* Takes the list of `n` >= 1 spans, made by span_new(), all or none. From any thread. */
void tracer_take(struct tracer *t, struct span *first, struct span *last, unsigned n);

/* All zeros; NULL: out of memory. NULL may be freed. */
struct span *span_new(void);
void span_free(struct span *s);

/* Of spans. */
struct tracer_counters {
	uint64_t exported; /* the collector has them */
	uint64_t dropped;  /* there was no room in the queue */
	uint64_t rejected; /* the collector took the others of their batch */
	uint64_t failed;   /* the collector refused their batch, or could not be reached in time */
	uint64_t queued;   /* now: without an end yet */
};
/* On the owner's loop. */
struct tracer_counters tracer_counters(struct tracer *t);
