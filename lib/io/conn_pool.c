/*
 * The connections of one loop: how many there may be, who has something to write, who has waited
 * too long. Each turn of the loop ends with flush(): behind the poll phase for what reads and
 * Redis's answers have brought, before it for what timers and other handles have added since.
 */
#include "io/conn_pool.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "io/log.h"

/* Open files that are not clients: Redis, listeners, logs, state; and what each further loop needs. */
enum { OTHER_FILES = 64, LOOP_FILES = 16 };

/* ---- The loop's turn ---- */

static void flush(struct conn_pool *p)
{
	/* A connection may become dirty again meanwhile: then it is for the next flush. */
	struct conn *c = p->dirty;

	p->dirty = NULL;
	while (c != NULL) {
		struct conn *next = c->next_dirty;

		c->dirty = false;
		conn_turn(c);
		c = next;
	}
}

static void on_after_poll(uv_check_t *check)
{
	flush(check->data);
}

static void on_before_poll(uv_prepare_t *prepare)
{
	struct conn_pool *p = prepare->data;

	while (p->dirty != NULL) /* nothing may be left when the loop goes to sleep */
		flush(p);
}

static void on_sweep(uv_timer_t *timer)
{
	struct conn_pool *p = timer->data;

	listener_sweep(p->listeners);
	for (struct conn *c = p->conns; c != NULL; c = c->next)
		conn_sweep(c);
	conn_tls_sweep(p);
}

/* ---- Members ---- */

void conn_pool_mark(struct conn_pool *p, struct conn *c)
{
	if (c->dirty)
		return;
	c->dirty = true;
	c->next_dirty = p->dirty;
	p->dirty = c;
}

void conn_pool_add(struct conn_pool *p, struct conn *c)
{
	c->next = p->conns;
	if (p->conns != NULL)
		p->conns->prev = c;
	p->conns = c;
	p->total++;
}

static void unmark(struct conn_pool *p, struct conn *c)
{
	struct conn **at = &p->dirty;

	while (*at != c)
		at = &(*at)->next_dirty;
	*at = c->next_dirty;
	c->dirty = false;
}

static void on_pool_handle_closed(uv_handle_t *handle)
{
	struct conn_pool *p = handle->data;
	void (*on_closed)(void *) = p->on_closed;
	void *data = p->on_closed_data;

	if (--p->handles_open > 0)
		return;
	for (unsigned i = 0; i < SCRATCH_N; i++)
		buf_release(&p->scratch[i]);
	free(p);
	if (on_closed != NULL)
		on_closed(data);
}

static void close_handles(struct conn_pool *p)
{
	uv_close((uv_handle_t *)&p->after_poll, on_pool_handle_closed);
	uv_close((uv_handle_t *)&p->before_poll, on_pool_handle_closed);
	uv_close((uv_handle_t *)&p->sweep, on_pool_handle_closed);
}

void conn_pool_remove(struct conn_pool *p, struct conn *c)
{
	if (c->dirty)
		unmark(p, c);
	if (c->prev != NULL)
		c->prev->next = c->next;
	else
		p->conns = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	p->total--;
	p->counters.commands += c->commands;
	if (c->served)
		p->count--;
	if (c->loads)
		atomic_fetch_sub_explicit(&p->load, 1, memory_order_relaxed);
	if (p->closing && p->total == 0)
		close_handles(p);
}

/* ---- The pool ---- */

static uint32_t fit_file_limit(uint32_t max_clients, unsigned loops)
{
	struct rlimit files;
	const uint32_t other_files = OTHER_FILES + (loops - 1) * LOOP_FILES;
	rlim_t want = (rlim_t)max_clients + other_files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= want)
		return max_clients;
	files.rlim_cur = files.rlim_max < want ? files.rlim_max : want;
	if (setrlimit(RLIMIT_NOFILE, &files) != 0)
		(void)getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur >= want)
		return max_clients;
	max_clients = files.rlim_cur > 2 * other_files ? (uint32_t)files.rlim_cur - other_files
						       : OTHER_FILES;
	log_event(LOG_WARN, "file_limit", "the limit on open files allows fewer clients",
		  LOG_INT_FIELD("max_clients", max_clients),
		  LOG_INT_FIELD("open_files", (int64_t)files.rlim_cur));
	return max_clients;
}

static void start_handles(struct conn_pool *p)
{
	int r = uv_check_init(p->place.loop, &p->after_poll);

	r |= uv_prepare_init(p->place.loop, &p->before_poll);
	r |= uv_timer_init(p->place.loop, &p->sweep);
	p->after_poll.data = p->before_poll.data = p->sweep.data = p;
	r |= uv_check_start(&p->after_poll, on_after_poll);
	r |= uv_prepare_start(&p->before_poll, on_before_poll);
	r |= uv_timer_start(&p->sweep, on_sweep, CONN_SWEEP_MS, CONN_SWEEP_MS);
	assert(r == 0); /* libuv documents no failure of any of them */
	p->handles_open = 3;
}

struct conn_pool *conn_pool_new(const struct conn_place *place, uint32_t max_clients)
{
	struct conn_pool *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	(void)signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error of write() */
	p->place = *place;
	p->id_step = place->loops > 1 ? place->loops : 1;
	p->last_id = place->index + 1 - p->id_step;
	p->max_clients = fit_file_limit(max_clients == 0 ? CONN_MAX_CLIENTS : max_clients,
					(unsigned)p->id_step);
	p->started_ms = uv_now(p->place.loop);
	start_handles(p);
	return p;
}

void conn_pool_spread(struct conn_pool *p, struct conn_pool *const *peers, unsigned n)
{
	p->peers = peers;
	p->n_peers = n;
}

void conn_pool_drain(struct conn_pool *p)
{
	p->draining = true;
	for (struct conn *c = p->conns; c != NULL; c = c->next)
		conn_finish(c);
}

void conn_pool_close(struct conn_pool *p, void (*on_closed)(void *data), void *data)
{
	assert(p->listeners == NULL && !p->closing);
	p->closing = true;
	p->on_closed = on_closed;
	p->on_closed_data = data;
	for (struct conn *c = p->conns; c != NULL; c = c->next)
		conn_close(c);
	if (p->total == 0)
		close_handles(p);
}

uint32_t conn_pool_count(const struct conn_pool *p)
{
	return p->count;
}

uint32_t conn_pool_max_clients(const struct conn_pool *p)
{
	return p->max_clients;
}

uint64_t conn_pool_started_ms(const struct conn_pool *p)
{
	return p->started_ms;
}

struct conn_counters conn_pool_counters(const struct conn_pool *p)
{
	struct conn_counters n = p->counters;

	for (const struct conn *c = p->conns; c != NULL; c = c->next)
		n.commands += c->commands; /* those of the others were added when they went */
	return n;
}

void conn_pool_each(const struct conn_pool *p, void (*each)(const struct conn *c, void *data),
		    void *data)
{
	for (const struct conn *c = p->conns; c != NULL; c = c->next) {
		if (c->served && c->state != CONN_CLOSING)
			each(c, data);
	}
}

const char *conn_pool_address(const struct conn_pool *p, const char *front_name)
{
	return listener_find(p->listeners, front_name);
}
