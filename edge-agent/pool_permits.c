/*
 * The permits that go with an endpoint. Where nothing but the own Redis has a say in them, the script takes them in the step in which it
 * gives the endpoint: pool_permits_ask() sends them along with NEXT, pool_permits_heard() reads what the limiter answered, and tells the
 * request in aside.h that carried them. An endpoint whose own permits are refused is passed over by the script.
 *
 * Else they are taken apart, in a second step: pool_permits_take() asks the limiter for all of them at once when the endpoint is there;
 * what it refuses gives the endpoint back, as if it had not been given, and where it was the endpoint's own permit another one is asked
 * for. An agent that dies in between leaves the endpoint in flight until its lease ends, and permits that nobody has, which come back by
 * time.
 */
#include <stdio.h>
#include <string.h>

#include "aside.h"
#include "engine.h"
#include "pool_own.h"

enum { POLL_UNKNOWN_MS = 250 };

static struct slice holder_of(const struct pool_member *m)
{
	return slice_of(m->group[0] != '\0' ? m->group : m->id);
}

static bool has_own(const struct pool_request *r)
{
	return r->def->permit[0] != '\0';
}

bool pool_permits_needed(const struct pool_request *r)
{
	return r->n_takes > 0 || has_own(r) ||
	       (r->def->target_policy[0] != '\0' && r->target.len > 0);
}

static void add_pair(struct request *take, struct slice policy, struct slice key, uint64_t cost)
{
	take->pairs[take->n_pairs++] =
		(struct request_pair){.policy = policy, .key = key, .cost = cost};
}

/* All that goes with an endpoint of this holder. NULL: too many requests are in progress. */
static struct request *request_for(struct pool_request *r, struct slice holder)
{
	struct request *take = request_new(r->service->agent->engine);

	if (take == NULL)
		return NULL;
	take->kind = REQUEST_TAKE;
	take->owner = r;
	take->trace = r->trace;
	if (has_own(r))
		add_pair(take, slice_of(r->def->permit), holder, 1);
	if (r->def->target_policy[0] != '\0' && r->target.len > 0)
		add_pair(take, slice_of(r->def->target_policy), r->target, 1);
	for (unsigned i = 0; i < r->n_takes; i++)
		add_pair(take, r->takes[i].policy, r->takes[i].key, r->takes[i].cost);
	return take;
}

static enum pool_error error_of(enum request_error error)
{
	switch (error) {
	case REQUEST_NO_POLICY:
		return POOL_NO_POLICY;
	case REQUEST_RANGE:
		return POOL_RANGE;
	case REQUEST_MALFORMED:
		return POOL_MALFORMED;
	default:
		return POOL_UNAVAILABLE;
	}
}

static void fail(struct pool_request *r, enum pool_error error, const char *message)
{
	pool_request_give_up(r);
	pool_wait_leave(r);
	pool_request_fail(r, error, "%s", message);
}

/* The soonest that the permit of one that is passed over may be there. */
static void note_passed(struct pool_request *r, int64_t retry_ms)
{
	if (!r->passed || (retry_ms >= 0 && (r->limited_ms < 0 || retry_ms < r->limited_ms)))
		r->limited_ms = retry_ms;
	r->passed = true;
}

static void limited(struct pool_request *r, const struct answer *a)
{
	r->answer.pause = POOL_LIMITED;
	r->answer.retry_in_ms = a->retry_after_ms;
	snprintf(r->answer.paused, sizeof r->answer.paused, "limited:%s", a->policy);
	r->limited = true;
	pool_request_pause(r,
			   a->retry_after_ms > 0 ? (uint64_t)a->retry_after_ms : POLL_UNKNOWN_MS);
}

/* ---- With the endpoint ---- */

static void on_answered(struct request *take)
{
	struct pool_request *r = take->owner;
	const struct answer a = take->answer;
	struct engine *e = r->service->agent->engine;
	const struct request_pair *q = &take->pairs[a.pair];
	bool is_leased = !a.allowed && aside_is_leased(e, q->policy, q->key);

	r->aside = NULL;
	request_free(take);
	if (a.error == REQUEST_NO_ERROR && a.allowed && r->serial > 0) {
		pool_request_finish(r);
	} else if (a.error != REQUEST_NO_ERROR) {
		fail(r, error_of(a.error), a.message);
	} else if (a.allowed) { /* the script says otherwise */
		pool_request_outage(r);
	} else {
		pool_request_give_up(r);
		if (is_leased)
			pool_permits_apart(r);
		else
			limited(r, &a);
	}
}

/* Whichever endpoint it will be, its own permits are the same but for their key, and of a policy that nothing else is taken of. */
static bool are_alike(const struct pool_request *r, const struct request *take)
{
	const struct pool_def *def = r->def;
	struct engine *e = r->service->agent->engine;

	if (!has_own(r))
		return true;
	for (uint8_t i = 1; i < take->n_pairs; i++)
		if (slice_equal(take->pairs[i].policy, take->pairs[0].policy))
			return false;
	if (aside_all_plain(e, slice_of(def->permit)))
		return true;
	for (size_t i = 0; i < def->n_members; i++)
		if (!aside_is_plain(e, slice_of(def->permit), holder_of(&def->members[i]),
				    r->line->slot))
			return false;
	return true;
}

bool pool_permits_ask(struct pool_request *r, struct pool_permits *p,
		      struct clock_reading *ret_sent)
{
	struct pool_service *s = r->service;
	struct region *region = s->agent->engine->own->region;
	struct script_call call;
	struct script_op op;
	unsigned own;

