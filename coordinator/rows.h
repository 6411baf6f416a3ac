/*
 * Rows of kova.rollup.v1 are complete: one coordinator, which owns the partition ROWS_PARTITION of kova.usage.v1, publishes them for
 * all. Each tells it by kova.sums.v1 what its partitions have used (proto/kova_sums.proto), in the transaction with its ledgers.
 */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

#include "book.h"
#include "coord_conf.h"

#define SUMS_TOPIC "kova.sums.v1"
#define ROLLUP_TOPIC "kova.rollup.v1"

enum { ROWS_PARTITION = 0 };

/* Puts a record into the transaction that is open. All is borrowed for the call. */
typedef bool rows_send(const char *topic, struct slice key, struct slice value, void *data);

/* Sends what a partition's book adds up to where that was not told. False: `send` said so, or memory is out. */
KOVA_MUST_CHECK bool rows_tell(const struct book *b, uint32_t partition, rows_send *send,
			       void *data);

/* That the topic is there: as compacted_ensure(). */
bool rows_ensure(rd_kafka_t *client);

/* The one who publishes. */
struct rows;

/* Reads what was told and published until now. Blocks as compacted_read(). NULL: it can't be done, or `stop` is true; the log says why. */
struct rows *rows_open(const struct coord_conf *conf, const atomic_bool *stop);
void rows_close(struct rows *r); /* NULL is nothing */

/* What a partition that this coordinator owns has used, told or not. False: out of memory. */
KOVA_MUST_CHECK bool rows_count(struct rows *r, const struct book *b, uint32_t partition);

/*
 * Sends the row of each policy from the end of the last rows (`since_ms`, where there are none) until `now_ms`, and what they say in all. `conf`: whose limits
 * are said. False: `send` said so, memory is out, or a record of the topic says nothing; the log says why.
 */
KOVA_MUST_CHECK bool rows_publish(struct rows *r, int64_t since_ms, int64_t now_ms,
				  const struct coord_conf *conf, rows_send *send, void *data,
				  uint64_t *ret_rows);
/* It was committed. */
void rows_settle(struct rows *r);
