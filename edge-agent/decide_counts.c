/* What a decision counts as: in its policies' metrics and in what its keys consumed. */
#include "control/catalogue.h"
#include "engine.h"
#include "usage.h"

static int64_t usage_now_ms(const struct request_state *s)
{
	return (int64_t)(region_now_us(s->engine->own->region) / 1000);
}

static void count_usage(struct request_state *s, const struct request_pair *q, int64_t now_ms)
{
	enum usage_outcome outcome = !s->request.answer.allowed ? USAGE_REFUSED
				     : s->has_waited            ? USAGE_ADMITTED_LATE
								: USAGE_ADMITTED;

	if (!s->is_repeat) /* it was charged, and counted, before */
		usage_add(s->engine->usage, q->policy, q->key, outcome, q->cost, now_ms);
}

static void count_pair(struct request_state *s, const struct request_pair *q, int64_t now_ms)
{
	const struct policy *p = catalogue_policy(s->catalogue, q->policy);
	const struct answer *a = &s->request.answer;

	if (p == NULL)
		return;
	struct policy_counts *counts = engine_counts(s->engine, p);

	if (a->reason == REASON_OUTAGE)
		counts->outage++;
	else if (a->reason == REASON_SHADOW)
		counts->shadow++;
	else if (a->allowed)
		counts->allowed++;
	else
		counts->refused++;
	if (a->allowed && s->has_waited)
		counts->waited++;
	counts->banned += a->reason == REASON_BANNED;
	counts->held += a->reason == REASON_HELD;
	counts->breaker_open += a->reason == REASON_BREAKER_OPEN;
	counts->queue_full += a->reason == REASON_QUEUE_FULL;
	counts->wait_timeouts += a->reason == REASON_WAIT_TIMEOUT;
	count_usage(s, q, now_ms);
}

void request_count(struct request_state *s)
{
	const struct request *r = &s->request;
	int64_t now_ms = usage_now_ms(s);

	s->engine->home.decisions++;
	s->engine->home.far += s->asked_far;
	for (uint8_t i = 0; i < r->n_pairs; i++)
		if (r->answer.allowed || r->answer.policy[0] == '\0' ||
		    slice_equal(r->pairs[i].policy, slice_of(r->answer.policy)))
			count_pair(s, &r->pairs[i], now_ms);
}

void request_count_abandoned(struct request_state *s, bool charged)
{
	for (uint8_t i = 0; i < s->request.n_pairs && s->catalogue != NULL; i++) {
		const struct request_pair *q = &s->request.pairs[i];
		const struct policy *p = catalogue_policy(s->catalogue, q->policy);

		if (p == NULL)
			continue;
		engine_counts(s->engine, p)->abandoned++;
		if (charged)
			count_usage(s, q, usage_now_ms(s));
	}
}
