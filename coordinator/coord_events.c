#include "coord_events.h"

#include <inttypes.h>

#include "core/rfc3339.h"
#include "io/clock.h"
#include "io/event_json.h"

void coord_events_init(struct coord_events *e)
{
	*e = (struct coord_events){0};
	pthread_mutex_init(&e->lock, NULL);
}

void coord_events_release(struct coord_events *e)
{
	buf_release(&e->waiting);
	pthread_mutex_destroy(&e->lock);
}

void coord_event(struct coord_events *e, const char *event, const char *node, const char *region,
		 struct slice rest)
{
	uint64_t now_ms = clock_read().wall_us / 1000;
	char at[RFC3339_TEXT_MAX];
	struct buf text = {0};

	rfc3339_write((int64_t)now_ms, at);
	pthread_mutex_lock(&e->lock);
	buf_printf(&text, "{\"event\":\"%s\",\"at\":\"%s\",\"node\":\"%s\",", event, at, node);
	if (region != NULL)
		buf_printf(&text, "\"region\":\"%s\",", region);
	buf_printf(&text, "\"hlc\":%" PRIu64 ",%.*s}\n", hlc_now(&e->hlc, now_ms), (int)rest.len,
		   rest.ptr);
	if (e->n < COORD_EVENTS_MAX && !buf_failed(&text) &&
	    buf_reserve(&e->waiting, text.len) != NULL) {
		buf_add_slice(&e->waiting, buf_slice(&text));
		e->n++;
	} else {
		e->waiting.failed = false; /* what is in it is whole */
		e->dropped++;
	}
	pthread_mutex_unlock(&e->lock);
	buf_release(&text);
}

bool coord_events_send(struct coord_events *e, const char *node, coord_events_put *put, void *data)
{
	struct slice rest;
	bool ok = true;

	pthread_mutex_lock(&e->lock);
	rest = buf_slice(&e->waiting);
	e->sent = e->n;
	e->sent_bytes = rest.len;
	while (ok && rest.len > 0)
		ok = put(EVENTS_TOPIC, slice_of(node), slice_cut(&rest, '\n'), data);
	pthread_mutex_unlock(&e->lock);
	return ok;
}

void coord_events_settle(struct coord_events *e)
{
	pthread_mutex_lock(&e->lock);
	buf_consume(&e->waiting, e->sent_bytes);
	e->n -= e->sent;
	e->sent = 0;
	e->sent_bytes = 0;
	pthread_mutex_unlock(&e->lock);
}

uint64_t coord_events_dropped(struct coord_events *e)
{
	pthread_mutex_lock(&e->lock);
	uint64_t n = e->dropped;

	pthread_mutex_unlock(&e->lock);
	return n;
}
