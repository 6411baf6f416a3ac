#include "live.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "agent.h"
#include "core/recent.h"
#include "io/auth.h"
#include "io/buf_json.h"
#include "io/conn.h"
#include "io/event_json.h"
#include "io/http_server.h"
#include "live_pools.h"
#include "live_text.h"
#include "ops.h"
#include "tour.h"

/* Rounds. Events are told again, for whoever could not take them when they were news. */
enum { POOLS_EVERY = 2, AGAIN_EVERY = 5 };

struct live {
	struct agent *owner;
	uv_timer_t timer; /* runs while somebody looks */
	bool stopped;
	bool is_away; /* a round is on its way */
	uint64_t config;
	uint64_t rounds; /* since somebody looks */
	bool greets;     /* somebody is new: he is told what is not told each time */
	struct live_pools *pools;
	struct recent happened;
	bool has_news; /* of them */
	atomic_uint n_viewers;
	atomic_uint_least64_t events, skipped, cut_off, refused;
};

/* One round: out for the numbers, out again with the text. */
struct round {
	struct tour tour; /* first */
	struct live *live;
	struct live_numbers numbers;
	struct buf text;
	struct buf secret; /* more, for those who may see keys */
};

static uint64_t add(atomic_uint_least64_t *counter)
{
	return atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* ---- a round ---- */

static void round_free(struct round *r)
{
	live_numbers_release(&r->numbers);
	buf_release(&r->text);
	buf_release(&r->secret);
	free(r);
}

static void give(const struct agent *a, struct live_viewer *v, const struct round *r)
{
	struct live *l = r->live;

	if (!auth_holds(a->auth, v->token, 0)) {
		conn_close(v->conn);
		return;
	}
	if (conn_out_bytes(v->conn) == 0 && http_exchange_write(v->exchange, buf_slice(&r->text))) {
		if (auth_holds(a->auth, v->token, AUTH_ADMIN))
			http_exchange_write(v->exchange, buf_slice(&r->secret));
		v->skipped = 0;
		return;
	}
	add(&l->skipped);
	if (++v->skipped >= LIVE_SKIPS_MAX) {
		add(&l->cut_off);
		conn_close(v->conn);
	}
}

static void visit_viewers(struct tour *t, struct agent *a)
{
	struct round *r = (struct round *)t;

	for (struct live_viewer *v = a->viewers; v != NULL; v = v->next)
		give(a, v, r);
}

static void on_given(struct tour *t)
{
	struct round *r = (struct round *)t;

	r->live->is_away = false;
	round_free(r);
}

static void visit_numbers(struct tour *t, struct agent *a)
{
	live_numbers_add(&((struct round *)t)->numbers, a);
}

static void on_gathered(struct tour *t)
{
	struct round *r = (struct round *)t;
	struct live *l = r->live;

	r->numbers.config = l->config;
	r->numbers.viewers = atomic_load_explicit(&l->n_viewers, memory_order_relaxed);
	live_text_stats(&r->numbers, l->owner, &r->text);
	if (live_pools_have_news(l->pools) || (l->greets && live_pools_are_known(l->pools)))
		live_text_pools(l->pools, &r->text);
	if (l->greets || l->rounds % AGAIN_EVERY == 0)
		live_text_members(l->owner, &r->text);
	if (l->has_news || l->greets || l->rounds % AGAIN_EVERY == 0)
		live_text_events(&l->happened, &r->text);
	live_text_top(&r->numbers, &r->secret);
	l->greets = l->has_news = false;
	l->rounds++;
	add(&l->events);
	if (buf_failed(&r->text) || buf_failed(&r->secret))
		on_given(t);
	else
		tour_start(&r->tour, l->owner, visit_viewers, on_given);
}

static void begin_round(struct live *l)
{
	struct round *r = calloc(1, sizeof *r);

	if (r == NULL || !live_numbers_init(&r->numbers)) {
		free(r);
		return;
	}
	r->live = l;
	l->is_away = true;
	if (l->rounds % POOLS_EVERY == 0)
		live_pools_ask(l->pools);
	tour_start(&r->tour, l->owner, visit_numbers, on_gathered);
}

static void on_timer(uv_timer_t *t)
{
	struct live *l = t->data;

	if (atomic_load(&l->n_viewers) == 0) {
		uv_timer_stop(t);
		live_pools_forget(l->pools);
	} else if (!l->is_away) {
		begin_round(l);
	}
}

/* ---- viewers ---- */

/* On its way to the owner: somebody looks. */
struct call_owner {
	struct tour tour; /* first */
};

static void visit_owner(struct tour *t, struct agent *a)
{
	struct live *l = a->live;

	(void)t;
	if (a->owner != NULL || l->stopped)
		return;
	l->greets = true;
	if (!uv_is_active((uv_handle_t *)&l->timer)) {
		l->rounds = 0;
		uv_timer_start(&l->timer, on_timer, 0, LIVE_EVERY_MS);
	}
}

static void on_called(struct tour *t)
{
	free(t);
}

bool live_join(struct agent *a, struct live_viewer *v)
{
	struct live *l = a->live;
	struct call_owner *call = malloc(sizeof *call);
	unsigned before = atomic_fetch_add(&l->n_viewers, 1);

	if (call == NULL || before >= LIVE_VIEWERS_MAX) {
		free(call);
		atomic_fetch_sub(&l->n_viewers, 1);
		add(&l->refused);
		return false;
	}
	v->next = a->viewers;
	v->prev = &a->viewers;
	if (v->next != NULL)
		v->next->prev = &v->next;
	a->viewers = v;
	tour_start(&call->tour, a, visit_owner, on_called);
	return true;
}

void live_leave(struct agent *a, struct live_viewer *v)
{
	if (v->prev == NULL)
		return;
	*v->prev = v->next;
	if (v->next != NULL)
		v->next->prev = v->prev;
	v->prev = NULL;
	atomic_fetch_sub(&a->live->n_viewers, 1);
}

/* ---- life ---- */

struct live *live_new(struct agent *owner)
{
	struct live *l = calloc(1, sizeof *l);

	if (l == NULL)
		return NULL;
	l->pools = live_pools_new(owner);
	if (l->pools == NULL ||
	    !recent_init(&l->happened, LIVE_EVENTS_MAX, LIVE_EVENTS_BYTES_MAX)) {
		live_pools_free(l->pools);
		free(l);
		return NULL;
	}
	l->owner = owner;
	uv_timer_init(owner->loop, &l->timer);
	l->timer.data = l;
	return l;
}

void live_stop(struct live *l)
{
	l->stopped = true;
	live_pools_stop(l->pools);
	uv_close((uv_handle_t *)&l->timer, NULL);
}

void live_free(struct live *l)
{
	if (l == NULL)
		return;
	live_pools_free(l->pools);
	recent_release(&l->happened);
	free(l);
}

void live_config_changed(struct live *l)
{
	l->config++;
}

void live_happened(struct live *l, json_t *event)
{
	struct buf text = {0};

	if (l == NULL || event == NULL)
		return;
	event_json_hide_keys(event);
	buf_add_json(&text, event, JSON_COMPACT);
	if (!buf_failed(&text)) {
		recent_add(&l->happened, &text);
		l->has_news = true;
	}
	buf_release(&text);
}

struct live_counters live_counters(const struct live *l)
{
	return (struct live_counters){.viewers = atomic_load(&l->n_viewers),
				      .events = atomic_load(&l->events),
				      .skipped = atomic_load(&l->skipped),
				      .cut_off = atomic_load(&l->cut_off),
				      .refused = atomic_load(&l->refused)};
}
