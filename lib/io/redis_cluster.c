/*
 * Happy path: call → the slot's owner → its reply → the caller.
 * MOVED: the map is mended, the call goes to the new owner. ASK: ASKING and the call go to the
 * other node, this once. TRYAGAIN, CLUSTERDOWN, a redirect to a node that is not connected yet, too
 * many redirects: the call is parked and tried again every few milliseconds until its time is up;
 * then the caller gets the last error reply, and if it was redirected all the time its slot counts as unserved until the
 * map has been read again. All of these say that nothing was executed, so sending
 * again is safe.
 * A time-out and a lost connection leave that open: the call ends, it is never sent again.
 * Every call ends in finish(), once.
 *
 * The map is read again (CLUSTER SLOTS, from the connected nodes in turn) every ten seconds, after
 * each surprise, and four times a second while it is not whole.
 */
#include "io/redis_cluster.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/redis_error.h"
#include "io/log.h"
#include "io/redis_cluster_map.h"
#include "io/redis_later.h"

enum {
	REFRESH_MS = 10000,
	REFRESH_BROKEN_MS = 250,
	REFRESH_LEAST_MS = 100, /* between two, whatever happens */
	REFRESH_PATIENCE_MS = 500,
	PARKED_MS = 5,
	RESEND_LEAST_MS =
		10, /* with less time left, what is known not to be executed would end in doubt */
	REDIRECTS_AT_ONCE = 3, /* more of them go round in circles: slowly, then */
};

#define ASKING SLICE("*1\r\n$6\r\nASKING\r\n")
#define CLUSTER_SLOTS_COMMAND SLICE("*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n")
#define CLUSTER_INFO_COMMAND SLICE("*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n")

struct cluster_call {
	struct cluster_call *next; /* parked */
	struct redis_cluster *c;
	struct cluster_node
		*node; /* where it went last, or has to go (asking); NULL: gone, go by the slot */
	bool asking;
	uint16_t slot;
	unsigned redirects;
	uint64_t deadline_ms;
	redis_store_reply *on_reply;
	void *data;
	char error[128]; /* the last error reply; cut if longer */
	size_t len;
	char command[];
};

