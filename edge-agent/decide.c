/*
 * A request's way: it is checked, its bytes are made its own (request.c), its policies become checks (resolve.c), and the
 * region is asked. Granted: answered. Refused: answered, or it joins a queue (waiters.c) and is asked again
 * later. The region can't be asked or its answer is in doubt: the policies say what happens (outage.c).
 *
 * Pairs in different slots of a Cluster are asked in two steps: all groups but the first, then, if each was
 * granted, the first. It carries the id, so that an id is known only once everything was taken; what was taken for a
 * request that fails in the end is given back. If one of the others refuses, the first is asked whether it knows the id:
 * a repeat is answered as before, even when its own first time took the last there was.
 *
 * Every path ends in request_done(), exactly once. An abandoned request takes the same way; at its end what was
 * taken is given back instead of reported.
 */
#include <assert.h>
#include <stdio.h>

#include "control/control.h"
#include "engine.h"
#include "feedback.h"
#include "handover.h"
#include "io/log.h"
#include "leases.h"
#include "quota.h"
#include "request_trace.h"

enum { EDGE_TRIES = 3 };

/* ---- The end ---- */

static void ignore_answer(kova_status status, const struct script_answer *answer, void *data)
{
	(void)status;
	(void)answer;
	(void)data;
}

/* It need not be safe: what was not given back comes back by time. */
void request_submit_aside(struct request_state *s, const struct group *g,
			  const struct script_op *op)
{
	if (s->durable != NULL)
		durable_submit_unconfirmed(s->durable, g->slot, op, ignore_answer, NULL);
	else
		region_submit(s->site->region, g->slot, op, 0, ignore_answer, NULL);
}

/* Gives back what the groups from `first` on were granted. */
static void give_back(struct request_state *s, uint8_t first)
{
	struct script_op op;

	for (uint8_t i = first; i < s->n_groups; i++) {
		struct group *g = &s->groups[i];

		if (!request_takes(&s->request) || s->engine->closing || g->status != KOVA_OK ||
		    (g->answer.status != SCRIPT_ALLOWED && g->answer.status != SCRIPT_SHADOWED))
			continue;
		if (resolve_give_back(s, g, &op))
			request_submit_aside(s, g, &op);
	}
}

static bool counts(const struct request *r)
{
	return request_takes(r) && r->answer.error == REQUEST_NO_ERROR;
}

static void request_done(struct request_state *s)
{
	struct request *r = &s->request;

	assert(s->in_progress);
	traced_decision(s, false);
	waiters_leave(s, r->answer.allowed);
	leases_leave(s);
	s->in_progress = false;
	s->engine->n_in_progress--;
	if (s->abandoned) {
		/* With an id the charge stays, since its answer may be asked again. */
		request_count_abandoned(s, counts(r) && r->answer.allowed && r->id.len > 0);
		if (r->answer.allowed && r->id.len == 0)
			give_back(s, 0);
		request_free(r);
		return;
	}
	if (s->catalogue != NULL && counts(r))
		request_count(s);
	r->on_done(r);
}

void request_decided(struct request_state *s)
{
	assert(s->in_progress && !s->abandoned);
	traced_decision(s, true);
	s->in_progress = false;
	s->engine->n_in_progress--;
	s->request.on_done(&s->request);
}

static void fail(struct request_state *s, enum request_error error, const char *message)
{
	s->request.answer.error = error;
	s->request.answer.allowed = false;
	snprintf(s->request.answer.message, sizeof s->request.answer.message, "%s", message);
	request_done(s);
}

static void take_off(int64_t *ms, uint64_t passed_ms)
{
	if (*ms > 0)
		*ms = *ms > (int64_t)passed_ms ? *ms - (int64_t)passed_ms : 1;
}

void answer_age(struct answer *a, uint64_t passed_ms)
{
	if (passed_ms > 0) /* between whole ms: it may be one less */
		passed_ms--;
	take_off(&a->retry_after_ms, passed_ms);
	take_off(&a->more_after_ms, passed_ms);
	take_off(&a->reset_after_ms, passed_ms);
}

void request_refuse(struct request_state *s, enum reason reason)
{
	struct answer *a = &s->request.answer;

	if (a->policy[0] == '\0') /* it came behind others and was never asked for itself */
		waiters_refusal(s, a);
	else
		answer_age(a, uv_now(s->engine->loop) - s->refused_ms);
	a->allowed = false;
	a->reason = reason;
	request_done(s);
}

