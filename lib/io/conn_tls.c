/*
 * The happy path: the first bytes begin a handshake, which goes back and forth by conn_tls_take() and the wire; when it is done,
 * conn_opened() makes the front, and the records from then on are its bytes. The front's output is sealed when it is written.
 * At the end both sides say so (close_notify).
 *
 * What may go wrong:
 * - too many handshakes are under way: the first bytes stand in line, nothing more is read until it is their turn;
 * - what comes is no TLS: the client reads the front's plain_text, which says so;
 * - the handshake fails: the client reads an alert, the log says why, and it is counted by its kind;
 * - the client leaves, or takes too long: counted, closed;
 * - a record is not what it should be: an alert, and the connection is closed at once.
 */
#include "io/conn_tls.h"

#include <assert.h>
#include <stdlib.h>

#include "io/conn_pool.h"
#include "io/log.h"

/* ---- Lines ---- */

static void line_join(struct conn_tls_line *line, struct conn_tls *t)
{
	t->line = line;
	t->prev = line->last;
	t->next = NULL;
	if (line->last != NULL)
		line->last->next = t;
	else
		line->first = t;
	line->last = t;
	line->n++;
}

static void line_leave(struct conn_tls *t)
{
	struct conn_tls_line *line = t->line;

	if (line == NULL)
		return;
	if (t->prev != NULL)
		t->prev->next = t->next;
	else
		line->first = t->next;
	if (t->next != NULL)
		t->next->prev = t->prev;
	else
		line->last = t->prev;
	line->n--;
	t->line = NULL;
}

/* ---- The beginning and the end ---- */

bool conn_tls_begin(struct conn *c)
{
	struct conn_tls *t = calloc(1, sizeof *t);

	if (t == NULL)
		return false;
	t->conn = c;
	c->tls = t;
	conn_set_deadline(c, CONN_HANDSHAKE_MS);
	return true;
}

/* Those who stand in line, as far as there is room. */
static void call_waiting(struct conn_pool *p);

static void handshake_over(struct conn_tls *t)
{
	bool was_under_way = t->line == &t->conn->pool->tls.under_way;

	line_leave(t);
	if (was_under_way)
		call_waiting(t->conn->pool);
}

void conn_tls_free(struct conn_tls *t)
{
	if (t == NULL)
		return;
	handshake_over(t);
	tls_session_free(t->session);
	buf_release(&t->hello);
	free(t);
}

size_t conn_tls_out_bytes(const struct conn_tls *t)
{
	return t->session != NULL ? tls_session_wire(t->session)->len : 0;
}

/* ---- Failures ---- */

static void failed(struct conn *c, enum tls_failure failure, const char *why)
{
	char peer[CONN_ADDRESS_MAX];

	c->pool->counters.tls.failed[failure]++;
	conn_peer(c, peer);
	log_event(LOG_WARN, "tls_failed",
		  c->served ? "TLS failed on an open connection" : "a TLS handshake failed",
		  LOG_TEXT_FIELD("front", c->ops->name), LOG_TEXT_FIELD("peer", peer),
		  LOG_TEXT_FIELD("reason", tls_failure_label(failure)), LOG_TEXT_FIELD("why", why));
}

static void session_failed(struct conn *c)
{
	struct tls_session *s = c->tls->session;
	enum tls_failure failure = tls_session_failure(s);

	failed(c, failure, tls_session_why(s));
	handshake_over(c->tls);
	if (failure == TLS_FAILED_PLAIN_TEXT)
		buf_add_slice(tls_session_wire(s), c->ops->plain_text);
	conn_failed(c);
}

void conn_tls_timed_out(struct conn *c)
{
	if (c->tls->session != NULL || c->tls->hello.len > 0)
		failed(c, TLS_FAILED_TIMEOUT, "the handshake took too long");
}

/* Who has gone before a byte was sent only looked whether somebody listens. */
void conn_tls_gone(struct conn *c)
{
	if (c->tls->session != NULL || c->tls->hello.len > 0)
		failed(c, TLS_FAILED_GONE, "the client left amid the handshake");
}

/* ---- Input ---- */

static void opened(struct conn *c)
{
	const struct tls_session *s = c->tls->session;

	/* Its authority may be none any more, and a name of it listed since: the client comes again. */
	if (tls_session_has_certificate(s) && !tls_session_is_of(s, *c->pool->place.tls)) {
		failed(c, TLS_FAILED_CERTIFICATE,
		       "amid the handshake the authorities of clients were read again");
		conn_close(c);
		return;
	}
	c->pool->counters.tls.opened++;
	c->pool->counters.tls.resumed += tls_session_is_resumed(s);
	handshake_over(c->tls);
	conn_set_deadline(c, 0);
	conn_opened(c);
}

