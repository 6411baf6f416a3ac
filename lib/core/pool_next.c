#include <assert.h>

#include "core/pool_choice.h"
#include "core/pool_rules.h"
#include "core/pool_state.h"

#define NO_TIME (-1)
#define WAITER_GONE_US UINT64_C(500000) /* who has not asked for so long */
#define WAITER_AGAIN_US 50000           /* who is behind others asks again after so long */
#define LINE_LAPSES_MS 60000

/* What can be chosen from; n 0: why not. */
struct found {
	size_t endpoint[POOL_POLICY_ENDPOINTS], n;
	bool is_kept; /* the session's, and nothing else */
	unsigned tier;
	enum pool_pause why;
	int64_t wait_us; /* NO_TIME: not known */
	int64_t firm_us; /* so long nothing but a new definition changes that; NO_TIME: for ever */
};

/* What is asked for. */
struct wanted {
	const struct pool_next_op *op;
	struct pool_target *target;
	struct pool_session *session; /* NULL: none */
	uint64_t passed;              /* a bit for each endpoint whose own permits were refused */
};

/* ---- What stands in the way ---- */

static int64_t first_lease_us(const struct pool_policy *p)
{
	uint64_t first_us = 0;

	for (uint64_t serial = p->oldest; serial <= p->seq; serial++) {
		const struct pool_ticket *t = &p->ticket[serial % POOL_POLICY_TICKETS];

		if (pool_ticket_is_out(p, serial) && (first_us == 0 || t->stop_us < first_us))
			first_us = t->stop_us;
	}
	return (int64_t)(first_us > p->now_us ? first_us - p->now_us : p->rule->lease);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Until it may be used, as a whole and at the target. */
static uint64_t cooldown_wait_us(struct pool_policy *p, struct pool_target *t, size_t endpoint)
{
	uint64_t us = pool_cooldown_wait_us(&p->member_of[endpoint]->cooldown, p->rule, p->now_us,
					    p->rule->health);
	struct pool_seen *seen = pool_seen_of(p, t, endpoint);

	if (seen == NULL || !POOL_RULE(AT_A_TARGET))
		return us;
	pool_seen_advance(p, t, endpoint);
	return later(us, pool_cooldown_wait_us(&seen->cooldown, p->rule, p->now_us, false));
}

/* Until there is a place at it. */
static uint64_t place_wait_us(const struct pool_policy *p, const struct wanted *w, size_t endpoint)
{
	const struct pool_member *m = p->member_of[endpoint];
	uint32_t slots = p->endpoints[endpoint].slots;
	bool mine = w->session != NULL && w->session->member == m;
	uint64_t us = 0;

	if (p->rule->exclusive && m->excluded_us > p->now_us && !mine && POOL_RULE(EXCLUSIVE))
		us = m->excluded_us - p->now_us;
	if (slots > 0 && m->in_flight >= slots && POOL_RULE(ENDPOINT_SLOTS))
		us = later(us, (uint64_t)first_lease_us(p));
	return us;
}

/* A target that is held, or the whole pool. */
static uint64_t held_us(const struct pool_policy *p, const struct pool_target *t)
{
	uint64_t stop_us = later(t->held_us, p->target[0].held_us);

	return stop_us > p->now_us && POOL_RULE(HOLDS) ? stop_us - p->now_us : 0;
}

/*
 * Why the endpoint can't be given; POOL_NOT_PAUSED: it can. Of several reasons the one that ends first; one that holds in two ways,
 * everywhere and here, ends with the later.
 */
static enum pool_pause obstacle(struct pool_policy *p, const struct wanted *w, size_t endpoint,
				int64_t *ret_wait_us)
{
	const enum pool_pause why[] = {POOL_HELD, POOL_COOLING, POOL_SLOTS};
	uint64_t us[] = {held_us(p, w->target), cooldown_wait_us(p, w->target, endpoint),
			 place_wait_us(p, w, endpoint)};
	enum pool_pause first = POOL_NOT_PAUSED;

	if (p->rule->kind == POOL_KEY)
		us[0] = later(us[0], pool_account_wait_us(pool_account_of(p, endpoint), p->now_us));
	*ret_wait_us = 0;
	for (size_t i = 0; i < 3; i++)
		if (us[i] > 0 && (first == POOL_NOT_PAUSED ||
				  ((int64_t)us[i] < *ret_wait_us && POOL_RULE(ENDS_FIRST)))) {
			first = why[i];
			*ret_wait_us = (int64_t)us[i];
		}
	return first;
}

static bool is_passed_over(const struct wanted *w, size_t endpoint)
{
	for (size_t i = 0; i < w->op->n_skip; i++)
		if (w->op->skip[i] == endpoint)
			return true;
	return (w->passed >> endpoint & 1) != 0;
}

/* So long nothing but a new definition changes that something is in its way. */
static int64_t firm_us(const struct pool_policy *p, const struct wanted *w, size_t endpoint)
{
	const struct pool_cooldown *c = &p->member_of[endpoint]->cooldown;
	uint64_t us = c->cooling && c->stop_us > p->now_us ? c->stop_us - p->now_us : 0;

	return (int64_t)later(us, held_us(p, w->target));
}

static void find_in_tier(struct pool_policy *p, const struct wanted *w, unsigned tier,
			 struct found *f)
{
	f->why = POOL_NOTHING;
	for (size_t i = 0; i < p->n; i++) {
		const struct pool_endpoint *e = &p->endpoints[i];
		enum pool_pause why;
		int64_t us, firm;

		if (e->tier != tier || e->weight <= 0 || pool_is_off(p, i) || is_passed_over(w, i))
			continue;
		why = obstacle(p, w, i, &us);
		if (why == POOL_NOT_PAUSED) {
			f->endpoint[f->n++] = i;
			continue;
		}
		firm = firm_us(p, w, i);
		if (f->why == POOL_NOTHING || firm < f->firm_us)
			f->firm_us = firm;
		if (f->why == POOL_NOTHING || us < f->wait_us) {
			f->why = why;
			f->wait_us = us;
		}
	}
}

/* The endpoint of a session, while it is as it was; p->n: it has none. */
static size_t kept_endpoint(struct pool_policy *p, const struct wanted *w, unsigned tier)
{
	const struct pool_session *s = w->session;
	size_t i = s != NULL && s->member != NULL ? pool_endpoint_of(p, s->member) : p->n;
	const struct pool_seen *seen;

	if (i == p->n || pool_is_off(p, i) || p->endpoints[i].tier < tier)
		return p->n;
	seen = pool_seen_of(p, w->target, i);
	if (s->member->cooldown.cooling || s->member->cooldown.began >= s->bound)
		return p->n;
	if (seen != NULL && (seen->cooldown.cooling || seen->cooldown.began >= s->bound))
		return p->n;
	return POOL_RULE(SESSIONS_STAY) ? i : p->n;
}

/* ---- Those who wait for a place ---- */

/* How many places there are; UINT64_MAX: there is no bound. */
static uint64_t places(const struct pool_policy *p, const struct found *f)
{
	uint64_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		const struct pool_member *m = p->member_of[f->endpoint[i]];
		uint32_t slots = p->endpoints[f->endpoint[i]].slots;

		if (!m->cooldown.cooling && slots == 0)
			return UINT64_MAX;
		n += m->cooldown.cooling ? 1 : slots - m->in_flight;
	}
	return n;
}

