/*
 * A caller who waits says so to Redis with all that he asks: by which loop, since when, how many stand in his queue there. So the
 * script gives a permit to the one whose turn it is among all loops, refuses newcomers meanwhile, and knows when a queue is full
 * (lua/turns.lua). He says it first when he has joined (waiters_enter). Unless he leaves with what he waited for, by his turn, or if
 * the catalogue changes, it is taken back. Who does not wait says nothing, and costs Redis what he did.
 */
#include "control/control.h"
#include "waiters_own.h"

enum { CLOCK_BACK_US = 1000000 };

void waiter_arrives(struct request_state *s)
{
	struct waiters *w = s->engine->waiters;
	uint64_t now_us = site_now_us(s->site);

	/* No two of a loop at the same time, unless the clock was set back. */
	if (now_us <= w->last_arrival_us && now_us + CLOCK_BACK_US > w->last_arrival_us)
		now_us = w->last_arrival_us + 1;
	s->waiter.arrival_us = w->last_arrival_us = now_us;
}

static struct wait_place *place_of_pair(const struct request_state *s, uint8_t pair)
{
	for (uint8_t i = 0; i < s->waiter.n_places; i++)
		if (s->waiter.places[i].pair == pair)
			return &s->waiter.places[i];
	return NULL;
}

/* The check by which the callers of its pair are counted. */
static bool is_last_of_pair(const struct request_state *s, const struct group *g, uint16_t check)
{
	return check + 1 == g->n_checks ||
	       s->checks[g->first_check + check].pair != s->checks[g->first_check + check + 1].pair;
}

static uint64_t size_of(const struct wait_place *p)
{
	uint64_t size = p->cost * FAIR_QUEUE_WEIGHT_MAX / p->queue->flow.weight;

	return size < 1 ? 1 : size < TURN_SIZE_MAX ? size : TURN_SIZE_MAX;
}

static uint64_t most_ms(const struct request_state *s)
{
	return s->wants_permit ? WAIT_PERMIT_RETRY_MS : WAIT_RETRY_MAX_MS;
}

static struct turn_claim claim_of(const struct request_state *s, const struct wait_place *p)
{
	const struct waiter *waiter = &s->waiter;
	uint64_t now_ms = uv_now(s->engine->loop);
	uint64_t left_ms = waiter->deadline.at > now_ms ? waiter->deadline.at - now_ms : 0;

	return (struct turn_claim){.loop = s->engine->waiters->loop_id,
				   .flow = p->queue->named.hash,
				   .arrival_us = waiter->arrival_us,
				   .start = p->asked_by != NULL ? p->start : p->queue->flow.start,
				   .size = size_of(p),
				   .n = p->queue->n,
				   .left_us = left_ms * 1000,
				   .retry_us = most_ms(s) * 1000,
				   .is_new = !p->queue->line->is_known,
				   .joins = waiter->joins,
				   .behind = waiter->behind};
}

void waiters_claim(struct request_state *s, const struct group *g)
{
	if (!waiters_is_waiting(s))
		return;
	s->waiter.told = true;
	for (uint16_t i = 0; i < g->n_checks; i++) {
		const struct check_ref *ref = &s->checks[g->first_check + i];
		struct wait_place *p = place_of_pair(s, ref->pair);
		struct turn_claim *claim = &s->engine->scratch[i].turn;

		if (p == NULL)
			continue;
		*claim = claim_of(s, p);
		if (is_last_of_pair(s, g, i)) {
			claim->most = ref->policy->wait_max_queue;
			p->queue->counted_ms = uv_now(s->engine->loop);
		}
	}
}

/* By what was answered last. */
static bool is_in_line(const struct group *g)
{
	const struct script_answer *said = &g->answer;

	if (g->status != KOVA_OK)
		return true;
	return said->status != SCRIPT_ALLOWED && said->status != SCRIPT_SHADOWED &&
	       said->why != SCRIPT_QUEUE_FULL;
}

void waiter_withdraws(struct request_state *s)
{
	struct script_op op;

	if (s->engine->closing || !s->waiter.told)
		return;
	for (uint8_t i = 0; i < s->n_groups; i++) {
		struct group *g = &s->groups[i];

		if (!is_in_line(g) || !request_can_ask(s, g) || !resolve_operation(s, g, &op))
			continue;
		op.kind = SCRIPT_LEAVE;
		op.id_key = op.receipt_key = op.permit = (struct slice){0};
		waiters_claim(s, g);
		for (uint16_t j = 0; j < g->n_checks; j++)
			if (s->engine->scratch[j].turn.n > 0)
				s->engine->scratch[j].turn.n--;
		request_submit_aside(s, g, &op);
	}
	s->waiter.told = false;
}

void queue_count(struct waiters *w, struct wait_queue *q)
{
	const struct wait_place *p = q->first;
	struct request_state *s = p->state;
	struct script_op op;

	if (uv_now(w->engine->loop) - q->counted_ms < WAIT_COUNT_MS || !s->waiter.told)
		return;
	for (uint8_t i = 0; i < s->n_groups; i++) {
		struct group *g = &s->groups[i];

		if (!request_can_ask(s, g) || !resolve_operation(s, g, &op))
			continue;
		op.kind = SCRIPT_LEAVE;
		op.id_key = op.receipt_key = op.permit = (struct slice){0};
		waiters_claim(s, g);
		for (uint16_t j = 0; j < g->n_checks; j++)
			s->engine->scratch[j].turn.arrival_us = 0; /* nobody leaves */
		request_submit_aside(s, g, &op);
	}
}

void waiter_changes(struct request_state *s)
{
	if (s->catalogue != control_catalogue(s->engine->control))
		waiter_withdraws(s);
}

uint64_t waiter_retry_ms(const struct request_state *s, int64_t wait_us)
{
	uint64_t ms = (uint64_t)(wait_us + 999) / 1000, most = WAIT_RETRY_MAX_MS;

	if (s->wants_permit && s->request.answer.reason != REASON_HELD)
		most = WAIT_PERMIT_RETRY_MS;
	return ms < 1 ? 1 : ms < most ? ms : most;
}

/* Other regions' shares may come to this one before that. */
static bool may_grow(const struct request_state *s)
{
	for (uint16_t i = 0; i < s->n_checks; i++)
		if (s->checks[i].policy != NULL && s->checks[i].policy->scope == SCOPE_GLOBAL)
			return true;
	return false;
}

bool waiter_is_in_vain(const struct request_state *s, const struct script_answer *said)
{
	return !s->wants_permit && s->request.answer.reason == REASON_LIMITED &&
	       !said->turn.behind_others && !may_grow(s) &&
	       uv_now(s->engine->loop) + (uint64_t)said->wait_us / 1000 > s->waiter.deadline.at;
}
