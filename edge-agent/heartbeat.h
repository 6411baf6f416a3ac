/*
 * How many agents share this region's Redis: each says each HEARTBEAT_MS that it lives. While Redis can't be
 * reached, an agent enforces its part of a limit by the most that were seen lately. And for which policies feedback comes, which
 * ends leases of warm keys (leases.h). One for all loops of an agent.
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
 * here: the version of them by which the agent finds homes is said there as well; NULL: it is not. NULL: out of memory.
 */
struct heartbeat *heartbeat_start(uv_loop_t *loop, struct redis_store *store, struct slice key,
				  const struct edge_regions *regions);
/* The memory goes when its timer is closed and no call is in flight. */
void heartbeat_stop(struct heartbeat *h);

/* The most agents seen lately, this one included: at least 1. From any thread. */
unsigned heartbeat_agents(const struct heartbeat *h);
/* Whether Redis has ever said. From any thread. */
bool heartbeat_was_heard(const struct heartbeat *h);
/* Whether other agents have said something else there of this version, or of one before that is not known here. From any thread. */
bool heartbeat_is_contradicted(const struct heartbeat *h);
