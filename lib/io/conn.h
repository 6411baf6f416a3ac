/*
 * A client's connection, whatever it speaks: bytes in, bytes out, bounded in both directions. The
 * fronts (an agent's RESP, HTTP and gRPC, a coordinator's HTTP) sit on it through `struct front_ops`; listener.h makes the
 * connections.
 *
 * What a front may rely on: its callbacks come one at a time from the loop; none comes before
 * on_open or after on_closed; on_closed comes exactly once for each on_open that returned true.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"
#include "io/tls_session.h"

struct conn;
struct conn_tls;
struct mailbox;
struct tls_server;

enum {
	CONN_MAX_CLIENTS = 10000,       /* default of conn_pool_new() */
	CONN_READ_BYTES = 64 * 1024,    /* most that one read brings */
	CONN_OUT_PAUSE_BYTES = 1 << 20, /* more output than this: nothing more is read */
	CONN_OUT_MAX_BYTES = 64 << 20, /* more: closed, counted; one answer may list all policies */
	CONN_REQUESTS_MAX = 1024,      /* as many in progress: nothing more is read */
	CONN_WRITE_TIMEOUT_MS = 30000, /* one write took longer: closed, counted */
	CONN_LINGER_MS = 1000,         /* a finished connection waits as long for its peer's end */
	CONN_SWEEP_MS = 500,           /* granularity of all time-outs here */
	CONN_ADDRESS_MAX = 160,
};

/* A protocol. All members must be set unless they say NULL. */
struct front_ops {
	const char *name;     /* "resp", "http", "grpc": for logs, metrics and INFO */
	enum tls_inner inner; /* what TLS has inside */
	/* What a client beyond the limit reads before its connection is closed; over TLS, nothing. */
	struct slice full_text;
	/* What a client reads that sends no TLS to a listener of TLS. */
	struct slice plain_text;
	/* Makes the front's state and puts it into c->front. false: out of memory; the connection
	 * is closed and on_closed does not come. */
	bool (*on_open)(struct conn *c);
	/*
	 * `bytes` is all that was received and not consumed yet (borrowed for the call). Returns
	 * how many bytes it is done with. The rest comes again, with more behind it, when more has
	 * arrived, or when conn_may_read() is true again if that was why it stopped. Is not called
	 * while conn_may_read() is false; should test it between two requests of one call.
	 */
	size_t (*on_bytes)(struct conn *c, struct slice bytes);
	/*
	 * The peer has sent its last byte (it may still read). The front abandons what would wait
	 * and leaves the rest in progress; the connection is finished (conn_finish()) after this
	 * returns.
	 */
	void (*on_end)(struct conn *c);
	/*
	 * conn_finish() was called: the last chance to write what no request asked for. Once at most, before on_closed.
	 * NULL: nothing is to be said.
	 */
	void (*on_finish)(struct conn *c);
	/* Nothing has come or gone for a while: memory that is not in use may be freed. NULL: there is none. */
	void (*on_idle)(struct conn *c);
	/* The deadline set by conn_set_deadline() has passed. NULL: the connection is closed. */
	void (*on_timeout)(struct conn *c);
	/* The connection is gone: abandon the requests in progress and free the state. Nothing can
	 * be written any more. */
	void (*on_closed)(struct conn *c);
};

enum conn_state {
	CONN_OPEN,
	CONN_FINISHING, /* no more input; ends when nothing is in progress and all is written */
	CONN_LINGERING, /* all is written and our end is shut: waits for the peer's */
	CONN_CLOSING,   /* uv_close() was called */
};

struct conn {
	void *front; /* the front's state */
	void *owner; /* as its place has it */
	struct conn_pool *pool;
	const struct front_ops *ops;
	uint64_t id;             /* 1, 2, …: unique over all loops */
	uint64_t opened_ms;      /* loop time */
	uint64_t last_active_ms; /* loop time of the last byte received */
	uint64_t commands;       /* requests taken so far; counted by the front */
	size_t held_bytes;       /* output that the front keeps until its turn; set by the front */
	struct conn_tls *tls;    /* NULL: plain */

	/* conn.c's own from here. */
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} io;
	enum conn_state state;
	bool served;           /* on_open returned true: on_closed is owed */
	bool loads;            /* counts in pool->load */
	bool reading;          /* uv_read_start() is in force */
	bool dirty;            /* in pool->dirty: has something to do at the end of the loop turn */
	bool starved;          /* the input in `in` waits for conn_may_read() */
	bool ended;            /* the peer's end was read */
	bool lean;             /* what an idle connection does not need was freed */
	bool writing;          /* write_req is in progress, with in_write's bytes */
	uint32_t requests;     /* in progress */
	uint32_t ended_lately; /* requests that ended since the last sweep */
	struct buf in;         /* received, not consumed */
	struct buf out;        /* goes out at the end of the loop turn */
	struct buf in_write;   /* being written */
	uint64_t write_since_ms;
	uint64_t deadline_ms; /* loop time; 0: none */
	uv_write_t write_req;
	uv_shutdown_t shutdown_req;
	struct conn *prev, *next; /* in pool->conns */
	struct conn *next_dirty;
};