	if (r->apart || !pool_permits_needed(r))
		return false;
	r->aside = request_for(r, SLICE(POOL_PERMITS_HOLDER));
	if (r->aside == NULL)
		return false;
	r->aside->on_done = on_answered;
	if (!are_alike(r, r->aside) ||
	    !aside_begin(s->agent->engine, r->aside, r->line->slot, &op, &own)) {
		request_free(r->aside);
		r->aside = NULL;
		return false;
	}
	call = region_call(region, r->line->slot, ret_sent);
	r->aside_stamp = call.stamp;
	if (pool_permits_write(p, s->permits, &op, has_own(r) ? own : 0, slice_of(r->def->permit),
			       region_now_us(region), &call) == KOVA_OK)
		return true;
	pool_permits_drop(r);
	return false;
}

void pool_permits_drop(struct pool_request *r)
{
	if (r->aside != NULL)
		aside_drop(r->aside);
	r->aside = NULL;
}

void pool_permits_apart(struct pool_request *r)
{
	pool_permits_drop(r);
	r->apart = true;
	r->passed = false;
	pool_line_ask(r->line, r);
}

/* What the limiter answered; false: that is no answer. */
static bool read_said(struct pool_request *r, struct slice text, const struct clock_reading *sent,
		      struct script_answer *ret_said)
{
	struct pool_service *s = r->service;
	struct region *region = s->agent->engine->own->region;
	struct script_reader reader;
	struct script_op op;

	/* What a short reply is read by is that of the program. */
	script_batch_clear(s->permits);
	if (!aside_again(r->aside, &op) ||
	    script_batch_add(s->permits, &op, region_now_us(region)) != KOVA_OK ||
	    script_reader_init(&reader, text, r->aside_stamp, 1, script_batch_plain(s->permits)) !=
		    KOVA_OK ||
	    script_reader_next(&reader, ret_said) != KOVA_OK)
		return false;
	region_heard(region, r->line->slot, sent, &reader);
	return true;
}

/* Another endpoint was tried instead. */
static void hear_passed(struct pool_request *r, const struct script_answer *said)
{
	aside_refused(r->aside, said);
	note_passed(r, r->aside->answer.retry_after_ms);
}

bool pool_permits_read(struct pool_request *r, struct pool_reply *reply,
		       const struct clock_reading *sent, struct pool_given *ret_given,
		       struct script_answer *ret_said)
{
	struct slice text;
	uint32_t endpoint;
	size_t n;

	if (!pool_read_tries(reply, &n) || (n > 0 && r->aside == NULL))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!pool_read_try(reply, &endpoint, &text) || endpoint >= r->def->n_members)
			return false;
		if (i > 0)
			hear_passed(r, ret_said);
		if (has_own(r))
			r->aside->pairs[0].key = holder_of(&r->def->members[endpoint]);
		if (!read_said(r, text, sent, ret_said))
			return false;
	}
	if (!pool_read_given(reply, ret_given) || (ret_given->pause == POOL_LIMITED && n == 0) ||
	    (ret_given->pause == POOL_NOT_PAUSED && n == 0 && r->aside != NULL))
		return false;
	if (n > 0 && ret_given->pause != POOL_LIMITED && ret_given->pause != POOL_NOT_PAUSED)
		hear_passed(r, ret_said);
	return true;
}

void pool_permits_answer(struct pool_request *r, const struct script_answer *said)
{
	struct request *take = r->aside;

	if (r->abandoned) { /* what was taken goes back */
		r->aside = NULL;
		aside_answer(take, said);
	} else if (said->status == SCRIPT_EDGES) {
		pool_permits_apart(r);
	} else {
		aside_answer(take, said);
	}
}

/* ---- Apart ---- */

static bool is_passed_over(const struct pool_request *r, uint32_t endpoint)
{
	for (size_t i = 0; i < r->n_skip; i++)
		if (r->skip[i] == endpoint)
			return true;
	return false;
}

/* All endpoints that would need the same permit are passed over. */
static void pass_over(struct pool_request *r, int64_t retry_ms)
{
	struct slice holder = holder_of(&r->def->members[r->given]);

	note_passed(r, retry_ms);
	for (size_t i = 0; i < r->def->n_members && r->n_skip < POOL_SKIP_MAX; i++)
		if (slice_equal(holder_of(&r->def->members[i]), holder))
			r->skip[r->n_skip++] = (uint16_t)i;
}

/* A session keeps its endpoint: that is given again though it was passed over. */
static bool may_pass_over(const struct pool_request *r, const struct answer *a)
{
	return has_own(r) && strcmp(a->policy, r->def->permit) == 0 && r->n_skip < POOL_SKIP_MAX &&
	       !is_passed_over(r, r->given);
}

static void on_taken(struct request *take)
{
	struct pool_request *r = take->owner;
	const struct answer a = take->answer;

	r->take = NULL;
	request_free(take);
	if (a.error == REQUEST_NO_ERROR && a.allowed) {
		pool_request_finish(r);
	} else if (a.error != REQUEST_NO_ERROR) {
		fail(r, error_of(a.error), a.message);
	} else if (may_pass_over(r, &a)) {
		pool_request_give_up(r);
		pass_over(r, a.retry_after_ms);
		pool_line_ask(r->line, r);
	} else {
		pool_request_give_up(r);
		limited(r, &a);
	}
}

void pool_permits_take(struct pool_request *r)
{
	r->take = request_for(r, holder_of(&r->def->members[r->given]));
	if (r->take == NULL) {
		fail(r, POOL_UNAVAILABLE, "too many requests are in progress at this agent");
		return;
	}
	r->take->on_done = on_taken;
	decide(r->service->agent->engine, r->take);
}
