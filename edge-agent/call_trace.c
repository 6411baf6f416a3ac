/* The trace of a call over HTTP: the fields `traceparent` and `tracestate`, and what is said of the call itself. */
#include "http_call.h"

/* NULL: its calls are not traced. */
static const char *span_name(http_handler *handle)
{
	static const struct {
		http_handler *handle;
		const char *name;
	} spans[] = {
		{front_limiter_take, "kova.take"},       {front_limiter_check, "kova.take"},
		{front_limiter_peek, "kova.peek"},       {front_limiter_refund, "kova.refund"},
		{front_limiter_acquire, "kova.acquire"}, {front_limiter_release, "kova.release"},
		{front_limiter_renew, "kova.renew"},     {front_limiter_feedback, "kova.feedback"},
		{front_pool_next, "kova.next"},          {front_pool_report, "kova.report"},
	};

	for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++)
		if (spans[i].handle == handle)
			return spans[i].name;
	return NULL;
}

void call_trace_begin(struct http_call *c, const struct http_request *r, http_handler *handle,
		      struct slice route)
{
	const char *name = span_name(handle);
	struct trace_origin origin;

	if (name == NULL)
		return;
	trace_origin_init(&origin);
	for (unsigned i = 0; i < r->n_fields; i++)
		if (http_same_text(r->fields[i].name, SLICE("traceparent")))
			trace_origin_parent(&origin, r->fields[i].value);
		else if (http_same_text(r->fields[i].name, SLICE("tracestate")))
			trace_origin_state(&origin, r->fields[i].value);
	c->trace = trace_begin(call_agent(c), name, &origin);
	if (c->trace == NULL)
		return;
	span_set_text(trace_call(c->trace), "network.protocol.name", SLICE("http"));
	span_set_text(trace_call(c->trace), "http.route", route);
}

void call_trace_answer(struct http_call *c, unsigned status)
{
	span_set_int(trace_call(c->trace), "http.response.status_code", status);
}
