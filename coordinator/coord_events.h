/* Events of this coordinator on their way to kova.events.v1 (proto/events.schema.json): they leave with the next transaction. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/hlc.h"

enum { COORD_EVENTS_MAX = 1024 }; /* that wait; further ones are dropped */

struct coord_events {
	pthread_mutex_t lock;
	struct hlc hlc;
	struct buf waiting; /* each with its end of a line */
	unsigned n, sent;   /* that wait; of these so many are in the transaction */
	size_t sent_bytes;
	uint64_t dropped;
};

void coord_events_init(struct coord_events *e);
void coord_events_release(struct coord_events *e);

/*
 * Any thread. `region`: a name; NULL: the event is of none, for a coordinator is in none. `rest`: further members of the event's object,
 * as `"policy":"p","kafka":1`.
 */
void coord_event(struct coord_events *e, const char *event, const char *node, const char *region,
		 struct slice rest);

/* Puts a record into the transaction that is open. */
typedef bool coord_events_put(const char *topic, struct slice key, struct slice value, void *data);
/* Puts what waits, with the key `node`. False: `put` said so. */
bool coord_events_send(struct coord_events *e, const char *node, coord_events_put *put, void *data);
/* That transaction was committed. */
void coord_events_settle(struct coord_events *e);

uint64_t coord_events_dropped(struct coord_events *e);
