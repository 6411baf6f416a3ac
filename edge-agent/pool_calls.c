/*
 * What is asked of the script. The happy path: pool_line_ask() and pool_line_undo() queue; after the poll phase of the turn a call of
 * up to POOL_CALL_OPS_MAX operations, and the few that are the owner's, leaves for each pool, at most POOL_CALLS_IN_FLIGHT of a pool
 * at a time, so that calls are small without load and grow with it; its reply is read and each request is told its answer.
 *
 * Failures: NOSCRIPT: sent again with the body. Any other error, no answer in time, a reply that is another call's: the requests are
 * told that the store can't be asked; what the script has given all the same ends with its lease. Every path ends in
 * call_end(), exactly once.
 */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "core/redis_error.h"
#include "engine.h"
#include "io/log.h"
#include "pool_own.h"
#include "pool_trace.h"

enum { UNDO_FIRST = 16 };

struct pool_call {
	struct pool_service *service;
	struct pool_line *line;
	struct pool_def *def; /* referenced */
	struct buf program, command;
	char stamp[POOL_STAMP_BYTES];
	struct clock_reading sent; /* as permits that it takes say */
	bool with_body, probes, looks;
	unsigned room; /* of the probes that it asks for */
	/* The undoings, who left, the requests, what probes found, whose probe is due, the look. */
	uint32_t n_undo, n_leave, n, n_found;
	struct pool_request *requests[POOL_CALL_OPS_MAX];
};

static void lines_flush(struct pool_service *s);

static void service_free_when_idle(struct pool_service *s)
{
	if (!s->closing || s->handles_open > 0 || s->calls > 0)
		return;
	for (struct pool_line *l = s->lines, *next; l != NULL; l = next) {
		next = l->next;
		buf_release(&l->key);
		free(l->undo);
		free(l->leave);
		free(l);
	}
	timer_heap_release(&s->deadlines);
	timer_heap_release(&s->tries);
	script_batch_free(s->permits);
	free(s);
}

/* ---- The end of a call ---- */

static void call_end(struct pool_call *c)
{
	struct pool_service *s = c->service;

	c->line->in_flight--;
	s->calls--;
	pool_def_unref(c->def);
	buf_release(&c->program);
	buf_release(&c->command);
	free(c);
	if (s->closing)
		service_free_when_idle(s);
	else
		lines_flush(s);
}

static void call_fail(struct pool_call *c)
{
	c->line->looking &= !c->looks;
	if (c->probes)
		pool_probes_unanswered(c->line, c->room);
	for (uint32_t i = 0; i < c->n; i++) {
		traced_pool_answer(c->requests[i], false);
		pool_request_outage(c->requests[i]);
	}
	call_end(c);
}

static void answer_reported(struct pool_request *r, enum pool_reported reported)
{
	r->answer.counted = reported == POOL_COUNTED;
	if (reported == POOL_NO_TICKET)
		pool_request_fail(r, POOL_UNKNOWN,
				  "no such ticket of this pool, or it is forgotten");
	else
		pool_request_done(r);
}

/* Reads one request's answer; false: the reply is malformed, and the request is told so. */
static bool answer_one(struct pool_call *c, struct pool_request *r, struct pool_reply *reply)
{
	struct pool_given given;
	struct script_answer said;
	enum pool_reported reported;
	bool flag;

	traced_pool_answer(r, true);
	switch (r->kind) {
	case POOL_ASK_NEXT:
		if (!pool_permits_read(r, reply, &c->sent, &given, &said))
			break;
		pool_request_given(r, &given, &said, reply->now_us);
		return true;
	case POOL_ASK_REPORT:
		if (!pool_read_reported(reply, &reported))
			break;
		answer_reported(r, reported);
		return true;
	case POOL_ASK_SHOW:
		if (!pool_json_show(c->def, reply, &r->answer.json))
			break;
		pool_request_done(r);
		return true;
	case POOL_ASK_ENABLE:
		if (!pool_read_flag(reply, &flag))
			break;
		pool_request_done(r);
		return true;
	}
	pool_request_outage(r);
	return false;
}

