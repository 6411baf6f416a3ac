/* Compacted topics as the store of what a coordinator knows: made when they are missing, read to their end on taking over. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "coord_conf.h"
#include "core/bytes.h"

/* −1: it is not known. 0: there is no such topic. Blocks some seconds at most. */
int compacted_partitions(rd_kafka_t *client, const char *topic);

/*
 * That it is there, with so many partitions; else makes it. `client`: any. Blocks some seconds at most. False: it can't be, and the log
 * says why.
 */
bool compacted_ensure(rd_kafka_t *client, const char *topic, int partitions);

/* What was committed, from the beginning of one partition on. Owned: compacted_close(). */
struct compacted {
	const char *topic;  /* borrowed */
	rd_kafka_t *reader; /* NULL: it is closed */
	int64_t end; /* of the partition when it was opened, transactions that were open then included */
	int64_t at; /* up to here was read */
};

/* `topic` outlives it. False: it can't be, and the log says why. */
bool compacted_open(struct compacted *c, const struct coord_conf *conf, const char *topic,
		    int32_t partition);
void compacted_close(struct compacted *c); /* one that is closed is nothing */

/* A record that is not a tombstone; borrowed for the call. False: it says nothing, or memory is out; the log says why. */
typedef bool compacted_record(struct slice key, struct slice value, void *data);

/*
 * Reads all that was there when it was opened. Blocks until each transaction that was open then is over, for what comes behind
 * an open one can't be read yet. False: `on_record` said so, it was not read in time, or `stop` is true; the log says why.
 */
bool compacted_read(struct compacted *c, compacted_record *on_record, void *data,
		    const atomic_bool *stop);

/* Reads what has come meanwhile, without waiting. False: `on_record` said so. */
bool compacted_poll(struct compacted *c, compacted_record *on_record, void *data);
