#include "core/pool_rules.h"
#include "core/pool_state.h"

/* A report on a ticket of an endpoint that is there. */
struct heard {
	struct pool_policy *p;
	const struct pool_report_op *op;
	const struct pool_ticket *ticket;
	struct pool_target *target;
	size_t endpoint;
	struct pool_member *member;
	struct pool_seen *seen; /* NULL: no target in particular */
	uint64_t hint_us;       /* how long to stay away; 0: nobody said */
};

static enum pool_effect take(const struct heard *h, struct pool_cooldown *c, enum pool_mark mark)
{
	return pool_cooldown_take(c, h->p->rule, h->ticket->serial, mark);
}

static void free_trial_there(const struct heard *h)
{
	if (h->seen != NULL && pool_cooldown_free(&h->seen->cooldown, h->ticket->serial))
		h->seen->touched = true;
}

static void free_trials(const struct heard *h)
{
	pool_cooldown_free(&h->member->cooldown, h->ticket->serial);
	free_trial_there(h);
}

/* One of the first outcomes after a cooldown. */
static void count_return(const struct heard *h, bool good)
{
	if (h->member->outcomes >= POOL_OUTCOMES_AFTER)
		return;
	h->member->outcomes++;
	h->p->numbers.back++;
	h->p->numbers.good += good;
}

static void cool(const struct heard *h, struct pool_cooldown *c, const struct pool_target *t)
{
	struct pool_policy *p = h->p;
	uint64_t us;

	pool_settle(p, c);
	us = pool_cooldown_begin(c, p->rule, p->now_us, p->seq, h->hint_us, &p->luck);
	p->numbers.cooldowns++;
	p->all_cooldowns++;
	pool_tell(p, POOL_EVENT_COOLED, h->endpoint, us, h->op->outcome, t);
}

/* ---- The endpoint's ---- */

static bool endpoint_answers(const struct heard *h, enum pool_mark mark)
{
	enum pool_effect effect = take(h, &h->member->cooldown, mark);

	if (effect == POOL_IGNORED)
		return false;
	if (mark == POOL_GOOD)
		count_return(h, true);
	if (effect == POOL_PASSED)
		pool_member_returns(h->p, h->endpoint);
	return true;
}

static void endpoint_cools(const struct heard *h)
{
	cool(h, &h->member->cooldown, &h->p->target[0]);
	h->member->outcomes = 0;
}

static bool endpoint_fails(const struct heard *h)
{
	struct pool_cooldown *c = &h->member->cooldown;
	enum pool_effect effect = take(h, c, POOL_BAD);

	if (effect == POOL_IGNORED) {
		if (h->ticket->serial <= c->began)
			pool_cooldown_late(c, h->p->rule, h->p->now_us, h->hint_us);
		return false;
	}
	count_return(h, false);
	if (effect == POOL_FAILED)
		endpoint_cools(h);
	return true;
}

static void key_unknown(const struct heard *h)
{
	h->member->auths++;
	if (h->member->auths < 3 || h->member->disabled || !POOL_RULE(THIRD_UNKNOWN_KEY))
		return;
	h->member->disabled = true;
	pool_tell(h->p, POOL_EVENT_DISABLED, h->endpoint, 0, POOL_AUTH, &h->p->target[0]);
}

/* ---- The target's ---- */

static void target_meets(const struct heard *h, bool turned_away)
{
	pool_recent_add(h->seen != NULL ? &h->seen->recent : &h->member->recent, h->p->now_us,
			turned_away);
	if (h->seen != NULL)
		h->seen->touched = true;
}

static bool is_at_fault(const struct heard *h)
{
	struct pool_blame b = {0};

	for (size_t i = 0; i < h->p->n; i++) {
		const struct pool_seen *seen = pool_seen_of(h->p, h->target, i);

		pool_blame_add(&b, seen != NULL ? &seen->recent : &h->p->member_of[i]->recent,
			       h->p->rule, h->p->now_us);
	}
	return POOL_RULE(CONCENTRATION) && pool_blame_is_targets(&b, h->p->rule);
}

