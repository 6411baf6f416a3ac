/*
 * Who watches the world, over GET /v1/stream (server-sent events, docs/dashboard.md): what kova.rollup.v1, kova.pool.v1 and
 * kova.events.v1 say, whichever coordinator wrote it, and how this one does. All on the loop.
 *
 *   idle ──a viewer joins──▶ reads the topics from near their ends ──▶ every second: what is new ──▶ each viewer
 *        ◀──nobody has watched for WORLD_LINGER_MS──
 *
 * A viewer first gets all that is kept, then what comes.
 */
#pragma once

#include <uv.h>

#include "core/bytes.h"

struct coord_share;
struct world;

enum {
	WORLD_VIEWERS_MAX = 32,
	WORLD_EVERY_MS = 1000,
	WORLD_LINGER_MS = 30000,
};

/* Part of the viewer's connection. All zeros: not joined. */
struct world_viewer {
	struct world_viewer *next, **prev;
	/* Whole events. Borrowed for the call. He may leave meanwhile. */
	void (*send)(struct world_viewer *v, struct slice events);
};

/* `share` outlives it. NULL: out of memory. */
struct world *world_new(uv_loop_t *loop, struct coord_share *share);
/* When all have left; frees itself on the loop. NULL is nothing. */
void world_close(struct world *w);

/* `v` has its `send`, which is called at once. False: there are WORLD_VIEWERS_MAX, or no memory. */
bool world_join(struct world *w, struct world_viewer *v);
/* Nothing, if `v` did not join. */
void world_leave(struct world *w, struct world_viewer *v);

unsigned world_viewers(const struct world *w);
