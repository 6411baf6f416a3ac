#include "core/pool_state.h"

#include <assert.h>
#include <stdlib.h>

#include "core/pool_rules.h"

#define NEVER_US (UINT64_C(1) << 53)

struct pool_policy *pool_policy_new(void)
{
	struct pool_policy *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->n_targets = 1;
	p->target[0].tier = 1;
	p->numbers.active_min = NEVER_US;
	p->oldest = 1;
	return p;
}

void pool_policy_free(struct pool_policy *p)
{
	free(p);
}

void pool_tell(struct pool_policy *p, enum pool_event_kind kind, size_t endpoint, uint64_t amount,
	       enum pool_outcome why, const struct pool_target *t)
{
	assert(p->n_events < POOL_POLICY_EVENTS);
	p->event[p->n_events++] = (struct pool_event){.kind = kind,
						      .endpoint = (uint32_t)endpoint,
						      .amount = amount,
						      .why = (uint8_t)why,
						      .target = {t->name.text, t->name.len}};
}

const struct pool_event *pool_policy_events(const struct pool_policy *p, size_t *ret_n)
{
	*ret_n = p->n_events;
	return p->event;
}

/* ---- Names ---- */

static bool is_named(const struct pool_name *name, struct slice text)
{
	return slice_equal((struct slice){name->text, name->len}, text);
}

static void name_set(struct pool_name *name, struct slice text)
{
	assert(text.len <= POOL_NAME_MAX);
	if (text.len > 0)
		memcpy(name->text, text.ptr, text.len);
	name->len = text.len;
}

struct pool_member *pool_member_named(struct pool_policy *p, struct slice id)
{
	for (size_t i = 0; i < p->n_members; i++)
		if (is_named(&p->member[i].id, id))
			return &p->member[i];
	assert(p->n_members < POOL_POLICY_ENDPOINTS);
	struct pool_member *m = &p->member[p->n_members++];

	name_set(&m->id, id);
	m->outcomes = POOL_OUTCOMES_AFTER;
	return m;
}

struct pool_target *pool_target_named(struct pool_policy *p, struct slice name)
{
	for (size_t i = 0; i < p->n_targets; i++)
		if (is_named(&p->target[i].name, name))
			return &p->target[i];
	assert(p->n_targets <= POOL_POLICY_TARGETS);
	struct pool_target *t = &p->target[p->n_targets++];

	name_set(&t->name, name);
	t->tier = 1;
	return t;
}

struct pool_session *pool_session_named(struct pool_policy *p, struct slice name)
{
	for (size_t i = 0; i < p->n_sessions; i++)
		if (is_named(&p->session[i].name, name))
			return &p->session[i];
	assert(p->n_sessions < POOL_POLICY_SESSIONS);
	struct pool_session *s = &p->session[p->n_sessions++];

	name_set(&s->name, name);
	return s;
}

struct pool_account *pool_account_of(struct pool_policy *p, size_t endpoint)
{
	const struct pool_endpoint *e = &p->endpoints[endpoint];
	struct slice name = e->account.len > 0 && POOL_RULE(GROUPS) ? e->account : e->id;

	for (size_t i = 0; i < p->n_accounts; i++)
		if (is_named(&p->account[i].name, name))
			return &p->account[i].account;
	assert(p->n_accounts < POOL_POLICY_ENDPOINTS);
	name_set(&p->account[p->n_accounts].name, name);
	return &p->account[p->n_accounts++].account;
}

size_t pool_endpoint_of(const struct pool_policy *p, const struct pool_member *m)
{
	size_t i = 0;

	while (i < p->n && p->member_of[i] != m)
		i++;
	return i;
}

bool pool_has_name(const struct pool_target *t)
{
	return t->name.len > 0;
}

struct pool_seen *pool_seen_of(const struct pool_policy *p, struct pool_target *t, size_t endpoint)
{
	return pool_has_name(t) ? &t->seen[p->member_of[endpoint] - p->member] : NULL;
}

/* ---- What is there ---- */

bool pool_is_off(const struct pool_policy *p, size_t endpoint)
{
	return p->endpoints[endpoint].off || p->member_of[endpoint]->disabled;
}

unsigned pool_tier_from(const struct pool_policy *p, unsigned tier)
{
	unsigned found = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct pool_endpoint *e = &p->endpoints[i];

		if (e->weight > 0 && !pool_is_off(p, i) && e->tier >= tier &&
		    (found == 0 || e->tier < found))
			found = e->tier;
	}
	return found;
}

unsigned pool_tier_now(const struct pool_policy *p, const struct pool_target *t)
{
	return t->stop_us > p->now_us && POOL_RULE(ESCALATED) ? t->tier : 1;
}

struct pool_ticket *pool_ticket_kept(struct pool_policy *p, uint64_t serial)
{
	struct pool_ticket *ticket = &p->ticket[serial % POOL_POLICY_TICKETS];

	return ticket->serial == serial && ticket->is_kept &&
			       ticket->stop_us + POOL_HOUR_US > p->now_us
		       ? ticket
		       : NULL;
}

bool pool_ticket_is_out(const struct pool_policy *p, uint64_t serial)
{
	const struct pool_ticket *ticket = &p->ticket[serial % POOL_POLICY_TICKETS];

	return ticket->is_kept && !ticket->is_over;
}

void pool_ticket_drop(struct pool_ticket *ticket)
{
	ticket->is_kept = false;
	if (!ticket->is_over && ticket->member->in_flight > 0)
		ticket->member->in_flight--;
}

