#include <string.h>

#include "core/pool_rules.h"
#include "core/pool_state.h"

static void numbers_now(struct pool_policy *p, struct pool_numbers *ret_numbers)
{
	for (size_t i = 0; i < p->n; i++)
		pool_settle(p, &p->member_of[i]->cooldown);
	*ret_numbers = p->numbers;
	ret_numbers->to_us = p->now_us;
}

static void show_endpoint(struct pool_policy *p, size_t endpoint, struct pool_shown *s)
{
	const struct pool_member *m = p->member_of[endpoint];
	const struct pool_cooldown *c = &m->cooldown;
	struct pool_account *a;

	*s = (struct pool_shown){
		.disabled = m->disabled,
		.cooling = c->cooling,
		.returns_us = pool_cooldown_wait_us(c, p->rule, p->now_us, p->rule->health),
		.cooldowns = c->level,
		.outcomes = c->window.n,
		.failures = (uint8_t)pool_window_count(&c->window),
		.in_flight = m->in_flight,
		.tickets = m->tickets};
	if (p->rule->kind != POOL_KEY)
		return;
	a = pool_account_of(p, endpoint);
	s->held_us = pool_account_wait_us(a, p->now_us);
	for (unsigned i = 0; i < a->n; i++) {
		const struct pool_quota *q = &a->quotas[i];

		if (q->reset_us <= p->now_us)
			continue;
		s->quota[s->n_quotas].name = slice_of(q->name);
		s->quota[s->n_quotas].limit = q->limit;
		s->quota[s->n_quotas].left = q->left;
		s->quota[s->n_quotas++].reset_us = q->reset_us - p->now_us;
	}
}

static void show_target(struct pool_policy *p, struct pool_target *t, struct pool_view *v)
{
	size_t at = v->n_targets++, n = 0;

	for (size_t i = 0; i < p->n && pool_has_name(t); i++) {
		const struct pool_cooldown *c = &pool_seen_of(p, t, i)->cooldown;

		pool_seen_advance(p, t, i);
		if (!c->cooling)
			continue;
		v->target[at].cooling[n].endpoint = (uint32_t)i;
		v->target[at].cooling[n++].us = pool_cooldown_wait_us(c, p->rule, p->now_us, false);
	}
	v->target[at].head = (struct pool_shown_target){
		.name = {t->name.text, t->name.len},
		.tier = (uint8_t)pool_tier_now(p, t),
		.held_us = t->held_us > p->now_us ? t->held_us - p->now_us : 0,
		.n_cooling = n};
}

static void show_probes(const struct pool_policy *p, struct pool_view *v)
{
	for (size_t i = 0; i < p->n && p->rule->health; i++) {
		const struct pool_member *m = p->member_of[i];

		if (m->probe.found == POOL_PROBE_NONE)
			continue;
		v->probe[v->n_probes].endpoint = (uint32_t)i;
		v->probe[v->n_probes].found = m->probe.found;
		v->probe[v->n_probes++].age_us =
			p->now_us > m->probe.over_us ? p->now_us - m->probe.over_us : 0;
	}
}

void pool_policy_show(struct pool_policy *p, struct pool_view *v)
{
	memset(v, 0, sizeof *v);
	pool_floor_check(p);
	v->totals.pause = pool_pause_now(p, &v->totals.retry_us);
	numbers_now(p, &v->totals.numbers);
	v->totals.cooldowns = p->all_cooldowns;
	v->totals.cooled_us = p->all_cooled_us;
	v->n = p->n;
	for (size_t i = 0; i < p->n; i++)
		show_endpoint(p, i, &v->endpoint[i]);
	for (size_t i = 1; i < p->n_targets; i++)
		if (p->target[i].told_us > p->now_us || p->target[i].is_told_now)
			show_target(p, &p->target[i], v);
	if (p->target[0].held_us > p->now_us || pool_tier_now(p, &p->target[0]) > 1)
		show_target(p, &p->target[0], v);
	show_probes(p, v);
}

