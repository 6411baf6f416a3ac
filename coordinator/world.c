#include "world.h"

#include <jansson.h>
#include <stdlib.h>

#include "coord_events.h"
#include "coord_gossip.h"
#include "core/recent.h"
#include "core/version.h"
#include "io/buf_json.h"
#include "io/clock.h"
#include "io/event_json.h"
#include "io/kafka_consumer.h"
#include "io/log.h"
#include "rows.h"
#include "share.h"

enum {
	SOURCES = 3,
	RECORD_MAX = 64 * 1024,
	KEPT_MAX = 2000, /* records of each */
	KEPT_BYTES_MAX = 1024 * 1024,
	MEMBERS_EVERY = 5,
};

/* What is kept of a topic: of `tail` of each partition the last, and what comes. */
static const struct source_terms {
	const char *topic, *event;
	unsigned tail;
} terms[SOURCES] = {
	{ROLLUP_TOPIC, "rows", 600},
	{"kova.pool.v1", "pools", 200},
	{EVENTS_TOPIC, "events", 100},
};

struct source {
	struct world *world;
	struct kafka_consumer *consumer; /* NULL: nothing is read */
	bool is_closing;
	struct recent recent;
	uint64_t told; /* of `recent`, to all viewers */
};

struct world {
	struct coord_share *share;
	uv_loop_t *loop;
	uv_timer_t timer;
	struct source sources[SOURCES];
	struct world_viewer *viewers;
	unsigned n_viewers;
	uint64_t started_ms, rounds, left_ms; /* left: when the last one did */
	bool closing, timer_closed;
};

/* ---- Topics ---- */

/* Written anew, for what a record has may be on several lines; what is no JSON is left out. No key is shown: who looks may have any token, or need none. */
static void on_record(const struct kafka_consumed *r, void *data)
{
	struct source *s = data;
	json_t *value =
		r->value.len <= RECORD_MAX ? json_loadb(r->value.ptr, r->value.len, 0, NULL) : NULL;
	struct buf text = {0};

	event_json_hide_keys(value);
	if (json_is_object(value))
		buf_add_json(&text, value, JSON_COMPACT);
	if (text.len > 0 && !buf_failed(&text))
		recent_add(&s->recent, &text);
	buf_release(&text);
	json_decref(value);
}

static void read_topics(struct world *w)
{
	for (unsigned i = 0; i < SOURCES; i++) {
		struct source *s = &w->sources[i];
		const struct kafka_consumer_events events = {.on_record = on_record, .data = s};
		const struct coord_conf *conf = w->share->first;
		struct buf error = {0};

		if (s->consumer != NULL || s->is_closing)
			continue;
		s->consumer = kafka_consumer_new(w->loop, &conf->kafka, conf->node, terms[i].topic,
						 terms[i].tail, &events, &error);
		if (s->consumer == NULL)
			log_event(LOG_ERROR, "kafka_error", "the dashboard can't read a topic",
				  LOG_TEXT_FIELD("topic", terms[i].topic));
		buf_release(&error);
	}
}

static void free_if_closed(struct world *w)
{
	if (!w->closing || !w->timer_closed)
		return;
	for (unsigned i = 0; i < SOURCES; i++)
		if (w->sources[i].is_closing)
			return;
	for (unsigned i = 0; i < SOURCES; i++)
		recent_release(&w->sources[i].recent);
	free(w);
}

static void on_consumer_closed(void *data)
{
	struct source *s = data;
	struct world *w = s->world;

	s->is_closing = false;
	recent_clear(&s->recent);
	s->told = 0;
	if (w->n_viewers > 0)
		read_topics(w);
	free_if_closed(w);
}

static void let_topics_go(struct world *w)
{
	for (unsigned i = 0; i < SOURCES; i++) {
		struct source *s = &w->sources[i];
		struct kafka_consumer *c = s->consumer;

		if (c == NULL)
			continue;
		s->consumer = NULL;
		s->is_closing = true;
		kafka_consumer_close(c, on_consumer_closed, s);
	}
}

/* ---- Events ---- */

static void write_stats(struct world *w, struct buf *out)
{
	struct coord_share *share = w->share;
	const struct coord_numbers n = coord_share_numbers(share);
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"partitions", n.partitions},
		{"keys", n.keys},
		{"quotas", n.quotas},
		{"records", n.records},
		{"reports", n.reports},
		{"grants", n.grants},
		{"transactions", n.transactions},
		{"failures", n.failures},
		{"floors_differ", n.floors_differ},
		{"take_over_ms", n.take_over_us / 1000},
		{"events_dropped", coord_events_dropped(&share->events)},
		{"viewers", w->n_viewers},
	};
	bool caught_up = true;

	for (unsigned i = 0; i < SOURCES; i++)
		caught_up &= w->sources[i].consumer != NULL &&
			     kafka_consumer_counters(w->sources[i].consumer).caught_up;
	buf_printf(out,
		   "event: stats\ndata: "
		   "{\"at\":%llu,\"started\":%llu,\"node\":\"%s\",\"version\":\"" KOVA_VERSION
		   "\",\"rollup_ms\":%llu,\"caught_up\":%s,\"health\":",
		   (unsigned long long)(clock_read().wall_us / 1000),
		   (unsigned long long)w->started_ms, share->first->node,
		   (unsigned long long)share->first->rollup_ms, caught_up ? "true" : "false");
	coord_share_write_health(share, out);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		buf_printf(out, ",\"%s\":%llu", numbers[i].name,
			   (unsigned long long)numbers[i].value);
	buf_add_text(out, "}\n\n");
}