/* ---- Cooldowns ---- */

void pool_settle(struct pool_policy *p, struct pool_cooldown *c)
{
	if (c->cooling && p->now_us > c->since_us) {
		p->numbers.cooled_us += p->now_us - c->since_us;
		p->all_cooled_us += p->now_us - c->since_us;
	}
	c->since_us = p->now_us;
}

void pool_member_returns(struct pool_policy *p, size_t endpoint)
{
	struct pool_member *m = p->member_of[endpoint];

	pool_settle(p, &m->cooldown);
	pool_cooldown_end(&m->cooldown);
	m->returned_us = p->now_us;
	pool_tell(p, POOL_EVENT_RETURNED, endpoint, 0, POOL_OK, &p->target[0]);
}

void pool_seen_advance(struct pool_policy *p, struct pool_target *t, size_t endpoint)
{
	struct pool_seen *seen = pool_seen_of(p, t, endpoint);

	if (!p->rule->direct || !seen->cooldown.cooling || seen->cooldown.stop_us > p->now_us)
		return;
	pool_settle(p, &seen->cooldown);
	pool_cooldown_end(&seen->cooldown);
	seen->touched = true;
	pool_tell(p, POOL_EVENT_RETURNED, endpoint, 0, POOL_OK, t);
}

void pool_target_tell_until(struct pool_target *t, uint64_t us)
{
	if (!pool_has_name(t))
		return;
	t->is_told_now = true;
	if (us > t->told_us)
		t->told_us = us;
}

/* ---- A batch ---- */

/* What was not written for so long is not known any more. */
static void lapse(struct pool_policy *p)
{
	uint64_t now_ms = p->now_us / 1000;

	for (size_t i = 1; i < p->n_targets; i++) {
		struct pool_target *t = &p->target[i];

		if (t->lapses_ms != 0 && now_ms > t->lapses_ms) {
			t->held_us = t->stop_us = t->lapses_ms = 0;
			t->tier = 1;
			t->signs = (struct pool_window){0};
			memset(t->seen, 0, sizeof t->seen);
		}
	}
	for (size_t i = 0; i < p->n_sessions; i++)
		if (p->session[i].member != NULL && now_ms > p->session[i].lapses_ms) {
			p->session[i].member = NULL;
			p->session[i].moves = 0;
			p->session[i].bound = 0;
		}
	for (unsigned tier = 1; tier <= POOL_TIER_MAX; tier++)
		if (now_ms > p->line[tier].lapses_ms)
			p->line[tier].n = 0;
	if (now_ms > p->prober_lapses_ms)
		p->prober_lapses_ms = 0;
}

static void end_leases(struct pool_policy *p)
{
	while (p->oldest <= p->seq && !pool_ticket_is_out(p, p->oldest))
		p->oldest++;
	for (uint64_t serial = p->oldest; serial <= p->seq; serial++) {
		struct pool_ticket *ticket = &p->ticket[serial % POOL_POLICY_TICKETS];

		if (!pool_ticket_is_out(p, serial) || ticket->stop_us > p->now_us)
			continue;
		if (ticket->member->in_flight > 0 && POOL_RULE(LEASES_END))
			ticket->member->in_flight--;
		ticket->is_over = true;
	}
}

void pool_policy_begin(struct pool_policy *p, const struct pool_rule *rule,
		       const struct pool_endpoint *endpoints, size_t n, uint64_t now_us,
		       double luck)
{
	assert(n <= POOL_POLICY_ENDPOINTS);
	p->rule = rule;
	p->endpoints = endpoints;
	p->n = n;
	p->now_us = now_us;
	p->luck = luck;
	p->n_events = 0;
	for (size_t i = 0; i < n; i++)
		p->member_of[i] = pool_member_named(p, endpoints[i].id);
	if (!p->is_known)
		p->numbers.from_us = now_us;
	p->is_known = true;
	lapse(p);
	end_leases(p);
	for (size_t i = 0; i < n && rule->direct; i++) {
		const struct pool_cooldown *c = &p->member_of[i]->cooldown;

		if (c->cooling && pool_cooldown_wait_us(c, rule, now_us, rule->health) == 0)
			pool_member_returns(p, i);
	}
}

/* A target is known for an hour after the last of what holds of it. */
static void target_end(struct pool_policy *p, struct pool_target *t)
{
	uint64_t stop_us = t->held_us > t->stop_us ? t->held_us : t->stop_us, ms;
	bool touched = t->touched;

	for (size_t i = 0; i < p->n_members; i++) {
		if (t->seen[i].touched && t->seen[i].cooldown.stop_us > stop_us)
			stop_us = t->seen[i].cooldown.stop_us;
		touched = touched || t->seen[i].touched;
		t->seen[i].touched = false;
	}
	t->touched = t->is_told_now = false;
	if (!touched)
		return;
	ms = ((stop_us > p->now_us ? stop_us - p->now_us : 0) + POOL_HOUR_US) / 1000;
	if (t->lapses_ms < p->now_us / 1000 + ms)
		t->lapses_ms = p->now_us / 1000 + ms;
}

void pool_policy_end(struct pool_policy *p)
{
	bool told = false;

	pool_floor_check(p);
	for (size_t i = 1; i < p->n_targets; i++)
		told = told || p->target[i].is_told_now;
	for (size_t i = 1; i < p->n_targets; i++) {
		target_end(p, &p->target[i]);
		if (told && p->target[i].told_us <= p->now_us)
			p->target[i].told_us = 0;
	}
}