static void look_read(struct pool_call *c, struct pool_reply *reply)
{
	struct pool_numbers numbers;
	size_t n = 0;
	bool due = false;

	if (pool_read_numbers(reply, &due, &numbers, &n) && due)
		pool_watch_numbers(c->line, c->def, reply, &numbers, n);
	if (!reply->failed)
		pool_watch_view(c->line, c->def, reply);
	c->line->looking = false;
}

static void probes_read(struct pool_call *c, struct pool_reply *reply)
{
	bool counted;

	for (uint32_t i = 0; i < c->n_found; i++)
		(void)pool_read_flag(reply, &counted);
	if (c->probes)
		pool_probes_due(c->line, c->def, c->room, reply);
}

static bool brings_back(const struct pool_call *c)
{
	if (c->n_undo > 0 || c->n_leave > 0 || c->n_found > 0)
		return true;
	for (uint32_t i = 0; i < c->n; i++)
		if (c->requests[i]->kind == POOL_ASK_REPORT ||
		    c->requests[i]->kind == POOL_ASK_ENABLE)
			return true;
	return false;
}

static void call_answer(struct pool_call *c, struct slice bytes)
{
	struct pool_reply reply;
	bool woken = brings_back(c);

	if (pool_reply_init(&reply, bytes, c->stamp) != KOVA_OK) {
		redis_store_reset(c->service->store, c->line->slot, "a reply was out of step");
		call_fail(c);
		return;
	}
	pool_events_tell(c->line, c->def, &reply);
	for (uint32_t i = 0; i < c->n; i++)
		(void)answer_one(c, c->requests[i], &reply);
	probes_read(c, &reply);
	if (c->looks)
		look_read(c, &reply);
	if (woken && c->line->waiting != NULL)
		pool_wait_wake(c->line);
	call_end(c);
}

static void call_send(struct pool_call *c);

static void on_reply(kova_status status, const struct redisReply *reply, void *data)
{
	struct pool_call *c = data;

	if (status == KOVA_EREPLY && strncmp(reply->str, "NOSCRIPT", 8) == 0 && !c->with_body &&
	    !c->service->closing) {
		c->with_body = true;
		call_send(c);
		return;
	}
	if (status == KOVA_EREPLY) {
		log_event(LOG_WARN, "redis_refused", "the store refused a call",
			  LOG_TEXT_FIELD("why", reply->str));
		if (redis_error_kind(slice_of(reply->str)) == REDIS_ERROR_FORBIDDEN)
			redis_store_doubt_writes(c->service->store, c->line->slot, reply->str);
	}
	if (status != KOVA_OK || reply->type != REDIS_REPLY_STRING)
		call_fail(c);
	else
		call_answer(c, (struct slice){reply->str, reply->len});
}

/* ---- A call ---- */

static void call_send(struct pool_call *c)
{
	buf_clear(&c->command);
	pool_command_write(&c->command, c->with_body, buf_slice(&c->line->key),
			   buf_slice(&c->def->script), buf_slice(&c->program));
	buf_add(&c->command, "", 1); /* hiredis reads a command as a text that ends */
	c->command.len--;
	if (buf_failed(&c->command) || buf_failed(&c->program))
		call_fail(c);
	else
		redis_store_call(c->service->store, c->line->slot, buf_slice(&c->command), on_reply,
				 c);
}

static void add_next(struct pool_call *c, struct pool_request *r)
{
	struct pool_permits permits = {0};
	struct pool_next_op next = {.tier = r->tier,
				    .target = r->target,
				    .session = r->session,
				    .waiter = r->waiter,
				    .arrival_us = r->arrival_us,
				    .skip = r->skip,
				    .n_skip = r->n_skip};

	if (pool_permits_ask(r, &permits, &c->sent))
		next.permits = &permits;
	pool_call_next(&c->program, &next);
	pool_permits_release(&permits);
}

