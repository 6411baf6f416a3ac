/* What conn.c, conn_pool.c, conn_spread.c and listener.c share; no one else includes this. */
#pragma once

#include <stdatomic.h>

#include "io/conn.h"
#include "io/conn_tls.h"

struct listener;

struct conn_pool {
	struct conn_place place;
	uint32_t max_clients;
	uint32_t count;            /* connections that are served and not gone */
	uint32_t total;            /* and those that are being refused */
	uint64_t last_id, id_step; /* ids are unique over all loops */
	atomic_uint load; /* connections given to it that are not gone; and on their way to it */
	struct conn_pool *const
		*peers; /* borrowed: the pools of all loops; NULL: there is only this one */
	unsigned n_peers, last_peer; /* of the pool that accepts for all */
	uint64_t started_ms;
	struct conn *conns; /* list, newest first */
	struct conn *dirty; /* list: have something to do at the end of the turn */
	struct listener *listeners;
	struct conn_counters counters;
	struct conn_tls_lines tls;
	bool draining, closing;
	uint8_t handles_open;
	uv_check_t after_poll;    /* after the reads and the answers of a turn: write */
	uv_prepare_t before_poll; /* what timers and other check handles have left: write */
	uv_timer_t sweep;
	void (*on_closed)(void *data);
	void *on_closed_data;
	struct buf scratch[SCRATCH_N];
	char read_bytes[CONN_READ_BYTES]; /* of the read callback that is on the stack */
	char plain_bytes[TLS_RECORD_MAX]; /* what TLS made of them */
};

/* Takes the connection that `server` has to give. false: out of memory, and it has it still; libuv
 * offers it once only, so that the caller must come again. */
bool conn_accept(struct conn_pool *p, uv_stream_t *server, const struct front_ops *ops, bool tls);

/* A connection whose socket is still to come; NULL: out of memory. It is listed, and conn_close() frees it. */
struct conn *conn_new(struct conn_pool *p, uv_handle_type type, const struct front_ops *ops);
/* Its socket is open, and it counts in the pool's load. */
void conn_serve(struct conn *c, bool tls);

/* conn_spread.c: */
/* Connections of all loops. */
unsigned conn_spread_load(const struct conn_pool *p);
/* Whose turn it is to get the next. */
struct conn_pool *conn_spread_choose(struct conn_pool *p);
/* As conn_accept(), for the pool `to` of another loop. */
bool conn_spread_accept(struct conn_pool *p, uv_stream_t *server, const struct front_ops *ops,
			bool tls, struct conn_pool *to);

/* What a dirty connection does at the end of a turn. */
void conn_turn(struct conn *c);

/* Deadlines, slow readers, hang-ups while nothing is read, memory of idle connections. */
void conn_sweep(struct conn *c);

/* "127.0.0.1:7411" of an IPv4 or IPv6 address; leaves ret_text alone when it is neither. */
void conn_address_text(const struct sockaddr_storage *address,
		       char ret_text[static CONN_ADDRESS_MAX]);

void conn_pool_add(struct conn_pool *p, struct conn *c);
void conn_pool_remove(struct conn_pool *p, struct conn *c); /* may free the pool */
void conn_pool_mark(struct conn_pool *p, struct conn *c);   /* dirty, once */

/* Listeners, by listener.c. */
void listener_sweep(struct listener *first);
const char *listener_find(const struct listener *first, const char *front_name);
