/*
 * A lease is asked for and comes, or does not; it goes back. An answer that nobody has a use for any more (the catalogue
 * changed, the key is held) goes back as well.
 */
#include "handover.h"
#include "leases_own.h"
#include "quota.h"

enum {
	FAR_WORTH_TRIPS = 3, /* a lease that lasts for less is half over when it comes */
	WARM_WORTH = 8,      /* requests as the first that a warm key's lease is good for */
};

/* ---- Returns ---- */

static void on_returned(kova_status status, const struct script_answer *answer, void *data)
{
	struct leases *w = data;

	(void)status; /* what did not go back comes back by time */
	(void)answer;
	w->counters.in_flight--;
}

static void submit(struct leases *w, struct request_state *s, struct script_op *op)
{
	w->counters.in_flight++;
	region_submit(s->site->region, s->groups[0].slot, op, 0, on_returned, w);
}

/* No two leases of a key that this agent has at a time end at the same instant: that names them. */
static void put_id(const struct leases *w, uint64_t ends_us, struct script_op *op)
{
	uint64_t id = w->first_id + ends_us;

	memcpy(op->lease, &id, sizeof op->lease);
}

static void submit_return(struct leases *w, const struct lease_entry *e, uint64_t ends_us,
			  uint64_t left)
{
	struct request_state *s =
		leases_key_request(w, lease_entry_policy(e), lease_entry_key(e), 1);
	struct script_op op;

	if (s == NULL)
		return;
	if (resolve_operation(s, &s->groups[0], &op)) {
		op.kind = SCRIPT_UNLEASE;
		op.amount = left;
		op.permit = (struct slice){0};
		put_id(w, ends_us, &op);
		w->counters.returned++;
		w->returns += left > 0;
		submit(w, s, &op);
	}
	request_free(&s->request);
}

void entry_return(struct leases *w, struct lease_entry *e)
{
	bool runs = e->granted > 0 && e->ends_us > leases_now_us(w) && !w->engine->closing;
	uint64_t left = e->left;

	e->left = e->granted = 0;
	e->scarce = false;
	if (runs)
		submit_return(w, e, e->ends_us, left);
}

/* An ordinary take that nobody has a use for. */
static void give_back(struct leases *w, const struct lease_entry *e, uint64_t amount,
		      const struct script_answer *answer)
{
	struct request_state *s =
		leases_key_request(w, lease_entry_policy(e), lease_entry_key(e), amount);
	struct script_op op;

	if (s == NULL)
		return;
	s->groups[0].answer = *answer;
	if (!w->engine->closing && resolve_give_back(s, &s->groups[0], &op))
		submit(w, s, &op);
	request_free(&s->request);
}

/* ---- Asking ---- */

/* xorshift (Marsaglia): only spreads renewals. */
uint32_t leases_random(struct leases *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 17;
	w->random ^= w->random << 5;
	return w->random;
}

struct wanted {
	uint64_t amount; /* permits; 0: the key gets no lease now */
	uint64_t ttl_us;
	uint32_t sharers;
	bool warm;
	uint8_t span;
};

/* As what was spent of the last lease says. */
static void want_warm(struct leases *w, const struct lease_entry *e, uint64_t cost,
		      struct wanted *ret_wanted)
{
	const struct lease_terms *t = e->terms;
	uint64_t spent = 0, took_us = 0;
	struct lease_warm lease;

	if (!t->warm || policy_stats_has_feedback(t->policy->stats))
		return;
	if (e->warm && e->granted > 0) {
		spent = e->granted - e->left;
		took_us = leases_now_us(w) + lease_warm_ttl_us(e->span) - e->ends_us;
	}
	lease = lease_warm(spent, took_us, limit_capacity(t->checks[0].limit), ret_wanted->sharers);
	if (lease.amount < cost * WARM_WORTH)
		return;
	ret_wanted->amount = lease.amount;
	ret_wanted->ttl_us = lease_warm_ttl_us(lease.span);
	ret_wanted->warm = true;
	ret_wanted->span = lease.span;
}

