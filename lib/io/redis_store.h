/*
 * A region's Redis, whatever its shape: a standalone server, one found by Sentinel, or a Cluster.
 * Commands are routed by slot; MOVED, ASK and TRYAGAIN are followed here. Every call ends in exactly one
 * callback, at the latest when its time is up.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/bytes.h"
#include "core/status.h"

struct redisReply;

enum redis_mode { REDIS_EMBEDDED, REDIS_STANDALONE, REDIS_SENTINEL, REDIS_CLUSTER };

/* All strings are owned by the conf; redis_store_new() copies what it keeps. */
struct redis_conf {
	enum redis_mode mode;
	char *url;        /* standalone: redis://… rediss://… or unix:PATH */
	char *master;     /* sentinel */
	char **addresses; /* sentinel: sentinels, cluster: nodes; "host:port" */
	size_t n_addresses;
	char *user;            /* NULL: none */
	char *password;        /* NULL: none; a secret: never logged */
	char *ca, *cert, *key; /* TLS files; NULL: none */
	uint64_t timeout_ms;   /* what one call may take */
	uint64_t connect_timeout_ms;
	uint64_t max_skew_ms; /* how far its clock and ours may differ; for those who ask it */
};

struct redis_store;

/*
 * `reply` is NULL unless status is KOVA_OK or KOVA_EREPLY (an error reply, in reply->str; when it is
 * MOVED, ASK, TRYAGAIN, CLUSTERDOWN, READONLY, LOADING, MASTERDOWN, BUSY, MISCONF, NOAUTH or NOPERM nothing was
 * executed, with OOM and NOREPLICAS no write); it is
 * freed after the callback. KOVA_ETIMEDOUT, KOVA_ECONN and KOVA_ECLOSED of a call that was sent leave
 * open whether it was executed: it is never sent again here.
 */
typedef void redis_store_reply(kova_status status, const struct redisReply *reply, void *data);

/* A shard (one for standalone and sentinel) went up or down; `why` holds no secret. May close the store. */
typedef void redis_store_changed(unsigned shard, bool up, const char *why, void *data);

/*
 * Starts connecting at once. NULL: out of memory, or `conf` is unusable (URL, addresses, TLS files): the
 * reason is logged; the loop has to run once more for what was begun to be freed. User and password of
 * `conf` go before those of the URL. For sentinel and cluster, TLS is meant when `ca`, `cert` or `key` is
 * set. The process must ignore SIGPIPE.
 */
struct redis_store *redis_store_new(uv_loop_t *loop, const struct redis_conf *conf,
				    redis_store_changed *on_changed, void *data);
/* Pending calls end with KOVA_ECLOSED first; `on_closed` (may be NULL) comes when all handles are gone. */
void redis_store_close(struct redis_store *s, void (*on_closed)(void *data), void *data);

bool redis_store_is_cluster(const struct redis_store *s);
/*
 * Shard that serves `slot` now (UINT_MAX: nobody does), and whether it can be asked at once. 0 when not a
 * cluster. Numbers are good until the next change of a cluster's map.
 */
unsigned redis_store_shard(const struct redis_store *s, uint16_t slot);
bool redis_store_up(const struct redis_store *s, unsigned shard);
/* Number of shards known now: at least 1. */
unsigned redis_store_shards(const struct redis_store *s);
/* Whether all of it can be asked: every shard is up, and every slot has one. */
bool redis_store_is_whole(const struct redis_store *s);

/*
 * Sends `command`, a whole RESP command (copied), to the shard of `slot`. When that is not connected the
 * callback comes with KOVA_ECONN on the next loop turn: nothing is queued for later. Never called back
 * from within; except when memory is out, with KOVA_ENOMEM, and after redis_store_close(), with KOVA_ECLOSED.
 * Its time begins at uv_now(): a caller late in a turn sees to uv_update_time() first.
 */
void redis_store_call(struct redis_store *s, uint16_t slot, struct slice command,
		      redis_store_reply *on_reply, void *data);
/*
 * Writes what was asked for in this turn, instead of at the start of the next: for who has asked for all that it has.
 * Never calls back.
 */
void redis_store_flush(struct redis_store *s);
/* The stream of this slot's shard is out of step (a reply was lost): drop the connection. */
void redis_store_reset(struct redis_store *s, uint16_t slot, const char *why);
/* The shard of this slot refused what we need: down, and probed until a script may write there again. */
void redis_store_doubt_writes(struct redis_store *s, uint16_t slot, const char *why);

/* Counters for metrics: commands sent, reconnects, time-outs. */
struct redis_counters {
	uint64_t commands, connects, disconnects, timeouts, redirects;
	uint64_t moves; /* slots that went to another node, as far as was heard */
};
struct redis_counters redis_store_counters(const struct redis_store *s);
