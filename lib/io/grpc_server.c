/*
 * A call's way: its headers come (on_begin_headers, on_header), they are whole (begin), its message comes in pieces
 * (on_data) and the client ends (half_close), the front answers (grpc_call_message, grpc_call_end), nghttp2 fetches the
 * answer as the client's windows let it (read_out), the stream closes, and the call is freed. A streaming client that does
 * not fetch its answers is handed over no further (may_hand_over) until it does (hand_over_waiting). Its bytes are read
 * all the same: what opens its windows comes in them.
 *
 * What may go wrong: the headers say something that can't be served, and the call is refused before the front hears of
 * it; a message is too large, compressed or not whole; the client resets the stream, or is gone: the front hears that the
 * call has ended. What is wrong with HTTP/2 itself nghttp2 answers with GOAWAY; then nothing is read or written any more,
 * and the front is told to finish. Every begun call ends in ended(), exactly once.
 */
#include "io/grpc_server.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "core/grpc_text.h"
#include "io/h2_memory.h"

enum {
	PREFIX_BYTES = 5,    /* of a message: whether it is compressed, and its length */
	FIELD_OVERHEAD = 32, /* RFC 9113 §6.5.2 */
	CALM_PER_MS = 10,    /* so long until one more frame is allowed */
	BUFFER_KEPT_BYTES = 4096,
	HTTP_OK = 200,
	METHOD_NOT_ALLOWED = 405,
	UNSUPPORTED_MEDIA_TYPE = 415,
};

struct grpc_server {
	const struct grpc_server_ops *ops;
	void *data;
	struct h2_memory *memory;              /* the session's */
	nghttp2_session *its_session;          /* by session_of() only: its memory may be folded */
	struct grpc_server_counters *counters; /* borrowed */
	struct grpc_call *calls;               /* list */
	size_t partial;                        /* bytes of messages that were not handed over */
	size_t queued;                         /* bytes of all calls' `out` */
	struct buf spare[2];                   /* for the `in` and `out` of calls to come */
	uint64_t now_ms, calm_ms;              /* of the last input; `calm` was counted to */
	unsigned pings;                        /* sent, and not answered yet */
	int calm;                              /* frames that ask for nothing and are allowed yet */
	bool feeding, flushing, begun, left, finished;
};

struct grpc_call {
	struct grpc_server *server;
	struct grpc_call *prev, *next;
	int32_t id;
	unsigned method;
	bool client_streams, stays;
	bool begun;       /* on_begin came: on_ended is owed */
	bool ended;       /* there is a status, or the stream is gone */
	bool half_closed; /* the client has ended */
	bool responded;   /* our headers are on their way */
	bool is_post, has_type, is_found, is_encoded, has_bad_timeout, is_too_large;
	enum grpc_status status;
	size_t header_bytes;
	uint64_t receive_by_ms, deadline_ms; /* 0: none */
	struct buf in;                       /* received and not handed over */
	struct buf out;                      /* messages with their prefixes ... */
	size_t sent;                         /* ... of which so much was fetched */
	struct buf text;                     /* grpc-message */
	max_align_t extra[];
};

static void count(uint64_t *counter)
{
	++*counter;
}

#define COUNT_IN(s, which)                            \
	do {                                          \
		if ((s)->counters != NULL)            \
			count(&(s)->counters->which); \
	} while (0)

static nghttp2_session *session_of(struct grpc_server *s)
{
	h2_memory_unfold(s->memory);
	return s->its_session;
}

/* ---- Buffers of calls: those that are done with leave theirs to the next ---- */

static void buffer_take(struct grpc_server *s, struct buf *b)
{
	for (int i = 0; i < 2 && b->ptr == NULL; i++) {
		*b = s->spare[i];
		s->spare[i] = (struct buf){0};
	}
}

static void buffer_leave(struct grpc_server *s, struct buf *b)
{
	for (int i = 0; i < 2 && b->ptr != NULL && b->cap <= BUFFER_KEPT_BYTES; i++)
		if (s->spare[i].ptr == NULL) {
			buf_clear(b);
			s->spare[i] = *b;
			*b = (struct buf){0};
		}
	buf_release(b);
}

/* ---- The end of a call ---- */

static void ended(struct grpc_call *c)
{
	if (c->begun && !c->ended) {
		c->ended = true;
		c->server->ops->on_ended(c);
	}
	c->ended = true;
}

