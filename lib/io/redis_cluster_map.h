/*
 * Who serves which slot of a Redis Cluster, and a link to each node that was heard of. Masters are
 * numbered without gaps: these numbers are the shards of redis_store.h, good until the next change
 * of the map.
 */
#pragma once

#include "io/redis_link.h"
#include "io/redis_store.h"

enum { CLUSTER_SLOTS = 16384, CLUSTER_NODES_MAX = 1024 };

struct cluster_map;

struct cluster_node {
	struct cluster_map *map;
	char *host; /* owned */
	uint16_t port;
	struct redis_link *link;
	unsigned n_slots;
	unsigned shard;    /* valid while n_slots > 0 */
	bool cluster_down; /* it said CLUSTERDOWN */
	bool reported_up;
	uint64_t used_ms; /* somebody needed it though it serves no slot */
};

struct cluster_map {
	uv_loop_t *loop;
	struct redis_link_options base;                /* borrowed texts: they outlive the map */
	struct cluster_node *nodes[CLUSTER_NODES_MAX]; /* owned; the first n_nodes */
	size_t n_nodes;
	struct cluster_node *masters[CLUSTER_NODES_MAX]; /* by shard */
	unsigned n_masters;
	struct cluster_node *owner[CLUSTER_SLOTS]; /* NULL: nobody */
	bool closing;
	bool reported_down; /* … of shard 0, before there was any master */
	size_t links_open;
	redis_store_changed *on_changed;
	void (*on_trouble)(void *data);                              /* a link went down */
	void (*on_node_up)(void *data);                              /* a link came up */
	void (*on_node_gone)(struct cluster_node *node, void *data); /* forget it */
	void (*on_closed)(void *data);                               /* after cluster_map_close() */
	void *store_data, *data; /* of on_changed; of the others */
};

/* The node at this address, known already or from now on. NULL: out of memory, or too many. */
struct cluster_node *cluster_map_node(struct cluster_map *map, struct slice host, uint16_t port);

bool cluster_node_up(const struct cluster_node *node);
/* Tells on_changed if the node's shard is up now and was not, or the other way round. */
void cluster_node_report(struct cluster_node *node, const char *why);

/* `slot` is served by `node` from now on; NULL: by nobody. */
void cluster_map_move(struct cluster_map *map, uint16_t slot, struct cluster_node *node);

/*
 * Takes over a whole reply to CLUSTER SLOTS from `from`. False: it is malformed or empty; nothing
 * is changed. May call on_changed, which may close the map.
 */
bool cluster_map_load(struct cluster_map *map, const struct redisReply *reply,
		      const struct cluster_node *from);

/* All masters are up, and each slot has one. */
bool cluster_map_is_whole(const struct cluster_map *map);

void cluster_map_close(struct cluster_map *map);
