/*
 * Nodes come by the configuration, by CLUSTER SLOTS, by MOVED and ASK; one that serves no slot and
 * was not needed for a while goes away again. A node is freed when its link's handles are gone.
 */
#include "io/redis_cluster_map.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum { UNUSED_MS = 10000 };

/* ---- nodes ---- */

bool cluster_node_up(const struct cluster_node *node)
{
	return redis_link_up(node->link) && !node->cluster_down;
}

void cluster_node_report(struct cluster_node *node, const char *why)
{
	struct cluster_map *map = node->map;
	bool up = node->n_slots > 0 && cluster_node_up(node);

	if (map->closing || up == node->reported_up)
		return;
	node->reported_up = up;
	map->on_changed(node->n_slots > 0 ? node->shard : 0, up, why, map->store_data);
}

static void on_link_changed(bool up, const char *why, void *data)
{
	struct cluster_node *node = data;
	struct cluster_map *map = node->map;

	if (!up && map->n_masters == 0 && !map->reported_down) {
		map->reported_down = true;
		map->on_changed(0, false, why, map->store_data);
	} else {
		cluster_node_report(node, why);
	}
	if (map->closing)
		return;
	if (up)
		map->on_node_up(map->data);
	else
		map->on_trouble(map->data);
}

static void on_link_closed(void *data)
{
	struct cluster_node *node = data;
	struct cluster_map *map = node->map;

	free(node->host);
	free(node);
	assert(map->links_open > 0);
	if (--map->links_open == 0 && map->closing)
		map->on_closed(map->data);
}

static struct cluster_node *node_new(struct cluster_map *map, struct slice host, uint16_t port)
{
	struct redis_link_options options = map->base;
	struct cluster_node *node = calloc(1, sizeof(*node));

	if (node == NULL)
		return NULL;
	node->map = map;
	node->port = port;
	node->host = strndup(host.ptr, host.len);
	options.host = node->host;
	options.port = port;
	options.db = 0;
	options.want_master = false; /* a replica answers MOVED */
	options.on_changed = on_link_changed;
	options.data = node;
	if (node->host != NULL)
		node->link = redis_link_new(map->loop, &options);
	if (node->link == NULL) {
		free(node->host);
		free(node);
		return NULL;
	}
	map->links_open++;
	return node;
}

struct cluster_node *cluster_map_node(struct cluster_map *map, struct slice host, uint16_t port)
{
	struct cluster_node *node = NULL;

	for (size_t i = 0; i < map->n_nodes && node == NULL; i++)
		if (map->nodes[i]->port == port && slice_equal(slice_of(map->nodes[i]->host), host))
			node = map->nodes[i];
	if (node == NULL && map->n_nodes < CLUSTER_NODES_MAX && host.len > 0) {
		node = node_new(map, host, port);
		if (node != NULL)
			map->nodes[map->n_nodes++] = node;
	}
	if (node != NULL)
		node->used_ms = uv_now(map->loop);
	return node;
}

/* ---- slots ---- */

static void set_owner(struct cluster_map *map, uint16_t slot, struct cluster_node *node)
{
	struct cluster_node *old = map->owner[slot];

	if (old == node)
		return;
	if (old != NULL)
		old->n_slots--;
	if (node != NULL)
		node->n_slots++;
	map->owner[slot] = node;
	map->base.counters->moves++;
}

static void number_masters(struct cluster_map *map)
{
	map->n_masters = 0;
	for (size_t i = 0; i < map->n_nodes; i++) {
		if (map->nodes[i]->n_slots == 0)
			continue;
		map->nodes[i]->shard = map->n_masters;
		map->masters[map->n_masters++] = map->nodes[i];
	}
}

static void report_all(struct cluster_map *map)
{
	for (size_t i = 0; i < map->n_nodes && !map->closing; i++) {
		struct cluster_node *node = map->nodes[i];

		cluster_node_report(node, node->n_slots > 0 ? "it serves slots"
							    : "it serves no slots any more");
	}
}