static void call_free(struct grpc_call *c)
{
	struct grpc_server *s = c->server;

	ended(c);
	s->partial -= c->in.len;
	s->queued -= c->out.len;
	*(c->prev != NULL ? &c->prev->next : &s->calls) = c->next;
	if (c->next != NULL)
		c->next->prev = c->prev;
	buffer_leave(s, &c->in);
	buffer_leave(s, &c->out);
	buf_release(&c->text);
	free(c);
}

/* ---- Output ---- */

#define NV(name_, value_)                                                                         \
	{                                                                                         \
		(uint8_t *)(uintptr_t)(name_), (uint8_t *)(uintptr_t)(value_), sizeof(name_) - 1, \
			sizeof(value_) - 1,                                                       \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE              \
	}

static nghttp2_nv nv_of(struct slice name, struct slice value)
{
	return (nghttp2_nv){(uint8_t *)(uintptr_t)name.ptr, (uint8_t *)(uintptr_t)value.ptr,
			    name.len, value.len, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* grpc-status and, if there is one, grpc-message; returns how many. */
static size_t add_trailers(const struct grpc_call *c, char number[static 4], nghttp2_nv *nv)
{
	unsigned status = (unsigned)c->status;
	size_t digits = 0;

	if (status >= 10)
		number[digits++] = (char)('0' + status / 10);
	number[digits++] = (char)('0' + status % 10);
	nv[0] = nv_of(SLICE("grpc-status"), (struct slice){number, digits});
	if (c->text.len == 0)
		return 1;
	nv[1] = nv_of(SLICE("grpc-message"), buf_slice(&c->text));
	return 2;
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *bytes, size_t len,
			uint32_t *ret_flags, nghttp2_data_source *source, void *user_data)
{
	struct grpc_call *c = source->ptr;
	size_t left = c->out.len - c->sent;
	size_t n = left < len ? left : len;
	nghttp2_nv nv[2];
	char number[4];

	(void)user_data;
	if (n > 0)
		memcpy(bytes, c->out.ptr + c->sent, n);
	c->sent += n;
	if (c->sent == c->out.len) {
		c->server->queued -= c->out.len;
		buffer_leave(c->server, &c->out);
		c->sent = 0;
		if (!c->ended)
			return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
		*ret_flags = NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (nghttp2_submit_trailer(session, id, nv, add_trailers(c, number, nv)) != 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)n;
}

/* Headers and, when they come, messages and trailers. */
static void respond(struct grpc_call *c)
{
	static const nghttp2_nv nv[] = {NV(":status", "200"),
					NV("content-type", "application/grpc")};
	nghttp2_data_provider from = {.source = {.ptr = c}, .read_callback = read_out};

	if (c->responded) {
		(void)nghttp2_session_resume_data(session_of(c->server), c->id);
		return;
	}
	c->responded = true;
	if (nghttp2_submit_response(session_of(c->server), c->id, nv, sizeof nv / sizeof nv[0],
				    &from) != 0)
		(void)nghttp2_submit_rst_stream(session_of(c->server), NGHTTP2_FLAG_NONE, c->id,
						NGHTTP2_INTERNAL_ERROR);
}

/* All of it in one HEADERS frame. */
static void respond_with_trailers(struct grpc_call *c)
{
	nghttp2_nv nv[5] = {NV(":status", "200"), NV("content-type", "application/grpc")};
	static const nghttp2_nv accept = NV("grpc-accept-encoding", "identity");
	char number[4];
	size_t n = 2 + add_trailers(c, number, &nv[2]);

	if (c->is_encoded)
		nv[n++] = accept;
	c->responded = true;
	if (nghttp2_submit_response(session_of(c->server), c->id, nv, n, NULL) != 0)
		(void)nghttp2_submit_rst_stream(session_of(c->server), NGHTTP2_FLAG_NONE, c->id,
						NGHTTP2_INTERNAL_ERROR);
}

/* It is no gRPC: an answer of HTTP. */
static void respond_http(struct grpc_call *c, unsigned status)
{
	char number[3] = {(char)('0' + status / 100), (char)('0' + status / 10 % 10),
			  (char)('0' + status % 10)};
	nghttp2_nv nv = nv_of(SLICE(":status"), (struct slice){number, sizeof number});

	c->ended = c->responded = true;
	if (nghttp2_submit_response(session_of(c->server), c->id, &nv, 1, NULL) != 0)
		(void)nghttp2_submit_rst_stream(session_of(c->server), NGHTTP2_FLAG_NONE, c->id,
						NGHTTP2_INTERNAL_ERROR);
}

char *grpc_call_message(struct grpc_call *c, size_t len)
{
	char *at;

	assert(!c->ended && len <= INT32_MAX);
	buffer_take(c->server, &c->out);
	at = buf_reserve(&c->out, PREFIX_BYTES + len);
	if (at == NULL)
		return NULL;
	at[0] = 0;
	for (int i = 0; i < 4; i++)
		at[1 + i] = (char)(len >> (24 - 8 * i));
	c->out.len += PREFIX_BYTES + len;
	c->server->queued += PREFIX_BYTES + len;
	respond(c);
	return at + PREFIX_BYTES;
}

size_t grpc_call_queued(const struct grpc_call *c)
{
	return c->out.len - c->sent;
}

void grpc_call_end(struct grpc_call *c, enum grpc_status status, const char *text)
{
	assert(!c->ended);
	c->status = status;
	if (text != NULL)
		grpc_message_write(&c->text, slice_of(text));
	if (c->server->calm < GRPC_CALM)
		c->server->calm++;
	c->server->partial -= c->in.len;
	buffer_leave(c->server, &c->in);
	ended(c);
	if (c->responded)
		respond(c);
	else
		respond_with_trailers(c);
}

static void finish(struct grpc_server *s)
{
	if (s->finished)
		return;
	s->finished = true;
	s->ops->on_finished(s->data);
}

/* A client that is still sending is told that nobody reads it. */
static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)user_data;
	if ((frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA) &&
	    (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0 && c != NULL && !c->half_closed)
		return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, c->id,
						 NGHTTP2_NO_ERROR);
	return 0;
}

/* ---- Frames that ask for nothing ---- */

static void disturbed(struct grpc_server *s)
{
	uint64_t more = (s->now_ms - s->calm_ms) / CALM_PER_MS;

	s->calm_ms += more * CALM_PER_MS;
	s->calm = more > (uint64_t)(GRPC_CALM - s->calm) ? GRPC_CALM : s->calm + (int)more;
	if (--s->calm > 0)
		return;
	COUNT_IN(s, floods);
	(void)nghttp2_session_terminate_session(session_of(s), NGHTTP2_ENHANCE_YOUR_CALM);
}

/* ---- Headers ---- */

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_server *s = user_data;
	struct grpc_call *c;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	c = calloc(1, sizeof *c + s->ops->extra_bytes);
	if (c == NULL)
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	c->server = s;
	c->id = frame->hd.stream_id;
	c->next = s->calls;
	if (s->calls != NULL)
		s->calls->prev = c;
	s->calls = c;
	return nghttp2_session_set_stream_user_data(session, c->id, c);
}