/* ---- What a request needs before it is asked ---- */

/* A refund's pairs are in its receipt. */
static bool open_receipt(struct request_state *s)
{
	struct request *r = &s->request;
	struct receipt receipt;

	if (receipt_parse(r->receipt, &s->receipt, &receipt) != KOVA_OK)
		return false;
	r->n_pairs = receipt.n_pairs;
	memcpy(r->pairs, receipt.pairs, sizeof r->pairs);
	memcpy(s->random, receipt.random, sizeof s->random);
	return true;
}

static void write_receipt(struct request_state *s)
{
	struct request *r = &s->request;
	struct receipt receipt = {.n_pairs = r->n_pairs};

	engine_random(s->engine, s->random, sizeof s->random);
	memcpy(receipt.random, s->random, sizeof s->random);
	memcpy(receipt.pairs, r->pairs, sizeof receipt.pairs);
	receipt_write(&s->receipt, &receipt);
}

static bool make_throttle_limit(struct request_state *s)
{
	const struct request_throttle *t = &s->request.throttle;

	s->throttle_limit = (struct limit){.algorithm = ALGORITHM_GCRA,
					   .limit = (uint64_t)t->count,
					   .per_us = (uint64_t)t->period_s * 1000000,
					   .burst = (uint64_t)t->max_burst + 1};
	s->request.pairs[0].cost = t->quantity == 0 ? 1 : (uint64_t)t->quantity;
	return limit_init(&s->throttle_limit) == KOVA_OK;
}

/* ---- Answers of the region ---- */

static int64_t hold_ms(const struct request_state *s)
{
	const struct policy *p = catalogue_policy(s->catalogue, s->request.pairs[0].policy);
	const struct level *last = &p->levels[p->n_levels - 1];

	return (int64_t)((last->has_slots ? &last->slots : &last->limit)->hold_us / 1000);
}

/* What every admission brings beside the verdict. */
static void hand_out(struct request_state *s)
{
	struct request *r = &s->request;

	if (s->receipt.len > 0 && r->want_receipt)
		r->answer.receipt = buf_slice(&s->receipt);
	if (r->kind == REQUEST_ACQUIRE) {
		r->answer.permit = (struct slice){s->permit, sizeof s->permit};
		r->answer.hold_ms = hold_ms(s);
	}
}

static void answer_granted(struct request_state *s, const struct group *g)
{
	struct request *r = &s->request;

	resolve_answer(&r->answer, &s->checks[g->first_check + g->answer.check], &g->answer, true);
	r->answer.reason = REASON_OK;
	hand_out(s);
}

/* The group whose least remaining is the least of all. */
static const struct group *tightest(const struct request_state *s)
{
	const struct group *least = &s->groups[0];

	for (uint8_t i = 1; i < s->n_groups; i++)
		if (s->groups[i].answer.remaining < least->answer.remaining)
			least = &s->groups[i];
	return least;
}

/* What this agent has leased of the key is there, too. */
static void add_leased(struct request_state *s)
{
	struct answer *a = &s->request.answer;
	const struct request_pair *q = &s->request.pairs[0];

	if (s->request.n_pairs > 1)
		return;
	a->remaining += leases_left(s->engine->leases, q->policy, q->key);
	if (a->remaining > a->limit)
		a->remaining = a->limit;
}

static void granted(struct request_state *s)
{
	bool shadowed = false;

	for (uint8_t i = 0; i < s->n_groups; i++)
		shadowed |= s->groups[i].answer.shadowed;
	answer_granted(s, tightest(s));
	if (s->request.kind == REQUEST_PEEK)
		add_leased(s);
	for (uint8_t i = 0; i < s->request.n_pairs && s->request.kind == REQUEST_TAKE; i++)
		leases_took(s->engine->leases, &s->request.pairs[i]);
	if (shadowed)
		s->request.answer.reason = REASON_SHADOW;
	request_done(s);
}

/* How long the caller may wait: as it asked, within the bounds of every policy. */
static uint64_t wait_bound_ms(const struct request_state *s)
{
	bool may_wait = counts(&s->request) && !s->engine->draining;
	uint64_t wait_ms = may_wait ? s->request.wait_ms : 0;

	for (uint16_t i = 0; i < s->n_checks; i++) {
		const struct policy *p = s->checks[i].policy;

		if (p->wait_max_queue == 0)
			return 0;
		if (p->wait_max_ms < wait_ms)
			wait_ms = p->wait_max_ms;
	}
	return wait_ms;
}

