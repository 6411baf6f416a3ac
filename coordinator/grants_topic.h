/* kova.grants.v1 as the store of the allocators: there is one partition for each of kova.usage.v1. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

#include "coord_conf.h"
#include "grants.h"

/*
 * Reads all that transactions have put into partition `id` into `grants`, which is empty. Only where no open transaction has offsets
 * of the group's any more (docs/global.md, step 6). Blocks until each that was begun is over. False: it can't be done, or `stop` is
 * true; the log says why.
 */
bool grants_topic_read(const struct coord_conf *conf, int32_t id, struct grants *grants,
		       const atomic_bool *stop);