static void add_request(struct pool_call *c, struct pool_request *r)
{
	const struct pool_report_op report = {.ticket = r->ticket,
					      .outcome = r->outcome,
					      .status = r->status,
					      .hint_us = r->hint_us,
					      .quotas = r->quotas,
					      .n_quotas = r->n_quotas};

	pool_def_unref(r->def);
	r->def = pool_def_ref(c->def);
	traced_pool_ask(r);
	c->requests[c->n++] = r;
	switch (r->kind) {
	case POOL_ASK_NEXT:
		add_next(c, r);
		break;
	case POOL_ASK_REPORT:
		pool_call_report(&c->program, &report);
		break;
	case POOL_ASK_SHOW:
		pool_call_show(&c->program);
		break;
	case POOL_ASK_ENABLE:
		pool_call_enable(&c->program, r->given);
		break;
	}
}

static struct pool_request *line_pop(struct pool_line *l)
{
	struct pool_request *r = l->first;

	l->first = r->next;
	if (l->first == NULL)
		l->last = &l->first;
	r->next = NULL;
	return r;
}

/* For whose caller has left while it stood in line no endpoint is asked for. */
static void line_skip_left(struct pool_line *l)
{
	while (l->first != NULL && l->first->abandoned && l->first->kind == POOL_ASK_NEXT) {
		struct pool_request *r = line_pop(l);

		pool_wait_give_up(r);
		pool_request_free(r);
	}
}

static double random_share(struct pool_service *s)
{
	uint32_t random;

	engine_random(s->agent->engine, (unsigned char *)&random, sizeof random);
	return (double)random / 4294967296.0;
}

static void fill(struct pool_call *c)
{
	struct pool_line *l = c->line;
	char secret[POOL_SECRET_BYTES];

	c->service->stamp++;
	memcpy(c->stamp, &c->service->stamp, sizeof c->stamp);
	pool_call_begin(&c->program, c->stamp, random_share(c->service));
	for (; c->n_undo < l->n_undo && c->n_undo < POOL_CALL_OPS_MAX / 2; c->n_undo++)
		pool_call_undo(&c->program, l->undo[c->n_undo]);
	l->n_undo -= c->n_undo;
	if (l->n_undo > 0)
		memmove(l->undo, l->undo + c->n_undo, l->n_undo * sizeof *l->undo);
	for (; c->n_leave < l->n_leave && c->n_leave < POOL_CALL_OPS_MAX / 4; c->n_leave++)
		pool_call_leave(&c->program, l->leave[c->n_leave]);
	l->n_leave -= c->n_leave;
	if (l->n_leave > 0)
		memmove(l->leave, l->leave + c->n_leave, l->n_leave * sizeof *l->leave);
	while (l->first != NULL && c->n_undo + c->n_leave + c->n < POOL_CALL_OPS_MAX) {
		add_request(c, line_pop(l));
		line_skip_left(l);
	}
	c->n_found = pool_probes_tell(l, c->def, &c->program);
	c->probes = pool_probes_ask(l, c->def, &c->program, &c->room);
	if (l->looking && !l->looked) {
		c->looks = l->looked = true;
		pool_call_numbers(&c->program);
		pool_call_show(&c->program);
	}
	engine_random(c->service->agent->engine, (unsigned char *)secret, sizeof secret);
	pool_call_end(&c->program,
		      c->n_undo + c->n_leave + c->n + c->n_found + c->probes + 2U * c->looks,
		      secret);
}

/* No such pool any more: who asked is told. */
static void line_fail(struct pool_line *l)
{
	l->looking = l->looked = false;
	l->n_undo = l->n_leave = 0;
	pool_probes_forget(l);
	while (l->first != NULL) {
		struct pool_request *r = line_pop(l);

		pool_wait_leave(r);
		pool_request_fail(r, POOL_NO_POOL, "no pool '%s'", l->name);
	}
}

