#include "request_trace.h"

#include "agent.h"

/* ---- Redis ---- */

static const char *region_name(const struct engine *e, const struct site *site)
{
	return site->name != NULL ? site->name : e->agent->conf.region;
}

void request_trace_asked(struct request_state *s, struct group *g)
{
	s->was_asked = true;
	g->span = trace_redis_begin(s->request.trace, region_name(s->engine, s->site));
}

void request_trace_told(struct request_state *s, struct group *g, kova_status status,
			const struct script_answer *answer)
{
	static const char *const outcomes[] = {
		[SCRIPT_REFUSED] = "refused",     [SCRIPT_ALLOWED] = "allowed",
		[SCRIPT_SHADOWED] = "shadowed",   [SCRIPT_REPEATED] = "repeated",
		[SCRIPT_EDGES] = "window passed", [SCRIPT_UNKNOWN] = "unknown",
		[SCRIPT_NEWER] = "newer state",
	};

	if (g->span == NULL)
		return;
	if (status != KOVA_OK || answer == NULL)
		g->span->error = kova_status_text(status);
	else
		span_set_text(g->span, "kova.redis.outcome", slice_of(outcomes[answer->status]));
	trace_span_end(s->request.trace, g->span);
	g->span = NULL;
}

/* ---- Waiting ---- */

void request_trace_stands(struct request_state *s, const char *name)
{
	request_trace_moves(s);
	s->span = trace_span_begin(s->request.trace, name, SPAN_INTERNAL);
	if (s->span != NULL && waiters_is_waiting(s))
		span_set_int(s->span, "kova.queue.position", waiters_position(s));
}

void request_trace_moves(struct request_state *s)
{
	if (s->span != NULL)
		trace_wait_end(s->request.trace, s->span);
	s->span = NULL;
}

/* ---- What was decided ---- */

static const char *decided_by(const struct request_state *s, bool by_lease)
{
	const struct answer *a = &s->request.answer;

	if (by_lease)
		return "lease";
	if (a->error == REQUEST_NO_ERROR && a->reason == REASON_OUTAGE)
		return "outage";
	if (s->was_asked)
		return "redis";
	return a->error == REQUEST_NO_ERROR &&
			       (a->reason == REASON_QUEUE_FULL || a->reason == REASON_WAIT_TIMEOUT)
		       ? "queue"
		       : "configuration";
}

static void tell_error(struct span *call, const struct answer *a)
{
	static const char *const kinds[] = {[REQUEST_NO_ERROR] = "",
					    [REQUEST_MALFORMED] = "malformed",
					    [REQUEST_RANGE] = "out_of_range",
					    [REQUEST_NO_POLICY] = "no_policy",
					    [REQUEST_UNAVAILABLE] = "unavailable"};

	span_set_text(call, "error.type", slice_of(kinds[a->error]));
	if (a->error == REQUEST_UNAVAILABLE)
		call->error = "it could not be decided";
}

static void tell_verdict(struct span *call, const struct request *r)
{
	const struct answer *a = &r->answer;
	char reason[80];
	size_t len = answer_reason(a, reason);

	span_set_bool(call, "kova.allowed", a->allowed);
	span_set_text(call, "kova.reason", (struct slice){reason, len});
	span_set_int(call, "kova.limit", (int64_t)a->limit);
	span_set_int(call, "kova.remaining", (int64_t)a->remaining);
	if (a->policy[0] != '\0')
		span_set_text(call, "kova.policy", slice_of(a->policy));
	if (a->level[0] != '\0')
		span_set_text(call, "kova.level", slice_of(a->level));
	if (!a->allowed)
		span_set_int(call, "kova.retry_after_ms", a->retry_after_ms);
}

void request_trace_decided(struct request_state *s, bool by_lease)
{
	const struct request *r = &s->request;
	struct span *call = trace_call(r->trace);

	request_trace_moves(s);
	/* A look beside a decision (Envoy's rate limit service) says nothing of it. */
	if (r->kind == REQUEST_PEEK && span_attribute(call, "kova.decided_by") != NULL)
		return;
	if (r->answer.error != REQUEST_NO_ERROR)
		tell_error(call, &r->answer);
	else if (request_takes(r) || r->kind == REQUEST_PEEK || r->kind == REQUEST_THROTTLE)
		tell_verdict(call, r);
	span_set_text(call, "kova.decided_by", slice_of(decided_by(s, by_lease)));
	if (r->n_pairs == 0)
		return;
	const struct request_pair *pair =
		&r->pairs[r->answer.pair < r->n_pairs ? r->answer.pair : 0];
	if (request_takes(r)) {
		span_set_int(call, "kova.cost", (int64_t)pair->cost);
		span_set_int(call, "kova.pairs", r->n_pairs);
	}
	if (r->answer.error == REQUEST_NO_ERROR && r->kind != REQUEST_THROTTLE)
		span_set_text(call, "kova.home_region",
			      slice_of(region_name(s->engine, resolve_home(s->engine, pair))));
}

void request_trace_abandoned(struct request_state *s)
{
	request_trace_moves(s);
	trace_abandoned(s->request.trace);
	s->request.trace = NULL;
}
