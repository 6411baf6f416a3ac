/*
 * The happy path: the pairs are resolved, LEASE asks for one lease of all their limits, and the answer is the owner's. A
 * lease that Redis can only grant as a take to be spent at once (the window ends before, the share of all regions does) is
 * given back and asked for again for a shorter time.
 *
 * Failures: the region refuses: when to ask again is known; what this agent itself has leased of the keys goes back
 * meanwhile. It can't be asked: the policies' `on_outage`. Its answer is in doubt: nothing is given, and what it may have
 * granted comes back by time. The owner is gone: what was granted goes back. Every path ends in finish(), exactly once.
 */
#include "allot.h"

#include <stdlib.h>

#include "control/control.h"
#include "engine.h"
#include "handover.h"
#include "lease_terms.h"
#include "leases.h"
#include "quota.h"
#include "usage.h"

enum {
	WAIT_US = 500000,         /* until it is worth asking again, where nothing else says so */
	OUTAGE_WAIT_US = 1000000, /* by `on_outage` is decided anew as often */
};

struct allot {
	struct engine *engine;
	void (*on_allotted)(void *data, const struct allotted *said);
	void *data;
	struct allot **asking; /* NULL: nobody waits for it */
	uint64_t lease, sent_us, ttl_us, amount;
	uint8_t n_pairs;
	struct request_pair pairs[REQUEST_PAIRS_MAX];
	char text[]; /* what they point to */
};

static void finish(struct allot *a, const struct allotted *said)
{
	if (a->asking != NULL) {
		*a->asking = NULL;
		a->on_allotted(a->data, said);
	} else if (said->kind == ALLOTTED_SOME && said->lease != 0) {
		allot_return(a->engine, a->pairs, a->n_pairs, said->lease, said->amount);
	}
	free(a);
}

static void finish_none(struct allot *a, uint64_t wait_us)
{
	finish(a, &(struct allotted){.kind = ALLOTTED_NONE, .wait_us = wait_us});
}

/* ---- The pairs ---- */

/* A take of `cost` from each pair, with *ret_resolution. NULL: too much is in progress. */
static struct request_state *pairs_request(struct engine *e, const struct request_pair *pairs,
					   uint8_t n_pairs, uint64_t cost,
					   enum resolution *ret_resolution)
{
	struct request *r = request_new(e);

	if (r == NULL)
		return NULL;
	r->kind = REQUEST_TAKE;
	r->n_pairs = n_pairs;
	for (uint8_t i = 0; i < n_pairs; i++) {
		r->pairs[i] = pairs[i];
		r->pairs[i].cost = cost;
	}
	*ret_resolution = resolve(state_of(r));
	return state_of(r);
}

/* The same, where it is one operation of a region that can be asked. */
static struct request_state *pairs_operation(struct engine *e, const struct request_pair *pairs,
					     uint8_t n_pairs, uint64_t cost,
					     struct script_op *ret_op)
{
	enum resolution resolution;
	struct request_state *s = pairs_request(e, pairs, n_pairs, cost, &resolution);

	if (s == NULL)
		return NULL;
	if (resolution == RESOLVED && s->n_groups == 1 && s->site->region != NULL && !e->closing &&
	    region_up(s->site->region, s->groups[0].slot) &&
	    resolve_operation(s, &s->groups[0], ret_op)) {
		ret_op->permit = (struct slice){0};
		return s;
	}
	request_free(&s->request);
	return NULL;
}

static bool may_lease(const struct request_state *s)
{
	if (s->durable != NULL || s->n_groups != 1)
		return false;
	for (uint16_t i = 0; i < s->n_checks; i++)
		if (!lease_terms_fit(&s->checks[i]))
			return false;
	return true;
}

static uint32_t sharers(const struct request_state *s)
{
	return site_agents(s->site, s->checks[0].policy->scope == SCOPE_HOME) * s->engine->loops;
}

uint64_t allot_part(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs)
{
	enum resolution resolution;
	struct request_state *s = pairs_request(e, pairs, n_pairs, 1, &resolution);
	uint64_t least = LIMIT_MAX;

	if (s == NULL)
		return 0;
	for (uint16_t i = 0; i < s->n_checks && resolution == RESOLVED; i++) {
		uint64_t capacity = limit_capacity(s->checks[i].limit);
		uint64_t max = s->checks[i].policy->lease.max;

		least = capacity < least ? capacity : least;
		least = max > 0 && max < least ? max : least;
	}
	if (resolution == RESOLVED)
		least = may_lease(s) ? least / sharers(s) : 0;
	request_free(&s->request);
	return least;
}

/* ---- Without the region ---- */

static enum outage_action action_of(const struct request_state *s)
{
	enum outage_action action = OUTAGE_ALLOW;

	for (uint16_t i = 0; i < s->n_checks; i++) {
		enum outage_action of = s->checks[i].policy->on_outage;

		if (of == OUTAGE_DENY)
			return OUTAGE_DENY;
		action = of == OUTAGE_LOCAL ? of : action;
	}
	return action;
}