static void line_leave(struct pool_line *line, uint64_t id)
{
	for (unsigned i = 0; i < line->n; i++)
		if (line->waiter[i].id == id) {
			line->waiter[i] = line->waiter[--line->n];
			return;
		}
}

/* How many came earlier. */
static uint64_t ahead_of(struct pool_policy *p, const struct pool_next_op *op, unsigned tier)
{
	struct pool_line *line = &p->line[tier];
	uint64_t n = 0;

	for (unsigned i = line->n; i-- > 0;)
		if (line->waiter[i].asked_us + WAITER_GONE_US <= p->now_us)
			line_leave(line, line->waiter[i].id);
	for (unsigned i = 0; i < line->n; i++)
		n += op->arrival_us == 0 || line->waiter[i].arrival_us < op->arrival_us;
	return POOL_RULE(ORDER_OF_ARRIVAL) ? n : 0;
}

static void line_wait(struct pool_policy *p, const struct pool_next_op *op, unsigned tier)
{
	struct pool_line *line = &p->line[tier];
	uint64_t arrival_us = op->arrival_us > 0 ? op->arrival_us : p->now_us;
	unsigned i = 0;

	while (i < line->n && line->waiter[i].id != op->waiter)
		i++;
	if (i == line->n) {
		assert(i < POOL_POLICY_WAITERS);
		line->waiter[line->n++] =
			(struct pool_waiter){.id = op->waiter, .arrival_us = arrival_us};
	}
	line->waiter[i].asked_us = p->now_us;
	line->lapses_ms = p->now_us / 1000 + LINE_LAPSES_MS;
}

