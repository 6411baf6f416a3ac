#include "resp_session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/ratelimit_fields.h"
#include "ops.h"

enum {
	SLOTS_FIRST = 32,
	SLOTS_KEPT = 64, /* more than these are freed when the ring is empty */
	HELD_KEPT_BYTES = 4 * 1024,
	ERROR_TEXT_BYTES = 512,
};

/* ---- Answers of requests ---- */

static void write_error(struct buf *b, const struct answer *a)
{
	static const char *const codes[] = {
		[REQUEST_MALFORMED] = "ERR",
		[REQUEST_RANGE] = "RANGE",
		[REQUEST_NO_POLICY] = "NOPOLICY",
		[REQUEST_UNAVAILABLE] = "ERR",
	};

	resp_write_error(b, codes[a->error], a->message);
}

static void write_verdict(struct buf *b, const struct answer *a)
{
	char reason[80];
	size_t len = answer_reason(a, reason);

	resp_write_int(b, a->allowed);
	resp_write_int(b, (int64_t)a->remaining);
	resp_write_int(b, (int64_t)a->limit);
	resp_write_int(b, a->retry_after_ms);
	resp_write_int(b, a->reset_after_ms);
	resp_write_bulk(b, (struct slice){reason, len});
}

static void write_bulk_or_null(struct buf *b, struct slice bytes, int version)
{
	if (bytes.len > 0)
		resp_write_bulk(b, bytes);
	else
		resp_write_null(b, version);
}

static int64_t seconds_up(int64_t ms)
{
	return ms < 0 ? -1 : (int64_t)ratelimit_seconds(ms);
}

/* Quantity 0 is a look: nothing was asked for, so nothing was refused (as redis-cell has it). */
static void write_throttle(struct buf *b, const struct request *r)
{
	const struct answer *a = &r->answer;
	bool limited = !a->allowed && r->throttle.quantity > 0;

	resp_write_array(b, 5);
	resp_write_int(b, limited);
	resp_write_int(b, (int64_t)a->limit);
	resp_write_int(b, (int64_t)a->remaining);
	resp_write_int(b, limited ? seconds_up(a->retry_after_ms) : -1);
	resp_write_int(b, seconds_up(a->reset_after_ms));
}

/* Writes the answer of a request that is done. */
static void reply_write(struct buf *b, const struct request *r, enum reply_shape shape, int version)
{
	const struct answer *a = &r->answer;

	if (a->error != REQUEST_NO_ERROR) {
		write_error(b, a);
		return;
	}
	switch (shape) {
	case REPLY_TAKE:
		resp_write_array(b, r->want_receipt ? 7 : 6);
		write_verdict(b, a);
		if (r->want_receipt)
			write_bulk_or_null(b, a->receipt, version);
		break;
	case REPLY_ACQUIRE:
		resp_write_array(b, 8);
		write_verdict(b, a);
		write_bulk_or_null(b, a->permit, version);
		if (a->permit.len > 0)
			resp_write_int(b, a->hold_ms);
		else
			resp_write_null(b, version);
		break;
	case REPLY_AMOUNT:
		resp_write_int(b, a->amount);
		break;
	case REPLY_THROTTLE:
		write_throttle(b, r);
		break;
	case REPLY_OK:
		resp_write_simple(b, "OK");
		break;
	}
}

/* ---- The ring ---- */

static struct reply_slot *slot_at(struct resp_session *s, uint32_t i)
{
	return &s->slots[(s->first + i) & (s->cap - 1)];
}

static bool ring_grow(struct resp_session *s)
{
	uint32_t cap = s->cap == 0 ? SLOTS_FIRST : s->cap * 2;
	struct reply_slot *slots = malloc(cap * sizeof *slots);

	if (slots == NULL)
		return false;
	for (uint32_t i = 0; i < s->n_slots; i++)
		slots[i] = *slot_at(s, i);
	free(s->slots);
	s->slots = slots;
	s->cap = cap;
	s->first = 0;
	return true;
}

/* NULL: out of memory; the connection is closed, since a reply would be missing. */
static struct reply_slot *ring_push(struct resp_session *s)
{
	if (s->n_slots == s->cap && !ring_grow(s)) {
		conn_close(s->conn);
		return NULL;
	}
	return slot_at(s, s->n_slots++);
}

