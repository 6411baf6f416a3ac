/*
 * Who waits for an endpoint: a line a pool, first come first served. All of them are asked again when something came back here, and
 * else when the script has said that there may be something, but every POLL_MS where another agent's report may be what
 * they wait for. A newcomer is asked behind them, in the same call.
 */
#include <assert.h>

#include "pool_own.h"
#include "pool_trace.h"

enum { ASK_FIRST_MAX = 16, ASK_MAX = POOL_CALL_OPS_MAX };

static uint64_t now_ms(const struct pool_service *s)
{
	return uv_now(s->agent->loop);
}

static void timer_set(struct pool_service *s);

static struct pool_line *line_of_try(struct timer_entry *e)
{
	return (struct pool_line *)((char *)e - offsetof(struct pool_line, try));
}

static struct pool_request *request_of_deadline(struct timer_entry *e)
{
	return (struct pool_request *)((char *)e - offsetof(struct pool_request, deadline));
}

/* Asks those again whose time has come. */
static void ask_due(struct pool_line *l, uint64_t now, unsigned most)
{
	for (struct pool_request *r = l->waiting; r != NULL && most > 0; r = r->behind)
		if (!r->asking && r->take == NULL && r->try_ms <= now) {
			most--;
			pool_line_ask(l, r);
		}
}

/* When the first of those who are not being asked is to be. */
static void try_set(struct pool_line *l)
{
	struct pool_service *s = l->service;
	uint64_t at = UINT64_MAX;

	for (const struct pool_request *r = l->waiting; r != NULL; r = r->behind)
		if (!r->asking && r->take == NULL && r->try_ms < at)
			at = r->try_ms;
	if (at == UINT64_MAX || timer_heap_set(&s->tries, &l->try, at) != KOVA_OK)
		timer_heap_remove(&s->tries, &l->try);
}

static void on_timer(uv_timer_t *t)
{
	struct pool_service *s = t->data;
	uint64_t now = now_ms(s);
	struct timer_entry *e;

	while ((e = timer_heap_first(&s->deadlines)) != NULL && e->at <= now) {
		struct pool_request *r = request_of_deadline(e);

		timer_heap_remove(&s->deadlines, e);
		if (r->asking || r->take != NULL)
			continue; /* its time is up: it is told what it is refused with */
		pool_wait_give_up(r);
		pool_request_paused(r, now - r->paused_ms);
	}
	while ((e = timer_heap_first(&s->tries)) != NULL && e->at <= now) {
		timer_heap_remove(&s->tries, e);
		ask_due(line_of_try(e), now, ASK_MAX);
		try_set(line_of_try(e));
	}
	timer_set(s);
}

static void timer_set(struct pool_service *s)
{
	const struct timer_entry *a = timer_heap_first(&s->deadlines);
	const struct timer_entry *b = timer_heap_first(&s->tries);
	uint64_t now = now_ms(s), at = UINT64_MAX;

	if (a != NULL)
		at = a->at;
	if (b != NULL && b->at < at)
		at = b->at;
	if (at == UINT64_MAX || s->closing)
		uv_timer_stop(&s->timer);
	else
		uv_timer_start(&s->timer, on_timer, at > now ? at - now : 0, 0);
}

void pool_wait_join(struct pool_request *r)
{
	struct pool_line *l = r->line;

	if (!r->waits) {
		r->waits = true;
		r->before = l->last_waiting;
		r->behind = NULL;
		if (l->last_waiting != NULL)
			l->last_waiting->behind = r;
		else
			l->waiting = r;
		l->last_waiting = r;
		traced_pool_wait(r);
	}
	if (timer_heap_set(&l->service->deadlines, &r->deadline, r->until_ms) != KOVA_OK) {
		pool_wait_leave(r);
		pool_request_done(r);
		return;
	}
	try_set(l);
	timer_set(l->service);
}

void pool_wait_leave(struct pool_request *r)
{
	struct pool_line *l = r->line;

	if (!r->waits)
		return;
	r->waits = false;
	*(r->before != NULL ? &r->before->behind : &l->waiting) = r->behind;
	*(r->behind != NULL ? &r->behind->before : &l->last_waiting) = r->before;
	timer_heap_remove(&l->service->deadlines, &r->deadline);
	if (l->waiting == NULL)
		timer_heap_remove(&l->service->tries, &l->try);
}

void pool_wait_give_up(struct pool_request *r)
{
	pool_wait_leave(r);
	if (r->arrival_us > 0)
		pool_line_leave(r->line, r->waiter);
	r->arrival_us = 0;
}

void pool_wait_wake(struct pool_line *l)
{
	uint64_t now = now_ms(l->service);

	for (struct pool_request *r = l->waiting; r != NULL; r = r->behind)
		if (!r->limited && r->try_ms > now)
			r->try_ms = now;
	ask_due(l, now, ASK_MAX);
	try_set(l);
}

void pool_wait_ask_first(struct pool_line *l)
{
	unsigned most = ASK_FIRST_MAX;

	for (struct pool_request *r = l->waiting; r != NULL && most > 0; r = r->behind)
		if (!r->asking && r->take == NULL && !r->limited) {
			most--;
			pool_line_ask(l, r);
		}
}

void pool_wait_start(struct pool_service *s)
{
	uv_timer_init(s->agent->loop, &s->timer);
	s->timer.data = s;
	s->handles_open++;
}
