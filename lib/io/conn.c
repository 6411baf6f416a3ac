/*
 * The happy path of a connection:
 * - the listener has one to accept: conn_accept() makes the struct, the front its state, reading
 * starts;
 * - on_read() hands the bytes to the front; what it does not consume is kept in `in`;
 * - the front adds replies to `out`, now or when an answer comes later; the first byte of a turn
 * makes the connection dirty;
 * - at the end of the loop turn conn_turn() writes all of it with one system call;
 * - the peer ends: on_end, what is in progress is answered, conn_close(), on_closed, free.
 *
 * What may go wrong, and what happens then:
 * - the peer sends faster than it reads, or more than CONN_REQUESTS_MAX at once: reading stops (the
 *   kernel's window closes) and starts again when conn_may_read() is true;
 * - it does not read at all: a write that takes longer than CONN_WRITE_TIMEOUT_MS, or output over
 *   CONN_OUT_MAX_BYTES, closes the connection;
 * - it is gone while nothing is read: conn_sweep() asks the kernel and ends it as an end of input
 * would;
 * - read or write fails: conn_close() at once;
 * - no memory for its bytes: conn_close() at once, since a stream with a hole is worse than none;
 * - the front is done with it (QUIT, a protocol error, a drain): conn_finish(): no more input, the
 * rest is answered, our end is shut, and the peer gets CONN_LINGER_MS to read it before the close,
 * which would otherwise reset the connection and take the last reply with it.
 *
 * Where it speaks TLS, conn_tls.c stands between the socket and the rest: the front comes with the end of the handshake, what is
 * read is opened before it is fed, what is written is sealed. A handshake that fails ends as a finished connection does, so
 * that the peer reads why.
 *
 * Every path ends in conn_close(), which acts once; its close callback is the only place that
 * frees.
 */
#include "io/conn.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "io/conn_pool.h"
#include "io/log.h"

enum {
	KEEPALIVE_S = 60, /* finds peers that vanished without a word */
	SCRATCH_KEPT_BYTES = 4096,
};

static void update_reading(struct conn *c);

static void mark_dirty(struct conn *c)
{
	c->lean = false;
	if (c->state != CONN_CLOSING)
		conn_pool_mark(c->pool, c);
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct conn *c = handle->data;

	if (c->served)
		c->ops->on_closed(c);
	buf_release(&c->in);
	buf_release(&c->out);
	buf_release(&c->in_write);
	conn_tls_free(c->tls);
	conn_pool_remove(c->pool, c);
	free(c);
}

void conn_close(struct conn *c)
{
	if (c->state == CONN_CLOSING)
		return;
	c->state = CONN_CLOSING;
	uv_close(&c->io.handle, on_handle_closed);
}

struct buf *conn_out(struct conn *c)
{
	mark_dirty(c);
	return &c->out;
}

struct buf *conn_scratch(const struct conn *c, enum conn_scratch which)
{
	return &c->pool->scratch[which];
}

void conn_scratch_leave(struct buf *b)
{
	if (b->cap > SCRATCH_KEPT_BYTES || b->failed)
		buf_release(b);
	buf_clear(b);
}

void conn_request_begins(struct conn *c)
{
	c->requests++;
}

void conn_request_ended(struct conn *c)
{
	assert(c->requests > 0);
	c->requests--;
	c->ended_lately++;
	mark_dirty(c);
}

size_t conn_out_bytes(const struct conn *c)
{
	size_t writing = c->writing ? uv_stream_get_write_queue_size(&c->io.stream) : 0;

	size_t sealed = c->tls != NULL ? conn_tls_out_bytes(c->tls) : 0;

	return c->out.len + writing + c->held_bytes + sealed;
}

bool conn_may_read(const struct conn *c)
{
	return c->state == CONN_OPEN && c->requests < CONN_REQUESTS_MAX &&
	       conn_out_bytes(c) <= CONN_OUT_PAUSE_BYTES;
}