static void hold(const struct heard *h, uint64_t us)
{
	struct pool_target *t = h->target;
	uint64_t was_us = t->held_us;

	if (h->p->now_us + us <= was_us && POOL_RULE(HOLDS_NEVER_SHORTEN))
		return;
	t->held_us = h->p->now_us + us;
	t->touched = true;
	pool_target_tell_until(t, t->held_us);
	pool_tell(h->p, was_us <= h->p->now_us ? POOL_EVENT_HELD : POOL_EVENT_EXTENDED,
		  POOL_NO_ENDPOINT, us, POOL_OK, t);
}

/* What is asked of the target begins one tier higher. False: there is none. */
static bool escalate(const struct heard *h)
{
	struct pool_target *t = h->target;
	unsigned tier = pool_tier_from(h->p, h->ticket->tier + 1);

	if (tier == 0)
		return false;
	if (tier <= pool_tier_now(h->p, t))
		return true;
	t->tier = tier;
	t->stop_us = h->p->now_us + h->p->rule->escalate_hold;
	t->signs = (struct pool_window){0};
	t->touched = true;
	pool_target_tell_until(t, t->stop_us);
	pool_tell(h->p, POOL_EVENT_ESCALATED, POOL_NO_ENDPOINT, tier, POOL_OK, t);
	return true;
}

/* Only those of the tier where the target starts tell whether that is high enough. */
static void sign(const struct heard *h, bool recognised)
{
	const struct pool_rule *rule = h->p->rule;
	struct pool_target *t = h->target;

	if (h->ticket->tier != pool_tier_from(h->p, pool_tier_now(h->p, t)) &&
	    POOL_RULE(SIGNS_OF_THE_TIER))
		return;
	pool_window_push(&t->signs, rule->escalate_of, recognised);
	t->touched = true;
	if (recognised && pool_window_count(&t->signs) >= rule->escalate_after)
		escalate(h);
}

/* Whether one more of the endpoint's tier may be out by what targets say. */
static bool may_go_out(const struct heard *h)
{
	const struct pool_policy *p = h->p;
	unsigned all = 0, out = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct pool_cooldown *c = &p->member_of[i]->cooldown;
		const struct pool_seen *seen = pool_seen_of(p, h->target, i);

		if (p->endpoints[i].tier != p->endpoints[h->endpoint].tier || pool_is_off(p, i))
			continue;
		all++;
		out += (c->cooling && c->judged) ||
		       (seen != NULL && seen->cooldown.cooling && seen->cooldown.judged);
	}
	return out + 1 <= p->rule->max_out * all || !POOL_RULE(MAX_OUT);
}

/* The endpoint was recognised at the target. Returns whether that counted. */
static bool blame(const struct heard *h)
{
	struct pool_cooldown *c = h->seen != NULL && POOL_RULE(AT_A_TARGET) ? &h->seen->cooldown
									    : &h->member->cooldown;
	bool was_cooling = c->cooling;
	enum pool_effect effect = take(h, c, POOL_BAD);

	if (effect == POOL_IGNORED) {
		if (h->ticket->serial <= c->began &&
		    pool_cooldown_late(c, h->p->rule, h->p->now_us, h->hint_us))
			pool_target_tell_until(h->target, c->stop_us);
		return false;
	}
	count_return(h, false);
	if (effect != POOL_FAILED)
		return true;
	if (!was_cooling && !may_go_out(h)) {
		if (!c->warned)
			pool_tell(h->p, POOL_EVENT_CAPPED, h->endpoint, 0, h->op->outcome,
				  h->target);
		c->warned = true;
		return true;
	}
	if (h->seen == NULL) {
		endpoint_cools(h);
	} else {
		cool(h, c, h->target);
		pool_target_tell_until(h->target, c->stop_us);
	}
	c->judged = true;
	return true;
}

