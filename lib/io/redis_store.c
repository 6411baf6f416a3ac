/*
 * The shape of the store decides once, in redis_store_new(), who answers: a Cluster has its own
 * file; everything else is one link, whose address the sentinels may change.
 *
 * A call on the link: link up → sent → the reply, looked at for what it says about the server
 * (READONLY: find the master; LOADING, OOM and their like: probe) → the caller. Link down → KOVA_ECONN in
 * the next turn. Nothing is sent twice.
 */
#include "io/redis_store.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "core/redis_error.h"
#include "core/redis_url.h"
#include "io/log.h"
#include "io/redis_cluster.h"
#include "io/redis_later.h"
#include "io/redis_link.h"
#include "io/redis_sentinel.h"
#include "io/redis_tls.h"

struct redis_store {
	uv_loop_t *loop;
	uint64_t timeout_ms;
	struct redis_tls *tls;
	struct redis_counters counters;
	redis_store_changed *on_changed;
	void *data;

	struct redis_cluster *cluster;   /* or: */
	struct redis_link *link;         /* NULL: no sentinel has named a master yet */
	struct redis_link_options base;  /* for that link; texts owned */
	struct redis_sentinel *sentinel; /* NULL: a fixed address */
	struct redis_later later;

	bool closing;
	unsigned parts_open;
	void (*on_closed)(void *data);
	void *closed_data;
};

/* One call on the link. */
struct store_call {
	struct redis_store *store;
	uint16_t slot;
	redis_store_reply *on_reply;
	void *data;
};

static void store_free(struct redis_store *s)
{
	redis_tls_free(s->tls);
	redis_link_options_release(&s->base);
	free(s);
}

static void on_part_closed(void *data)
{
	struct redis_store *s = data;

	assert(s->closing && s->parts_open > 0);
	if (--s->parts_open > 0)
		return;
	void (*on_closed)(void *) = s->on_closed;
	void *closed_data = s->closed_data;
	store_free(s);
	if (on_closed != NULL)
		on_closed(closed_data);
}

/* ---- one link ---- */

static void on_link_changed(bool up, const char *why, void *data)
{
	struct redis_store *s = data;

	if (s->sentinel != NULL) {
		redis_sentinel_set_up(s->sentinel, up);
		if (!up)
			redis_sentinel_ask(s->sentinel);
	}
	s->on_changed(0, up, why, s->data);
}

/* What an error reply says about the server, whatever it says about the command. */
static void judge_error(struct redis_store *s, uint16_t slot, const struct redisReply *reply)
{
	switch (redis_error_kind((struct slice){reply->str, reply->len})) {
	case REDIS_ERROR_READONLY:
		redis_link_drop(s->link, "READONLY: the server is a replica now");
		break;
	case REDIS_ERROR_LOGGED_OUT:
		redis_link_drop(s->link, reply->str);
		break;
	case REDIS_ERROR_UNREADY:
		redis_link_doubt(s->link, reply->str);
		break;
	case REDIS_ERROR_MOVED: /* a Cluster's node, which we don't take it for */
	case REDIS_ERROR_ASK:
	case REDIS_ERROR_TRYAGAIN:
	case REDIS_ERROR_CLUSTERDOWN:
	case REDIS_ERROR_UNWRITABLE:
		redis_link_doubt_writes(s->link, reply->str, slot);
		break;
	case REDIS_ERROR_FORBIDDEN:
	case REDIS_ERROR_OTHER:
		break;
	}
}

static void on_link_reply(kova_status status, const struct redisReply *reply, void *data)
{
	struct store_call call = *(struct store_call *)data;

	free(data);
	if (status == KOVA_EREPLY && !call.store->closing)
		judge_error(call.store, call.slot, reply);
	call.on_reply(status, reply, call.data);
}

