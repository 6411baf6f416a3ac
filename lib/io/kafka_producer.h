/*
 * An idempotent producer on a loop. Nothing here waits for Kafka: records are copied into a bounded queue, and what became of
 * each is told on the loop, a bounded number of them a turn. With the brokers away records stay in the queue until they are
 * back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"
#include "io/kafka_conf.h"

enum {
	KAFKA_QUEUE_RECORDS = 32768, /* that have not been delivered */
	KAFKA_QUEUE_KBYTES = 32768,
};

struct kafka_producer;

struct kafka_header {
	const char *name;
	struct slice value;
};

/* Borrowed for the call. */
struct kafka_record {
	const char *topic;
	struct slice key, value;
	const struct kafka_header *headers;
	unsigned n_headers;
	void *opaque; /* for on_fate; not NULL */
};

enum kafka_fate {
	KAFKA_DELIVERED, /* the brokers have the record, all copies that are in step */
	KAFKA_LOST,      /* it is not known that they have */
	KAFKA_REFUSED,   /* for what it is, or what came with it in one batch: too large, say */
};

struct kafka_producer_events {
	/* Once a record. */
	void (*on_fate)(const char *topic, void *opaque, enum kafka_fate fate, void *data);
	/* No broker can be reached or they refuse the client, or one takes records again. May be NULL. */
	void (*on_up)(bool up, void *data);
	void *data;
};

struct kafka_producer_counters {
	uint64_t delivered, failed;
	bool up; /* a broker takes records, as far as is known */
};

/*
 * `conf` is borrowed until the producer is closed. No broker need be there. NULL: out of memory or descriptors, or librdkafka
 * refuses the configuration; *ret_error says so, without secrets.
 */
struct kafka_producer *kafka_producer_new(uv_loop_t *loop, const struct kafka_conf *conf,
					  const char *client_id,
					  const struct kafka_producer_events *events,
					  struct buf *ret_error);

/*
 * Copies the record and has it delivered. KOVA_AGAIN: the queue is full, or there is no client just now; no on_fate comes. KOVA_EIO:
 * librdkafka refuses it (too large).
 */
KOVA_MUST_CHECK kova_status kafka_produce(struct kafka_producer *p, const struct kafka_record *r);

/* Records whose fate has not been told. */
unsigned kafka_producer_pending(const struct kafka_producer *p);
struct kafka_producer_counters kafka_producer_counters(const struct kafka_producer *p);

/*
 * Gives what is pending `timeout_ms` to arrive, tells of each what became of it, and frees the producer. `on_closed` may be NULL.
 * No record may be produced any more.
 */
void kafka_producer_close(struct kafka_producer *p, uint64_t timeout_ms,
			  void (*on_closed)(void *data), void *data);
