/*
 * A request's way. NEXT: the script gives an endpoint and counts it (pool_calls.c), with the permits that the pool or the caller wants,
 * or these are taken in a second step (pool_permits.c): a caller has all of it or nothing. A pause is answered, or the request waits (pool_wait.c). REPORT and SHOW are asked and
 * answered. Every path ends in pool_request_done(), exactly once, or the request was abandoned.
 */
#include "pool_service.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "core/hash.h"
#include "core/keyspace.h"
#include "core/limit.h"
#include "core/retry_after.h"
#include "engine.h"
#include "io/clock.h"
#include "pool_own.h"
#include "pool_trace.h"

enum {
	REQUESTS_MAX = 65536,
	POLL_MS = 50,
	POLL_UNKNOWN_MS = 250,
	OUTAGE_MS = 1000,
	FIRM_MS = 1000
};

/* ---- Lines ---- */

struct pool_line *pool_line_of(struct pool_service *s, struct slice name)
{
	struct pool_line *l;

	for (l = s->lines; l != NULL; l = l->next)
		if (slice_equal(slice_of(l->name), name))
			return l;
	l = calloc(1, sizeof *l);
	if (l == NULL)
		return NULL;
	l->service = s;
	l->last = &l->first;
	memcpy(l->name, name.ptr, name.len);
	pool_key_write(name, &l->key);
	if (buf_failed(&l->key)) {
		free(l);
		return NULL;
	}
	l->slot = keyspace_slot(buf_slice(&l->key));
	l->next = s->lines;
	s->lines = l;
	return l;
}

struct pool_def *pool_line_def(const struct pool_line *l)
{
	return catalogue_pool(control_catalogue(l->service->agent->control), slice_of(l->name));
}

void pool_service_look(const struct pool_service *s, struct slice pool,
		       const struct pool_counts **ret_counts, const struct pool_view **ret_view)
{
	*ret_counts = NULL;
	*ret_view = NULL;
	for (const struct pool_line *l = s->lines; l != NULL; l = l->next)
		if (slice_equal(slice_of(l->name), pool)) {
			*ret_counts = &l->counts;
			*ret_view = &l->view;
		}
}

/* ---- Requests ---- */

struct pool_request *pool_request_new(struct pool_service *s, enum pool_request_kind kind)
{
	struct pool_request *r = s->n_requests < REQUESTS_MAX ? calloc(1, sizeof *r) : NULL;

	if (r == NULL)
		return NULL;
	r->kind = kind;
	r->service = s;
	s->n_requests++;
	return r;
}

void pool_request_free(struct pool_request *r)
{
	if (r == NULL)
		return;
	r->service->n_requests--;
	pool_def_unref(r->def);
	if (r->answer.address.ptr != NULL)
		explicit_bzero(r->answer.address.ptr, r->answer.address.len);
	buf_release(&r->answer.address);
	buf_release(&r->answer.session);
	buf_release(&r->answer.json);
	buf_release(&r->text);
	free(r);
}

void pool_request_done(struct pool_request *r)
{
	traced_pool_decision(r);
	if (r->abandoned)
		pool_request_free(r);
	else
		r->on_done(r);
}

void pool_request_fail(struct pool_request *r, enum pool_error error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->answer.message, sizeof r->answer.message, format, args);
	va_end(args);
	r->answer.error = error;
	pool_request_done(r);
}

static void keep(struct pool_request *r, struct slice *s)
{
	const char *at = r->text.ptr + r->text.len;

	buf_add_slice(&r->text, *s);
	*s = (struct slice){s->len > 0 ? at : NULL, s->len};
}

/* Copies what the slices point to, so that the request can outlive the caller's buffer. */
static bool own(struct pool_request *r)
{
	size_t len = r->pool.len + r->target.len + r->session.len + r->ticket.len + r->endpoint.len;

	for (unsigned i = 0; i < r->n_takes; i++)
		len += r->takes[i].policy.len + r->takes[i].key.len;
	if (buf_reserve(&r->text, len + 1) == NULL)
		return false;
	keep(r, &r->pool);
	keep(r, &r->target);
	keep(r, &r->session);
	keep(r, &r->ticket);
	keep(r, &r->endpoint);
	for (unsigned i = 0; i < r->n_takes; i++) {
		keep(r, &r->takes[i].policy);
		keep(r, &r->takes[i].key);
	}
	return true;
}

static uint64_t now_ms(const struct pool_service *s)
{
	return uv_now(s->agent->loop);
}

static int64_t ms_up(int64_t us)
{
	return us < 0 ? -1 : (us + 999) / 1000;
}

/* ---- Pauses ---- */

static uint64_t firm_key(const struct pool_request *r)
{
	return hash_bytes(r->target, r->tier);
}