static void ask(struct request_state *s, bool chained, unsigned n_after);

/* Joins the queues, or is refused because one is full. */
static void wait_in_line(struct request_state *s, uint64_t wait_ms)
{
	if (!waiters_join(s, uv_now(s->engine->loop) + wait_ms)) {
		request_refuse(s, REASON_QUEUE_FULL);
		return;
	}
	traced_wait(s, "kova.wait");
	waiters_enter(s);
	ask(s, false, 0);
}

static const enum reason refusals[] = {
	[SCRIPT_LIMITED] = REASON_LIMITED,
	[SCRIPT_HELD] = REASON_HELD,
	[SCRIPT_BREAKER_OPEN] = REASON_BREAKER_OPEN,
	[SCRIPT_QUEUE_FULL] = REASON_LIMITED, /* at all agents together: request_refuse() says it */
};

/*
 * Permits that were leased here may be what it was refused for: they go back, and the region is asked once more; and again,
 * should another lease have come before.
 */
enum { GIVE_UPS_MAX = 8 };

static bool gave_up_leases(struct request_state *s, const struct check_ref *ref,
			   const struct script_answer *said)
{
	const struct request_pair *q = &s->request.pairs[ref->pair];

	if (said->why != SCRIPT_LIMITED || s->request.kind != REQUEST_TAKE || s->is_aside ||
	    s->leases_given_up == GIVE_UPS_MAX || waiters_is_waiting(s))
		return false;
	if (!leases_give_up(s->engine->leases, q->policy, q->key, s->lease_returns))
		return false;
	s->leases_given_up++;
	return true;
}

static void refused(struct request_state *s, const struct group *g)
{
	const struct check_ref *ref = &s->checks[g->first_check + g->answer.check];
	struct answer *a = &s->request.answer;
	bool never = g->answer.wait_us < 0;

	give_back(s, 0);
	if (g->answer.is_untold)
		quota_untold(s->engine->agent, s->request.pairs[ref->pair].policy,
			     s->request.pairs[ref->pair].key, ref->cost);
	if (g->answer.why == SCRIPT_HELD && g->answer.wait_us == SCRIPT_FENCED_US)
		handover_doubt(s);
	resolve_answer(a, ref, &g->answer, false);
	a->reason = refusals[g->answer.why];
	s->refused_ms = uv_now(s->engine->loop);
	if (!request_takes(&s->request) || s->abandoned || never) {
		request_done(s);
		return;
	}
	if (gave_up_leases(s, ref, &g->answer)) {
		ask(s, false, 0);
		return;
	}
	leases_refused(s, ref, &g->answer);
	if (g->answer.why == SCRIPT_QUEUE_FULL) {
		request_refuse(s, REASON_QUEUE_FULL);
	} else if (waiters_is_waiting(s)) {
		waiters_refused(s, &g->answer, ref);
	} else {
		uint64_t wait_ms = wait_bound_ms(s);

		if (wait_ms == 0)
			request_done(s);
		else
			wait_in_line(s, wait_ms);
	}
}

static void answered_amount(struct request_state *s)
{
	struct request *r = &s->request;
	uint64_t most = 0;

	for (uint8_t i = 0; i < s->n_groups; i++)
		if (s->groups[i].answer.amount > most)
			most = s->groups[i].answer.amount;
	r->answer.amount = (int64_t)most;
	if (most > 0 && r->kind != REQUEST_RENEW)
		for (uint8_t i = 0; i < r->n_pairs; i++) {
			leases_forget(s->engine->leases, r->pairs[i].policy, r->pairs[i].key);
			waiters_wake(s->engine->waiters, r->pairs[i].policy, r->pairs[i].key);
		}
	request_done(s);
}

static void fed_back(struct request_state *s)
{
	feedback_heard(s, &s->groups[0].answer);
	request_done(s);
}

/* The same request was granted before under its id: its answer again. What the other groups were
 * charged on the way to the first is given back. */
static void repeated(struct request_state *s)
{
	s->is_repeat = true;
	give_back(s, 1);
	answer_granted(s, &s->groups[0]);
	if (s->groups[0].answer.shadowed)
		s->request.answer.reason = REASON_SHADOW;
	if (s->receipt.len == 0)
		s->request.answer.receipt = (struct slice){0};
	request_done(s);
}