static void write_members(struct world *w, struct buf *out)
{
	json_t *members;

	if (w->share->gossip == NULL)
		return;
	members = gossip_service_members(coord_gossip_service(w->share->gossip));
	buf_add_text(out, "event: members\ndata: ");
	buf_add_json(out, members, JSON_COMPACT);
	buf_add_text(out, "\n\n");
	json_decref(members);
}

static void write_source(const struct source *s, const struct source_terms *t, uint64_t since,
			 struct buf *out)
{
	if (s->recent.n <= since)
		return;
	buf_printf(out, "event: %s\ndata: ", t->event);
	recent_write(&s->recent, since, out);
	buf_add_text(out, "\n\n");
}

static void on_timer(uv_timer_t *timer)
{
	struct world *w = timer->data;
	struct buf text = {0};

	if (w->n_viewers == 0) {
		if (uv_now(w->loop) - w->left_ms >= WORLD_LINGER_MS) {
			uv_timer_stop(timer);
			let_topics_go(w);
		}
		return;
	}
	for (unsigned i = 0; i < SOURCES; i++) {
		struct source *s = &w->sources[i];

		write_source(s, &terms[i], s->told, &text);
		s->told = s->recent.n;
	}
	write_stats(w, &text);
	if (++w->rounds % MEMBERS_EVERY == 0)
		write_members(w, &text);
	for (struct world_viewer *v = w->viewers, *next; v != NULL && !buf_failed(&text);
	     v = next) {
		next = v->next;
		v->send(v, buf_slice(&text));
	}
	buf_release(&text);
}

/* ---- Viewers ---- */

bool world_join(struct world *w, struct world_viewer *v)
{
	struct buf text = {0};

	if (w->n_viewers >= WORLD_VIEWERS_MAX)
		return false;
	read_topics(w);
	for (unsigned i = 0; i < SOURCES; i++) {
		struct source *s = &w->sources[i];

		if (w->n_viewers == 0)
			s->told = s->recent.n; /* no round is needed to tell it */
		write_source(s, &terms[i], 0, &text);
	}
	write_stats(w, &text);
	write_members(w, &text);
	if (buf_failed(&text)) {
		buf_release(&text);
		return false;
	}
	v->next = w->viewers;
	v->prev = &w->viewers;
	if (v->next != NULL)
		v->next->prev = &v->next;
	w->viewers = v;
	w->n_viewers++;
	if (!uv_is_active((uv_handle_t *)&w->timer))
		uv_timer_start(&w->timer, on_timer, WORLD_EVERY_MS, WORLD_EVERY_MS);
	v->send(v, buf_slice(&text));
	buf_release(&text);
	return true;
}

void world_leave(struct world *w, struct world_viewer *v)
{
	if (v->prev == NULL)
		return;
	*v->prev = v->next;
	if (v->next != NULL)
		v->next->prev = v->prev;
	v->prev = NULL;
	w->n_viewers--;
	w->left_ms = uv_now(w->loop);
}

unsigned world_viewers(const struct world *w)
{
	return w->n_viewers;
}

/* ---- Life ---- */

struct world *world_new(uv_loop_t *loop, struct coord_share *share)
{
	struct world *w = calloc(1, sizeof *w);
	bool ok = w != NULL;

	for (unsigned i = 0; ok && i < SOURCES; i++) {
		w->sources[i].world = w;
		ok = recent_init(&w->sources[i].recent, KEPT_MAX, KEPT_BYTES_MAX);
	}
	if (!ok) {
		for (unsigned i = 0; w != NULL && i < SOURCES; i++)
			recent_release(&w->sources[i].recent);
		free(w);
		return NULL;
	}
	w->share = share;
	w->loop = loop;
	w->started_ms = clock_read().wall_us / 1000;
	uv_timer_init(loop, &w->timer);
	w->timer.data = w;
	return w;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct world *w = h->data;

	w->timer_closed = true;
	free_if_closed(w);
}

void world_close(struct world *w)
{
	if (w == NULL)
		return;
	w->closing = true;
	let_topics_go(w);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
