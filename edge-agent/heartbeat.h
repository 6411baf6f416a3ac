/*
 * How many agents share this region's Redis: each says each HEARTBEAT_MS that it lives. While Redis can't be
 * reached, an agent enforces its part of a limit by the most that were seen lately. One for all loops of an agent.
 */
#pragma once

#include <uv.h>

#include "io/redis_store.h"

enum {
	HEARTBEAT_MS = 2000,
	HEARTBEAT_SILENT_MS = 10000, /* an agent silent for so long no longer counts */
	HEARTBEAT_LATELY_MS = 60000, /* the most agents of so long count */
};

struct heartbeat;

/* `store` is borrowed and outlives it. NULL: out of memory. */
struct heartbeat *heartbeat_start(uv_loop_t *loop, struct redis_store *store);
/* The memory goes when its timer is closed and no call is in flight. */
void heartbeat_stop(struct heartbeat *h);

/* The most agents seen lately, this one included: at least 1. From any thread. */
unsigned heartbeat_agents(const struct heartbeat *h);