static void line_call(struct pool_line *l)
{
	struct pool_def *def = pool_line_def(l);
	struct pool_call *c = def != NULL ? calloc(1, sizeof *c) : NULL;

	if (c == NULL) {
		line_fail(l);
		return;
	}
	c->service = l->service;
	c->line = l;
	c->def = pool_def_ref(def);
	l->in_flight++;
	l->service->calls++;
	fill(c);
	call_send(c);
}

static bool line_has_work(struct pool_line *l)
{
	line_skip_left(l);
	return l->first != NULL || l->n_undo > 0 || l->n_leave > 0 || l->found != NULL ||
	       (l->asking_prober && !l->asked_prober) || (l->looking && !l->looked);
}

static void lines_flush(struct pool_service *s)
{
	bool sent = false;

	for (struct pool_line *l = s->lines; l != NULL; l = l->next)
		while (line_has_work(l) && l->in_flight < POOL_CALLS_IN_FLIGHT) {
			if (!sent)
				uv_update_time(s->agent->loop);
			sent = true;
			line_call(l);
		}
	if (sent)
		redis_store_flush(s->store);
}

void pool_line_ask(struct pool_line *l, struct pool_request *r)
{
	r->asking = true;
	r->next = NULL;
	*l->last = r;
	l->last = &r->next;
}

void pool_line_undo(struct pool_line *l, uint64_t serial)
{
	if (l->n_undo == l->cap_undo) {
		size_t cap = l->cap_undo == 0 ? UNDO_FIRST : l->cap_undo * 2;
		uint64_t *undo = realloc(l->undo, cap * sizeof *undo);

		if (undo == NULL)
			return; /* its lease ends it */
		l->undo = undo;
		l->cap_undo = cap;
	}
	l->undo[l->n_undo++] = serial;
}

void pool_line_leave(struct pool_line *l, uint64_t waiter)
{
	if (l->n_leave == l->cap_leave) {
		size_t cap = l->cap_leave == 0 ? UNDO_FIRST : l->cap_leave * 2;
		uint64_t *leave = realloc(l->leave, cap * sizeof *leave);

		if (leave == NULL)
			return; /* it is found out that nobody asks any more */
		l->leave = leave;
		l->cap_leave = cap;
	}
	l->leave[l->n_leave++] = waiter;
}

void pool_line_look(struct pool_line *l)
{
	l->looking = true;
	l->looked = false;
}

/* ---- The turns of the loop ---- */

static void on_after_poll(uv_check_t *h)
{
	lines_flush(h->data);
}

static void on_before_poll(uv_prepare_t *h)
{
	lines_flush(h->data);
}

bool pool_calls_start(struct pool_service *s)
{
	if (uv_check_init(s->agent->loop, &s->after_poll) != 0 ||
	    uv_prepare_init(s->agent->loop, &s->before_poll) != 0)
		return false;
	s->handles_open += 2;
	s->after_poll.data = s->before_poll.data = s;
	uv_check_start(&s->after_poll, on_after_poll);
	uv_prepare_start(&s->before_poll, on_before_poll);
	/* Neither keeps the loop alive: calls in flight do. */
	uv_unref((uv_handle_t *)&s->after_poll);
	uv_unref((uv_handle_t *)&s->before_poll);
	return true;
}

void pool_calls_handle_closed(struct pool_service *s)
{
	s->handles_open--;
	service_free_when_idle(s);
}

static void on_handle_closed(uv_handle_t *h)
{
	pool_calls_handle_closed(h->data);
}

void pool_calls_stop(struct pool_service *s)
{
	s->closing = true;
	uv_close((uv_handle_t *)&s->after_poll, on_handle_closed);
	uv_close((uv_handle_t *)&s->before_poll, on_handle_closed);
	uv_close((uv_handle_t *)&s->timer, on_handle_closed);
	uv_close((uv_handle_t *)&s->watch, on_handle_closed);
}