static void hear_timeout(struct grpc_call *c, struct slice value)
{
	uint64_t ms;

	if (grpc_timeout_parse(value, &ms) != KOVA_OK)
		c->has_bad_timeout = true;
	else
		c->deadline_ms = c->server->now_ms + (ms > 0 ? ms : 1);
}

static void hear_field(struct grpc_call *c, struct slice name, struct slice value)
{
	struct grpc_server *s = c->server;

	if (slice_equal(name, SLICE(":path")))
		c->is_found = s->ops->find(s->data, value, &c->method, &c->client_streams);
	else if (slice_equal(name, SLICE(":method")))
		c->is_post = slice_equal(value, SLICE("POST"));
	else if (slice_equal(name, SLICE("content-type")))
		c->has_type = grpc_content_type_fits(value);
	else if (slice_equal(name, SLICE("grpc-encoding")))
		c->is_encoded = !slice_equal(value, SLICE("identity"));
	else if (slice_equal(name, SLICE("grpc-timeout")))
		hear_timeout(c, value);
	else if (slice_equal(name, SLICE("authorization")))
		s->ops->on_authorization(c, value);
	else if (slice_equal(name, SLICE("traceparent")) || slice_equal(name, SLICE("tracestate")))
		s->ops->on_trace_field(c, name, value);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *user_data)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

	(void)flags;
	(void)user_data;
	if (c == NULL || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	c->header_bytes += name_len + value_len + FIELD_OVERHEAD;
	if (c->header_bytes > GRPC_HEADERS_MAX)
		c->is_too_large = true;
	else
		hear_field(c, (struct slice){(const char *)name, name_len},
			   (struct slice){(const char *)value, value_len});
	return 0;
}

