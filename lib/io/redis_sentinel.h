/*
 * Where the master is, by Redis Sentinel ("Guidelines for Redis clients with support for Redis
 * Sentinel"): every sentinel is asked once a second, and at once when the master is in doubt.
 */
#pragma once

#include "io/redis_link.h"

struct redis_sentinel;

/* The sentinels name another master than before. */
typedef void redis_sentinel_master(const char *host, uint16_t port, void *data);

/*
 * `base`: what links have in common; `addresses`: "host:port" of the sentinels. NULL: out of
 * memory, or a bad address.
 */
struct redis_sentinel *redis_sentinel_new(uv_loop_t *loop, const struct redis_link_options *base,
					  const char *master, char *const *addresses,
					  size_t n_addresses, redis_sentinel_master *on_master,
					  void *data);
void redis_sentinel_close(struct redis_sentinel *s, void (*on_closed)(void *data), void *data);

/* The master is gone, or no master any more: ask now (at most ten times a second). */
void redis_sentinel_ask(struct redis_sentinel *s);
/*
 * The master that was named last answers, or not: a lone sentinel is followed only if it does not.
 */
void redis_sentinel_set_up(struct redis_sentinel *s, bool up);
