/*
 * TLS between a connection's socket and its front; of conn.c, conn_pool.c and conn_tls.c only. A plain connection has none of
 * this (`c->tls` is NULL).
 *
 * What a stranger can make the program hold is bounded: a connection that has sent nothing costs a struct; a handshake, some
 * 50 KB, is one of CONN_HANDSHAKES_MAX of its loop; further ones stand in line with their first CONN_HELLO_MAX bytes, and while
 * some do, one that takes longer than CONN_HANDSHAKE_FAIR_MS ends. All must be done within CONN_HANDSHAKE_MS. The front's state
 * is made when the handshake is done.
 */
#pragma once

#include "io/conn.h"
#include "io/tls_session.h"

enum {
	CONN_HANDSHAKES_MAX = 512,
	CONN_HANDSHAKE_MS = 10000,
	CONN_HANDSHAKE_FAIR_MS = 1000,
	CONN_HELLO_MAX = 4096,
};

struct conn_tls {
	struct conn *conn;
	struct tls_session *session; /* NULL: the handshake has not begun */
	struct buf hello;            /* received while it stands in line */
	struct conn_tls_line *line;  /* in which it is; NULL: in none */
	struct conn_tls *prev, *next;
	uint64_t begun_ms; /* loop time; of the handshake */
};

/* Oldest first. */
struct conn_tls_line {
	struct conn_tls *first, *last;
	unsigned n;
};

/* Of a pool: the handshakes under way, and those that wait for one to end. */
struct conn_tls_lines {
	struct conn_tls_line under_way, waiting;
	bool calling; /* those who wait are being called */
};

/* The connection speaks TLS, from its first byte on. False: out of memory. */
bool conn_tls_begin(struct conn *c);
/* Its connection is closed. */
void conn_tls_free(struct conn_tls *t); /* NULL is nothing */

/* `bytes` came from the peer: what they say goes to conn_opened(), conn_take() and conn_peer_ended(). */
void conn_tls_take(struct conn *c, struct slice bytes);
/* Whether more may be read from a connection that is not open yet. */
bool conn_tls_may_read(const struct conn_tls *t);

/* Seals the connection's output; returns what is to be sent. */
struct buf *conn_tls_seal(struct conn *c);
/* No more output: seals the end. */
void conn_tls_end(struct conn *c);
/* What is sealed and not sent. */
size_t conn_tls_out_bytes(const struct conn_tls *t);
/* The connection is not open yet, and its time is over, or its peer gone: counts that. The caller closes it. */
void conn_tls_timed_out(struct conn *c);
void conn_tls_gone(struct conn *c);
/* An idle connection's memory. */
void conn_tls_shrink(struct conn_tls *t);

/* Ends handshakes that keep others waiting. */
void conn_tls_sweep(struct conn_pool *p);

/* conn.c: what conn_tls.c calls. */
void conn_opened(struct conn *c);
void conn_take(struct conn *c, struct slice bytes);
void conn_peer_ended(struct conn *c);
void conn_failed(struct conn *c); /* says what is in the wire, and closes */
