/* kova.ledger.v1 as the store of the books: there is one partition for each of kova.usage.v1. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

#include "book.h"
#include "coord_conf.h"
#include "txn.h"

#define USAGE_TOPIC "kova.usage.v1"
#define LEDGER_TOPIC "kova.ledger.v1"

/*
 * That it is there, with as many partitions as kova.usage.v1; else makes it, compacted. `client`: any. Blocks some seconds at most.
 * False: it can't be, and the log says why.
 */
bool ledger_topic_ensure(rd_kafka_t *client);

/*
 * Reads all that transactions have put into partition `id` into `book`, which is empty. Blocks until each transaction that was begun is over,
 * for what comes behind an open one can't be read yet. False: it can't be done, or `stop` is true; the log says why.
 */
bool ledger_topic_read(const struct coord_conf *conf, int32_t id, struct book *book,
		       const atomic_bool *stop);

/* Puts the ledgers that have changed into the transaction that is begun, and adds how many they are. False: memory is out, or it can't be committed; the log says why. */
bool ledger_topic_keep(struct txn *txn, int32_t id, struct book *book, uint64_t *records);