/* What this agent's part of the limits gives of `amount`. */
static uint64_t local_part(struct allot *a, uint64_t amount)
{
	enum resolution resolution;
	struct request_state *s =
		pairs_request(a->engine, a->pairs, a->n_pairs, amount, &resolution);
	uint64_t given = 0;

	if (s == NULL)
		return 0;
	if (resolution == RESOLVED) {
		outage_decide(s);
		given = s->request.answer.allowed ? amount : 0;
		if (given == 0 && s->request.answer.remaining > 0 &&
		    s->request.answer.remaining < amount)
			given = local_part(a, s->request.answer.remaining);
	}
	request_free(&s->request);
	return given;
}

static void finish_by_outage(struct allot *a, enum outage_action action)
{
	struct allotted said = {.is_outage = true,
				.wait_us = OUTAGE_WAIT_US,
				.ends_us = a->sent_us + ALLOT_TTL_MIN_US};

	if (action == OUTAGE_ALLOW)
		said.kind = ALLOTTED_ALL;
	else if (action == OUTAGE_LOCAL)
		said.amount = local_part(a, a->amount);
	if (said.amount > 0)
		said.kind = ALLOTTED_SOME;
	finish(a, &said);
}

/* ---- Asking ---- */

static void ask(struct allot *a);

/* It was granted as a take, to be spent at once. */
static void give_back(struct allot *a, const struct script_answer *answer)
{
	struct script_op op;
	struct request_state *s =
		pairs_operation(a->engine, a->pairs, a->n_pairs, answer->amount, &op);

	if (s == NULL)
		return;
	s->groups[0].answer = *answer;
	if (resolve_give_back(s, &s->groups[0], &op))
		request_submit_aside(s, &s->groups[0], &op);
	request_free(&s->request);
}

/* What this agent has leased for decisions of its own may be what is missing. */
static void give_up_leases(struct allot *a)
{
	struct leases *w = a->engine->leases;

	for (uint8_t i = 0; i < a->n_pairs; i++)
		(void)leases_give_up(w, a->pairs[i].policy, a->pairs[i].key, leases_returns(w));
}

static void allowed(struct allot *a, const struct script_answer *answer)
{
	if (answer->lease_us > 0) {
		finish(a, &(struct allotted){.kind = ALLOTTED_SOME,
					     .amount = answer->amount < LIMIT_MAX ? answer->amount
										  : LIMIT_MAX,
					     .lease = a->lease,
					     .ends_us = a->sent_us + a->ttl_us});
		return;
	}
	give_back(a, answer);
	if (a->ttl_us == ALLOT_TTL_MIN_US || a->engine->closing) {
		finish_none(a, WAIT_US);
		return;
	}
	a->ttl_us = ALLOT_TTL_MIN_US; /* from when it was sent: what has passed of it is gone */
	ask(a);
}

static void on_answer(kova_status status, const struct script_answer *answer, void *data)
{
	struct allot *a = data;

	if (status != KOVA_OK) {
		finish_none(a, WAIT_US);
	} else if (answer->status == SCRIPT_ALLOWED) {
		allowed(a, answer);
	} else {
		if (answer->is_untold)
			quota_untold(a->engine->agent, a->pairs[0].policy, a->pairs[0].key,
				     a->amount);
		give_up_leases(a);
		finish_none(a, answer->status == SCRIPT_REFUSED && answer->wait_us >= 0
				       ? (uint64_t)answer->wait_us
				       : WAIT_US);
	}
}

static void submit(struct allot *a, struct request_state *s)
{
	struct script_op op;

	if (!resolve_operation(s, &s->groups[0], &op)) {
		finish_none(a, WAIT_US);
		return;
	}
	op.kind = SCRIPT_LEASE;
	op.permit = (struct slice){0};
	op.amount = a->amount;
	op.ttl_us = a->ttl_us;
	op.sharers = sharers(s);
	engine_random(a->engine, (unsigned char *)&a->lease, sizeof a->lease);
	a->lease |= 1; /* not 0 */
	memcpy(op.lease, &a->lease, sizeof op.lease);
	region_submit(s->site->region, s->groups[0].slot, &op, 0, on_answer, a);
}

/* By those who wait here, and by the home of the keys. */
static bool is_their_turn(struct request_state *s)
{
	struct group *group;

	return !waiters_ahead(s) &&
	       (s->engine->handover == NULL || handover_step(s, &group) == HANDOVER_DONE);
}

static void ask_resolved(struct allot *a, struct request_state *s)
{
	if (!may_lease(s))
		finish(a, &(struct allotted){.kind = ALLOTTED_NEVER, .wait_us = WAIT_US});
	else if (!request_can_ask(s, &s->groups[0]))
		finish_by_outage(a, action_of(s));
	else if (!is_their_turn(s))
		finish_none(a, WAIT_US);
	else
		submit(a, s);
}

