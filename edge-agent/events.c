/*
 * An event travels from its loop to the owner's as a message, is written and shown there, and stays in a list until the producer says
 * that it has arrived: one that was not accepted or did not arrive is produced again a little later.
 */
#include "events.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "core/rfc3339.h"
#include "io/clock.h"
#include "io/event_json.h"
#include "live.h"
#include "publisher.h"

enum { AGAIN_MS = 500, HLC_TEXT_MAX = 24 };

/* From its loop to the owner's. */
struct event_message {
	struct message message; /* first */
	struct agent *owner;
	const char *event; /* a literal; NULL: it is numbers of a pool */
	json_t *fields;
	uint64_t at_ms;
	char key[NAME_BYTES_MAX + 1]; /* of a record of POOL_TOPIC */
	char *text;                   /* what it says, owned; NULL: not written yet */
};

struct event {
	struct event *next; /* of those to be produced */
	uint64_t hlc;
	const char *topic;
	char key[NAME_BYTES_MAX + 1]; /* "": the node */
	size_t len;
	char text[];
};

struct events {
	struct kafka_producer *producer;
	const char *node, *region;
	struct event *first, **last; /* to be produced */
	unsigned n;                  /* with those in flight */
	uint64_t dropped;
	bool stopped;
	uv_timer_t timer;
};

/* ---- On the owner's loop ---- */

static void enqueue(struct events *e, struct event *event)
{
	event->next = NULL;
	*e->last = event;
	e->last = &event->next;
}

static kova_status produce(struct events *e, struct event *event)
{
	char hlc[HLC_TEXT_MAX];
	int hlc_len = snprintf(hlc, sizeof hlc, "%" PRIu64, event->hlc);
	const struct kafka_header headers[] = {
		{"schema", slice_of(event->topic)},
		{"region", slice_of(e->region)},
		{"agent", slice_of(e->node)},
		{"hlc", {hlc, (size_t)hlc_len}},
	};
	const struct kafka_record record = {
		.topic = event->topic,
		.key = slice_of(event->key[0] != '\0' ? event->key : e->node),
		.value = {event->text, event->len},
		.headers = headers,
		.n_headers = sizeof headers / sizeof headers[0],
		.opaque = event};

	return kafka_produce(e->producer, &record);
}

static void drop(struct events *e, struct event *event)
{
	e->dropped++;
	e->n--;
	free(event);
}

/* In their order, until one is not accepted. */
static void produce_all(struct events *e)
{
	while (e->first != NULL) {
		struct event *event = e->first;
		kova_status status = produce(e, event);

		if (status == KOVA_AGAIN)
			return;
		e->first = event->next;
		if (e->first == NULL)
			e->last = &e->first;
		if (status != KOVA_OK)
			drop(e, event);
	}
}

static void on_timer(uv_timer_t *t)
{
	produce_all(t->data);
}

void events_fate(struct events *e, void *opaque, enum kafka_fate fate)
{
	struct event *event = opaque;

	if (fate == KAFKA_DELIVERED) {
		e->n--;
		free(event);
	} else if (e->stopped || fate == KAFKA_REFUSED) {
		drop(e, event);
	} else {
		enqueue(e, event);
	}
}

static struct event *event_new(const struct event_message *m, const char *text, uint64_t hlc)
{
	size_t len = text != NULL ? strlen(text) : 0;
	struct event *event = text != NULL ? malloc(sizeof *event + len) : NULL;

	if (event != NULL) {
		*event = (struct event){.hlc = hlc,
					.topic = m->event != NULL ? EVENTS_TOPIC : POOL_TOPIC,
					.len = len};
		memcpy(event->key, m->key, sizeof event->key);
		memcpy(event->text, text, len);
	}
	return event;
}

/* `text`: what it says; NULL: memory was out. */
static void take(struct events *e, const struct event_message *m, const char *text, uint64_t hlc)
{
	bool fits = e->n < EVENTS_WAITING && !e->stopped;
	struct event *event = fits ? event_new(m, text, hlc) : NULL;

	if (event == NULL) {
		e->dropped++;
		return;
	}
	e->n++;
	enqueue(e, event);
	produce_all(e);
}

/* The event's object: what all have, then its own fields. NULL: out of memory. */
static json_t *body_of(const struct agent *owner, const struct event_message *m, uint64_t hlc)
{
	char at[RFC3339_TEXT_MAX];
	json_t *body;

	rfc3339_write((int64_t)m->at_ms, at);
	body = json_pack("{s:s, s:s, s:s, s:s, s:I}", "event", m->event, "at", at, "node",
			 owner->conf.node, "region", owner->conf.region, "hlc", (json_int_t)hlc);
	if (body != NULL && m->fields != NULL && json_object_update(body, m->fields) == 0)
		return body;
	json_decref(body);
	return NULL;
}

static void run(struct message *message)
{
	struct event_message *m = (struct event_message *)message;
	struct agent *owner = m->owner;
	uint64_t hlc = hlc_now(&owner->hlc, clock_read().wall_us / 1000);
	json_t *body = m->event != NULL ? body_of(owner, m, hlc) : NULL;

	if (body != NULL)
		m->text = json_dumps(body, JSON_COMPACT);
	if (owner->publisher != NULL)
		take(publisher_events(owner->publisher), m, m->text, hlc);
	live_happened(owner->live, body);
	json_decref(body);
	json_decref(m->fields);
	free(m->text);
	free(m);
}

/* ---- On any loop ---- */

/* Takes `parts->fields` and `parts->text`. */
static void send_off(struct agent *a, const struct event_message *parts)
{
	struct agent *owner = agent_owner(a);
	struct event_message *m = malloc(sizeof *m);

	if (m == NULL) {
		json_decref(parts->fields);
		free(parts->text);
		return;
	}
	*m = *parts;
	m->message.run = run;
	m->owner = owner;
	m->at_ms = clock_read().wall_us / 1000;
	if (owner == a)
		run(&m->message);
	else
		mailbox_post(owner->mailbox, &m->message);
}

void event_publish(struct agent *a, const char *event, json_t *fields)
{
	const struct event_message m = {.event = event, .fields = fields};

	send_off(a, &m);
}

void pool_numbers_publish(struct agent *a, const char *pool, struct slice numbers)
{
	struct event_message m = {.text = a->feed != NULL ? strndup(numbers.ptr, numbers.len)
							  : NULL};

	if (m.text == NULL)
		return;
	snprintf(m.key, sizeof m.key, "%s", pool);
	send_off(a, &m);
}

/* ---- Life ---- */

struct events *events_new(uv_loop_t *loop, struct kafka_producer *producer, const char *node,
			  const char *region)
{
	struct events *e = calloc(1, sizeof *e);

	if (e == NULL)
		return NULL;
	*e = (struct events){.producer = producer, .node = node, .region = region};
	e->last = &e->first;
	uv_timer_init(loop, &e->timer);
	e->timer.data = e;
	uv_timer_start(&e->timer, on_timer, AGAIN_MS, AGAIN_MS);
	return e;
}

void events_stop(struct events *e)
{
	produce_all(e);
	e->stopped = true;
	uv_timer_stop(&e->timer);
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

void events_free(struct events *e)
{
	if (e == NULL)
		return;
	for (struct event *event = e->first, *next; event != NULL; event = next) {
		next = event->next;
		free(event);
	}
	uv_close((uv_handle_t *)&e->timer, on_timer_closed);
}

uint64_t events_dropped(const struct events *e)
{
	return e->dropped;
}
