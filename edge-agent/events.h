/*
 * Events for people and dashboards (docs/kafka.md, proto/events.schema.json): on the agent's page, and where there is a Kafka on
 * kova.events.v1. A loop says what happened; the owner stamps, shows and publishes it. They are few and may be missed: a bounded
 * number waits, further ones are counted. Never with a secret.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "io/kafka_producer.h"

#define POOL_TOPIC "kova.pool.v1"

struct agent;

enum { EVENTS_WAITING = 1024 };

/*
 * Something happened, now. On the loop of `a`. `fields` is taken: an object of what is particular to the event; NULL (memory was
 * out): the event is dropped.
 */
void event_publish(struct agent *a, const char *event, json_t *fields);

/* The five numbers of `pool`, JSON (copied), on POOL_TOPIC. On the loop of `a`. Nothing, where there is no Kafka. */
void pool_numbers_publish(struct agent *a, const char *pool, struct slice numbers);

/* ---- The owner's ---- */

struct events;

/* All but `loop` are borrowed. NULL: out of memory. */
struct events *events_new(uv_loop_t *loop, struct kafka_producer *producer, const char *node,
			  const char *region);
/* The producer tells of a record of EVENTS_TOPIC or POOL_TOPIC. */
void events_fate(struct events *e, void *opaque, enum kafka_fate fate);
/* No event comes any more. */
void events_stop(struct events *e);
/* NULL is nothing. The producer has told of all. */
void events_free(struct events *e);
uint64_t events_dropped(const struct events *e);