/* A node without slots stays while it is used: it may be taking slots over right now. */
static void prune(struct cluster_map *map)
{
	uint64_t now = uv_now(map->loop);
	size_t kept = 0;

	for (size_t i = 0; i < map->n_nodes; i++) {
		struct cluster_node *node = map->nodes[i];

		if (node->n_slots > 0 || now - node->used_ms < UNUSED_MS) {
			map->nodes[kept++] = node;
			continue;
		}
		map->on_node_gone(node, map->data);
		redis_link_close(node->link, on_link_closed, node);
	}
	map->n_nodes = kept;
}

void cluster_map_move(struct cluster_map *map, uint16_t slot, struct cluster_node *node)
{
	set_owner(map, slot, node);
	number_masters(map);
	report_all(map);
}

/* ---- CLUSTER SLOTS: [[first, last, [host, port, …] of the master, … of replicas], …] ---- */

struct slot_range {
	uint16_t first, last;
	struct slice host; /* empty: where we asked */
	uint16_t port;
};

static bool range_parse(const redisReply *item, struct slot_range *ret_range)
{
	if (item->type != REDIS_REPLY_ARRAY || item->elements < 3)
		return false;
	const redisReply *first = item->element[0], *last = item->element[1],
			 *master = item->element[2];
	if (first->type != REDIS_REPLY_INTEGER || last->type != REDIS_REPLY_INTEGER ||
	    first->integer < 0 || first->integer > last->integer || last->integer >= CLUSTER_SLOTS)
		return false;
	if (master->type != REDIS_REPLY_ARRAY || master->elements < 2)
		return false;
	const redisReply *host = master->element[0], *port = master->element[1];
	if ((host->type != REDIS_REPLY_STRING && host->type != REDIS_REPLY_NIL) ||
	    port->type != REDIS_REPLY_INTEGER || port->integer < 1 || port->integer > UINT16_MAX)
		return false;
	*ret_range = (struct slot_range){
		.first = (uint16_t)first->integer,
		.last = (uint16_t)last->integer,
		.port = (uint16_t)port->integer,
	};
	if (host->type == REDIS_REPLY_STRING)
		ret_range->host = (struct slice){host->str, host->len};
	return true;
}

static bool is_well_formed(const redisReply *reply)
{
	struct slot_range range;

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
		return false;
	for (size_t i = 0; i < reply->elements; i++)
		if (!range_parse(reply->element[i], &range))
			return false;
	return true;
}

/* "?": the node does not know the name that it should give. */
static bool is_unknown(struct slice host)
{
	return slice_equal(host, SLICE("?"));
}

static void take_range(struct cluster_map *map, const struct slot_range *range,
		       const struct cluster_node *from, bool *seen)
{
	struct slice host = range->host.len > 0 ? range->host : slice_of(from->host);
	struct cluster_node *node =
		is_unknown(host) ? NULL : cluster_map_node(map, host, range->port);

	for (uint16_t slot = range->first; slot <= range->last; slot++) {
		set_owner(map, slot, node);
		seen[slot] = true;
	}
}

bool cluster_map_load(struct cluster_map *map, const struct redisReply *reply,
		      const struct cluster_node *from)
{
	bool seen[CLUSTER_SLOTS] = {false};
	struct slot_range range;

	if (!is_well_formed(reply))
		return false;
	for (size_t i = 0; i < reply->elements; i++)
		if (range_parse(reply->element[i], &range))
			take_range(map, &range, from, seen);
	for (uint16_t slot = 0; slot < CLUSTER_SLOTS; slot++)
		if (!seen[slot])
			set_owner(map, slot, NULL);
	prune(map);
	number_masters(map);
	report_all(map);
	return true;
}

bool cluster_map_is_whole(const struct cluster_map *map)
{
	for (unsigned i = 0; i < map->n_masters; i++)
		if (!cluster_node_up(map->masters[i]))
			return false;
	for (uint16_t slot = 0; slot < CLUSTER_SLOTS; slot++)
		if (map->owner[slot] == NULL)
			return false;
	return true;
}

void cluster_map_close(struct cluster_map *map)
{
	map->closing = true;
	for (size_t i = 0; i < map->n_nodes; i++)
		redis_link_close(map->nodes[i]->link, on_link_closed, map->nodes[i]);
	map->n_nodes = map->n_masters = 0;
	if (map->links_open == 0)
		map->on_closed(map->data);
}