/* Output of the connection; what is added goes out at the end of this loop turn, in one write. */
struct buf *conn_out(struct conn *c);

/*
 * Buffers of the loop, each used by one request at a time, and left empty: what is read of it, until decide() returns, which
 * may bring the answers of others; and what an answer is made of.
 */
enum conn_scratch { SCRATCH_REQUEST, SCRATCH_FIELDS, SCRATCH_BODY, SCRATCH_N };
struct buf *conn_scratch(const struct conn *c, enum conn_scratch which);
/* Empties one; keeps the memory that is needed as a rule. */
void conn_scratch_leave(struct buf *b);

/* A reply is owed; and: it is no longer. Counts the requests in progress, for backpressure and so
 * that conn_finish() knows when all is answered. */
void conn_request_begins(struct conn *c);
void conn_request_ended(struct conn *c);

/* Whether the front may take another request: open, little output, few in progress. */
bool conn_may_read(const struct conn *c);

/* Output that is not with the kernel yet, held_bytes included. */
size_t conn_out_bytes(const struct conn *c);

/* No more input: answers what is in progress, writes, closes. Idempotent. */
void conn_finish(struct conn *c);

/* Closes at once. Idempotent; `c` stays valid until on_closed. */
void conn_close(struct conn *c);

/* Whether what is answered now is the last of this connection (conn_finish() was called). */
bool conn_is_finishing(const struct conn *c);

/* on_timeout comes once `after_ms` have passed (granularity CONN_SWEEP_MS); 0: never. Replaces the
 * last one. */
void conn_set_deadline(struct conn *c, uint64_t after_ms);

/* Of a client that has shown a certificate: tls_session_names(); else nothing. */
void conn_certificate_names(const struct conn *c, struct buf *ret_names);

/* "127.0.0.1:53124", "[::1]:53124" or "unix:PATH" of the peer and of our own end; "?": unknown. */
void conn_peer(const struct conn *c, char ret_text[static CONN_ADDRESS_MAX]);
void conn_local(const struct conn *c, char ret_text[static CONN_ADDRESS_MAX]);

/* ---- All connections of one loop: their number, their limit, their counters. ---- */

struct conn_counters {
	uint64_t accepted;
	uint64_t refused_full;   /* beyond max_clients */
	uint64_t accept_errors;  /* out of file descriptors or memory */
	uint64_t closed_slow;    /* over CONN_OUT_MAX_BYTES or CONN_WRITE_TIMEOUT_MS */
	uint64_t closed_timeout; /* by a deadline */
	uint64_t closed_memory;  /* its bytes could not be held */
	uint64_t paused;         /* reading stopped for backpressure */
	uint64_t bytes_in, bytes_out;
	uint64_t writes;   /* system calls that carried output */
	uint64_t commands; /* requests taken, of all fronts that count them */
	struct tls_counters tls;
};

struct conn_pool;

/* Where connections are; all is borrowed and outlives the pool. */
struct conn_place {
	uv_loop_t *loop;
	struct mailbox *mailbox;       /* of the loop; NULL: it is the only one */
	unsigned index, loops;         /* which one it is; of how many, 0 stands for 1 */
	struct tls_server *const *tls; /* what serves TLS, as it is when a connection begins */
	void *owner;                   /* of each connection */
	void (*on_batch)(
		void *owner); /* bytes were read, and are about to be taken. NULL: nothing */
};

/*
 * Connections for a loop. `place` is copied. `max_clients` 0: CONN_MAX_CLIENTS.
 * Raises the process's limit of open files as far as it may; when that is not enough, lowers
 * max_clients and logs it. NULL: out of memory.
 */
struct conn_pool *conn_pool_new(const struct conn_place *place, uint32_t max_clients);

/*
 * From here on what `p` accepts goes in turn to the one of `peers` (borrowed; `p` among them; of all loops of the program) that
 * has the fewest connections; max_clients is for all of them together. Their loops must outlive the listeners of `p`.
 */
void conn_pool_spread(struct conn_pool *p, struct conn_pool *const *peers, unsigned n);

/* Finishes every connection (conn_finish()). Stop the listeners first. */
void conn_pool_drain(struct conn_pool *p);

/* Connections that are not gone yet, of this loop. */
uint32_t conn_pool_count(const struct conn_pool *p);
uint32_t conn_pool_max_clients(const struct conn_pool *p);
/* Loop time at which the pool was made. */
uint64_t conn_pool_started_ms(const struct conn_pool *p);

/* Closes every connection at once; on_closed (may be NULL) comes from the loop when all are gone
 * and the pool is freed. All listeners must be stopped before. */
void conn_pool_close(struct conn_pool *p, void (*on_closed)(void *data), void *data);

struct conn_counters conn_pool_counters(const struct conn_pool *p);

/* Calls `each` for every connection that is not closing. `each` must not close any. */
void conn_pool_each(const struct conn_pool *p, void (*each)(const struct conn *c, void *data),
		    void *data);

/* The address on which the front `name` listens in this pool; "" when it does not. Of several, the
 * first TCP one. Valid until that listener is stopped. */
const char *conn_pool_address(const struct conn_pool *p, const char *front_name);