void conn_finish(struct conn *c)
{
	if (c->state != CONN_OPEN)
		return;
	c->state = CONN_FINISHING;
	if (c->ops->on_finish != NULL && c->served)
		c->ops->on_finish(c);
	mark_dirty(c);
}

bool conn_is_finishing(const struct conn *c)
{
	return c->state != CONN_OPEN;
}

void conn_set_deadline(struct conn *c, uint64_t after_ms)
{
	if (c->state != CONN_OPEN && c->state != CONN_FINISHING)
		return;
	c->deadline_ms = after_ms == 0 ? 0 : uv_now(c->pool->place.loop) + after_ms;
}

/* ---- Input ---- */

static void close_for_memory(struct conn *c)
{
	c->pool->counters.closed_memory++;
	conn_close(c);
}

/* Gives the front `bytes`; returns how many it has used up. */
static size_t feed(struct conn *c, struct slice bytes)
{
	size_t used = 0;

	if (conn_may_read(c)) {
		if (c->pool->place.on_batch != NULL)
			c->pool->place.on_batch(c->owner);
		used = c->ops->on_bytes(c, bytes);
	}
	assert(used <= bytes.len);
	c->starved = used < bytes.len && c->state == CONN_OPEN && !conn_may_read(c);
	return used;
}

/* Feeds what is kept in `in`. */
static void feed_kept(struct conn *c)
{
	size_t used = feed(c, buf_slice(&c->in));

	buf_consume(&c->in, c->state == CONN_OPEN ? used : c->in.len);
}

void conn_take(struct conn *c, struct slice bytes)
{
	if (c->state != CONN_OPEN)
		return;
	if (c->in.len > 0) {
		buf_add_slice(&c->in, bytes);
		if (!buf_failed(&c->in))
			feed_kept(c);
	} else {
		size_t used = feed(c, bytes);

		if (c->state == CONN_OPEN)
			buf_add(&c->in, bytes.ptr + used, bytes.len - used);
	}
	if (buf_failed(&c->in))
		close_for_memory(c);
}

void conn_peer_ended(struct conn *c)
{
	c->ended = true;
	if (c->state == CONN_LINGERING) {
		conn_close(c);
		return;
	}
	if (c->state == CONN_OPEN && c->served)
		c->ops->on_end(c);
	conn_finish(c);
	mark_dirty(c);
	update_reading(c);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
	struct conn *c = handle->data;

	(void)suggested;
	*ret_buf = uv_buf_init(c->pool->read_bytes,
			       c->served ? sizeof c->pool->read_bytes : CONN_HELLO_MAX);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct conn *c = stream->data;

	if (n < 0 && c->tls != NULL && !c->served && c->state == CONN_OPEN)
		conn_tls_gone(c);
	if (n == UV_EOF) {
		conn_peer_ended(c);
	} else if (n < 0) {
		conn_close(c);
	} else if (n > 0) {
		c->pool->counters.bytes_in += (uint64_t)n;
		c->last_active_ms = uv_now(c->pool->place.loop);
		c->lean = false;
		if (c->tls != NULL)
			conn_tls_take(c, (struct slice){buf->base, (size_t)n});
		else
			conn_take(c, (struct slice){buf->base, (size_t)n});
		if (c->state == CONN_OPEN || c->state == CONN_FINISHING)
			update_reading(c);
	}
}

static bool wants_to_read(const struct conn *c)
{
	if (c->state == CONN_LINGERING)
		return true;
	return c->state == CONN_OPEN && !c->starved && conn_may_read(c) &&
	       (c->tls == NULL || conn_tls_may_read(c->tls));
}

static void update_reading(struct conn *c)
{
	bool want = wants_to_read(c);

	if (want == c->reading || c->state == CONN_CLOSING)
		return;
	if (want) {
		if (uv_read_start(&c->io.stream, on_alloc, on_read) != 0) {
			conn_close(c);
			return;
		}
	} else {
		(void)uv_read_stop(&c->io.stream);
		if (c->state == CONN_OPEN)
			c->pool->counters.paused++;
	}
	c->reading = want;
}