static void keep_echo(struct request_state *s, struct slice echo)
{
	if (echo.len < PERMIT_CHARS)
		return;
	memcpy(s->permit, echo.ptr, PERMIT_CHARS);
	buf_clear(&s->receipt);
	buf_add(&s->receipt, echo.ptr + PERMIT_CHARS, echo.len - PERMIT_CHARS);
}

/*
 * The permit is the one that the store may know. The receipt is another: what was given back above must not be
 * refunded once more.
 */
static void hand_out_in_doubt(struct request_state *s)
{
	if (s->request.want_receipt) {
		buf_clear(&s->receipt);
		write_receipt(s);
	}
	hand_out(s);
}

/* The store can't be asked, or whether it did what it was asked is not known. */
static void in_doubt(struct request_state *s)
{
	give_back(s, 0);
	if (request_takes(&s->request) || s->request.kind == REQUEST_PEEK) {
		outage_decide(s);
		if (s->request.answer.allowed)
			hand_out_in_doubt(s);
		request_done(s);
	} else {
		fail(s, REQUEST_UNAVAILABLE,
		     "the store can't be reached: it is not known whether anything changed");
	}
}

enum { NEWER_LOGGED_MS = 60000 };

/* Agents of a later version have written a state that this one would misread. */
static void too_new(struct request_state *s, const struct group *g)
{
	const struct check_ref *ref = &s->checks[g->first_check + g->answer.check];
	struct engine *e = s->engine;

	if (e->newer_logged_ms == 0 || uv_now(e->loop) - e->newer_logged_ms >= NEWER_LOGGED_MS) {
		e->newer_logged_ms = uv_now(e->loop);
		log_event(LOG_ERROR, "state_newer",
			  "a later version of Kova has written states in Redis that this one can't "
			  "read: requests for these keys fail until the agent is upgraded",
			  LOG_TEXT_FIELD("policy",
					 ref->policy != NULL ? ref->policy->name : "CL.THROTTLE"),
			  LOG_TEXT_FIELD_IF(s->request.trace != NULL, "trace_id",
					    trace_id_text(s->request.trace).text));
	}
	give_back(s, 0);
	fail(s, REQUEST_UNAVAILABLE,
	     "the state of the key is of a later version of Kova than this agent's");
}

/* ---- Asking the region ---- */

static void on_answer(kova_status status, const struct script_answer *answer, void *data);

static void ask_group(struct request_state *s, struct group *g, bool chained, unsigned n_after)
{
	struct script_op op;

	s->groups_asked++;
	if (!resolve_operation(s, g, &op)) {
		on_answer(KOVA_ENOMEM, NULL, g);
		return;
	}
	op.chained = chained;
	if (s->looking_up) {
		op.kind = SCRIPT_PEEK;
		op.receipt_key = (struct slice){0};
	}
	s->asked_far |= s->site->is_far;
	traced_ask(s, g);
	waiters_claim(s, g);
	if (s->durable != NULL)
		durable_submit(s->durable, g->slot, &op, n_after, on_answer, g);
	else
		region_submit(s->site->region, g->slot, &op, n_after, on_answer, g);
}

bool request_can_ask(const struct request_state *s, const struct group *g)
{
	if (s->durable != NULL)
		return durable_up(s->durable, g->slot);
	return s->site->region != NULL && region_up(s->site->region, g->slot);
}

/* All groups asked so far were granted. */
static void next_step(struct request_state *s)
{
	if (s->n_groups > 1 && !s->asking_first) {
		s->asking_first = true;
		ask_group(s, &s->groups[0], false, 0);
		return;
	}
	if (s->request.kind == REQUEST_FEEDBACK)
		fed_back(s);
	else if (!request_takes(&s->request) && s->request.kind != REQUEST_PEEK &&
		 s->request.kind != REQUEST_THROTTLE)
		answered_amount(s);
	else if (s->groups[0].answer.status == SCRIPT_REPEATED)
		repeated(s);
	else
		granted(s);
}

/* Does the first group know the id? Nothing is taken. */
static void look_up_id(struct request_state *s)
{
	s->looking_up = true;
	ask_group(s, &s->groups[0], false, 0);
}

/* Behind the others, as long as the caller may wait. */
static void stand_behind(struct request_state *s)
{
	uint64_t wait_ms = s->abandoned ? 0 : wait_bound_ms(s);

	if (wait_ms > 0) {
		wait_in_line(s, wait_ms);
		return;
	}
	waiters_refusal(s, &s->request.answer);
	request_done(s);
}