void pool_policy_leave(struct pool_policy *p, uint64_t waiter)
{
	for (unsigned tier = pool_tier_from(p, 1); tier != 0; tier = pool_tier_from(p, tier + 1))
		line_leave(&p->line[tier], waiter);
}

/* ---- What there is ---- */

static void nothing(struct found *f, enum pool_pause why, int64_t wait_us, int64_t firm_us)
{
	f->n = 0;
	f->why = why;
	f->wait_us = wait_us;
	f->firm_us = firm_us;
}

static void find_kept(struct pool_policy *p, const struct wanted *w, size_t kept, struct found *f)
{
	f->why = obstacle(p, w, kept, &f->wait_us);
	f->is_kept = true;
	if (f->why == POOL_NOT_PAUSED) {
		f->endpoint[0] = kept;
		f->n = 1;
	}
}

static void find_open(struct pool_policy *p, const struct wanted *w, struct found *f)
{
	int64_t held = (int64_t)held_us(p, w->target);
	uint64_t room;

	find_in_tier(p, w, f->tier, f);
	if (f->n == 0 && f->why == POOL_NOTHING && held > 0)
		nothing(f, POOL_HELD, held, held);
	if (f->n == 0 && f->why != POOL_NOTHING && f->firm_us > f->wait_us)
		f->firm_us = f->wait_us;
	room = f->n > 0 && w->session == NULL ? places(p, f) : UINT64_MAX;
	if (room != UINT64_MAX && ahead_of(p, w->op, f->tier) >= room)
		nothing(f, POOL_SLOTS, WAITER_AGAIN_US, 0);
}

static void find(struct pool_policy *p, const struct wanted *w, struct found *f)
{
	unsigned first = w->op->tier > 0 ? w->op->tier : pool_tier_now(p, w->target);
	size_t kept = kept_endpoint(p, w, first);
	uint64_t us;

	*f = (struct found){.tier = pool_tier_from(p, first)};
	if (f->tier == 0 && kept == p->n) {
		nothing(f, POOL_NOTHING, NO_TIME, NO_TIME);
		return;
	}
	pool_floor_check(p);
	if (kept < p->n)
		find_kept(p, w, kept, f);
	else
		find_open(p, w, f);
	us = POOL_RULE(THE_FLOOR) ? pool_floor_wait_us(p) : 0;
	if (f->n == 0 && f->why != POOL_NOTHING && (us == 0 || f->wait_us <= (int64_t)us))
		return;
	if (us > 0)
		nothing(f, POOL_FLOOR, (int64_t)us, 0);
	else if (f->n == 0)
		nothing(f, POOL_NOTHING, NO_TIME, 0);
}

enum pool_pause pool_pause_now(struct pool_policy *p, int64_t *ret_retry_us)
{
	struct pool_next_op op = {0};
	struct found f;

	find(p, &(struct wanted){.op = &op, .target = &p->target[0]}, &f);
	*ret_retry_us = f.n > 0 ? 0 : f.wait_us;
	return f.n > 0 ? POOL_NOT_PAUSED : f.why;
}

/* ---- A ticket ---- */

static size_t choose(const struct pool_policy *p, const struct found *f, double *virtual,
		     double *ret_tag)
{
	struct pool_candidate all[POOL_POLICY_ENDPOINTS];

	for (size_t i = 0; i < f->n; i++) {
		const struct pool_member *m = p->member_of[f->endpoint[i]];
		double weight = p->endpoints[f->endpoint[i]].weight;
		double rate = pool_window_rate(&m->cooldown.window, p->rule->window);

		all[i] = (struct pool_candidate){
			.index = (uint32_t)f->endpoint[i],
			.weight = weight,
			.now = pool_weight_now(p->rule, weight, rate, m->returned_us, p->now_us),
			.tag = m->tag,
			.last = m->last,
			.in_flight = m->in_flight};
	}
	return pool_choose(p->rule->select, all, f->n, virtual, ret_tag)->index;
}