/* ---- Output ---- */

static void on_written(uv_write_t *req, int status)
{
	struct conn *c = req->data;

	c->writing = false;
	buf_clear(&c->in_write);
	if (status != 0)
		conn_close(c);
	else
		mark_dirty(c);
}

/* What the kernel did not take goes to libuv, which writes it as the socket takes it. */
static void write_rest(struct conn *c, struct buf *out)
{
	struct buf rest = *out;
	uv_buf_t bytes = uv_buf_init(rest.ptr, (unsigned)rest.len);

	*out = c->in_write;
	c->in_write = rest;
	c->write_req.data = c;
	c->write_since_ms = uv_now(c->pool->place.loop);
	if (uv_write(&c->write_req, &c->io.stream, &bytes, 1, on_written) != 0) {
		conn_close(c);
		return;
	}
	c->writing = true;
}

static void write_out(struct conn *c)
{
	struct buf *out = &c->out;
	uv_buf_t bytes;
	int n;

	if (c->writing)
		return;
	if (c->tls != NULL)
		out = conn_tls_seal(c);
	if (out->len == 0 || c->state == CONN_CLOSING)
		return;
	c->pool->counters.writes++;
	c->pool->counters.bytes_out += out->len;
	bytes = uv_buf_init(out->ptr, (unsigned)out->len);
	n = uv_try_write(&c->io.stream, &bytes, 1);
	if (n < 0 && n != UV_EAGAIN) {
		conn_close(c);
		return;
	}
	if (n > 0)
		buf_consume(out, (size_t)n);
	if (out->len > 0)
		write_rest(c, out);
}

static bool check_out(struct conn *c)
{
	if (buf_failed(&c->out)) {
		close_for_memory(c);
		return false;
	}
	if (conn_out_bytes(c) > CONN_OUT_MAX_BYTES) {
		c->pool->counters.closed_slow++;
		conn_close(c);
		return false;
	}
	return true;
}

/* ---- The end ---- */

static void on_shut(uv_shutdown_t *req, int status)
{
	struct conn *c = req->data;

	if (status != 0 && status != UV_ECANCELED)
		conn_close(c);
}

/* Bytes that the kernel has received and we have not read: closing now would reset the connection.
 */
static bool has_unread(const struct conn *c)
{
	uv_os_fd_t fd;
	int n = 0;

	return uv_fileno(&c->io.handle, &fd) == 0 && ioctl(fd, FIONREAD, &n) == 0 && n > 0;
}

static void maybe_end(struct conn *c)
{
	if (c->state != CONN_FINISHING || c->requests > 0 || c->writing || c->out.len > 0)
		return;
	if (c->tls != NULL) {
		conn_tls_end(c);
		write_out(c);
		if (c->writing || c->state == CONN_CLOSING)
			return;
	}
	/* A drain does not wait for idle peers: they have nothing left to read. */
	if (c->ended || (c->pool->draining && !has_unread(c))) {
		conn_close(c);
		return;
	}
	c->state = CONN_LINGERING;
	c->deadline_ms = uv_now(c->pool->place.loop) + CONN_LINGER_MS;
	c->shutdown_req.data = c;
	if (uv_shutdown(&c->shutdown_req, &c->io.stream, on_shut) != 0)
		conn_close(c);
}

void conn_failed(struct conn *c)
{
	if (c->served) {
		buf_clear(&c->out);
		write_out(c);
		conn_close(c);
	} else {
		conn_finish(c);
	}
}

void conn_turn(struct conn *c)
{
	if (c->state == CONN_CLOSING)
		return;
	if (check_out(c))
		write_out(c);
	/* Each round takes at least one request or leaves the connection starved. */
	while (c->starved && conn_may_read(c)) {
		feed_kept(c);
		if (c->state != CONN_CLOSING && check_out(c))
			write_out(c);
	}
	if (c->state == CONN_CLOSING)
		return;
	maybe_end(c);
	update_reading(c);
}

