/*
 * Reads a topic on a loop: every partition, in no group, and only what is committed; a compacted one from its beginning, of
 * another no more than its end, and then on.
 * Nothing here waits for Kafka; records come some a turn of the loop. Where brokers are away, or there is no such topic yet, it
 * goes on trying.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "io/kafka_conf.h"

struct kafka_consumer;

struct kafka_consumed {
	struct slice key, value; /* no value: a tombstone */
	int64_t timestamp_ms; /* since 1970, by its producer's clock or its broker's; −1: it has none */
};

struct kafka_consumer_events {
	/* One record: of a key the newest is what holds. Borrowed for the call. */
	void (*on_record)(const struct kafka_consumed *r, void *data);
	/* Once: all that was there when it began has come. May be NULL. */
	void (*on_caught_up)(void *data);
	void *data;
};

struct kafka_consumer_counters {
	uint64_t records;
	uint64_t errors; /* of brokers and partitions */
	bool caught_up;
};

/*
 * `conf` and `topic` are borrowed until it is closed. `tail`: of each partition it begins with so many offsets before its end;
 * 0: with all. No broker need be there. NULL: out of memory or descriptors, or librdkafka
 * refuses the configuration; *ret_error says so, without secrets.
 */
struct kafka_consumer *kafka_consumer_new(uv_loop_t *loop, const struct kafka_conf *conf,
					  const char *client_id, const char *topic, unsigned tail,
					  const struct kafka_consumer_events *events,
					  struct buf *ret_error);
struct kafka_consumer_counters kafka_consumer_counters(const struct kafka_consumer *c);
/* No event comes any more. `on_closed` (may be NULL) comes when it is gone. NULL is nothing: it comes at once. */
void kafka_consumer_close(struct kafka_consumer *c, void (*on_closed)(void *data), void *data);