static void link_call(struct redis_store *s, uint16_t slot, struct slice command,
		      redis_store_reply *on_reply, void *data)
{
	struct store_call *call;

	if (s->link == NULL || !redis_link_up(s->link)) {
		redis_later_add(&s->later, KOVA_ECONN, on_reply, data);
		return;
	}
	call = malloc(sizeof(*call));
	if (call == NULL) {
		redis_later_add(&s->later, KOVA_ENOMEM, on_reply, data);
		return;
	}
	*call = (struct store_call){s, slot, on_reply, data};
	kova_status status = redis_link_call(s->link, command, uv_now(s->loop) + s->timeout_ms,
					     on_link_reply, call);
	if (status != KOVA_OK) {
		free(call);
		redis_later_add(&s->later, status, on_reply, data);
	}
}

static bool link_start(struct redis_store *s)
{
	s->link = redis_link_new(s->loop, &s->base);
	if (s->link == NULL)
		return false;
	s->parts_open++;
	return true;
}

static void on_master(const char *host, uint16_t port, void *data)
{
	struct redis_store *s = data;
	bool well;

	log_event(LOG_INFO, "redis_master", "the sentinels named the master",
		  LOG_TEXT_FIELD("host", host), LOG_INT_FIELD("port", port));
	if (s->link != NULL) {
		well = redis_link_retarget(s->link, host, port);
	} else {
		s->base.host = strdup(host);
		s->base.port = port;
		well = s->base.host != NULL && link_start(s);
		if (!well) {
			free((char *)s->base.host);
			s->base.host = NULL;
		}
	}
	if (!well)
		log_event(LOG_ERROR, "redis_master", "out of memory: the master is not followed");
}

/* ---- starting ---- */

static bool start_tls(struct redis_store *s, const struct redis_conf *conf)
{
	const char *why;

	s->tls = redis_tls_new(conf->ca, conf->cert, conf->key, &why);
	if (s->tls == NULL)
		log_event(LOG_ERROR, "redis_tls", "TLS towards Redis can't be set up",
			  LOG_TEXT_FIELD("why", why));
	s->base.tls = s->tls;
	return s->tls != NULL;
}

static bool start_base(struct redis_store *s, const struct redis_conf *conf)
{
	s->base = (struct redis_link_options){
		.user = conf->user,
		.password = conf->password,
		.timeout_ms = conf->timeout_ms,
		.connect_timeout_ms = conf->connect_timeout_ms,
		.want_master = true,
		.counters = &s->counters,
		.on_changed = on_link_changed,
		.data = s,
	};
	return redis_link_options_own(&s->base);
}

/* What `conf` says of user and password goes before what the URL says. */
static bool start_standalone(struct redis_store *s, const struct redis_conf *conf)
{
	struct redis_url url;
	const char *why;

	if (conf->url == NULL || redis_url_parse(conf->url, &url, &why) != KOVA_OK) {
		log_event(LOG_ERROR, "redis_url", "the URL of Redis can't be used",
			  LOG_TEXT_FIELD("why", conf->url == NULL ? "there is none" : why));
		return false;
	}
	s->base.path = url.path;
	s->base.host = url.host;
	s->base.port = url.port;
	s->base.db = url.db;
	if (s->base.user == NULL) {
		s->base.user = url.user;
		url.user = NULL;
	}
	if (s->base.password == NULL) {
		s->base.password = url.password;
		url.password = NULL;
	}
	url.path = url.host = NULL;
	bool tls = url.tls;
	redis_url_release(&url);
	return (!tls || start_tls(s, conf)) && link_start(s);
}

/* Addresses have no scheme: a certificate or an authority says that TLS is meant. */
static bool start_tls_if_meant(struct redis_store *s, const struct redis_conf *conf)
{
	return (conf->ca == NULL && conf->cert == NULL && conf->key == NULL) || start_tls(s, conf);
}

static bool start_sentinel(struct redis_store *s, const struct redis_conf *conf)
{
	if (!start_tls_if_meant(s, conf))
		return false;
	s->sentinel = redis_sentinel_new(s->loop, &s->base, conf->master, conf->addresses,
					 conf->n_addresses, on_master, s);
	if (s->sentinel == NULL)
		return false;
	s->parts_open++;
	return true;
}

