#include "core/grpc_text.h"
#include "io/grpc_own.h"

enum {
	FIELD_OVERHEAD = 32, /* RFC 9113 §6.5.2 */
	METHOD_NOT_ALLOWED = 405,
	UNSUPPORTED_MEDIA_TYPE = 415,
};

/* ---- Headers ---- */

int grpc_on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user_data)
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

int grpc_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
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

void grpc_call_begin(struct grpc_call *c)
{
	struct grpc_server *s = c->server;

	c->receive_by_ms = s->now_ms + GRPC_RECEIVE_MS;
	if (c->is_too_large) {
		COUNT_IN(s, too_large);
		grpc_call_end(c, GRPC_RESOURCE_EXHAUSTED, "metadata must be at most 16 KiB");
	} else if (!c->is_post) {
		grpc_call_refuse(c, METHOD_NOT_ALLOWED);
	} else if (!c->has_type) {
		grpc_call_refuse(c, UNSUPPORTED_MEDIA_TYPE);
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

	for (int i = 1; i < GRPC_PREFIX_BYTES; i++)
		len = len << 8 | (unsigned char)prefix[i];
	return len;
}

/* Whether the message that `in` begins with can be one; else the call is ended. */
static bool prefix_fits(struct grpc_call *c, struct slice in)
{
	if (in.len < GRPC_PREFIX_BYTES)
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
	size_t need = in.len < GRPC_PREFIX_BYTES ? 0 : GRPC_PREFIX_BYTES + length_of(in.ptr);

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
		s->ops->on_message(c,
				   slice_after((struct slice){rest.ptr, whole}, GRPC_PREFIX_BYTES));
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

int grpc_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
		 size_t len, void *user_data)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, id);
	struct grpc_server *s = user_data;

	(void)flags;
	if (c == NULL || c->ended)
		return 0;
	grpc_buffer_take(s, &c->in);
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
	s->ops->on_message(c, slice_after(buf_slice(&in), GRPC_PREFIX_BYTES));
	grpc_buffer_leave(s, &in);
}

void grpc_call_half_close(struct grpc_call *c)
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

bool grpc_hand_over_waiting(struct grpc_server *s)
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