static void begin(struct grpc_call *c)
{
	struct grpc_server *s = c->server;

	c->receive_by_ms = s->now_ms + GRPC_RECEIVE_MS;
	if (c->is_too_large) {
		COUNT_IN(s, too_large);
		grpc_call_end(c, GRPC_RESOURCE_EXHAUSTED, "metadata must be at most 16 KiB");
	} else if (!c->is_post) {
		respond_http(c, METHOD_NOT_ALLOWED);
	} else if (!c->has_type) {
		respond_http(c, UNSUPPORTED_MEDIA_TYPE);
	} else if (!c->is_found) {
		grpc_call_end(c, GRPC_UNIMPLEMENTED, "there is no such method");
	} else if (c->is_encoded) {
		grpc_call_end(c, GRPC_UNIMPLEMENTED, "messages must not be compressed");
	} else if (c->has_bad_timeout) {
		grpc_call_end(c, GRPC_INTERNAL, "grpc-timeout must be 1 to 8 digits and a unit");
	} else {
		c->begun = true;
		s->ops->on_begin(c);
	}
}

/* ---- Messages ---- */

static uint32_t length_of(const char *prefix)
{
	uint32_t len = 0;

	for (int i = 1; i < PREFIX_BYTES; i++)
		len = len << 8 | (unsigned char)prefix[i];
	return len;
}

/* Whether the message that `in` begins with can be one; else the call is ended. */
static bool prefix_fits(struct grpc_call *c, struct slice in)
{
	if (in.len < PREFIX_BYTES)
		return true;
	if (in.ptr[0] != 0) {
		grpc_call_end(
			c, GRPC_INTERNAL,
			"a message says that it is compressed, and no grpc-encoding says how");
		return false;
	}
	if (length_of(in.ptr) <= GRPC_MESSAGE_MAX)
		return true;
	COUNT_IN(c->server, too_large);
	grpc_call_end(c, GRPC_RESOURCE_EXHAUSTED, "a message must be at most 64 KiB");
	return false;
}

/* How many bytes of `in` are a whole message with its prefix; 0: there is none yet. */
static size_t whole_message(struct slice in)
{
	size_t need = in.len < PREFIX_BYTES ? 0 : PREFIX_BYTES + length_of(in.ptr);

	return need <= in.len ? need : 0;
}

/* Whether what a streaming client asks for now may be answered, or must wait until earlier answers are fetched. */
static bool may_hand_over(const struct grpc_server *s)
{
	return s->queued + s->ops->out(s->data)->len < GRPC_QUEUED_MAX;
}

/* The messages of a streaming client that are whole and may be answered, and its end behind the last. */
static void hand_over(struct grpc_call *c)
{
	struct grpc_server *s = c->server;
	struct buf in = c->in; /* the front may end the call, which empties `in` */
	struct slice rest = buf_slice(&in);
	size_t whole;

	s->partial -= in.len;
	c->in = (struct buf){0};
	while (!c->ended && (whole = whole_message(rest)) > 0 && may_hand_over(s)) {
		s->ops->on_message(c, slice_after((struct slice){rest.ptr, whole}, PREFIX_BYTES));
		rest = slice_after(rest, whole);
		if (!c->ended)
			(void)prefix_fits(c, rest);
	}
	if (!c->ended && c->half_closed && whole_message(rest) == 0) {
		if (rest.len > 0)
			grpc_call_end(c, GRPC_INTERNAL, "the last message is not whole");
		else
			s->ops->on_half_closed(c);
	}
	if (c->ended || rest.len == 0) {
		buf_release(&in);
		return;
	}
	buf_consume(&in, in.len - rest.len);
	s->partial += in.len;
	c->in = in;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
		   size_t len, void *user_data)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, id);
	struct grpc_server *s = user_data;

	(void)flags;
	if (c == NULL || c->ended)
		return 0;
	buffer_take(s, &c->in);
	buf_add(&c->in, bytes, len);
	if (buf_failed(&c->in)) {
		buf_release(&c->in);
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	s->partial += len;
	if (s->partial > GRPC_PARTIAL_MAX) {
		COUNT_IN(s, too_large);
		grpc_call_end(c, GRPC_RESOURCE_EXHAUSTED,
			      "too much of this connection's messages is on its way");
	} else if (prefix_fits(c, buf_slice(&c->in)) && c->client_streams) {
		hand_over(c);
	}
	return 0;
}