static void ring_pop(struct resp_session *s)
{
	s->first = (s->first + 1) & (s->cap - 1);
	s->n_slots--;
}

static void count_held(struct resp_session *s)
{
	s->conn->held_bytes = s->held.len - s->held_at;
}

/* Nothing is in progress: the memory that a burst has left goes back. */
static void ring_is_empty(struct resp_session *s)
{
	s->held_at = 0;
	if (s->held.cap > HELD_KEPT_BYTES)
		buf_release(&s->held);
	else
		buf_clear(&s->held);
	if (s->cap > SLOTS_KEPT) {
		free(s->slots);
		s->slots = NULL;
		s->cap = 0;
	}
}

static bool is_done(const struct request *r)
{
	return r->owner == NULL;
}

static bool slot_is_ready(const struct reply_slot *slot)
{
	if (slot->later != NULL)
		return slot->later->said;
	return slot->request == NULL || is_done(slot->request);
}

static void later_free(struct reply_later *later)
{
	buf_release(&later->text);
	free(later);
}

static void write_later(struct resp_session *s, struct buf *out, const struct reply_slot *slot)
{
	if (buf_failed(&slot->later->text))
		resp_write_error(out, "ERR", kova_status_text(KOVA_ENOMEM));
	else if (slot->later->raw)
		buf_add_slice(out, buf_slice(&slot->later->text));
	else
		resp_write_verbatim(out, slot->version, buf_slice(&slot->later->text));
	later_free(slot->later);
	s->n_later--;
	conn_request_ended(s->conn);
}

/* Writes what is next in order. */
static void drain(struct resp_session *s)
{
	struct buf *out;

	if (s->n_slots == 0 || !slot_is_ready(slot_at(s, 0)))
		return;
	out = conn_out(s->conn);
	while (s->n_slots > 0 && slot_is_ready(slot_at(s, 0))) {
		struct reply_slot *slot = slot_at(s, 0);

		if (slot->request != NULL) {
			reply_write(out, slot->request, slot->shape, slot->version);
			request_free(slot->request);
			conn_request_ended(s->conn);
		} else if (slot->later != NULL) {
			write_later(s, out, slot);
		} else {
			buf_add(out, s->held.ptr + s->held_at, slot->held_len);
			s->held_at += slot->held_len;
		}
		ring_pop(s);
	}
	if (s->n_slots == 0)
		ring_is_empty(s);
	count_held(s);
}

static void on_request_done(struct request *r)
{
	struct resp_session *s = r->owner;

	r->owner = NULL;
	trace_end(r->trace);
	r->trace = NULL;
	ops_observe(&conn_agent(s->conn)->ops, OPS_RESP, r->begun_us);
	if (!s->executing)
		drain(s);
}

static void abandon_later(struct resp_session *s, struct reply_later *later)
{
	later->session = NULL;
	if (!later->said && later->on_abandoned != NULL)
		later->on_abandoned(later);
	if (later->said || later->on_abandoned != NULL)
		later_free(later);
	s->n_later--;
	conn_request_ended(s->conn);
}

static void slot_abandon(struct resp_session *s, struct reply_slot *slot)
{
	struct trace *trace = slot->request != NULL ? slot->request->trace : NULL;

	if (slot->later != NULL)
		abandon_later(s, slot->later);
	if (slot->request == NULL)
		return;
	if (is_done(slot->request))
		request_free(slot->request);
	else
		request_abandon(slot->request);
	trace_end(trace);
	conn_request_ended(s->conn);
}

/*
 * Drops the slots from `from` on, with what they hold. A waiter that leaves lets others go ahead,
 * and some may be this session's: nothing is drained until the ring is in order again.
 */
static void ring_cut(struct resp_session *s, uint32_t from)
{
	bool executing = s->executing;

	s->executing = true;
	for (uint32_t i = from; i < s->n_slots; i++) {
		struct reply_slot *slot = slot_at(s, i);

		s->held.len -= slot->held_len;
		slot_abandon(s, slot);
	}
	s->n_slots = from;
	count_held(s);
	s->executing = executing;
}

void session_abandon_waiting(struct resp_session *s)
{
	for (uint32_t i = 0; i < s->n_slots; i++) {
		const struct reply_slot *slot = slot_at(s, i);
		const struct request *r = slot->request;
		bool waits = slot->later != NULL && !slot->later->said && slot->later->waits;

		if (waits || (r != NULL && !is_done(r) && r->wait_ms > 0)) {
			ring_cut(s, i);
			break;
		}
	}
	drain(s);
}

