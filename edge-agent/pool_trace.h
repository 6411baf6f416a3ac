/* What a pool adds to a request's trace, as request_trace.h does for the limiter. */
#pragma once

#include "pool_request.h"
#include "trace.h"

void pool_trace_asked(struct pool_request *r);
void pool_trace_told(struct pool_request *r, bool answered);
void pool_trace_stands(struct pool_request *r);
void pool_trace_decided(struct pool_request *r);
void pool_trace_abandoned(struct pool_request *r);

/* It is asked for with the next call of the script. */
static inline void traced_pool_ask(struct pool_request *r)
{
	if (r->trace != NULL)
		pool_trace_asked(r);
}

/* Its answer is there, or (not `answered`) there is none. */
static inline void traced_pool_answer(struct pool_request *r, bool answered)
{
	if (r->trace != NULL)
		pool_trace_told(r, answered);
}

/* It waits from now on, if it did not yet. */
static inline void traced_pool_wait(struct pool_request *r)
{
	if (r->trace != NULL)
		pool_trace_stands(r);
}

static inline void traced_pool_decision(struct pool_request *r)
{
	if (r->trace != NULL)
		pool_trace_decided(r);
}

/* Its caller is gone, and ends the trace. */
static inline void traced_pool_abandon(struct pool_request *r)
{
	if (r->trace != NULL)
		pool_trace_abandoned(r);
}
