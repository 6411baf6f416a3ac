/* kova.history.v1 as the store of what children consumed: there is one partition for each of kova.usage.v1. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

#include "coord_conf.h"
#include "histories.h"

/* That it is there: as compacted_ensure(). */
bool history_topic_ensure(rd_kafka_t *client);

/* Reads all that transactions have put into partition `id`: as compacted_read(). */
bool history_topic_read(const struct coord_conf *conf, int32_t id, struct histories *h,
			const atomic_bool *stop);

/* Puts a record into the transaction that is open, into partition `id`. All is borrowed for the call. */
typedef bool history_send(int32_t id, const char *topic, struct slice key, struct slice value,
			  void *data);

/* Sends the parents that are not kept. False: `send` said so, or memory is out. */
KOVA_MUST_CHECK bool history_topic_keep(const struct histories *h, int32_t id, history_send *send,
					void *data);

/* Weighs by the policies of `conf`, and appends to `ret_items` each item of weights that is to be published, a line each. */
void history_topic_weigh(struct histories *h, uint64_t now_ms, uint64_t half_life_ms,
			 const struct coord_conf *conf, struct buf *ret_items);