/* Not known: it is as new as any other. */
static void id_unknown(struct request_state *s)
{
	if (waiters_ahead(s) || s->abandoned)
		stand_behind(s);
	else
		ask(s, false, 0);
}

static void step(struct request_state *s)
{
	bool looked_up = s->looking_up;

	for (uint8_t i = 0; i < s->n_groups; i++) {
		struct group *g = &s->groups[i];

		if (g->status == KOVA_AGAIN)
			continue; /* not asked yet */
		if (g->status != KOVA_OK) {
			in_doubt(s);
			return;
		}
	}
	for (uint8_t i = 0; i < s->n_groups; i++)
		if (s->groups[i].status == KOVA_OK && s->groups[i].answer.status == SCRIPT_NEWER) {
			too_new(s, &s->groups[i]);
			return;
		}
	if (looked_up) {
		s->looking_up = false;
		if (s->groups[0].answer.status == SCRIPT_REPEATED) {
			repeated(s);
			return;
		}
		s->groups[0].status = KOVA_AGAIN; /* nothing was taken there */
	}
	for (uint8_t i = 0; i < s->n_groups; i++) {
		struct group *g = &s->groups[i];

		if (g->status != KOVA_OK || g->answer.status != SCRIPT_REFUSED)
			continue;
		if (i > 0 && !looked_up && request_takes(&s->request) && s->request.id.len > 0)
			look_up_id(s);
		else
			refused(s, g);
		return;
	}
	if (looked_up)
		id_unknown(s);
	else
		next_step(s);
}

static void on_answer(kova_status status, const struct script_answer *answer, void *data)
{
	request_heard(data, status, answer);
}

void request_heard(struct group *g, kova_status status, const struct script_answer *answer)
{
	struct request_state *s = g->state;

	s->groups_asked--;
	g->status = status;
	traced_answer(s, g, status, answer);
	if (answer != NULL) {
		if (answer->status == SCRIPT_EDGES && !s->is_aside &&
		    s->edge_tries++ < EDGE_TRIES) {
			ask_group(s, g, false, 0); /* the region has heard the right time by now */
			return;
		}
		g->answer = *answer;
		if (answer->status == SCRIPT_EDGES || answer->check >= g->n_checks)
			g->status = KOVA_EPROTO;
		if (answer->limit > 0 && g->status == KOVA_OK)
			outage_learn(s->engine->outage, s,
				     &s->checks[g->first_check + answer->check], answer->limit);
		if (answer->status == SCRIPT_REPEATED)
			keep_echo(s, answer->echo);
		g->answer.echo = (struct slice){0};
	}
	if (s->groups_asked == 0)
		step(s);
}

/* Whether its keys have arrived where they are at home now. False: the request was answered, or it waits. */
static bool has_moved(struct request_state *s)
{
	struct group *g = NULL;
	enum handover_state state = handover_step(s, &g);

	if (state == HANDOVER_WAIT)
		refused(s, g);
	else if (state == HANDOVER_NO_STORE)
		in_doubt(s);
	return state == HANDOVER_DONE;
}

/* false: a part of the store is known to be away, or its keys are on their way, and the request was answered. */
static bool may_ask(struct request_state *s)
{
	s->asking_first = s->looking_up = false;
	s->edge_tries = 0;
	s->lease_returns = leases_returns(s->engine->leases);
	for (uint8_t i = 0; i < s->n_groups; i++)
		s->groups[i].status = KOVA_AGAIN;
	for (uint8_t i = 0; i < s->n_groups; i++)
		if (!request_can_ask(s, &s->groups[i])) {
			in_doubt(s);
			return false;
		}
	return s->engine->handover == NULL || !request_takes(&s->request) || has_moved(s);
}

static void ask(struct request_state *s, bool chained, unsigned n_after)
{
	uint8_t first = s->n_groups > 1 ? 1 : 0;

	if (!may_ask(s))
		return;
	s->groups_asked++; /* until all are asked: an answer may come from within */
	for (uint8_t i = first; i < s->n_groups; i++)
		ask_group(s, &s->groups[i], chained, n_after);
	if (--s->groups_asked == 0)
		step(s);
}

static void on_durable_started(void *data)
{
	struct request_state *s = data;

	s->groups_asked--;
	if (waiters_is_waiting(s))
		request_try_again(s, false, 0);
	else
		request_start(s);
}

