/*
 * What the limiter adds to a request's trace (trace.h): below the span of its call one for each time that Redis was
 * asked, and one for waiting; and on it what was decided. Of a request that is not traced each of these is one look at a pointer.
 */
#pragma once

#include "engine.h"
#include "trace.h"

void request_trace_asked(struct request_state *s, struct group *g);
void request_trace_told(struct request_state *s, struct group *g, kova_status status,
			const struct script_answer *answer);
void request_trace_stands(struct request_state *s, const char *name);
void request_trace_moves(struct request_state *s);
void request_trace_decided(struct request_state *s, bool by_lease);
void request_trace_abandoned(struct request_state *s);

/* Redis is being asked for the group. */
static inline void traced_ask(struct request_state *s, struct group *g)
{
	if (s->request.trace != NULL)
		request_trace_asked(s, g);
}

/* It has answered; `answer` NULL: it has not. */
static inline void traced_answer(struct request_state *s, struct group *g, kova_status status,
				 const struct script_answer *answer)
{
	if (s->request.trace != NULL)
		request_trace_told(s, g, status, answer);
}

/* It waits from now on, in a queue or for a lease: `name` (a constant) is the span's. */
static inline void traced_wait(struct request_state *s, const char *name)
{
	if (s->request.trace != NULL)
		request_trace_stands(s, name);
}

/* It waits no longer, if it did. */
static inline void traced_move(struct request_state *s)
{
	if (s->request.trace != NULL)
		request_trace_moves(s);
}

static inline void traced_decision(struct request_state *s, bool by_lease)
{
	if (s->request.trace != NULL)
		request_trace_decided(s, by_lease);
}

/* Its caller is gone, and ends the trace. */
static inline void traced_abandon(struct request_state *s)
{
	if (s->request.trace != NULL)
		request_trace_abandoned(s);
}
