#include "waiters_own.h"

/* The queue's own limit has not refused anybody: its first waiter waits for another one as well. */
static void refusal_by_others(const struct request_state *s, uint8_t pair, struct answer *a)
{
	const struct script_answer unknown = {.wait_us = (int64_t)WAIT_RETRY_MAX_MS * 1000};
	const struct check_ref *ref = s->checks;

	for (uint16_t i = 0; i < s->n_checks; i++)
		if (s->checks[i].pair == pair)
			ref = &s->checks[i];
	resolve_answer(a, ref, &unknown, false);
}

/* As its first waiter was told, if he was; under a limit not before the queue is tried next, which may be for others. */
static int64_t time_left_ms(const struct wait_line *l, const struct answer *a, uint64_t now_ms)
{
	bool tries = l->try_at.place > 0 && l->try_at.at > now_ms;
	int64_t next_ms = tries ? (int64_t)(l->try_at.at - now_ms) : 0, ms = a->retry_after_ms;

	if (l->refusal.policy[0] == '\0' && tries)
		ms = next_ms;
	if (a->reason != REASON_HELD && a->reason != REASON_BREAKER_OPEN && ms < next_ms)
		ms = next_ms;
	return ms < 1 ? 1 : ms;
}

void waiters_refusal(const struct request_state *s, struct answer *a)
{
	const struct waiters *w = s->engine->waiters;
	const struct request *r = &s->request;
	uint64_t now_ms = uv_now(w->engine->loop);

	for (uint8_t i = 0; i < r->n_pairs; i++) {
		const struct request_pair *pair = &r->pairs[i];
		const struct wait_queue *q = queue_find(w, pair->policy, pair->key);
		size_t at = 0;
		const struct wait_line *l =
			q != NULL ? q->line : line_above(w, pair->policy, pair->key, &at);

		if (l == NULL)
			continue;
		*a = l->refusal;
		if (a->policy[0] == '\0')
			refusal_by_others(s, i, a);
		else
			answer_age(a, now_ms - l->refused_ms);
		a->retry_after_ms = a->more_after_ms = time_left_ms(l, a, now_ms);
		a->allowed = false;
		if (a->reason != REASON_HELD && a->reason != REASON_BREAKER_OPEN)
			a->reason = REASON_LIMITED;
		return;
	}
}