void session_release(struct resp_session *s)
{
	ring_cut(s, 0);
	free(s->slots);
	buf_release(&s->held);
}

/* ---- Around a command ---- */

void session_begin(struct resp_session *s)
{
	s->executing = true;
	s->reply = s->n_slots == 0 ? conn_out(s->conn) : &s->held;
}

/* Gives the bytes that the command has added to `held` their place in the order. */
static void place_held(struct resp_session *s, size_t len)
{
	struct reply_slot *slot = s->n_slots == 0 ? NULL : slot_at(s, s->n_slots - 1);

	if (slot == NULL || slot->request != NULL || slot->later != NULL)
		slot = ring_push(s);
	else
		len += slot->held_len;
	if (slot != NULL)
		*slot = (struct reply_slot){.held_len = (uint32_t)len};
}

void session_commit(struct resp_session *s)
{
	if (s->reply == &s->held) {
		size_t placed = s->held_at + s->conn->held_bytes;

		if (buf_failed(&s->held))
			conn_close(s->conn);
		else if (s->held.len > placed)
			place_held(s, s->held.len - placed);
	}
	s->reply = NULL;
	s->executing = false;
	count_held(s);
	drain(s);
}

static const char *const span_names[] = {
	[REQUEST_TAKE] = "kova.take",         [REQUEST_PEEK] = "kova.peek",
	[REQUEST_REFUND] = "kova.refund",     [REQUEST_ACQUIRE] = "kova.acquire",
	[REQUEST_RELEASE] = "kova.release",   [REQUEST_RENEW] = "kova.renew",
	[REQUEST_THROTTLE] = "kova.throttle", [REQUEST_FEEDBACK] = "kova.feedback",
};

struct trace *session_trace(const struct resp_session *s, const char *name)
{
	struct trace *trace = trace_begin(conn_agent(s->conn), name, NULL);

	if (trace != NULL)
		span_set_text(trace_call(trace), "network.protocol.name", SLICE("resp"));
	return trace;
}

void session_decide(struct resp_session *s, struct request *request, enum reply_shape shape)
{
	struct reply_slot *slot = ring_push(s);

	if (slot == NULL) {
		request_free(request);
		return;
	}
	*slot = (struct reply_slot){
		.request = request, .shape = (uint8_t)shape, .version = s->version};
	request->owner = s;
	request->on_done = on_request_done;
	request->begun_us = ops_now_us(&conn_agent(s->conn)->ops);
	if (conn_agent(s->conn)->tracer != NULL)
		request->trace = session_trace(s, span_names[request->kind]);
	conn_request_begins(s->conn);
	decide(conn_agent(s->conn)->engine, request);
}

struct reply_later *session_later(struct resp_session *s)
{
	struct reply_later *later = calloc(1, sizeof *later);
	struct reply_slot *slot;

	if (later == NULL) {
		session_error(s, "ERR", "%s", kova_status_text(KOVA_ENOMEM));
		return NULL;
	}
	slot = ring_push(s);
	if (slot == NULL) {
		free(later);
		return NULL;
	}
	*slot = (struct reply_slot){.later = later, .version = s->version};
	later->version = s->version;
	later->session = s;
	s->n_later++;
	conn_request_begins(s->conn);
	return later;
}

void session_said(struct reply_later *later)
{
	struct resp_session *s = later->session;

	if (s == NULL) {
		later_free(later);
		return;
	}
	later->said = true;
	if (!s->executing)
		drain(s);
}

/* ---- Texts ---- */

struct quoted session_quote(struct slice bytes)
{
	struct quoted q;
	size_t n = bytes.len < 64 ? bytes.len : 64;

	for (size_t i = 0; i < n; i++)
		q.text[i] = bytes.ptr[i] >= ' ' && bytes.ptr[i] <= '~' ? bytes.ptr[i] : '?';
	memcpy(q.text + n, bytes.len > n ? "..." : "", bytes.len > n ? 4 : 1);
	return q;
}

void session_error(struct resp_session *s, const char *code, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	resp_write_error(s->reply, code, text);
}

void session_ok(struct resp_session *s)
{
	resp_write_simple(s->reply, "OK");
}