struct redis_cluster {
	uv_loop_t *loop;
	struct cluster_map map;
	struct redis_later later;
	uv_timer_t refresh, parking;
	uint64_t refreshed_ms;
	bool refreshing;
	size_t turn; /* which node is asked next */
	struct cluster_call *parked;
	uint64_t timeout_ms;
	char **seeds; /* owned; "host:port" */
	size_t n_seeds;
	bool closing;
	unsigned parts_open;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* ---- reading the map ---- */

static void on_refresh(uv_timer_t *timer);

static void refresh_in(struct redis_cluster *c, uint64_t ms)
{
	if (!c->closing)
		uv_timer_start(&c->refresh, on_refresh, ms, 0);
}

static void refresh_soon(struct redis_cluster *c)
{
	uint64_t since = uv_now(c->loop) - c->refreshed_ms;

	refresh_in(c, since >= REFRESH_LEAST_MS ? 0 : REFRESH_LEAST_MS - since);
}

static void refresh_later(struct redis_cluster *c)
{
	refresh_in(c, cluster_map_is_whole(&c->map) ? REFRESH_MS : REFRESH_BROKEN_MS);
}

struct question {
	struct redis_cluster *c;
	struct cluster_node *node; /* stays while its link has this under way */
};

static void on_slots(kova_status status, const redisReply *reply, void *data)
{
	struct question question = *(struct question *)data;
	struct redis_cluster *c = question.c;

	free(data);
	c->refreshing = false;
	if (c->closing || status == KOVA_ECLOSED)
		return;
	if (status == KOVA_EREPLY)
		log_event(LOG_WARN, "redis_cluster", "a node does not say who serves which slot",
			  LOG_TEXT_FIELD("host", question.node->host),
			  LOG_INT_FIELD("port", question.node->port),
			  LOG_TEXT_FIELD("why", reply->str));
	else if (status == KOVA_OK && !cluster_map_load(&c->map, reply, question.node))
		log_event(LOG_WARN, "redis_cluster",
			  "a node's map of the slots is empty or can't be read",
			  LOG_TEXT_FIELD("host", question.node->host),
			  LOG_INT_FIELD("port", question.node->port));
	if (!c->closing)
		refresh_later(c);
}

/* A node that may not be asked for its state (NOPERM) is asked by the next call instead. */
static void on_info(kova_status status, const redisReply *reply, void *data)
{
	struct question question = *(struct question *)data;

	free(data);
	if (question.c->closing || (status != KOVA_OK && status != KOVA_EREPLY))
		return;
	if (status == KOVA_EREPLY ||
	    (reply->type == REDIS_REPLY_STRING && strstr(reply->str, "cluster_state:ok") != NULL)) {
		question.node->cluster_down = false;
		cluster_node_report(question.node, "the cluster is up again");
	}
}

static bool ask_node(struct redis_cluster *c, struct cluster_node *node, struct slice command,
		     redis_link_reply *on_reply)
{
	struct question *question = malloc(sizeof(*question));

	if (question == NULL)
		return false;
	*question = (struct question){c, node};
	if (redis_link_call(node->link, command, uv_now(c->loop) + REFRESH_PATIENCE_MS, on_reply,
			    question) != KOVA_OK) {
		free(question);
		return false;
	}
	return true;
}

static void add_seeds(struct redis_cluster *c)
{
	struct slice host;
	uint16_t port;

	for (size_t i = 0; i < c->n_seeds; i++)
		if (redis_address_parse(slice_of(c->seeds[i]), &host, &port) == KOVA_OK)
			cluster_map_node(&c->map, host, port);
}

/* Asks the next connected node. */
static void ask_slots(struct redis_cluster *c)
{
	for (size_t i = 0; i < c->map.n_nodes; i++) {
		struct cluster_node *node = c->map.nodes[c->turn++ % c->map.n_nodes];

		if (!redis_link_up(node->link))
			continue;
		c->refreshing = ask_node(c, node, CLUSTER_SLOTS_COMMAND, on_slots);
		return;
	}
	add_seeds(c); /* nobody there: maybe somebody whom we have dropped is */
}

static void on_refresh(uv_timer_t *timer)
{
	struct redis_cluster *c = timer->data;

	c->refreshed_ms = uv_now(c->loop);
	if (!c->refreshing)
		ask_slots(c);
	for (unsigned i = 0; i < c->map.n_masters; i++)
		if (c->map.masters[i]->cluster_down)
			ask_node(c, c->map.masters[i], CLUSTER_INFO_COMMAND, on_info);
	refresh_later(c);
}

/* ---- calls ---- */

static void send_call(struct cluster_call *call, struct cluster_node *node);

static void finish(struct cluster_call *call, kova_status status, const redisReply *reply)
{
	redis_store_reply *on_reply = call->on_reply;
	void *data = call->data;

	free(call);
	on_reply(status, reply, data);
}

/*
 * Its time is up, and we know that it was not executed. One that went round in circles is not to cost every call of its
 * slot a time-out: nobody serves the slot until the map has been read again.
 */
static void finish_unexecuted(struct cluster_call *call)
{
	char error[sizeof call->error];
	redis_store_reply *on_reply = call->on_reply;
	void *data = call->data;

	if (call->redirects > REDIRECTS_AT_ONCE) {
		cluster_map_move(&call->c->map, call->slot, NULL);
		refresh_in(call->c, REFRESH_BROKEN_MS);
	}
	memcpy(error, call->error, sizeof error);
	free(call);
	const redisReply reply = {.type = REDIS_REPLY_ERROR, .str = error, .len = strlen(error)};
	on_reply(KOVA_EREPLY, &reply, data);
}

static void retry(struct cluster_call *call)
{
	struct cluster_node *node = call->node;

	if (!call->asking || node == NULL) {
		call->asking = false;
		node = call->c->map.owner[call->slot];
	}
	send_call(call, node);
}

static void on_parking(uv_timer_t *timer)
{
	struct redis_cluster *c = timer->data;
	struct cluster_call *call = c->parked;
	uint64_t now = uv_now(c->loop);

	c->parked = NULL; /* they may come back to it */
	while (call != NULL) {
		struct cluster_call *next = call->next;

		if (c->closing)
			finish(call, KOVA_ECLOSED, NULL);
		else if (now + RESEND_LEAST_MS > call->deadline_ms)
			finish_unexecuted(call);
		else
			retry(call);
		call = next;
	}
	if (c->parked == NULL && !c->closing)
		uv_timer_stop(&c->parking);
}

static void park(struct cluster_call *call)
{
	struct redis_cluster *c = call->c;

	if (c->closing) {
		finish(call, KOVA_ECLOSED, NULL);
		return;
	}
	call->next = c->parked;
	c->parked = call;
	if (!uv_is_active((uv_handle_t *)&c->parking))
		uv_timer_start(&c->parking, on_parking, PARKED_MS, PARKED_MS);
}

static void remember_error(struct cluster_call *call, const redisReply *reply)
{
	size_t len = reply->len < sizeof call->error ? reply->len : sizeof call->error - 1;

	memcpy(call->error, reply->str, len);
	call->error[len] = '\0';
}

/* `from`: the node that answered. */
static void redirect(struct cluster_call *call, const struct cluster_node *from, bool asking,
		     struct slice text)
{
	struct redis_cluster *c = call->c;
	struct redis_redirect to;
	struct cluster_node *node = NULL;

