/* Where the group goes on reading a partition. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>

/*
 * Fills in the offsets of `list`: those that were committed, else of the first record. Waits until no open transaction has some: those of one
 * that was killed the brokers end by themselves. False: they can't be known, or `stop` is true; the log says why.
 */
bool group_offsets_find(rd_kafka_t *consumer, rd_kafka_topic_partition_list_t *list,
			const atomic_bool *stop);