static void ask(struct allot *a)
{
	enum resolution resolution;
	struct request_state *s = pairs_request(a->engine, a->pairs, a->n_pairs, 1, &resolution);

	if (s == NULL) {
		finish_none(a, WAIT_US);
		return;
	}
	if (resolution == RESOLVED)
		ask_resolved(a, s);
	else if (s->request.answer.error == REQUEST_NO_ERROR && s->request.answer.allowed)
		finish(a, &(struct allotted){.kind = ALLOTTED_ALL, .wait_us = WAIT_US});
	else
		finish_none(a, WAIT_US);
	request_free(&s->request);
}

static size_t text_bytes(const struct allot_wish *wish)
{
	size_t n = 0;

	for (uint8_t i = 0; i < wish->n_pairs; i++)
		n += wish->pairs[i].policy.len + wish->pairs[i].key.len;
	return n;
}

static struct slice keep(char **at, struct slice text)
{
	struct slice kept = {*at, text.len};

	memcpy(*at, text.ptr, text.len);
	*at += text.len;
	return kept;
}

/* How long a lease lasts: what the policies say, within what is of use here. */
static uint64_t ttl_us(const struct engine *e, const struct allot_wish *wish)
{
	const struct catalogue *c = control_catalogue(e->control);
	uint64_t us = ALLOT_TTL_US;

	for (uint8_t i = 0; i < wish->n_pairs; i++) {
		const struct policy *p = catalogue_policy(c, wish->pairs[i].policy);

		if (p != NULL && !p->lease.automatic && !p->lease.off && p->lease.ttl_us < us)
			us = p->lease.ttl_us;
	}
	return us > ALLOT_TTL_MIN_US ? us : ALLOT_TTL_MIN_US;
}

bool allot_ask(struct engine *e, const struct allot_wish *wish,
	       void (*on_allotted)(void *data, const struct allotted *said), void *data,
	       struct allot **asking)
{
	struct allot *a = calloc(1, sizeof *a + text_bytes(wish));
	char *at;

	if (a == NULL)
		return false;
	*asking = a;
	a->asking = asking;
	at = a->text;
	a->engine = e;
	a->on_allotted = on_allotted;
	a->data = data;
	a->amount = wish->amount;
	a->sent_us = wish->sent_us;
	a->ttl_us = ttl_us(e, wish);
	a->n_pairs = wish->n_pairs;
	for (uint8_t i = 0; i < wish->n_pairs; i++) {
		a->pairs[i].policy = keep(&at, wish->pairs[i].policy);
		a->pairs[i].key = keep(&at, wish->pairs[i].key);
	}
	ask(a);
	return true;
}

void allot_abandon(struct allot **asking)
{
	(*asking)->asking = NULL;
	*asking = NULL;
}

/* ---- Settling ---- */

void allot_return(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs,
		  uint64_t lease, uint64_t left)
{
	struct script_op op;
	struct request_state *s = pairs_operation(e, pairs, n_pairs, 1, &op);

	if (s == NULL)
		return; /* it ends by itself */
	op.kind = SCRIPT_UNLEASE;
	op.amount = left;
	memcpy(op.lease, &lease, sizeof op.lease);
	request_submit_aside(s, &s->groups[0], &op);
	request_free(&s->request);
}

void allot_charge(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs,
		  uint64_t amount)
{
	struct script_op op;
	enum resolution resolution;
	uint64_t cost = amount < LIMIT_MAX ? amount : LIMIT_MAX;
	struct request_state *s = pairs_operation(e, pairs, n_pairs, cost, &op);

	if (s != NULL) {
		op.kind = SCRIPT_CHARGE;
		request_submit_aside(s, &s->groups[0], &op);
	} else if ((s = pairs_request(e, pairs, n_pairs, cost, &resolution)) == NULL) {
		return;
	} else if (resolution == RESOLVED) {
		outage_decide(s); /* what `allow` lets pass is charged when the region is back */
	}
	request_free(&s->request);
}

void allot_count(struct engine *e, const struct request_pair *pairs, uint8_t n_pairs,
		 uint64_t admitted, uint64_t refused)
{
	int64_t now_ms = (int64_t)(site_now_us(e->own) / 1000);

	for (uint8_t i = 0; i < n_pairs; i++) {
		const struct request_pair *q = &pairs[i];
		const struct policy *p = catalogue_policy(control_catalogue(e->control), q->policy);

		if (p == NULL)
			continue;
		engine_counts(e, p)->allowed += admitted;
		engine_counts(e, p)->refused += refused;
		if (admitted > 0)
			usage_add(e->usage, q->policy, q->key, USAGE_ADMITTED, admitted, now_ms);
		if (refused > 0)
			usage_add(e->usage, q->policy, q->key, USAGE_REFUSED, refused, now_ms);
	}
}