/* Binds the session to the endpoint. Returns whether it had something else before. */
static bool session_use(struct pool_policy *p, struct pool_session *s, size_t endpoint, bool kept)
{
	struct pool_member *m = p->member_of[endpoint], *was = s->member;
	bool moved = was != NULL && (was != m || !kept);

	if (moved) {
		s->moves = s->moves % 65535 + 1;
		if (p->rule->exclusive && was != m && pool_endpoint_of(p, was) < p->n)
			was->excluded_us = 0;
	}
	s->bound = p->seq;
	s->member = m;
	m->excluded_us = p->rule->exclusive ? p->now_us + p->rule->session_ttl : 0;
	s->lapses_ms = (p->now_us / 1000) + p->rule->session_ttl / 1000;
	return moved;
}

static bool begin_trials(struct pool_policy *p, struct pool_target *t, size_t endpoint)
{
	struct pool_member *m = p->member_of[endpoint];
	struct pool_seen *seen = pool_seen_of(p, t, endpoint);
	bool is_trial = m->cooldown.cooling;

	if (m->cooldown.cooling)
		pool_cooldown_try(&m->cooldown, p->rule, p->now_us, p->seq);
	if (seen != NULL && seen->cooldown.cooling) {
		pool_cooldown_try(&seen->cooldown, p->rule, p->now_us, p->seq);
		seen->touched = is_trial = true;
	}
	return is_trial;
}

/* Whose turn it is, and what the turn of the tier is after it. */
struct turn {
	size_t endpoint;
	double tag, tier_tag;
};

static void take_turn(struct pool_policy *p, const struct found *f, struct turn *t)
{
	t->endpoint = f->endpoint[0];
	t->tag = p->member_of[t->endpoint]->tag;
	t->tier_tag = p->tag[f->tier];
	if (!f->is_kept)
		t->endpoint = choose(p, f, &t->tier_tag, &t->tag);
}

static void pass_over(const struct pool_policy *p, struct wanted *w, size_t endpoint)
{
	struct slice group = p->endpoints[endpoint].account;

	w->passed |= UINT64_C(1) << endpoint;
	for (size_t i = 0; i < p->n && group.len > 0; i++)
		if (slice_equal(pool_permits_holder(&p->endpoints[i]), group))
			w->passed |= UINT64_C(1) << i;
}

/* Whose turn it is, with the permits that go with it, taken; else f->n is 0, and says why. */
static void take_permitted_turn(struct pool_policy *p, struct wanted *w,
				const struct pool_limiter *limiter, struct found *f, struct turn *t)
{
	enum pool_permitted permitted = POOL_PERMITTED;

	for (unsigned tries = 1; f->n > 0; tries++) {
		take_turn(p, f, t);
		if (limiter != NULL)
			permitted = limiter->take(limiter->data, (uint32_t)t->endpoint);
		if (permitted == POOL_PERMITTED)
			return;
		if (permitted != POOL_UNPERMITTED_HERE || f->is_kept || tries == POOL_TRIES_MAX ||
		    !POOL_RULE(PASSED_OVER)) {
			nothing(f, POOL_LIMITED, 0, 0);
			return;
		}
		pass_over(p, w, t->endpoint);
		find(p, w, f);
	}
}