static bool start_cluster(struct redis_store *s, const struct redis_conf *conf)
{
	if (!start_tls_if_meant(s, conf))
		return false;
	s->cluster = redis_cluster_new(s->loop, &s->base, conf->addresses, conf->n_addresses,
				       s->on_changed, s->data);
	if (s->cluster == NULL)
		return false;
	s->parts_open++;
	return true;
}

static bool start(struct redis_store *s, const struct redis_conf *conf)
{
	if (!start_base(s, conf))
		return false;
	switch (conf->mode) {
	case REDIS_CLUSTER:
		return start_cluster(s, conf);
	case REDIS_SENTINEL:
		return start_sentinel(s, conf);
	case REDIS_EMBEDDED:
	case REDIS_STANDALONE:
		return start_standalone(s, conf);
	}
	return false;
}

struct redis_store *redis_store_new(uv_loop_t *loop, const struct redis_conf *conf,
				    redis_store_changed *on_changed, void *data)
{
	struct redis_store *s = calloc(1, sizeof(*s));

	assert(conf->timeout_ms > 0 && conf->connect_timeout_ms > 0 && on_changed != NULL);
	if (s == NULL)
		return NULL;
	s->loop = loop;
	s->timeout_ms = conf->timeout_ms;
	s->on_changed = on_changed;
	s->data = data;
	redis_later_init(&s->later, loop);
	s->parts_open = 1;
	if (!start(s, conf)) {
		redis_store_close(s, NULL, NULL);
		return NULL;
	}
	return s;
}

void redis_store_close(struct redis_store *s, void (*on_closed)(void *data), void *data)
{
	assert(!s->closing);
	s->closing = true;
	s->on_closed = on_closed;
	s->closed_data = data;
	if (s->link != NULL)
		redis_link_close(s->link, on_part_closed, s);
	if (s->sentinel != NULL)
		redis_sentinel_close(s->sentinel, on_part_closed, s);
	if (s->cluster != NULL)
		redis_cluster_close(s->cluster, on_part_closed, s);
	redis_later_close(&s->later, on_part_closed, s);
}

/* ---- the rest of the interface ---- */

bool redis_store_is_cluster(const struct redis_store *s)
{
	return s->cluster != NULL;
}

unsigned redis_store_shard(const struct redis_store *s, uint16_t slot)
{
	return s->cluster != NULL ? redis_cluster_shard(s->cluster, slot) : 0;
}

bool redis_store_up(const struct redis_store *s, unsigned shard)
{
	if (s->cluster != NULL)
		return redis_cluster_up(s->cluster, shard);
	return shard == 0 && s->link != NULL && redis_link_up(s->link);
}

unsigned redis_store_shards(const struct redis_store *s)
{
	return s->cluster != NULL ? redis_cluster_shards(s->cluster) : 1;
}

void redis_store_call(struct redis_store *s, uint16_t slot, struct slice command,
		      redis_store_reply *on_reply, void *data)
{
	if (s->closing)
		on_reply(KOVA_ECLOSED, NULL, data);
	else if (s->cluster != NULL)
		redis_cluster_call(s->cluster, slot, command, on_reply, data);
	else
		link_call(s, slot, command, on_reply, data);
}

void redis_store_flush(struct redis_store *s)
{
	if (s->cluster != NULL)
		redis_cluster_flush(s->cluster);
	else if (s->link != NULL)
		redis_link_flush(s->link);
}

void redis_store_reset(struct redis_store *s, uint16_t slot, const char *why)
{
	if (s->cluster != NULL)
		redis_cluster_reset(s->cluster, slot, why);
	else if (s->link != NULL)
		redis_link_drop(s->link, why);
}

void redis_store_doubt_writes(struct redis_store *s, uint16_t slot, const char *why)
{
	if (s->cluster != NULL)
		redis_cluster_doubt_writes(s->cluster, slot, why);
	else if (s->link != NULL)
		redis_link_doubt_writes(s->link, why, slot);
}

bool redis_store_is_whole(const struct redis_store *s)
{
	if (s->cluster != NULL)
		return redis_cluster_is_whole(s->cluster);
	return redis_store_up(s, 0);
}

struct redis_counters redis_store_counters(const struct redis_store *s)
{
	return s->counters;
}