/* An answer of the target that says nothing against the endpoint. */
static bool answers(const struct heard *h, enum pool_mark mark)
{
	target_meets(h, false);
	sign(h, false);
	if (h->seen != NULL && take(h, &h->seen->cooldown, mark) == POOL_PASSED) {
		pool_settle(h->p, &h->seen->cooldown);
		pool_cooldown_end(&h->seen->cooldown);
		pool_tell(h->p, POOL_EVENT_RETURNED, h->endpoint, 0, POOL_OK, h->target);
	}
	return endpoint_answers(h, mark);
}

/* The endpoint was recognised, or the target turns everybody away. */
static bool judged(const struct heard *h)
{
	bool recognised =
		h->op->outcome != POOL_BLOCKED || (h->op->status > 0 && h->op->status != 429);

	target_meets(h, true);
	sign(h, recognised);
	if (is_at_fault(h)) {
		free_trials(h);
		if (!(recognised && escalate(h)))
			hold(h, h->hint_us > 0 ? h->hint_us : h->p->rule->blame_hold);
		return true;
	}
	if (h->seen != NULL)
		endpoint_answers(h, POOL_NEUTRAL);
	return blame(h);
}

/* ---- Whose it is ---- */

/* What is the provider's word on the account of a key. True: nothing else of it counts. */
static bool account_hears(const struct heard *h)
{
	struct pool_account *a = pool_account_of(h->p, h->endpoint);
	enum pool_outcome outcome = h->op->outcome;

	for (size_t i = 0; i < h->op->n_quotas; i++)
		pool_account_learn(a, h->p->now_us, &h->op->quotas[i]);
	pool_account_hold(a, h->p->now_us, h->hint_us);
	if (outcome == POOL_BLOCKED && h->hint_us > 0) {
		h->member->auths = 0;
		return true;
	}
	switch (outcome) {
	case POOL_REFUSED:
	case POOL_TUNNEL:
	case POOL_TIMEOUT:
		return POOL_RULE(THE_PROVIDERS);
	case POOL_AUTH:
	case POOL_CANCELLED:
		return false;
	default:
		h->member->auths = 0;
		return false;
	}
}

static bool judge(struct heard *h)
{
	if (h->p->rule->kind == POOL_KEY) {
		if (account_hears(h)) {
			free_trials(h);
			return true;
		}
		h->hint_us = 0;
	}
	switch (h->op->outcome) {
	case POOL_OK:
		return answers(h, POOL_GOOD);
	case POOL_TARGET:
		return answers(h, POOL_NEUTRAL);
	case POOL_CANCELLED:
		free_trials(h);
		return true;
	case POOL_BLOCKED:
	case POOL_CAPTCHA:
	case POOL_EMPTY:
		return judged(h);
	default:
		break;
	}
	if (h->p->rule->kind == POOL_KEY && h->op->outcome == POOL_AUTH)
		key_unknown(h);
	free_trial_there(h);
	return endpoint_fails(h);
}

enum pool_reported pool_policy_report(struct pool_policy *p, uint64_t serial,
				      const struct pool_report_op *op)
{
	struct pool_ticket *ticket = &p->ticket[serial % POOL_POLICY_TICKETS];
	struct heard h = {.p = p, .op = op, .ticket = ticket, .hint_us = op->hint_us};

	if (serial == 0 || ticket->serial != serial ||
	    ticket->stop_us - ticket->stop_us % 1000 + POOL_HOUR_US <= p->now_us)
		return POOL_NO_TICKET;
	if (!ticket->is_kept && POOL_RULE(ONCE))
		return POOL_NOT_COUNTED;
	pool_ticket_drop(ticket);
	h.member = ticket->member;
	h.target = ticket->target;
	h.endpoint = pool_endpoint_of(p, ticket->member);
	if (h.endpoint == p->n)
		return POOL_NOT_COUNTED;
	h.seen = pool_seen_of(p, ticket->target, h.endpoint);
	return judge(&h) ? POOL_COUNTED : POOL_NOT_COUNTED;
}