static void want_hot(struct leases *w, const struct lease_entry *e, struct wanted *ret_wanted)
{
	const struct lease_terms *t = e->terms;
	uint64_t rate = lease_demand_rate(&e->demand, leases_now_us(w)), least = UINT64_MAX;

	ret_wanted->ttl_us = lease_jitter(terms_ttl_us(t), leases_random(w));
	if (ret_wanted->ttl_us < FAR_WORTH_TRIPS * site_round_trip_us(t->site))
		return;
	for (uint16_t i = 0; i < t->n_checks; i++) {
		uint64_t size = lease_size(rate, ret_wanted->ttl_us, t->policy->lease.max,
					   limit_capacity(t->checks[i].limit), ret_wanted->sharers);

		if (size < least)
			least = size;
	}
	ret_wanted->amount = least;
}

static struct wanted want(struct leases *w, const struct lease_entry *e, uint64_t cost)
{
	const struct lease_terms *t = e->terms;
	struct wanted wanted = {.sharers = site_agents(t->site, t->policy->scope == SCOPE_HOME) *
					   w->engine->loops};

	if (!t->leases)
		return wanted;
	if (t->only_busy && !lease_demand_is_busy(&e->demand, leases_now_us(w)))
		want_warm(w, e, cost, &wanted);
	else
		want_hot(w, e, &wanted);
	return wanted;
}

static void on_lease(kova_status status, const struct script_answer *answer, void *data);

static void submit_lease(struct leases *w, struct lease_rare *rare, struct request_state *s,
			 uint64_t amount)
{
	struct script_op op;

	if (!resolve_operation(s, &s->groups[0], &op))
		return;
	op.kind = SCRIPT_LEASE;
	op.permit = (struct slice){0};
	op.amount = amount;
	op.ttl_us = rare->ttl_us;
	op.sharers = rare->sharers;
	put_id(w, rare->sent_us + rare->ttl_us, &op);
	rare->asking = true;
	w->counters.in_flight++;
	region_submit(s->site->region, s->groups[0].slot, &op, 0, on_lease, rare);
}

/* The limits that bind the key may have changed with time (an override's end). */
static bool has_these_terms(struct leases *w, struct lease_entry *e, const struct request_state *s)
{
	struct lease_terms *terms = lease_terms_get(&w->terms, s);

	if (terms == NULL)
		return false;
	lease_terms_unref(&w->terms, e->terms);
	e->terms = terms;
	e->shown = e->shown < terms->n_checks ? e->shown : 0;
	return terms->leases;
}

static bool has_arrived(struct request_state *s)
{
	struct group *group;

	return s->engine->handover == NULL || handover_step(s, &group) == HANDOVER_DONE;
}

bool entry_ask(struct leases *w, struct lease_entry *e, uint64_t cost)
{
	struct wanted wanted = want(w, e, cost);
	uint64_t amount = wanted.amount > cost ? wanted.amount : cost;
	struct lease_terms *before = e->terms; /* the request borrows their policy's name */
	struct request_state *s = NULL;

	if (wanted.amount > 0 && entry_rare(w, e) != NULL)
		s = leases_key_request(w, lease_entry_policy(e), lease_entry_key(e), cost);
	if (s == NULL)
		return false;
	before->refs++;
	if (has_arrived(s) && s->site->region != NULL &&
	    region_up(s->site->region, s->groups[0].slot) && has_these_terms(w, e, s)) {
		struct lease_rare *rare = e->rare;

		if (wanted.warm) /* in the same call */
			entry_return(w, e);
		/* Read before the request leaves, after those that it is asked for were read. */
		rare->sent_us = leases_now_us(w);
		rare->ttl_us = rare->sent_us + wanted.ttl_us == e->ends_us ? wanted.ttl_us - 1
									   : wanted.ttl_us;
		rare->cost = cost;
		rare->warm = wanted.warm;
		rare->span = wanted.span;
		rare->sharers = wanted.sharers;
		submit_lease(w, rare, s, amount);
	}
	request_free(&s->request);
	lease_terms_unref(&w->terms, before);
	return entry_asks(e); /* else it failed at once */
}