static void issue(struct pool_policy *p, const struct wanted *w, const struct found *f,
		  const struct turn *turn, struct pool_given *g)
{
	double tag = turn->tag;
	size_t endpoint = turn->endpoint;
	struct pool_member *m = p->member_of[endpoint];
	unsigned tier = p->endpoints[endpoint].tier;
	struct pool_ticket *ticket = &p->ticket[++p->seq % POOL_POLICY_TICKETS];
	struct pool_session *s = w->session;
	bool is_first = s != NULL && s->member == NULL;

	assert(!ticket->is_kept || ticket->stop_us + POOL_HOUR_US <= p->now_us);
	*g = (struct pool_given){.endpoint = (uint32_t)endpoint,
				 .tier = (uint8_t)tier,
				 .serial = p->seq,
				 .moved = s != NULL && session_use(p, s, endpoint, f->is_kept),
				 .moves = (uint16_t)(s != NULL ? s->moves : 0)};
	*ticket = (struct pool_ticket){.serial = p->seq,
				       .is_kept = true,
				       .is_first = is_first,
				       .tier = tier,
				       .stop_us = p->now_us + p->rule->lease,
				       .tag = tag - m->tag,
				       .last = m->last,
				       .member = m,
				       .target = w->target,
				       .session = is_first || g->moved ? s : NULL};
	p->tag[f->tier] = turn->tier_tag;
	m->tag = tag;
	m->last = p->seq;
	m->in_flight++;
	m->tickets++;
	p->numbers.tickets++;
	p->numbers.above += tier > 1;
	if (p->rule->kind == POOL_KEY)
		pool_account_use(pool_account_of(p, endpoint), p->now_us, false);
	g->trial = begin_trials(p, w->target, endpoint);
}

void pool_policy_next(struct pool_policy *p, const struct pool_next_op *op,
		      const struct pool_limiter *limiter, struct pool_given *ret_given)
{
	struct wanted w = {.op = op, .target = pool_target_named(p, op->target)};
	struct turn turn;
	unsigned tier;
	struct found f;

	if (op->session.len > 0)
		w.session = pool_session_named(p, op->session);
	find(p, &w, &f);
	if (op->waiter != 0 && w.session == NULL) {
		tier = pool_tier_from(p, op->tier > 0 ? op->tier : pool_tier_now(p, w.target));
		if (f.n > 0 && op->arrival_us > 0)
			line_leave(&p->line[tier], op->waiter);
		else if (f.n == 0 &&
			 (f.why == POOL_SLOTS || (f.why == POOL_COOLING && op->target.len == 0)))
			line_wait(p, op, tier);
	}
	take_permitted_turn(p, &w, limiter, &f, &turn);
	if (f.n == 0)
		*ret_given = (struct pool_given){
			.pause = f.why, .retry_us = f.wait_us, .firm_us = f.firm_us};
	else
		issue(p, &w, &f, &turn, ret_given);
}

/* ---- Given back ---- */

static void session_undo(struct pool_policy *p, const struct pool_ticket *ticket)
{
	struct pool_session *s = ticket->session;

	if (s == NULL || s->bound != ticket->serial || s->member != ticket->member)
		return;
	if (ticket->is_first) {
		s->member = NULL;
		s->moves = 0;
		s->bound = 0;
		ticket->member->excluded_us = 0;
	} else { /* nobody was told that it moved */
		s->bound = 0;
		s->lapses_ms = p->now_us / 1000 + p->rule->session_ttl / 1000;
	}
}

void pool_policy_undo(struct pool_policy *p, uint64_t serial)
{
	struct pool_ticket *ticket = pool_ticket_kept(p, serial);
	struct pool_member *m = ticket != NULL ? ticket->member : NULL;
	size_t endpoint = ticket != NULL ? pool_endpoint_of(p, m) : p->n;
	struct pool_seen *seen;

	if (ticket == NULL)
		return;
	pool_ticket_drop(ticket);
	if (endpoint == p->n)
		return;
	m->tag -= ticket->tag;
	m->tickets -= m->tickets > 0;
	if (m->last == serial)
		m->last = ticket->last;
	p->numbers.tickets -= p->numbers.tickets > 0;
	p->numbers.above -= ticket->tier > 1 && p->numbers.above > 0;
	if (p->numbers.above > p->numbers.tickets) /* it was given before these were counted */
		p->numbers.above = p->numbers.tickets;
	pool_cooldown_free(&m->cooldown, serial);
	seen = pool_seen_of(p, ticket->target, endpoint);
	if (seen != NULL && pool_cooldown_free(&seen->cooldown, serial))
		seen->touched = true;
	if (p->rule->kind == POOL_KEY)
		pool_account_use(pool_account_of(p, endpoint), p->now_us, true);
	session_undo(p, ticket);
}
