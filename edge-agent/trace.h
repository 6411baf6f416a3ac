/*
 * The trace of one request, while it is in progress: the span of its call, and below it what it was waited for. Whoever answers
 * the caller begins and ends it; the limiter and the pools add to it. NULL is a request that is not traced, as all are while
 * nothing is configured: each place that could add something looks at that pointer, and does no more.
 *
 * What is never in it: keys, ids, targets, sessions, addresses, tokens. docs/tracing.md has the names.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/span.h"
#include "core/trace_context.h"

struct agent;
struct trace;

enum { TRACE_SPANS_MAX = 32 /* of one trace here; what comes later in it is left out */ };

/* What a caller's fields say of its trace. Begin with trace_origin_init(). */
struct trace_origin {
	struct trace_context parent; /* if `n_parents` is 1 and `is_valid` */
	unsigned n_parents;
	bool is_valid;
	bool state_is_long;
	uint16_t state_len;
	char state[TRACE_STATE_MAX];
};

static inline void trace_origin_init(struct trace_origin *o)
{
	o->n_parents = 0;
	o->is_valid = o->state_is_long = false;
	o->state_len = 0;
}
/* The value of a field `traceparent`, of one `tracestate`, in their order. */
void trace_origin_parent(struct trace_origin *o, struct slice value);
void trace_origin_state(struct trace_origin *o, struct slice value);

/*
 * The trace of a call that begins now; its span is called `name` (a constant). `o` NULL: its caller can't say whose it
 * is. NULL: it is not sampled, or nothing is traced. On the agent's loop.
 */
struct trace *trace_begin(struct agent *a, const char *name, const struct trace_origin *o);
/* Its call has ended: hands it over. NULL is nothing. */
void trace_end(struct trace *t);

/* The span of the call. */
struct span *trace_call(struct trace *t);
/* A span below it, from now on; NULL: there are too many, or no memory. */
struct span *trace_span_begin(struct trace *t, const char *name, enum span_kind kind);
void trace_span_end(const struct trace *t, struct span *s); /* NULL is nothing */

/*
 * A call of the Redis of `region` begins; NULL as above, but it is counted: the span of the call says how many there were.
 */
struct span *trace_redis_begin(struct trace *t, const char *region);
/* The span of waiting, which the span of the call tells of as well. */
void trace_wait_end(struct trace *t, struct span *wait);
/* The caller is gone. */
void trace_abandoned(struct trace *t);

/* For a line of the log; "" of NULL. */
struct trace_id_text {
	char text[TRACE_ID_CHARS + 1];
};
struct trace_id_text trace_id_text(const struct trace *t);