bool pool_policy_numbers(struct pool_policy *p, struct pool_numbers *ret_numbers,
			 uint64_t ret_tickets[static POOL_POLICY_ENDPOINTS])
{
	size_t active = 0;

	pool_floor_check(p);
	if (p->now_us < p->numbers.from_us + p->rule->report)
		return false;
	numbers_now(p, ret_numbers);
	for (size_t i = 0; i < p->n; i++) {
		ret_tickets[i] = p->member_of[i]->tickets;
		p->member_of[i]->tickets = 0;
		active += !pool_is_off(p, i) && !p->member_of[i]->cooldown.cooling;
	}
	p->numbers = (struct pool_numbers){.from_us = p->now_us, .active_min = active};
	return true;
}

bool pool_policy_enable(struct pool_policy *p, uint32_t endpoint)
{
	struct pool_member *m = endpoint < p->n ? p->member_of[endpoint] : NULL;
	bool was = m != NULL && m->disabled;

	if (m == NULL)
		return false;
	m->disabled = false;
	m->auths = 0;
	return was;
}

bool pool_policy_probe(struct pool_policy *p, uint32_t endpoint, uint64_t began,
		       enum pool_probe found)
{
	struct pool_member *m = endpoint < p->n ? p->member_of[endpoint] : NULL;
	struct pool_cooldown *c = m != NULL ? &m->cooldown : NULL;

	if (c == NULL || !c->cooling || (c->began != began && POOL_RULE(PROBES_OF_ITS_COOLDOWN)))
		return false;
	if (m->probe.due_us == 0)
		m->probe.due_us = p->now_us;
	m->probe.began = began;
	m->probe.over_us = p->now_us;
	m->probe.found = found;
	if (found != POOL_PROBE_OK && POOL_RULE(A_PROBE_HAS_TO_PASS))
		return true;
	c->probed = true;
	if (p->rule->direct && pool_cooldown_wait_us(c, p->rule, p->now_us, true) == 0)
		pool_member_returns(p, endpoint);
	return true;
}

/* A tenth of the interval early is not too early, or one turn would be missed. */
static bool is_due(const struct pool_policy *p, size_t endpoint, uint64_t last_us)
{
	return p->member_of[endpoint]->cooldown.cooling && !pool_is_off(p, endpoint) &&
	       ((double)last_us + 0.9 * (double)p->rule->every <= (double)p->now_us ||
		last_us > p->now_us);
}

/* When a probe in its cooldown was due last; 0: there was none yet. */
static uint64_t last_probe_us(const struct pool_member *m)
{
	return m->probe.began == m->cooldown.began ? m->probe.due_us : 0;
}

/* Of those that are due and have not been taken the one that waits longest; p->n: there is none. */
static size_t longest_due(const struct pool_policy *p, const bool *taken)
{
	size_t best = p->n;

	for (size_t i = 0; i < p->n; i++) {
		uint64_t us = last_probe_us(p->member_of[i]);

		if (!taken[i] && is_due(p, i, us) &&
		    (best == p->n || us < last_probe_us(p->member_of[best])))
			best = i;
	}
	return best;
}

bool pool_policy_prober(struct pool_policy *p, const char agent[static POOL_AGENT_BYTES],
			uint64_t ttl_us, uint16_t room, bool *ret_more, size_t *ret_n,
			struct pool_due ret_due[static POOL_POLICY_ENDPOINTS])
{
	bool taken[POOL_POLICY_ENDPOINTS] = {false};
	size_t i;

	*ret_n = 0;
	*ret_more = false;
	if (p->prober_lapses_ms > 0 && memcmp(p->prober, agent, sizeof p->prober) != 0)
		return false;
	memcpy(p->prober, agent, sizeof p->prober);
	p->prober_lapses_ms = p->now_us / 1000 + ttl_us / 1000;
	while (*ret_n < room && (i = longest_due(p, taken)) < p->n) {
		ret_due[(*ret_n)++] =
			(struct pool_due){(uint32_t)i, p->member_of[i]->cooldown.began};
		taken[i] = true;
	}
	*ret_more = longest_due(p, taken) < p->n;
	for (size_t k = 0; k < *ret_n; k++) {
		struct pool_member *m = p->member_of[ret_due[k].endpoint];

		m->probe.began = m->cooldown.began;
		m->probe.due_us = p->now_us;
	}
	return true;
}
