/*
 * How many agents share this region's Redis: each says each HEARTBEAT_MS that it lives. While Redis can't be
 * reached, an agent enforces its part of a limit by the most that were seen lately. And for which policies feedback comes, which
 * ends leases of warm keys (leases.h). And by which version of the regions each goes: floors of a later one may rise elsewhere only when
 * no agent of an earlier one is left (docs/global.md, step 5). One for all loops of an agent.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "core/bytes.h"
#include "io/redis_store.h"

enum {
	HEARTBEAT_MS = 2000,
	HEARTBEAT_SILENT_MS = 10000, /* an agent silent for so long no longer counts */
	HEARTBEAT_LATELY_MS = 60000, /* the most agents of so long count */
};

struct heartbeat;

/* The agents of the region. */
#define HEARTBEAT_REGION ((struct slice){"k:agents", 8})

struct edge_regions;

/*
 * `store` is borrowed and outlives it. `key`, borrowed likewise: of those who are counted together. `regions`, read only
 * here: the version of them by which the agent finds homes is said there as well; NULL: it is not, for the key is that of the region.
 * `version`: then, by which the agent goes; 0: it has no regions. NULL: out of memory.
 */
struct heartbeat *heartbeat_start(uv_loop_t *loop, struct redis_store *store, struct slice key,
				  const struct edge_regions *regions, uint32_t version);
/* The memory goes when its timer is closed and no call is in flight. */
void heartbeat_stop(struct heartbeat *h);

/* The most agents seen lately, this one included: at least 1. From any thread. */
unsigned heartbeat_agents(const struct heartbeat *h);
/* The least version of the regions by which an agent of the region goes; 1 where that is not known. From any thread. */
uint32_t heartbeat_least_version(const struct heartbeat *h);
/* Whether Redis has ever said. From any thread. */
bool heartbeat_was_heard(const struct heartbeat *h);
/* Whether other agents have said something else there of this version, or of one before that is not known here. From any thread. */
bool heartbeat_is_contradicted(const struct heartbeat *h);