static bool is_simple(const struct pool_request *r)
{
	return r->session.len == 0 && !r->passed;
}

static struct pool_firm *firm_place(struct pool_line *l, uint64_t key)
{
	return &l->firm[key % POOL_FIRM_PLACES];
}

static void firm_remember(struct pool_request *r, const struct pool_given *g)
{
	uint64_t key = firm_key(r), now = now_ms(r->service);
	struct pool_firm *f = firm_place(r->line, key);

	if (g->firm_us == 0 || !is_simple(r))
		return;
	*f = (struct pool_firm){
		.key = key,
		.def = r->def,
		.until_ms = now + (g->firm_us > 0 ? (uint64_t)g->firm_us / 1000 : FIRM_MS),
		.retry_ms = g->retry_us >= 0 ? now + (uint64_t)ms_up(g->retry_us) : 0,
		.pause = g->pause};
}

static void set_pause(struct pool_answer *a, enum pool_pause pause, int64_t retry_in_ms)
{
	a->pause = pause;
	a->retry_in_ms = retry_in_ms;
	snprintf(a->paused, sizeof a->paused, "%s", pool_pause_names[pause]);
}

/* Whether the answer is known without asking; *ret_left_ms: for how long. */
static bool firm_answer(struct pool_request *r, const struct pool_def *def, uint64_t *ret_left_ms)
{
	uint64_t key = firm_key(r), now = now_ms(r->service);
	const struct pool_firm *f = firm_place(r->line, key);

	if (!is_simple(r) || f->def != def || f->key != key || f->until_ms <= now)
		return false;
	set_pause(&r->answer, f->pause, f->retry_ms == 0 ? -1 : (int64_t)(f->retry_ms - now));
	*ret_left_ms = f->until_ms - now;
	return true;
}

void pool_request_paused(struct pool_request *r, uint64_t passed_ms)
{
	int64_t *retry = &r->answer.retry_in_ms;

	if (*retry >= 0)
		*retry = *retry > (int64_t)passed_ms ? *retry - (int64_t)passed_ms : 1;
	pool_request_done(r);
}

void pool_request_pause(struct pool_request *r, uint64_t poll_ms)
{
	uint64_t now = now_ms(r->service);

	r->asking = r->passed = false;
	r->n_skip = 0;
	r->paused_ms = now;
	if (r->abandoned || r->wait_ms == 0 || now >= r->until_ms || r->service->draining) {
		pool_wait_give_up(r);
		pool_request_done(r);
		return;
	}
	r->try_ms = now + (poll_ms > 0 ? poll_ms : 1);
	pool_wait_join(r);
}

void pool_request_outage(struct pool_request *r)
{
	pool_permits_drop(r);
	if (r->kind != POOL_ASK_NEXT) {
		pool_request_fail(r, POOL_UNAVAILABLE, "the store can't be reached");
		return;
	}
	set_pause(&r->answer, POOL_OUTAGE, OUTAGE_MS);
	pool_request_pause(r, POLL_UNKNOWN_MS);
}

/* Of those that were passed over the permits come back sooner. */
static bool is_limited(const struct pool_request *r, const struct pool_given *g)
{
	int64_t ms = ms_up(g->retry_us);

	return r->passed &&
	       (g->pause == POOL_NOTHING || ms < 0 || (r->limited_ms >= 0 && r->limited_ms <= ms));
}

static void on_pause(struct pool_request *r, const struct pool_given *g)
{
	int64_t retry = ms_up(g->retry_us);
	uint64_t poll = POLL_UNKNOWN_MS;

	if (is_limited(r, g)) {
		set_pause(&r->answer, POOL_LIMITED, r->limited_ms);
		snprintf(r->answer.paused, sizeof r->answer.paused, "limited:%s", r->def->permit);
		retry = r->limited_ms;
		r->limited = true;
	} else {
		set_pause(&r->answer, g->pause, retry);
		firm_remember(r, g);
		r->limited = false;
	}
	if (g->firm_us > 0 && !r->limited)
		poll = (uint64_t)ms_up(g->firm_us);
	else if (retry >= 0)
		poll = r->limited || retry < POLL_MS ? (uint64_t)retry : POLL_MS;
	pool_request_pause(r, poll);
}

/* ---- An endpoint ---- */

void pool_request_give_up(struct pool_request *r)
{
	if (r->serial > 0)
		pool_line_undo(r->line, r->serial);
	r->serial = 0;
}

void pool_session_random(struct pool_service *s, char ret_id[static POOL_SESSION_RANDOM + 1])
{
	unsigned char random[POOL_SESSION_RANDOM / 2];

	engine_random(s->agent->engine, random, sizeof random);
	for (size_t i = 0; i < sizeof random; i++)
		snprintf(ret_id + 2 * i, 3, "%02x", random[i]);
}

