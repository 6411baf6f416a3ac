#include "feedback.h"

#include "core/retry_after.h"
#include "engine.h"
#include "io/log.h"
#include "leases.h"

enum request_error feedback_check(struct request_state *s, const char **ret_message)
{
	struct request_feedback *f = &s->request.feedback;
	kova_status status = KOVA_OK;

	if (s->request.kind != REQUEST_FEEDBACK)
		return REQUEST_NO_ERROR;
	f->hold_us = 0;
	if (f->retry_after.ptr != NULL)
		status = retry_after_parse(f->retry_after, region_now_us(s->engine->region),
					   &f->hold_us);
	f->retry_after = (struct slice){0}; /* borrowed no longer */
	if (status == KOVA_EPROTO) {
		*ret_message = "retry-after must be a number of seconds, decimals allowed, or an "
			       "HTTP-date as "
			       "'Sun, 06 Nov 1994 08:49:37 GMT'";
		return REQUEST_MALFORMED;
	}
	if (status != KOVA_OK) {
		*ret_message = "retry-after must be 0 to 86400 seconds from now (24 hours)";
		return REQUEST_RANGE;
	}
	if (f->has_remaining && f->remaining == 0 && f->reset_ms * 1000 > f->hold_us)
		f->hold_us = f->reset_ms * 1000;
	return REQUEST_NO_ERROR;
}

void feedback_begins(struct request_state *s)
{
	const struct request_feedback *f = &s->request.feedback;

	if (f->hold_us > 0 || f->has_remaining)
		leases_drop(s->engine->leases, s->checks[0].policy, s->request.pairs[0].key);
}

void feedback_heard(struct request_state *s, enum breaker_change change)
{
	const struct policy *p = s->checks[0].policy;
	const struct request_pair *q = &s->request.pairs[0];
	struct policy_counts *counts = engine_counts(s->engine, p);

	if (s->request.feedback.ok)
		counts->feedback_ok++;
	else
		counts->feedback_error++;
	counts->feedback_holds += s->request.feedback.hold_us > 0;
	if (change == BREAKER_OPENED) {
		counts->breaker_opened++;
		log_event(LOG_WARN, "breaker_opened", "a key's circuit breaker has opened",
			  LOG_TEXT_FIELD("policy", p->name));
	} else if (change == BREAKER_CLOSED) {
		counts->breaker_closed++;
		log_event(LOG_INFO, "breaker_closed", "a key's circuit breaker has closed",
			  LOG_TEXT_FIELD("policy", p->name));
		waiters_wake(s->engine->waiters, q->policy, q->key);
	}
}