/* True: there may be more. */
static bool take_step(struct conn *c)
{
	struct conn_pool *p = c->pool;
	size_t n;

	switch (tls_session_read(c->tls->session, p->plain_bytes, sizeof p->plain_bytes, &n)) {
	case TLS_OPENED:
		opened(c);
		return true;
	case TLS_DATA:
		conn_take(c, (struct slice){p->plain_bytes, n});
		return true;
	case TLS_ENDED:
		conn_peer_ended(c);
		return false;
	case TLS_FAILED:
		session_failed(c);
		return false;
	case TLS_AGAIN:
		break;
	}
	return false;
}

static void feed(struct conn *c, struct slice bytes)
{
	tls_session_feed(c->tls->session, bytes);
	while (take_step(c) && c->state != CONN_CLOSING)
		;
	if (c->state != CONN_CLOSING)
		conn_pool_mark(c->pool, c);
}

static bool begin_handshake(struct conn_tls *t)
{
	struct conn *c = t->conn;

	t->session = tls_session_new(*c->pool->place.tls, c->ops->inner);
	if (t->session == NULL) {
		failed(c, TLS_FAILED_MEMORY, "out of memory");
		conn_close(c);
		return false;
	}
	t->begun_ms = uv_now(c->pool->place.loop);
	line_join(&c->pool->tls.under_way, t);
	return true;
}

static void call_waiting(struct conn_pool *p)
{
	struct conn_tls *t;

	if (p->tls.calling)
		return;
	p->tls.calling = true; /* one that fails at once makes room for the next, here */
	while ((t = p->tls.waiting.first) != NULL && p->tls.under_way.n < CONN_HANDSHAKES_MAX) {
		struct buf hello = t->hello;

		line_leave(t);
		t->hello = (struct buf){0};
		if (t->conn->state == CONN_OPEN && begin_handshake(t))
			feed(t->conn, buf_slice(&hello));
		buf_release(&hello);
	}
	p->tls.calling = false;
}

static void stand_in_line(struct conn_tls *t, struct slice bytes)
{
	buf_add_slice(&t->hello, bytes);
	if (buf_failed(&t->hello)) {
		failed(t->conn, TLS_FAILED_MEMORY, "out of memory");
		conn_close(t->conn);
		return;
	}
	line_join(&t->conn->pool->tls.waiting, t);
}

void conn_tls_take(struct conn *c, struct slice bytes)
{
	struct conn_tls *t = c->tls;

	if (c->state != CONN_OPEN)
		return;
	if (t->session != NULL)
		feed(c, bytes);
	else if (c->pool->tls.under_way.n >= CONN_HANDSHAKES_MAX)
		stand_in_line(t, bytes);
	else if (begin_handshake(t))
		feed(c, bytes);
}

bool conn_tls_may_read(const struct conn_tls *t)
{
	return t->hello.len == 0;
}

void conn_certificate_names(const struct conn *c, struct buf *ret_names)
{
	if (c->tls != NULL && c->tls->session != NULL)
		tls_session_names(c->tls->session, ret_names);
}

/* ---- Output ---- */

struct buf *conn_tls_seal(struct conn *c)
{
	struct conn_tls *t = c->tls;

	if (t->session == NULL)
		return &c->out; /* there is nothing yet that could write */
	if (c->out.len > 0) {
		if (!tls_session_write(t->session, buf_slice(&c->out))) {
			c->pool->counters.closed_memory++;
			conn_close(c);
		}
		buf_clear(&c->out);
	}
	return tls_session_wire(t->session);
}

void conn_tls_end(struct conn *c)
{
	if (c->tls->session != NULL)
		tls_session_end(c->tls->session);
}

void conn_tls_shrink(struct conn_tls *t)
{
	struct buf *wire = t->session != NULL ? tls_session_wire(t->session) : NULL;

	if (wire != NULL && wire->len == 0 && !wire->failed)
		buf_release(wire);
}

/* ---- Time ---- */

void conn_tls_sweep(struct conn_pool *p)
{
	uint64_t now_ms = uv_now(p->place.loop);
	struct conn_tls *t = p->tls.under_way.first;

	for (unsigned waiting = p->tls.waiting.n; t != NULL && waiting > 0; waiting--) {
		struct conn_tls *next = t->next;

		if (now_ms - t->begun_ms < CONN_HANDSHAKE_FAIR_MS)
			break;
		failed(t->conn, TLS_FAILED_CROWDED, "others wait, and this handshake was slow");
		conn_close(t->conn);
		t = next;
	}
}