static void session_write(struct pool_request *r, const struct pool_given *g,
			  const struct pool_member *m)
{
	char random[POOL_SESSION_RANDOM + 1];

	if (r->session.len > 0) {
		buf_add_slice(&r->answer.session, r->session);
		if (g->moves > 0)
			buf_printf(&r->answer.session, "r%u", g->moves);
	} else if (m->url.has_session) {
		pool_session_random(r->service, random);
		buf_add_text(&r->answer.session, random);
	}
}

static void fill(struct pool_request *r, const struct pool_given *g)
{
	const struct pool_member *m = &r->def->members[g->endpoint];
	struct pool_answer *a = &r->answer;

	set_pause(a, POOL_NOT_PAUSED, 0);
	buf_clear(&a->session);
	buf_clear(&a->address);
	snprintf(a->ticket, sizeof a->ticket, "%.*s", (int)g->ticket.len, g->ticket.ptr);
	memcpy(a->endpoint, m->id, sizeof a->endpoint);
	a->tier = g->tier;
	a->moved = g->moved;
	a->trial = g->trial;
	a->lease_ms = (int64_t)(r->def->rule.lease / 1000);
	session_write(r, g, m);
	if (r->def->rule.kind == POOL_KEY)
		buf_add_text(&a->address, m->address);
	else
		pool_url_write(&m->url, buf_slice(&a->session), &a->address);
}

void pool_request_finish(struct pool_request *r)
{
	pool_wait_leave(r);
	if (buf_failed(&r->answer.address) || buf_failed(&r->answer.session)) {
		pool_request_give_up(r);
		pool_request_fail(r, POOL_UNAVAILABLE, "%s", kova_status_text(KOVA_ENOMEM));
		return;
	}
	pool_request_done(r);
}

/* The caller is gone, or the answer is none of this definition's. */
static void give_back(struct pool_request *r, const struct script_answer *said)
{
	pool_request_give_up(r);
	pool_wait_leave(r);
	if (r->abandoned && r->aside != NULL)
		pool_permits_answer(r, said);
	pool_permits_drop(r);
	if (r->abandoned)
		pool_request_free(r);
	else
		pool_request_fail(r, POOL_UNAVAILABLE, "the store's answer is out of step");
}

void pool_request_given(struct pool_request *r, const struct pool_given *g,
			const struct script_answer *said, uint64_t now_us)
{
	if (r->waiter != 0 && r->arrival_us == 0 && g->pause != POOL_NOT_PAUSED)
		r->arrival_us = now_us;
	r->serial = g->serial;
	if (g->pause == POOL_LIMITED && !r->abandoned) {
		pool_permits_answer(r, said);
		return;
	}
	if (g->pause != POOL_NOT_PAUSED) {
		pool_permits_drop(r);
		on_pause(r, g);
		return;
	}
	if (r->abandoned || g->endpoint >= r->def->n_members) {
		give_back(r, said);
		return;
	}
	r->given = g->endpoint;
	fill(r, g);
	if (r->aside != NULL)
		pool_permits_answer(r, said);
	else if (pool_permits_needed(r))
		pool_permits_take(r);
	else
		pool_request_finish(r);
}

/* ---- Beginning ---- */

static const char *missing_policy(const struct pool_request *r, const struct pool_def *def,
				  char ret_name[static NAME_BYTES_MAX + 1])
{
	const struct catalogue *c = control_catalogue(r->service->agent->control);
	struct slice names[POOL_TAKES_MAX + 2];
	size_t n = 0;

	names[n++] = slice_of(def->permit);
	names[n++] = r->target.len > 0 ? slice_of(def->target_policy) : (struct slice){0};
	for (unsigned i = 0; i < r->n_takes; i++)
		names[n++] = r->takes[i].policy;
	for (size_t i = 0; i < n; i++)
		if ((i >= 2 || names[i].len > 0) && catalogue_policy(c, names[i]) == NULL) {
			snprintf(ret_name, NAME_BYTES_MAX + 1, "%.*s",
				 name_is_valid(names[i]) ? (int)names[i].len : 0,
				 names[i].len > 0 ? names[i].ptr : "");
			return ret_name;
		}
	return NULL;
}

static void ask_next(struct pool_request *r, const struct pool_def *def)
{
	char name[NAME_BYTES_MAX + 1];
	uint64_t left_ms;

	if (missing_policy(r, def, name) != NULL) {
		pool_request_fail(r, POOL_NO_POLICY, "there is no policy `%s`", name);
		return;
	}
	/* The loop's own time is that of its last turn: a wait by it could end too early. */
	r->until_ms = uv_hrtime() / 1000000 + 1 + r->wait_ms;
	if (r->wait_ms > 0)
		engine_random(r->service->agent->engine, (unsigned char *)&r->waiter,
			      sizeof r->waiter);
	if (firm_answer(r, def, &left_ms)) {
		pool_request_pause(r, r->answer.retry_in_ms >= 0 ? left_ms : POLL_UNKNOWN_MS);
		return;
	}
	pool_wait_ask_first(r->line);
	pool_line_ask(r->line, r);
}