	c->map.base.counters->redirects++;
	if (redis_redirect_parse(text, &to) == KOVA_OK)
		node = cluster_map_node(&c->map, to.host.len > 0 ? to.host : slice_of(from->host),
					to.port);
	if (!asking)
		refresh_soon(c);
	if (!asking && node != NULL)
		cluster_map_move(&c->map, to.slot, node);
	call->asking = asking && node != NULL;
	call->node = call->asking ? node : NULL;
	if (c->closing || node == NULL || call->redirects++ >= REDIRECTS_AT_ONCE)
		park(call);
	else
		send_call(call, node);
}

static void cluster_down(struct redis_cluster *c, struct cluster_node *node,
			 const redisReply *reply)
{
	/* "Hash slot not served" says it of one slot only, and the map will. */
	if (strstr(reply->str, "not served") == NULL) {
		node->cluster_down = true;
		cluster_node_report(node, reply->str);
	}
	if (!c->closing)
		refresh_soon(c);
}

static void on_error(struct cluster_call *call, struct cluster_node *node, const redisReply *reply)
{
	struct slice text = {reply->str, reply->len};

	remember_error(call, reply);
	switch (redis_error_kind(text)) {
	case REDIS_ERROR_MOVED:
		redirect(call, node, false, text);
		return;
	case REDIS_ERROR_ASK:
		redirect(call, node, true, text);
		return;
	case REDIS_ERROR_TRYAGAIN:
		park(call);
		return;
	case REDIS_ERROR_CLUSTERDOWN:
		cluster_down(call->c, node, reply);
		park(call);
		return;
	case REDIS_ERROR_UNREADY:
		redis_link_doubt(node->link, reply->str);
		break;
	case REDIS_ERROR_UNWRITABLE:
		redis_link_doubt_writes(node->link, reply->str, call->slot);
		break;
	case REDIS_ERROR_LOGGED_OUT:
		redis_link_drop(node->link, reply->str);
		break;
	case REDIS_ERROR_READONLY:
	case REDIS_ERROR_FORBIDDEN:
	case REDIS_ERROR_OTHER:
		break;
	}
	finish(call, KOVA_EREPLY, reply);
}

static void on_call_reply(kova_status status, const redisReply *reply, void *data)
{
	struct cluster_call *call = data;

	if (status == KOVA_ECLOSED && !call->c->closing)
		status = KOVA_ECONN; /* only this node's link was closed */
	if (status == KOVA_EREPLY && !call->c->closing)
		on_error(call, call->node, reply);
	else
		finish(call, status, reply);
}

/* Sends it, or parks it when the node can't be asked right now. */
static void send_call(struct cluster_call *call, struct cluster_node *node)
{
	struct slice command = {call->command, call->len};

	if (node == NULL || !redis_link_up(node->link)) {
		park(call);
		return;
	}
	call->node = node;
	node->used_ms = uv_now(call->c->loop);
	if (call->asking &&
	    redis_link_call(node->link, ASKING, call->deadline_ms, NULL, NULL) != KOVA_OK) {
		park(call);
		return;
	}
	if (redis_link_call(node->link, command, call->deadline_ms, on_call_reply, call) != KOVA_OK)
		park(call);
}

static struct cluster_call *call_new(struct redis_cluster *c, uint16_t slot, struct slice command,
				     redis_store_reply *on_reply, void *data)
{
	struct cluster_call *call = malloc(sizeof(*call) + command.len + 1);

	if (call == NULL)
		return NULL;
	*call = (struct cluster_call){
		.c = c,
		.slot = slot,
		.deadline_ms = uv_now(c->loop) + c->timeout_ms,
		.on_reply = on_reply,
		.data = data,
		.len = command.len,
	};
	memcpy(call->command, command.ptr, command.len);
	call->command[command.len] = '\0'; /* hiredis reads a command as a text that ends */
	return call;
}

/* ---- life ---- */

static void cluster_free(struct redis_cluster *c)
{
	for (size_t i = 0; i < c->n_seeds; i++)
		free(c->seeds[i]);
	free(c->seeds);
	free(c);
}

static void on_part_closed(void *data)
{
	struct redis_cluster *c = data;

	assert(c->closing && c->parts_open > 0);
	if (--c->parts_open > 0)
		return;
	void (*on_closed)(void *) = c->on_closed;
	void *closed_data = c->closed_data;
	cluster_free(c);
	if (on_closed != NULL)
		on_closed(closed_data);
}

static void on_timer_closed(uv_handle_t *handle)
{
	on_part_closed(handle->data);
}

/* A parked call that was to ask there has to start from the slot's owner again. */
static void on_node_gone(struct cluster_node *node, void *data)
{
	struct redis_cluster *c = data;

	for (struct cluster_call *call = c->parked; call != NULL; call = call->next)
		if (call->node == node)
			call->node = NULL;
}

static void on_trouble(void *data)
{
	refresh_soon(data);
}

static void on_node_up(void *data)
{
	struct redis_cluster *c = data;

	if (!cluster_map_is_whole(&c->map))
		refresh_soon(c);
}

static bool copy_seeds(struct redis_cluster *c, char *const *addresses, size_t n_addresses)
{
	struct slice host;
	uint16_t port;

	c->seeds = calloc(n_addresses, sizeof *c->seeds);
	if (c->seeds == NULL)
		return false;
	for (size_t i = 0; i < n_addresses; i++) {
		if (redis_address_parse(slice_of(addresses[i]), &host, &port) != KOVA_OK ||
		    host.len == 0) {
			log_event(LOG_ERROR, "redis_cluster", "a node's address is not host:port",
				  LOG_TEXT_FIELD("address", addresses[i]));
			return false;
		}
		c->seeds[i] = strdup(addresses[i]);
		if (c->seeds[i] == NULL)
			return false;
		c->n_seeds++;
	}
	return true;
}

struct redis_cluster *redis_cluster_new(uv_loop_t *loop, const struct redis_link_options *base,
					char *const *addresses, size_t n_addresses,
					redis_store_changed *on_changed, void *data)
{
	struct redis_cluster *c = calloc(1, sizeof(*c));

	assert(n_addresses > 0);
	if (c == NULL)
		return NULL;
	if (!copy_seeds(c, addresses, n_addresses)) {
		cluster_free(c);
		return NULL;
	}
	c->loop = loop;
	c->timeout_ms = base->timeout_ms;
	c->map = (struct cluster_map){
		.loop = loop,
		.base = *base,
		.on_changed = on_changed,
		.store_data = data,
		.on_trouble = on_trouble,
		.on_node_up = on_node_up,
		.on_node_gone = on_node_gone,
		.on_closed = on_part_closed,
		.data = c,
	};
	uv_timer_init(loop, &c->refresh);
	uv_timer_init(loop, &c->parking);
	c->refresh.data = c->parking.data = c;
	redis_later_init(&c->later, loop);
	c->parts_open = 4;
	add_seeds(c);
	refresh_soon(c);
	return c;
}

void redis_cluster_close(struct redis_cluster *c, void (*on_closed)(void *data), void *data)
{
	c->closing = true;
	c->on_closed = on_closed;
	c->closed_data = data;
	on_parking(&c->parking);
	uv_close((uv_handle_t *)&c->refresh, on_timer_closed);
	uv_close((uv_handle_t *)&c->parking, on_timer_closed);
	redis_later_close(&c->later, on_part_closed, c);
	cluster_map_close(&c->map);
}

/* ---- the rest of the interface ---- */

unsigned redis_cluster_shard(const struct redis_cluster *c, uint16_t slot)
{
	assert(slot < CLUSTER_SLOTS);
	const struct cluster_node *node = c->map.owner[slot];

	return node != NULL ? node->shard : UINT_MAX;
}

bool redis_cluster_up(const struct redis_cluster *c, unsigned shard)
{
	return shard < c->map.n_masters && cluster_node_up(c->map.masters[shard]);
}

unsigned redis_cluster_shards(const struct redis_cluster *c)
{
	return c->map.n_masters > 0 ? c->map.n_masters : 1;
}

void redis_cluster_call(struct redis_cluster *c, uint16_t slot, struct slice command,
			redis_store_reply *on_reply, void *data)
{
	struct cluster_node *node;
	struct cluster_call *call;

	assert(slot < CLUSTER_SLOTS);
	node = c->map.owner[slot];
	if (node == NULL || !cluster_node_up(node)) {
		redis_later_add(&c->later, KOVA_ECONN, on_reply, data);
		return;
	}
	call = call_new(c, slot, command, on_reply, data);
	if (call == NULL) {
		redis_later_add(&c->later, KOVA_ENOMEM, on_reply, data);
		return;
	}
	memcpy(call->error, "CLUSTERDOWN not sent", sizeof "CLUSTERDOWN not sent");
	send_call(call, node);
}

void redis_cluster_reset(struct redis_cluster *c, uint16_t slot, const char *why)
{
	if (c->map.owner[slot] != NULL)
		redis_link_drop(c->map.owner[slot]->link, why);
}

void redis_cluster_flush(struct redis_cluster *c)
{
	for (size_t i = 0; i < c->map.n_nodes; i++)
		redis_link_flush(c->map.nodes[i]->link);
}

void redis_cluster_doubt_writes(struct redis_cluster *c, uint16_t slot, const char *why)
{
	if (c->map.owner[slot] != NULL)
		redis_link_doubt_writes(c->map.owner[slot]->link, why, slot);
}

bool redis_cluster_is_whole(const struct redis_cluster *c)
{
	return cluster_map_is_whole(&c->map);
}