/* ---- Answers ---- */

/*
 * What Redis has beside the lease, once `back` more has gone back; where others share it nothing or, since a few permits say
 * little of a large limit, a warm key's part.
 */
static uint32_t beside(const struct lease_rare *rare, const struct script_answer *answer,
		       uint64_t back)
{
	uint64_t there = answer->remaining < LIMIT_MAX ? answer->remaining + back : LIMIT_MAX;

	if (rare->sharers > 1 && !rare->warm)
		return 0;
	return (uint32_t)(there / rare->sharers);
}

static void granted(struct leases *w, struct lease_entry *e, uint64_t amount,
		    const struct script_answer *answer)
{
	uint64_t ends_us = e->rare->sent_us + e->rare->ttl_us;

	w->counters.granted++;
	if (e->left > amount && entry_has(w, e, e->rare->cost)) { /* it is worth more */
		e->beyond = beside(e->rare, answer, amount);
		e->scarce = true;
		submit_return(w, e, ends_us, amount);
		return;
	}
	e->beyond = beside(e->rare, answer, entry_has(w, e, 1) ? e->left : 0);
	entry_return(w, e);
	e->ends_us = ends_us;
	e->left = e->granted = (uint32_t)amount;
	e->warm = e->rare->warm;
	e->span = e->rare->span & 7U;
}

static void allowed(struct leases *w, struct lease_entry *e, const struct script_answer *answer)
{
	bool dropped = e->rare->dropped;
	uint64_t amount = answer->amount < LIMIT_MAX ? answer->amount : LIMIT_MAX;

	entry_forget_refusal(e);
	if (answer->lease_us > 0 && !dropped)
		granted(w, e, amount, answer);
	else if (answer->lease_us > 0)
		submit_return(w, e, e->rare->sent_us + e->rare->ttl_us, amount);
	else if (dropped || !entry_serve_first(w, e, amount))
		give_back(w, e, amount, answer);
}

static void doubt_home(struct leases *w, const struct lease_entry *e)
{
	struct request_state *s = NULL;

	if (w->engine->handover != NULL)
		s = leases_key_request(w, lease_entry_policy(e), lease_entry_key(e), 1);
	if (s == NULL)
		return;
	handover_doubt(s);
	request_free(&s->request);
}

static void refused(struct leases *w, struct lease_entry *e, const struct script_answer *answer)
{
	struct lease_rare *rare = e->rare;

	if (answer->is_untold)
		quota_untold(w->engine->agent, lease_entry_policy(e), lease_entry_key(e),
			     rare->cost);
	if (rare->dropped)
		return;
	lease_refusal_hear(&rare->refusal, rare->sent_us, leases_instant(w), rare->cost, answer);
	e->scarce = true;
	if (answer->why == SCRIPT_HELD) {
		if (answer->wait_us == SCRIPT_FENCED_US)
			doubt_home(w, e);
		entry_return(w, e);
	} else if (answer->turn.behind_others) {
		entry_return(w, e); /* callers at another agent wait for it */
	} else if (rare->first != NULL && entry_has(w, e, 1)) {
		/* Together with what is left there may be enough: those who asked start over. */
		entry_return(w, e);
		entry_forget_refusal(e);
	}
}

static void on_lease(kova_status status, const struct script_answer *answer, void *data)
{
	struct lease_rare *rare = data;
	struct lease_entry *e = rare->entry;
	struct leases *w = rare->leases;
	bool is_known = status == KOVA_OK && (rare->dropped || answer->check < e->terms->n_checks);

	w->counters.in_flight--;
	w->clock.is_old = true;
	rare->asking = false;
	if (is_known && !rare->dropped)
		e->shown = (uint8_t)answer->check;
	if (is_known && answer->status == SCRIPT_ALLOWED)
		allowed(w, e, answer);
	else if (is_known && answer->status == SCRIPT_REFUSED)
		refused(w, e, answer);
	rare->dropped = false;
	if (is_known)
		entry_serve(w, e);
	else
		entry_fail(e);
	entry_settle(w, e);
}
