#include "aside.h"

#include <assert.h>
#include <string.h>

#include "control/control.h"
#include "core/keyspace.h"
#include "engine.h"
#include "leases.h"

bool aside_is_leased(struct engine *e, struct slice policy, struct slice key)
{
	return leases_left(e->leases, policy, key) > 0;
}

static bool is_leased(const struct request_state *s)
{
	for (uint8_t i = 0; i < s->request.n_pairs; i++)
		if (aside_is_leased(s->engine, s->request.pairs[i].policy, s->request.pairs[i].key))
			return true;
	return false;
}

/* Nothing but the own region's Redis has a say in it, in one call. */
static bool is_redis_alone(const struct request_state *s, uint16_t slot)
{
	const struct group *g = &s->groups[0];

	for (uint16_t i = 0; i < s->n_checks; i++)
		if (s->checks[i].policy->scope != SCOPE_REGION)
			return false;
	return s->site == s->engine->own && s->durable == NULL && s->n_groups == 1 &&
	       (!region_by_slot(s->site->region) || g->slot == slot) && request_can_ask(s, g) &&
	       !waiters_ahead(s) && !is_leased(s);
}

bool aside_begin(struct engine *e, struct request *r, uint16_t slot, struct script_op *ret_op,
		 unsigned *ret_first)
{
	struct request_state *s = state_of(r);
	const char *message;

	assert(r->kind == REQUEST_TAKE && r->wait_ms == 0 && r->id.len == 0 && !r->want_receipt);
	if (e->draining || !request_check(r, &message) || !request_own(s) ||
	    resolve(s) != RESOLVED || !is_redis_alone(s, slot))
		return false;
	if (s->wants_permit)
		request_make_permit(s);
	if (!aside_again(r, ret_op))
		return false;
	*ret_first = 0;
	for (uint16_t i = 0; i < s->n_checks; i++)
		*ret_first += s->checks[i].pair == 0;
	s->is_aside = s->in_progress = true;
	e->n_in_progress++;
	s->groups_asked = 1;
	return true;
}

bool aside_again(struct request *r, struct script_op *ret_op)
{
	struct request_state *s = state_of(r);

	return resolve_operation(s, &s->groups[0], ret_op);
}

bool aside_is_plain(struct engine *e, struct slice policy, struct slice key, uint16_t slot)
{
	const struct catalogue *c = control_catalogue(e->control);
	const struct policy *p = catalogue_policy(c, policy);
	int64_t now_ms = (int64_t)(site_now_us(e->own) / 1000);
	char name[KEYSPACE_NAME_MAX];
	size_t len;

	if (p == NULL || (p->n_levels > 1 && p->levels[1].weight > 0))
		return false;
	if (p->has_overrides && catalogue_override(c, p, 0, key, now_ms) != NULL)
		return false;
	if (waiters_has(e->waiters, policy, key) || aside_is_leased(e, policy, key))
		return false;
	if (e->own->region == NULL || !region_by_slot(e->own->region))
		return true;
	len = keyspace_receipt(key, (struct slice){0}, name);
	return keyspace_slot((struct slice){name, len}) == slot;
}

bool aside_all_plain(struct engine *e, struct slice policy)
{
	const struct policy *p = catalogue_policy(control_catalogue(e->control), policy);

	return p != NULL && (p->n_levels == 1 || p->levels[1].weight == 0) && !p->has_overrides &&
	       waiters_count(e->waiters) == 0 && leases_counters(e->leases).keys == 0 &&
	       e->own->region != NULL && !region_by_slot(e->own->region);
}

void aside_refused(struct request *r, const struct script_answer *said)
{
	struct request_state *s = state_of(r);

	if (said->check >= s->n_checks || said->status != SCRIPT_REFUSED)
		return;
	resolve_answer(&r->answer, &s->checks[said->check], said, false);
	r->answer.reason = said->why == SCRIPT_HELD           ? REASON_HELD
			   : said->why == SCRIPT_BREAKER_OPEN ? REASON_BREAKER_OPEN
							      : REASON_LIMITED;
	request_count(s);
}

void aside_answer(struct request *r, const struct script_answer *said)
{
	request_heard(&state_of(r)->groups[0], KOVA_OK, said);
}

void aside_drop(struct request *r)
{
	struct request_state *s = state_of(r);

	s->in_progress = false;
	s->engine->n_in_progress--;
	request_free(r);
}