/* The one message that a call has. */
static void hand_over_only(struct grpc_call *c)
{
	size_t whole = whole_message(buf_slice(&c->in));
	struct grpc_server *s = c->server;
	struct buf in = c->in; /* the front may end the call, which empties `in` */

	if (whole == 0 || whole != c->in.len) {
		grpc_call_end(c, GRPC_UNIMPLEMENTED,
			      "this method takes one whole message, no fewer and no more");
		return;
	}
	s->partial -= in.len;
	c->in = (struct buf){0};
	s->ops->on_message(c, slice_after(buf_slice(&in), PREFIX_BYTES));
	buffer_leave(s, &in);
}

static void half_close(struct grpc_call *c)
{
	c->half_closed = true;
	c->receive_by_ms = 0;
	if (c->ended)
		return;
	if (c->client_streams)
		hand_over(c);
	else
		hand_over_only(c);
}

/* Messages that have waited for answers to be fetched. False: there are none that may be handed over. */
static bool hand_over_waiting(struct grpc_server *s)
{
	bool found = false;

	if (s->partial == 0)
		return false;
	for (struct grpc_call *c = s->calls; c != NULL && may_hand_over(s); c = c->next)
		if (!c->ended && c->client_streams && whole_message(buf_slice(&c->in)) > 0) {
			hand_over(c);
			found = true;
		}
	return found;
}

void grpc_server_flush(struct grpc_server *s)
{
	const uint8_t *bytes;
	ssize_t n;

	if (s->feeding || s->flushing || s->finished)
		return;
	s->flushing = true;
	do {
		while ((n = nghttp2_session_mem_send(session_of(s), &bytes)) > 0)
			buf_add(s->ops->out(s->data), bytes, (size_t)n);
	} while (n == 0 && hand_over_waiting(s));
	s->flushing = false;
	if (n < 0 || (nghttp2_session_want_read(session_of(s)) == 0 &&
		      nghttp2_session_want_write(session_of(s)) == 0))
		finish(s);
}

static int on_frame_received(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
{
	struct grpc_server *s = user_data;
	struct grpc_call *c = NULL;
	bool ends = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
		if (c != NULL && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
			begin(c);
		break;
	case NGHTTP2_DATA:
		c = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
		if (frame->hd.length == 0 && !ends)
			disturbed(s);
		break;
	case NGHTTP2_SETTINGS:
		s->begun = true;
		if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
			disturbed(s);
		return 0;
	case NGHTTP2_PING:
		if ((frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
			disturbed(s);
		else if (s->pings > 0)
			s->pings--;
		return 0;
	case NGHTTP2_RST_STREAM:
	case NGHTTP2_PRIORITY:
		disturbed(s);
		return 0;
	default:
		return 0;
	}
	if (c != NULL && ends)
		half_close(c);
	return 0;
}

static int on_stream_closed(nghttp2_session *session, int32_t id, uint32_t error, void *user_data)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, id);

	(void)error;
	(void)user_data;
	if (c != NULL)
		call_free(c);
	return 0;
}

/* ---- The server ---- */

static bool make_session(struct grpc_server *s)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_option *option = NULL;
	nghttp2_mem memory;
	bool made;

	s->memory = h2_memory_new();
	made = s->memory != NULL && nghttp2_session_callbacks_new(&callbacks) == 0 &&
	       nghttp2_option_new(&option) == 0;
	if (made) {
		nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks,
									on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
		nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_received);
		nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_sent);
		nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_closed);
		nghttp2_option_set_no_closed_streams(option, 1);
		memory = h2_memory_functions(s->memory);
		made = nghttp2_session_server_new3(&s->its_session, callbacks, s, option,
						   &memory) == 0;
		h2_memory_seal(s->memory);
	}
	nghttp2_session_callbacks_del(callbacks);
	nghttp2_option_del(option);
	return made;
}

struct grpc_server *grpc_server_new(const struct grpc_server_ops *ops, void *data)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, GRPC_STREAMS_MAX},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, GRPC_HEADERS_MAX},
	};
	struct grpc_server *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->ops = ops;
	s->data = data;
	s->calm = GRPC_CALM;
	if (!make_session(s) ||
	    nghttp2_submit_settings(session_of(s), NGHTTP2_FLAG_NONE, settings,
				    sizeof settings / sizeof settings[0]) != 0) {
		grpc_server_free(s);
		return NULL;
	}
	return s;
}

