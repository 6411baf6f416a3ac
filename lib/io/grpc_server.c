/*
 * A call's way: its headers come, they are whole (grpc_call_begin), its message comes in pieces (grpc_on_data) and the
 * client ends (grpc_call_half_close): grpc_receive.c. The front answers (grpc_call_message, grpc_call_end), nghttp2 fetches
 * the answer as the client's windows let it (read_out), the stream closes, and the call is freed: grpc_call.c. A streaming
 * client that does not fetch its answers is handed over no further (may_hand_over) until it does (grpc_hand_over_waiting).
 * Its bytes are read all the same: what opens its windows comes in them.
 *
 * What may go wrong: the headers say something that can't be served, and the call is refused before the front hears of
 * it; a message is too large, compressed or not whole; the client resets the stream, or is gone: the front hears that the
 * call has ended. What is wrong with HTTP/2 itself nghttp2 answers with GOAWAY; then nothing is read or written any more,
 * and the front is told to finish. Every begun call ends in ended(), exactly once.
 */
#include "io/grpc_own.h"

enum { CALM_PER_MS = 10 }; /* so long until one more frame is allowed */

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

/* ---- Frames ---- */

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
	} while (n == 0 && grpc_hand_over_waiting(s));
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
			grpc_call_begin(c);
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
		grpc_call_half_close(c);
	return 0;
}

static int on_stream_closed(nghttp2_session *session, int32_t id, uint32_t error, void *user_data)
{
	struct grpc_call *c = nghttp2_session_get_stream_user_data(session, id);

	(void)error;
	(void)user_data;
	if (c != NULL)
		grpc_call_free(c);
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
									grpc_on_begin_headers);
		nghttp2_session_callbacks_set_on_header_callback(callbacks, grpc_on_header);
		nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, grpc_on_data);
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
		grpc_call_free(s->calls);
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
