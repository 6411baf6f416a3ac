#include "feedback.h"

#include "core/retry_after.h"
#include "engine.h"
#include "event_kinds.h"
#include "io/log.h"
#include "lease_terms.h"
#include "leases.h"

enum { REQUEST_TIMEOUT = 408, TOO_MANY_REQUESTS = 429, SERVICE_UNAVAILABLE = 503 };

/*
 * What the status adds to OK or ERROR. 429 and 5xx are failures whatever the word says, but 429 and 503 with a Retry-After
 * are an answer in good order: it holds the key. Too much was asked for by 429 and 5xx, with or without it, and by an
 * ERROR without an answer; an ERROR with any other status is about that one request.
 */
static void judge(struct request_feedback *f, bool has_retry_after)
{
	bool refused = f->status == TOO_MANY_REQUESTS || f->status == SERVICE_UNAVAILABLE;
	bool broken = f->status >= 500;

	f->failed = !f->ok || (refused ? !has_retry_after : broken);
	f->congested =
		refused || broken || (!f->ok && (f->status == 0 || f->status == REQUEST_TIMEOUT));
}

enum request_error feedback_check(struct request_state *s, const char **ret_message)
{
	struct request_feedback *f = &s->request.feedback;
	kova_status status = KOVA_OK;

	if (s->request.kind != REQUEST_FEEDBACK)
		return REQUEST_NO_ERROR;
	f->hold_us = 0;
	judge(f, f->retry_after.ptr != NULL);
	if (f->retry_after.ptr != NULL)
		status =
			retry_after_parse(f->retry_after, site_now_us(s->engine->own), &f->hold_us);
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

	const struct policy *p = s->checks[0].policy;

	if (lease_terms_may_be_warm(p))
		policy_stats_feedback(p->stats, true);
	if (f->hold_us > 0 || f->has_remaining)
		leases_drop(s->engine->leases, p, s->request.pairs[0].key);
}

static void limit_changed(const struct policy *p, struct policy_counts *counts,
			  const struct script_answer *said)
{
	enum adaptive_change change = script_fed_adaptive(said->amount);

	counts->adaptive_raised += change == ADAPTIVE_RAISED;
	counts->adaptive_lowered += change == ADAPTIVE_LOWERED;
	if (change == ADAPTIVE_LOWERED)
		log_event(LOG_INFO, "limit_lowered", "a key's adaptive limit has fallen",
			  LOG_TEXT_FIELD("policy", p->name),
			  LOG_INT_FIELD("limit", (int64_t)said->limit));
	else if (change == ADAPTIVE_RAISED && said->limit == p->adaptive.max)
		log_event(LOG_INFO, "limit_restored", "a key's adaptive limit is at its most",
			  LOG_TEXT_FIELD("policy", p->name),
			  LOG_INT_FIELD("limit", (int64_t)said->limit));
}

void feedback_heard(struct request_state *s, const struct script_answer *said)
{
	enum breaker_change change = script_fed_breaker(said->amount);
	const struct policy *p = s->checks[0].policy;
	const struct request_pair *q = &s->request.pairs[0];
	struct policy_counts *counts = engine_counts(s->engine, p);

	if (s->request.feedback.failed)
		counts->feedback_error++;
	else
		counts->feedback_ok++;
	counts->feedback_holds += s->request.feedback.hold_us > 0;
	limit_changed(p, counts, said);
	if (script_fed_adaptive(said->amount) == ADAPTIVE_RAISED)
		waiters_wake(s->engine->waiters, q->policy, q->key);
	if (change == BREAKER_OPENED) {
		counts->breaker_opened++;
		log_event(LOG_WARN, "breaker_opened", "a key's circuit breaker has opened",
			  LOG_TEXT_FIELD("policy", p->name));
		event_breaker(s->engine->agent, "breaker_opened", p->name);
	} else if (change == BREAKER_CLOSED) {
		counts->breaker_closed++;
		log_event(LOG_INFO, "breaker_closed", "a key's circuit breaker has closed",
			  LOG_TEXT_FIELD("policy", p->name));
		event_breaker(s->engine->agent, "breaker_closed", p->name);
		waiters_wake(s->engine->waiters, q->policy, q->key);
	}
}
