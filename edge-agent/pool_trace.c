#include "pool_trace.h"

#include "pool_own.h"

void pool_trace_asked(struct pool_request *r)
{
	r->span = trace_redis_begin(r->trace, r->service->agent->conf.region);
}

void pool_trace_told(struct pool_request *r, bool answered)
{
	if (r->span == NULL)
		return;
	if (!answered)
		r->span->error = "no answer that can be read";
	trace_span_end(r->trace, r->span);
	r->span = NULL;
}

void pool_trace_stands(struct pool_request *r)
{
	int64_t position = 1;

	if (r->wait_span != NULL)
		return;
	r->wait_span = trace_span_begin(r->trace, "kova.wait", SPAN_INTERNAL);
	if (r->wait_span == NULL)
		return;
	for (const struct pool_request *b = r->before; b != NULL; b = b->before)
		position++;
	span_set_int(r->wait_span, "kova.queue.position", position);
}

static void pool_moves(struct pool_request *r)
{
	if (r->wait_span != NULL)
		trace_wait_end(r->trace, r->wait_span);
	r->wait_span = NULL;
}

static void pool_error(struct span *call, enum pool_error error)
{
	static const char *const kinds[] = {[POOL_NO_ERROR] = "",
					    [POOL_NO_POOL] = "no_pool",
					    [POOL_NO_POLICY] = "no_policy",
					    [POOL_UNKNOWN] = "unknown",
					    [POOL_RANGE] = "out_of_range",
					    [POOL_MALFORMED] = "malformed",
					    [POOL_UNAVAILABLE] = "unavailable"};

	span_set_text(call, "error.type", slice_of(kinds[error]));
	if (error == POOL_UNAVAILABLE)
		call->error = "the pool could not be asked";
}

void pool_trace_decided(struct pool_request *r)
{
	const struct pool_answer *a = &r->answer;
	struct span *call = trace_call(r->trace);

	pool_moves(r);
	if (r->line != NULL)
		span_set_text(call, "kova.pool", slice_of(r->line->name));
	if (a->error != POOL_NO_ERROR) {
		pool_error(call, a->error);
	} else if (r->kind == POOL_ASK_REPORT) {
		span_set_text(call, "kova.pool.outcome", slice_of(pool_outcome_names[r->outcome]));
		span_set_bool(call, "kova.pool.counted", a->counted);
	} else if (a->pause != POOL_NOT_PAUSED) {
		span_set_text(call, "kova.pool.paused", slice_of(a->paused));
		span_set_int(call, "kova.retry_after_ms", a->retry_in_ms);
	} else if (r->kind == POOL_ASK_NEXT) {
		span_set_text(call, "kova.pool.endpoint", slice_of(a->endpoint));
		span_set_int(call, "kova.pool.tier", a->tier);
	}
}

void pool_trace_abandoned(struct pool_request *r)
{
	pool_moves(r);
	trace_abandoned(r->trace);
	r->trace = NULL;
	r->span = NULL;
}
