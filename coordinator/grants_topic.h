/* kova.grants.v1 as the store of the allocators: there is one partition for each of kova.usage.v1. */
#pragma once

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>

#include "coord_conf.h"
#include "granter.h"

/*
 * Begins an ownership of partition `id`: *ret_granter knows all that was granted before. Only where no open transaction has offsets of the
 * group's any more (docs/global.md, step 6). Blocks until each that was begun is over. False: it can't be done, or `stop` is
 * true; the log says why. granter_release() in any case.
 */
bool grants_topic_take_over(const struct coord_conf *conf, int32_t id,
			    const struct global_terms *terms, struct keys *keys,
			    struct granter *ret_granter, const atomic_bool *stop);