/* A policy that asks for a new durability was just put in force: its connection is on its way. */
static bool put_off(struct request_state *s)
{
	if (s->durable == NULL || !durable_is_starting(s->durable) ||
	    !durable_when_started(s->durable, on_durable_started, s))
		return false;
	s->groups_asked++; /* it is under way, for the waiters and for request_abandon() */
	return true;
}

/*
 * Finds what is to be asked, by the catalogue in force; false: the request was answered by that alone, or is put off.
 */
static bool prepare(struct request_state *s)
{
	struct answer *a = &s->request.answer;
	enum resolution resolution = resolve(s);
	bool admitted = resolution == RESOLVED_AT_ONCE && a->allowed;

	if (s->permit[0] == '\0' &&
	    (s->wants_permit || (admitted && s->request.kind == REQUEST_ACQUIRE)))
		request_make_permit(s);
	if (resolution == RESOLVED)
		return !put_off(s);
	if (admitted)
		hand_out(s);
	request_done(s);
	return false;
}

void request_try_again(struct request_state *s, bool chained, unsigned n_after)
{
	/* What it was refused with may be of an older catalogue. */
	s->request.answer = (struct answer){0};
	if (prepare(s))
		ask(s, chained, n_after);
}

/* ---- The beginning ---- */

void request_start(struct request_state *s)
{
	const struct request *r = &s->request;

	traced_move(s);
	if (!prepare(s))
		return;
	if (r->kind == REQUEST_FEEDBACK)
		feedback_begins(s);
	if (!request_takes(r) || !waiters_ahead(s))
		ask(s, false, 0);
	else if (r->id.len == 0)
		stand_behind(s);
	else if (may_ask(s)) /* a repeat need not wait again */
		look_up_id(s);
}

void request_in_doubt(struct request_state *s)
{
	if (resolve(s) == RESOLVED)
		in_doubt(s);
	else
		request_done(s);
}

static bool brings_limits(const struct request *r)
{
	for (uint8_t i = 0; i < r->n_pairs; i++)
		if (r->pairs[i].own_per_s > 0)
			return true;
	return false;
}

/* What may be decided from leases: a plain take, with nobody in line before it. */
static enum lease_verdict try_lease(struct request_state *s)
{
	const struct request *r = &s->request;

	if (r->kind != REQUEST_TAKE || r->n_pairs == 0 || r->id.len > 0 || r->want_receipt ||
	    brings_limits(r) || waiters_ahead(s))
		return LEASE_NONE;
	return leases_try(s);
}

/* For the lease that was asked for. */
static void stand_by(struct request_state *s)
{
	traced_wait(s, "kova.lease");
	leases_join(s);
}

static void begin(struct request_state *s)
{
	enum lease_verdict verdict = try_lease(s);

	if (verdict == LEASE_DECIDED)
		request_decided(s);
	else if (s->request.kind != REQUEST_REFUND && !request_own(s))
		fail(s, REQUEST_UNAVAILABLE, "out of memory");
	else if (verdict == LEASE_PENDING)
		stand_by(s);
	else
		request_start(s);
}

void decide(struct engine *e, struct request *r)
{
	struct request_state *s = state_of(r);
	enum request_error error;
	const char *message = "";

	s->in_progress = true;
	e->n_in_progress++;
	if (e->draining)
		fail(s, REQUEST_UNAVAILABLE, "the agent is shutting down");
	else if (!request_check(r, &message))
		fail(s, REQUEST_RANGE, message);
	else if ((error = feedback_check(s, &message)) != REQUEST_NO_ERROR)
		fail(s, error, message);
	else if (r->kind == REQUEST_REFUND && !open_receipt(s))
		fail(s, REQUEST_MALFORMED,
		     "not a receipt: give what RECEIPT (\"receipt\": true) returned");
	else if (r->kind == REQUEST_THROTTLE && !make_throttle_limit(s))
		fail(s, REQUEST_RANGE,
		     "max_burst + 1 times period divided by count must be at most 100 years");
	else {
		if (r->want_receipt)
			write_receipt(s);
		begin(s);
	}
}

void request_abandon(struct request *r)
{
	struct request_state *s = state_of(r);

	assert(s->in_progress && !s->abandoned);
	s->abandoned = true;
	traced_abandon(s);
	if (s->groups_asked == 0) /* it only waits; else it ends when its answer comes */
		request_done(s);
}