void grpc_server_trim(struct grpc_server *s)
{
	for (int i = 0; i < 2; i++)
		buf_release(&s->spare[i]);
}

void grpc_server_fold(struct grpc_server *s)
{
	if (s->partial == 0 && s->queued == 0)
		h2_memory_fold(s->memory);
}

void grpc_server_free(struct grpc_server *s)
{
	if (s == NULL)
		return;
	while (s->calls != NULL)
		call_free(s->calls);
	grpc_server_trim(s);
	if (s->memory != NULL)
		nghttp2_session_del(session_of(s));
	h2_memory_free(s->memory);
	free(s);
}

void grpc_server_count(struct grpc_server *s, struct grpc_server_counters *counters)
{
	s->counters = counters;
}

/* To a browser or curl, which would not understand frames. */
static void show_out(struct grpc_server *s)
{
	buf_add_slice(
		s->ops->out(s->data),
		SLICE("HTTP/1.1 400 Bad Request\r\n"
		      "Content-Type: text/plain\r\n"
		      "Connection: close\r\n"
		      "\r\n"
		      "This is gRPC (HTTP/2). HTTP/1.1 is answered on `listen.http`, by default "
		      "port 7412.\n"));
}

void grpc_server_feed(struct grpc_server *s, struct slice bytes, uint64_t now_ms)
{
	ssize_t n;

	if (s->finished)
		return;
	s->now_ms = now_ms;
	if (s->calm_ms == 0)
		s->calm_ms = now_ms;
	s->feeding = true;
	n = nghttp2_session_mem_recv(session_of(s), (const uint8_t *)bytes.ptr, bytes.len);
	s->feeding = false;
	if (n == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
		show_out(s);
	else
		grpc_server_flush(s);
	if (n < 0)
		finish(s);
}

bool grpc_server_has_begun(const struct grpc_server *s)
{
	return s->begun;
}

static bool has_passed(uint64_t deadline_ms, uint64_t now_ms)
{
	return deadline_ms != 0 && now_ms >= deadline_ms;
}

/* Why a call must end now; NULL: its time is not up. */
static const char *why_late(const struct grpc_call *c, uint64_t now_ms)
{
	if (has_passed(c->deadline_ms, now_ms))
		return "the time that the client gave is up";
	if (!c->client_streams && has_passed(c->receive_by_ms, now_ms))
		return "the message did not come in time";
	return NULL;
}

void grpc_server_sweep(struct grpc_server *s, uint64_t now_ms)
{
	for (struct grpc_call *c = s->calls; c != NULL; c = c->next) {
		const char *why = c->ended ? NULL : why_late(c, now_ms);

		if (why == NULL)
			continue;
		COUNT_IN(s, late);
		grpc_call_end(c, GRPC_DEADLINE_EXCEEDED, why);
	}
	if (!h2_memory_is_folded(s->memory)) /* a folded one has nothing to send */
		grpc_server_flush(s);
}

void grpc_server_ping(struct grpc_server *s)
{
	if (nghttp2_submit_ping(session_of(s), NGHTTP2_FLAG_NONE, NULL) == 0)
		s->pings++;
	grpc_server_flush(s);
}

bool grpc_server_awaits_pong(const struct grpc_server *s)
{
	return s->pings > 0;
}

void grpc_server_leave(struct grpc_server *s)
{
	if (s->left || s->finished)
		return;
	s->left = true;
	(void)nghttp2_submit_goaway(session_of(s), NGHTTP2_FLAG_NONE,
				    nghttp2_session_get_last_proc_stream_id(session_of(s)),
				    NGHTTP2_NO_ERROR, NULL, 0);
	s->flushing = true; /* no call is freed below, whatever the front does */
	for (struct grpc_call *c = s->calls; c != NULL; c = c->next)
		if (!c->ended && c->stays) {
			s->ops->on_leave(c);
			if (!c->ended)
				grpc_call_end(c, GRPC_UNAVAILABLE, "the agent is shutting down");
		}
	s->flushing = false;
	grpc_server_flush(s);
}

/* ---- A call, as the front sees it ---- */

void *grpc_call_data(const struct grpc_call *c)
{
	return c->server->data;
}

void *grpc_call_extra(const struct grpc_call *c)
{
	return (void *)(uintptr_t)c->extra;
}

unsigned grpc_call_method(const struct grpc_call *c)
{
	return c->method;
}

void grpc_call_stays(struct grpc_call *c)
{
	c->stays = true;
}
