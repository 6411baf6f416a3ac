/*
 * A Redis Cluster: a link to each master, and who serves which slot. (The Redis cluster
 * specification, "Client and servers roles".) The functions are those of redis_store.h.
 */
#pragma once

#include "io/redis_link.h"
#include "io/redis_store.h"

struct redis_cluster;

/*
 * `base`: what all links have in common (login, TLS, time limits); `addresses`: "host:port" of some
 * nodes.
 */
struct redis_cluster *redis_cluster_new(uv_loop_t *loop, const struct redis_link_options *base,
					char *const *addresses, size_t n_addresses,
					redis_store_changed *on_changed, void *data);
void redis_cluster_close(struct redis_cluster *c, void (*on_closed)(void *data), void *data);

unsigned redis_cluster_shard(const struct redis_cluster *c, uint16_t slot);
bool redis_cluster_up(const struct redis_cluster *c, unsigned shard);
unsigned redis_cluster_shards(const struct redis_cluster *c);
void redis_cluster_call(struct redis_cluster *c, uint16_t slot, struct slice command,
			redis_store_reply *on_reply, void *data);
void redis_cluster_reset(struct redis_cluster *c, uint16_t slot, const char *why);
void redis_cluster_flush(struct redis_cluster *c);
void redis_cluster_doubt_writes(struct redis_cluster *c, uint16_t slot, const char *why);
bool redis_cluster_is_whole(const struct redis_cluster *c);
