/*
 * What leaves a coordinator, in transactions (KIP-98) that take offsets of its group along (KIP-447). The brokers refuse those of one that
 * is out of the group, or whose successor of the same node has begun.
 *
 * What fails is logged; then the transaction can't be committed any more.
 */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "coord_conf.h"
#include "core/bytes.h"

/* All zeros: closed. */
struct txn {
	rd_kafka_t *producer;
	const char *node;        /* borrowed */
	const atomic_bool *stop; /* borrowed; true: what fails is not tried again */
	bool is_begun;
};

/* Waits until transactions of the same node before are over. */
bool txn_open(struct txn *t, const struct coord_conf *conf, const atomic_bool *stop);
/* Nothing that was begun is committed. False: nor will anything be that comes after. */
bool txn_abort(struct txn *t);
void txn_close(struct txn *t);

/* Does nothing if it was begun. */
bool txn_begin(struct txn *t);

struct txn_record {
	const char *topic;
	int32_t partition; /* RD_KAFKA_PARTITION_UA: by its key */
	struct slice key, value;
	bool has_headers; /* `schema`, which is the topic, and `agent`, the node */
};

/* Waits for room in the producer's queue. */
bool txn_add(struct txn *t, const struct txn_record *r);

enum txn_result {
	TXN_COMMITTED,
	TXN_ABORTED, /* the group has a new generation, and `consumer` does not know yet: the same may be sent again when it does */
	TXN_FAILED,
};

/* With the offsets of `consumer`, one at least: a transaction without any would not be refused to one that is out of the group. */
enum txn_result txn_commit(struct txn *t, rd_kafka_t *consumer,
			   const rd_kafka_topic_partition_list_t *offsets);