/* What the caller and the provider's headers say on how long to stay away, and on what is left. */
static void read_hints(struct pool_request *r, const struct pool_def *def)
{
	uint64_t now_us = clock_read().wall_us, us = 0;
	struct pool_said said;

	pool_dialect_read(def->dialect, r->headers, r->n_headers, r->status, now_us, &said);
	if (r->has_retry_after && retry_after_parse(r->retry_after, now_us, &us) != KOVA_OK) {
		said.bad++;
		us = 0;
	}
	r->hint_us = us > 0 ? us : said.hint_us;
	r->line->counts.bad_hints += said.bad;
	if (said.unknown_key)
		r->outcome = POOL_AUTH;
	r->n_quotas = (uint8_t)said.n_quotas;
	memcpy(r->quotas, said.quotas, sizeof said.quotas);
}

static void ask_report(struct pool_request *r, const struct pool_def *def)
{
	read_hints(r, def);
	r->line->counts.outcomes[r->outcome]++;
	pool_line_ask(r->line, r);
}

static void ask_enable(struct pool_request *r, const struct pool_def *def)
{
	const struct pool_member *m = pool_def_member(def, r->endpoint);

	if (m == NULL) {
		pool_request_fail(r, POOL_UNKNOWN, "no endpoint of this id in the pool");
		return;
	}
	r->given = (uint32_t)(m - def->members);
	pool_line_ask(r->line, r);
}

void pool_ask(struct pool_request *r)
{
	const struct catalogue *c = control_catalogue(r->service->agent->control);
	const struct pool_def *def = r->pool.len > 0 ? catalogue_pool(c, r->pool) : NULL;

	r->started = true;
	if (def == NULL) {
		pool_request_fail(r, POOL_NO_POOL, "no pool '%.*s'",
				  name_is_valid(r->pool) ? (int)r->pool.len : 0,
				  r->pool.len > 0 ? r->pool.ptr : "");
		return;
	}
	r->line = pool_line_of(r->service, r->pool);
	if (r->line == NULL || !own(r)) {
		pool_request_fail(r, POOL_UNAVAILABLE, "%s", kova_status_text(KOVA_ENOMEM));
		return;
	}
	switch (r->kind) {
	case POOL_ASK_NEXT:
		ask_next(r, def);
		break;
	case POOL_ASK_REPORT:
		ask_report(r, def);
		break;
	case POOL_ASK_SHOW:
		pool_line_ask(r->line, r);
		break;
	case POOL_ASK_ENABLE:
		ask_enable(r, def);
		break;
	}
}

void pool_request_abandon(struct pool_request *r)
{
	r->abandoned = true;
	traced_pool_abandon(r);
	if (r->aside != NULL)
		request_abandon(r->aside);
	if (r->take != NULL) {
		request_abandon(r->take);
		r->take = NULL;
		pool_request_give_up(r);
		pool_wait_leave(r);
		pool_request_free(r);
	} else if (r->waits && !r->asking) {
		pool_wait_give_up(r);
		pool_request_free(r);
	}
}

/* ---- Life ---- */

struct pool_service *pool_service_new(struct agent *a)
{
	struct pool_service *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->agent = a;
	s->store = region_store(a->engine->own->region);
	engine_random(a->engine, (unsigned char *)&s->stamp, sizeof s->stamp);
	engine_random(a->engine, (unsigned char *)s->prober, sizeof s->prober);
	s->permits = script_batch_new();
	if (s->permits == NULL || !pool_calls_start(s)) {
		script_batch_free(s->permits);
		free(s);
		return NULL;
	}
	pool_wait_start(s);
	pool_watch_start(s);
	return s;
}

void pool_service_drain(struct pool_service *s)
{
	s->draining = true;
	for (struct pool_line *l = s->lines; l != NULL; l = l->next)
		for (struct pool_request *r = l->waiting, *next; r != NULL; r = next) {
			next = r->behind;
			if (r->asking || r->take != NULL)
				continue; /* it is answered when it is refused */
			pool_wait_give_up(r);
			pool_request_paused(r, now_ms(s) - r->paused_ms);
		}
}

bool pool_service_is_idle(const struct pool_service *s)
{
	return s == NULL || (s->n_requests == 0 && s->calls == 0);
}

void pool_service_close(struct pool_service *s)
{
	if (s == NULL)
		return;
	pool_probes_stop(s);
	pool_calls_stop(s);
}
