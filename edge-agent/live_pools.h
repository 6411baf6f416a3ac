/*
 * The pools as viewers see them (live.h): each is asked for now and then, and what was heard last is kept as text. On the owner's
 * loop.
 */
#pragma once

#include "core/buf.h"

struct agent;
struct live_pools;

enum {
	LIVE_POOLS_MAX = 32,           /* the first so many by name */
	LIVE_POOL_ENDPOINTS_MAX = 250, /* of a pool with more only its size is told */
};

/* NULL: out of memory. */
struct live_pools *live_pools_new(struct agent *owner);
/* Forgets what is on its way; nothing is asked any more. */
void live_pools_stop(struct live_pools *p);
/* NULL is nothing. */
void live_pools_free(struct live_pools *p);

/* Nobody looks any more: what was heard is forgotten. */
void live_pools_forget(struct live_pools *p);
/* Asks for all of them, unless they are being asked for. */
void live_pools_ask(struct live_pools *p);
/* Whether all have answered, and: since the last live_pools_write(). */
bool live_pools_are_known(const struct live_pools *p);
bool live_pools_have_news(const struct live_pools *p);
/* A JSON list, each as GET /v1/pools/{pool} shows it, or {"pool","error"} or {"pool","size"}. */
void live_pools_write(struct live_pools *p, struct buf *out);