/* ---- Time ---- */

/* Whether the peer has gone; asked when nothing is read, since then no read can say so. */
static bool peer_has_gone(const struct conn *c)
{
	struct pollfd p = {.events = POLLRDHUP};

	if (uv_fileno(&c->io.handle, &p.fd) != 0)
		return true;
	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

static void on_deadline(struct conn *c)
{
	c->deadline_ms = 0;
	if (c->tls != NULL && !c->served && c->state == CONN_OPEN)
		conn_tls_timed_out(c);
	if (c->state != CONN_LINGERING && c->served && c->ops->on_timeout != NULL) {
		c->ops->on_timeout(c);
		return;
	}
	if (c->state != CONN_LINGERING)
		c->pool->counters.closed_timeout++;
	conn_close(c);
}

static void release_idle_memory(struct conn *c)
{
	if (c->lean)
		return;
	if (c->ops->on_idle != NULL && c->served)
		c->ops->on_idle(c);
	if (c->in.len == 0)
		buf_release(&c->in);
	if (c->out.len == 0 && !c->out.failed)
		buf_release(&c->out);
	if (!c->writing)
		buf_release(&c->in_write);
	if (c->tls != NULL)
		conn_tls_shrink(c->tls);
	c->lean = !c->writing;
}

void conn_sweep(struct conn *c)
{
	uint64_t now_ms = uv_now(c->pool->place.loop);
	bool stuck = c->requests > 0 && c->ended_lately == 0;

	if (c->state == CONN_CLOSING)
		return;
	c->ended_lately = 0;
	if (c->writing && now_ms - c->write_since_ms > CONN_WRITE_TIMEOUT_MS) {
		c->pool->counters.closed_slow++;
		conn_close(c);
	} else if (c->deadline_ms != 0 && now_ms >= c->deadline_ms) {
		on_deadline(c);
	} else if (!c->reading && !c->ended && stuck && peer_has_gone(c)) {
		/* All that is in progress waits, and nobody waits for it. */
		if (c->state == CONN_FINISHING)
			conn_close(c);
		else
			conn_peer_ended(c);
	} else if (now_ms - c->last_active_ms >= CONN_SWEEP_MS) {
		release_idle_memory(c);
	}
}

/* ---- The beginning ---- */

static void init_handle(struct conn *c, uv_handle_type type)
{
	int r = type == UV_TCP ? uv_tcp_init(c->pool->place.loop, &c->io.tcp)
			       : uv_pipe_init(c->pool->place.loop, &c->io.pipe, 0);

	assert(r == 0); /* neither makes a socket yet: there is nothing that could fail */
	c->io.handle.data = c;
}

/* Tells a client beyond the limit why; it has sent nothing yet that could get in the way. */
static void refuse_full(struct conn *c, bool tls)
{
	uv_buf_t text = uv_buf_init((char *)(uintptr_t)c->ops->full_text.ptr,
				    (unsigned)c->ops->full_text.len);

	c->pool->counters.refused_full++;
	log_event(LOG_WARN, "max_clients", "a client was refused: the limit on clients is reached",
		  LOG_INT_FIELD("max_clients", c->pool->max_clients));
	if (!tls)
		(void)uv_try_write(&c->io.stream, &text, 1);
	conn_close(c);
}

void conn_opened(struct conn *c)
{
	struct conn_pool *p = c->pool;

	if (!c->ops->on_open(c)) {
		p->counters.accept_errors++;
		conn_close(c);
		return;
	}
	c->served = true;
	p->count++;
}

void conn_serve(struct conn *c, bool tls)
{
	struct conn_pool *p = c->pool;

	c->loads = true;
	if (c->io.handle.type == UV_TCP) {
		(void)uv_tcp_nodelay(&c->io.tcp, 1);
		(void)uv_tcp_keepalive(&c->io.tcp, 1, KEEPALIVE_S);
	}
	p->counters.accepted++;
	if (!tls) {
		conn_opened(c);
	} else if (!conn_tls_begin(c)) {
		p->counters.accept_errors++;
		conn_close(c);
	}
	update_reading(c);
}

struct conn *conn_new(struct conn_pool *p, uv_handle_type type, const struct front_ops *ops)
{
	struct conn *c = calloc(1, sizeof *c);

	if (c == NULL) {
		p->counters.accept_errors++;
		return NULL;
	}
	c->owner = p->place.owner;
	c->pool = p;
	c->ops = ops;
	c->id = p->last_id += p->id_step;
	c->opened_ms = c->last_active_ms = uv_now(p->place.loop);
	init_handle(c, type);
	conn_pool_add(p, c);
	return c;
}

bool conn_accept(struct conn_pool *p, uv_stream_t *server, const struct front_ops *ops, bool tls)
{
	bool full = conn_spread_load(p) >= p->max_clients;
	struct conn_pool *to = full ? p : conn_spread_choose(p);
	struct conn *c;

	if (to != p)
		return conn_spread_accept(p, server, ops, tls, to);
	c = conn_new(p, server->type, ops);
	if (c == NULL)
		return false;
	if (uv_accept(server, &c->io.stream) != 0) {
		p->counters.accept_errors++;
		conn_close(c);
	} else if (full) {
		refuse_full(c, tls);
	} else {
		atomic_fetch_add_explicit(&p->load, 1, memory_order_relaxed);
		conn_serve(c, tls);
	}
	return true;
}

/* ---- Names of the ends ---- */

void conn_address_text(const struct sockaddr_storage *address,
		       char ret_text[static CONN_ADDRESS_MAX])
{
	char host[64];
	bool v6 = address->ss_family == AF_INET6;
	struct sockaddr_in in4;
	struct sockaddr_in6 in6;

	memcpy(&in4, address, sizeof in4);
	memcpy(&in6, address, sizeof in6);
	if ((v6 ? uv_ip6_name(&in6, host, sizeof host) : uv_ip4_name(&in4, host, sizeof host)) != 0)
		return;
	snprintf(ret_text, CONN_ADDRESS_MAX, v6 ? "[%s]:%u" : "%s:%u", host,
		 (unsigned)ntohs(v6 ? in6.sin6_port : in4.sin_port));
}

static void end_text(const struct conn *c, bool peer, char *ret_text)
{
	struct sockaddr_storage address = {0};
	struct sockaddr *any = (struct sockaddr *)&address;
	int len = sizeof address;
	size_t path_len = CONN_ADDRESS_MAX - sizeof "unix:";
	int r;

	snprintf(ret_text, CONN_ADDRESS_MAX, "?");
	if (c->io.handle.type == UV_TCP) {
		r = peer ? uv_tcp_getpeername(&c->io.tcp, any, &len)
			 : uv_tcp_getsockname(&c->io.tcp, any, &len);
		if (r == 0)
			conn_address_text(&address, ret_text);
		return;
	}
	/* The peer of a unix socket has no name of its own: ours serves for both ends. */
	memcpy(ret_text, "unix:", sizeof "unix:");
	r = uv_pipe_getsockname(&c->io.pipe, ret_text + sizeof "unix:" - 1, &path_len);
	if (r != 0)
		snprintf(ret_text, CONN_ADDRESS_MAX, "unix:?");
	else
		ret_text[sizeof "unix:" - 1 + path_len] = '\0';
}

void conn_peer(const struct conn *c, char ret_text[static CONN_ADDRESS_MAX])
{
	end_text(c, true, ret_text);
}

void conn_local(const struct conn *c, char ret_text[static CONN_ADDRESS_MAX])
{
	end_text(c, false, ret_text);
}
