/*
 * gRPC as its server speaks it, without sockets: against nghttp2 as a client, in pieces of every length, and against what
 * no client of good will sends.
 */
#include <criterion/criterion.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/grpc_server.h"

enum { ECHO, STREAM, STAY, LATER };

/* The server, and what its front was told. */
static struct {
	struct grpc_server *server;
	struct grpc_server_counters counters;
	struct buf out, seen;
	struct grpc_call *later[4 * GRPC_CALM];
	unsigned n_later, begun, ended, n_fed;
	bool finished, ends_on_leave;
	uint64_t now_ms;
} t;

/* The client, and what it was answered: status, headers and messages of each stream, as text. */
static struct {
	nghttp2_session *session;
	struct buf sent; /* for the server */
	struct buf seen;
	uint32_t goaway, reset;
	bool gone;
} client;

/* ---- the front ---- */

static struct buf *out_of(void *data)
{
	cr_assert_eq(data, &t);
	return &t.out;
}

static bool find(void *data, struct slice path, unsigned *ret_method, bool *ret_client_streams)
{
	static const char *const paths[] = {[ECHO] = "/t/Echo",
					    [STREAM] = "/t/Stream",
					    [STAY] = "/t/Stay",
					    [LATER] = "/t/Later"};

	(void)data;
	for (unsigned i = 0; i < sizeof paths / sizeof paths[0]; i++)
		if (slice_equal(path, slice_of(paths[i]))) {
			*ret_method = i;
			*ret_client_streams = i == STREAM;
			return true;
		}
	return false;
}

static void on_trace_field(struct grpc_call *c, struct slice name, struct slice value)
{
	(void)c;
	(void)name;
	(void)value;
}

static void on_authorization(struct grpc_call *c, struct slice value)
{
	(void)c;
	buf_printf(&t.seen, "auth %.*s\n", (int)value.len, value.ptr);
}

static void on_begin(struct grpc_call *c)
{
	int *extra = grpc_call_extra(c);

	cr_assert_eq(*extra, 0, "not zeroed");
	*extra = 7;
	t.begun++;
	if (grpc_call_method(c) == STAY)
		grpc_call_stays(c);
}

static void echo(struct grpc_call *c, struct slice message)
{
	char *at = grpc_call_message(c, message.len);

	cr_assert_not_null(at);
	if (message.len > 0)
		memcpy(at, message.ptr, message.len);
}

static void on_message(struct grpc_call *c, struct slice message)
{
	buf_printf(&t.seen, "message %.*s\n", (int)(message.len < 40 ? message.len : 40),
		   message.ptr);
	if (grpc_call_method(c) == LATER) {
		t.later[t.n_later++] = c;
		return;
	}
	if (slice_equal(message, SLICE("fail"))) {
		grpc_call_end(c, GRPC_NOT_FOUND, "100% gone");
		return;
	}
	echo(c, message);
	if (grpc_call_method(c) == ECHO)
		grpc_call_end(c, GRPC_OK, NULL);
}

static void on_half_closed(struct grpc_call *c)
{
	grpc_call_end(c, GRPC_OK, NULL);
}

static void on_leave(struct grpc_call *c)
{
	if (t.ends_on_leave) {
		grpc_call_end(c, GRPC_RESOURCE_EXHAUSTED, "out of memory");
		grpc_server_flush(t.server);
	} else {
		echo(c, SLICE("bye"));
	}
}

static void on_ended(struct grpc_call *c)
{
	cr_assert_eq(*(int *)grpc_call_extra(c), 7);
	*(int *)grpc_call_extra(c) = 8; /* once */
	t.ended++;
	for (unsigned i = 0; i < t.n_later; i++)
		if (t.later[i] == c)
			t.later[i] = NULL;
}

static void on_finished(void *data)
{
	(void)data;
	cr_assert_not(t.finished);
	t.finished = true;
}

static const struct grpc_server_ops ops = {
	.extra_bytes = sizeof(int),
	.out = out_of,
	.find = find,
	.on_authorization = on_authorization,
	.on_trace_field = on_trace_field,
	.on_begin = on_begin,
	.on_message = on_message,
	.on_half_closed = on_half_closed,
	.on_leave = on_leave,
	.on_ended = on_ended,
	.on_finished = on_finished,
};

/* ---- the client ---- */

static int on_header(nghttp2_session *s, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *data)
{
	(void)s;
	(void)flags;
	(void)data;
	buf_printf(&client.seen, "%d %.*s=%.*s\n", (int)frame->hd.stream_id, (int)name_len,
		   (const char *)name, (int)value_len, (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t id, const uint8_t *bytes, size_t len,
		   void *data)
{
	(void)s;
	(void)flags;
	(void)data;
	buf_printf(&client.seen, "%d data ", (int)id);
	for (size_t i = 0; i < len; i++)
		buf_printf(&client.seen, bytes[i] >= ' ' && bytes[i] <= '~' ? "%c" : "<%02x>",
			   bytes[i]);
	buf_add_text(&client.seen, "\n");
	return 0;
}

static int on_frame(nghttp2_session *s, const nghttp2_frame *frame, void *data)
{
	(void)s;
	(void)data;
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		client.gone = true;
		client.goaway = frame->goaway.error_code;
	}
	if (frame->hd.type == NGHTTP2_RST_STREAM)
		client.reset = frame->rst_stream.error_code;
	return 0;
}

static void start(void)
{
	nghttp2_session_callbacks *callbacks;

	memset(&t, 0, sizeof t);
	memset(&client, 0, sizeof client);
	t.now_ms = 1000000;
	t.server = grpc_server_new(&ops, &t);
	cr_assert_not_null(t.server);
	grpc_server_count(t.server, &t.counters);
	cr_assert_eq(nghttp2_session_callbacks_new(&callbacks), 0);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	cr_assert_eq(nghttp2_session_client_new(&client.session, callbacks, NULL), 0);
	nghttp2_session_callbacks_del(callbacks);
	cr_assert_eq(nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, NULL, 0), 0);
}

static void end(void)
{
	grpc_server_free(t.server);
	nghttp2_session_del(client.session);
	cr_expect_eq(t.begun, t.ended);
	buf_release(&t.out);
	buf_release(&t.seen);
	buf_release(&client.sent);
	buf_release(&client.seen);
}

TestSuite(grpc_server, .init = start, .fini = end);

/* What the client has to say, as bytes. */
static void client_writes(void)
{
	const uint8_t *bytes;
	ssize_t n;

	while ((n = nghttp2_session_mem_send(client.session, &bytes)) > 0)
		buf_add(&client.sent, bytes, (size_t)n);
	cr_assert_eq(n, 0);
}

static void client_reads(void)
{
	cr_assert_eq(
		nghttp2_session_mem_recv(client.session, (const uint8_t *)t.out.ptr, t.out.len),
		(ssize_t)t.out.len);
	buf_clear(&t.out);
}

/* What an idle session holds is folded before every second piece: nothing of it may be lost. */
static void feed(struct slice bytes)
{
	if (t.n_fed++ % 2 == 1)
		grpc_server_fold(t.server);
	grpc_server_feed(t.server, bytes, t.now_ms);
}

/* Until nobody has anything to say. */
static void talk(void)
{
	for (;;) {
		client_writes();
		if (client.sent.len == 0 && t.out.len == 0)
			return;
		feed(buf_slice(&client.sent));
		buf_clear(&client.sent);
		client_reads();
	}
}

struct body {
	char bytes[200000];
	size_t len, at;
	bool open; /* the client does not end */
};
static struct body body;

static ssize_t read_body(nghttp2_session *s, int32_t id, uint8_t *buf, size_t len,
			 uint32_t *ret_flags, nghttp2_data_source *source, void *data)
{
	size_t left = body.len - body.at, n = left < len ? left : len;

	(void)s;
	(void)id;
	(void)source;
	(void)data;
	memcpy(buf, body.bytes + body.at, n);
	body.at += n;
	if (body.at == body.len && !body.open)
		*ret_flags = NGHTTP2_DATA_FLAG_EOF;
	return n > 0 || !body.open ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

/* Adds a message with its prefix. */
static void add_message(unsigned char compressed, uint32_t len, const char *text)
{
	char *at = body.bytes + body.len;

	at[0] = (char)compressed;
	for (int i = 0; i < 4; i++)
		at[1 + i] = (char)(len >> (24 - 8 * i));
	memcpy(at + 5, text, strlen(text));
	body.len += 5 + strlen(text);
}

#define FIELD(name, value)                                                                 \
	(nghttp2_nv)                                                                       \
	{                                                                                  \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), \
			strlen(value), NGHTTP2_NV_FLAG_NONE                                \
	}

/* A call with one more field (NULL: none). */
static int32_t call_with(const char *method, const char *path, const char *type, const char *name,
			 const char *value)
{
	nghttp2_nv nv[] = {FIELD(":method", method),
			   FIELD(":scheme", "http"),
			   FIELD(":path", path),
			   FIELD(":authority", "t"),
			   FIELD("te", "trailers"),
			   FIELD("content-type", type),
			   FIELD(name != NULL ? name : "x", name != NULL ? value : "")};
	nghttp2_data_provider from = {.read_callback = read_body};

	return nghttp2_submit_request(client.session, NULL, nv, sizeof nv / sizeof nv[0], &from,
				      NULL);
}

static int32_t call(const char *path)
{
	return call_with("POST", path, "application/grpc", NULL, NULL);
}

static void say(const char *text)
{
	body.len = body.at = 0;
	body.open = false;
	add_message(0, (uint32_t)strlen(text), text);
}

static void expect_seen(const char *text)
{
	buf_add(&client.seen, "", 1);
	cr_expect_str_eq(client.seen.ptr, text);
	buf_clear(&client.seen);
}

static void expect_status(const char *status)
{
	char line[32];

	snprintf(line, sizeof line, "grpc-status=%s\n", status);
	buf_add(&client.seen, "", 1);
	cr_expect_not_null(strstr(client.seen.ptr, line), "%s", client.seen.ptr);
	buf_clear(&client.seen);
}

#define HEADERS(id) id " :status=200\n" id " content-type=application/grpc\n"

/* ---- calls ---- */

Test(grpc_server, echo)
{
	say("hello");
	call_with("POST", "/t/Echo", "application/grpc", "authorization", "Bearer x");
	talk();
	expect_seen(HEADERS("1") "1 data <00><00><00><00><05>hello\n1 grpc-status=0\n");
	cr_expect(slice_equal(buf_slice(&t.seen), SLICE("auth Bearer x\nmessage hello\n")), "%.*s",
		  (int)t.seen.len, t.seen.ptr);
	say("");
	call("/t/Echo");
	talk();
	expect_seen(HEADERS("3") "3 data <00><00><00><00><00>\n3 grpc-status=0\n");
	cr_expect(grpc_server_has_begun(t.server));
	cr_expect_not(t.finished);
}

Test(grpc_server, pieces_of_every_length)
{
	say("hello");
	call("/t/Echo");
	client_writes();
	struct buf whole = client.sent;

	client.sent = (struct buf){0};
	for (size_t step = 1; step < whole.len; step++) {
		grpc_server_free(t.server);
		t.server = grpc_server_new(&ops, &t);
		buf_clear(&t.out);
		buf_clear(&t.seen);
		for (size_t at = 0; at < whole.len; at += step) {
			size_t n = whole.len - at < step ? whole.len - at : step;
			char *piece = malloc(n); /* of its own, for AddressSanitizer */

			cr_assert_not_null(piece);
			memcpy(piece, whole.ptr + at, n);
			feed((struct slice){piece, n});
			free(piece);
		}
		cr_expect(slice_equal(buf_slice(&t.seen), SLICE("message hello\n")), "%zu", step);
	}
	buf_release(&whole);
}

Test(grpc_server, an_error_is_in_the_headers)
{
	say("fail");
	call("/t/Echo");
	talk();
	expect_seen(HEADERS("1") "1 grpc-status=5\n1 grpc-message=100%25 gone\n");
}

Test(grpc_server, a_stream_is_answered_message_by_message)
{
	say("a");
	add_message(0, 2, "bc");
	call("/t/Stream");
	talk();
	expect_seen(HEADERS("1") "1 data <00><00><00><00><01>a<00><00><00><00><02>bc\n"
				 "1 grpc-status=0\n");
	body.len = body.at = 0;
	call("/t/Stream");
	talk();
	expect_status("0");
}

Test(grpc_server, an_error_behind_messages_is_in_the_trailers)
{
	say("a");
	add_message(0, 4, "fail");
	body.open = true;
	call("/t/Stream");
	talk();
	expect_seen(HEADERS("1") "1 data <00><00><00><00><01>a\n1 grpc-status=5\n"
				 "1 grpc-message=100%25 gone\n");
	cr_expect_eq(client.reset, NGHTTP2_NO_ERROR);
}

/* ---- what is refused ---- */

Test(grpc_server, what_is_no_grpc)
{
	say("x");
	call_with("PUT", "/t/Echo", "application/grpc", NULL, NULL);
	talk();
	expect_seen("1 :status=405\n");
	say("x");
	call_with("POST", "/t/Echo", "application/json", NULL, NULL);
	talk();
	expect_seen("3 :status=415\n");
	cr_expect_eq(t.begun, 0);
}

Test(grpc_server, headers_that_cannot_be_served)
{
	say("x");
	call("/t/Other");
	talk();
	expect_status("12");
	say("x");
	call_with("POST", "/t/Echo", "application/grpc", "grpc-encoding", "gzip");
	talk();
	expect_seen(
		HEADERS("3") "3 grpc-status=12\n3 grpc-message=messages must not be compressed\n"
			     "3 grpc-accept-encoding=identity\n");
	say("x");
	call_with("POST", "/t/Echo", "application/grpc", "grpc-timeout", "1");
	talk();
	expect_status("13");
	cr_expect_eq(t.begun, 0);
	say("x");
	call_with("POST", "/t/Echo", "application/grpc", "grpc-encoding", "identity");
	talk();
	expect_status("0");
}

Test(grpc_server, metadata_is_bounded)
{
	char value[GRPC_HEADERS_MAX + 1];

	memset(value, 'v', sizeof value - 1);
	value[sizeof value - 1] = '\0';
	say("x");
	call_with("POST", "/t/Echo", "application/grpc", "y", value);
	talk();
	expect_status("8");
	cr_expect_eq(t.begun, 0);
	cr_expect_eq(t.counters.too_large, 1, "%lu", t.counters.too_large);
}

Test(grpc_server, messages_that_are_none)
{
	static const struct {
		unsigned char compressed;
		uint32_t len;
		const char *text, *status;
	} cases[] = {{1, 1, "x", "13"},
		     {2, 1, "x", "13"},
		     {0, 2, "x", "12"},
		     {0, 0, "x", "12"},
		     {0, GRPC_MESSAGE_MAX + 1, "", "8"},
		     {0, UINT32_MAX, "", "8"}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		body.len = body.at = 0;
		body.open = false;
		add_message(cases[i].compressed, cases[i].len, cases[i].text);
		call("/t/Echo");
		talk();
		expect_status(cases[i].status);
	}
	body.len = body.at = 0;
	call("/t/Echo");
	talk();
	expect_status("12");
	body.at = 0;
	body.len = 3;
	call("/t/Stream");
	talk();
	expect_status("13");
	cr_expect_eq(t.seen.len, 0, "%.*s", (int)t.seen.len, t.seen.ptr);
}

Test(grpc_server, the_largest_message)
{
	static char text[GRPC_MESSAGE_MAX + 1];

	memset(text, 'm', GRPC_MESSAGE_MAX);
	say(text);
	call("/t/Echo");
	talk();
	expect_status("0");
}

/* ---- bounds ---- */

/* Calls whose messages never become whole. */
Test(grpc_server, what_is_held_is_bounded)
{
	static char text[GRPC_MESSAGE_MAX];

	memset(text, 'm', sizeof text - 1);
	for (int i = 0; i < 4; i++) {
		body.len = body.at = 0;
		body.open = true;
		add_message(0, GRPC_MESSAGE_MAX, text);
		call("/t/Echo");
		talk();
	}
	expect_status("8");
	cr_expect_eq(t.counters.too_large, 1, "%lu", t.counters.too_large);
}

Test(grpc_server, open_streams_are_bounded)
{
	body.len = body.at = 0;
	body.open = true;
	talk();
	for (int i = 0; i < GRPC_STREAMS_MAX + 10; i++)
		call("/t/Echo");
	talk();
	cr_expect_eq(t.begun, GRPC_STREAMS_MAX);
	cr_expect_not(client.gone);
}

/* Streams that are opened and reset at once (CVE-2023-44487): the client is sent away. */
Test(grpc_server, rapid_reset)
{
	unsigned n = 0;

	for (; n < 3 * GRPC_CALM && !client.gone; n++) {
		say("x");
		int32_t id = call("/t/Later");

		client_writes();
		nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
		talk();
	}
	cr_expect_leq(n, GRPC_CALM + 1);
	cr_expect(client.gone);
	cr_expect(t.finished);
	cr_expect_eq(t.begun, t.ended);
}

Test(grpc_server, resets_now_and_then_are_borne)
{
	for (int i = 0; i < 2 * GRPC_CALM; i++) {
		say("x");
		int32_t id = call("/t/Later");

		client_writes();
		nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
		t.now_ms += 40; /* nghttp2's own bound is 33 a second */
		talk();
	}
	cr_expect_eq(t.counters.floods, 0);
}

Test(grpc_server, ping_flood)
{
	for (int i = 0; i < 2 * GRPC_CALM && !client.gone; i++) {
		nghttp2_submit_ping(client.session, NGHTTP2_FLAG_NONE, NULL);
		talk();
	}
	cr_expect_eq(client.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
	cr_expect_eq(t.counters.floods, 1);
}

Test(grpc_server, settings_flood)
{
	for (int i = 0; i < 2 * GRPC_CALM && !client.gone; i++) {
		nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, NULL, 0);
		talk();
	}
	cr_expect_eq(client.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
}

Test(grpc_server, pings_beside_calls_are_borne)
{
	for (int i = 0; i < 3 * GRPC_CALM; i++) {
		say("x");
		call("/t/Echo");
		nghttp2_submit_ping(client.session, NGHTTP2_FLAG_NONE, NULL);
		talk();
	}
	cr_expect_not(client.gone);
	cr_expect_eq(t.ended, 3 * GRPC_CALM);
}

Test(grpc_server, empty_data_flood)
{
	static const char empty[] = "\0\0\0\0\0\0\0\0\1";

	body.len = body.at = 0;
	body.open = true;
	call("/t/Echo");
	talk();
	for (int i = 0; i < 2 * GRPC_CALM; i++)
		feed((struct slice){empty, sizeof empty - 1});
	client_reads();
	cr_expect_eq(client.goaway, NGHTTP2_ENHANCE_YOUR_CALM);
}

Test(grpc_server, what_does_not_begin_as_http2)
{
	feed(SLICE("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
	cr_expect(t.finished);
	cr_expect_not(grpc_server_has_begun(t.server));
	feed(SLICE("more")); /* is nothing */
}

/* A client whose window is 0 is answered when it opens it. */
Test(grpc_server, window_of_0)
{
	const nghttp2_settings_entry none = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};
	const nghttp2_settings_entry some = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 100};

	nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, &none, 1);
	talk();
	say("hello");
	call("/t/Echo");
	talk();
	expect_seen(HEADERS("1"));
	cr_expect_eq(t.ended, 1);
	nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, &some, 1);
	talk();
	expect_seen("1 data <00><00><00><00><05>hello\n1 grpc-status=0\n");
}

static void say_window(uint32_t window)
{
	const nghttp2_settings_entry entry = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};

	nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, &entry, 1);
	talk();
}

static size_t count_of(const struct buf *b, const char *text)
{
	size_t n = 0;

	for (size_t at = 0; at + strlen(text) <= b->len; at++)
		n += memcmp(b->ptr + at, text, strlen(text)) == 0;
	return n;
}

/* Of a client that sends and does not fetch, no more is answered than may be queued; once it fetches, all is. */
Test(grpc_server, answers_that_are_not_fetched)
{
	enum { STREAMS = 3, MESSAGES = 5, LEN = 30000 };
	static char text[LEN + 1];

	memset(text, 'm', LEN);
	say_window(0);
	for (int i = 0; i < STREAMS; i++) {
		body.len = body.at = 0;
		body.open = false;
		for (int k = 0; k < MESSAGES; k++)
			add_message(0, LEN, text);
		call("/t/Stream");
		talk();
	}
	cr_expect_eq(count_of(&t.seen, "message"), GRPC_QUEUED_MAX / LEN + 1);
	cr_expect_eq(t.ended, 1);
	say_window(1 << 20);
	cr_expect_eq(count_of(&t.seen, "message"), STREAMS * MESSAGES);
	cr_expect_eq(count_of(&client.seen, "grpc-status=0"), STREAMS);
}

/* Nor does it help to fetch a little each time, so that the queue is never empty. */
Test(grpc_server, answers_that_are_fetched_byte_by_byte)
{
	static char text[GRPC_MESSAGE_MAX + 1];
	nghttp2_settings_entry window = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};

	memset(text, 'm', GRPC_MESSAGE_MAX);
	say_window(0);
	for (int i = 0; i < 5; i++) {
		body.len = body.at = 0;
		body.open = true;
		add_message(0, GRPC_MESSAGE_MAX, text);
		call("/t/Stream");
		talk();
	}
	cr_expect_eq(count_of(&t.seen, "message"), 4);
	while (++window.value <= 10) {
		nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, &window, 1);
		client_writes();
		feed(buf_slice(&client.sent));
		buf_clear(&client.sent);
		cr_expect_gt(t.out.len, 4);
		buf_clear(&t.out); /* unread: nghttp2 would open the window by itself */
	}
	cr_expect_eq(count_of(&t.seen, "message"), 4);
}

/* What waits in the server's output counts as well; the sweep finds that it has gone. */
Test(grpc_server, output_that_does_not_go)
{
	static char text[GRPC_QUEUED_MAX];

	talk();
	buf_add(&t.out, text, sizeof text);
	say("x");
	call("/t/Stream");
	client_writes();
	feed(buf_slice(&client.sent));
	buf_clear(&client.sent);
	cr_expect_eq(t.seen.len, 0);
	cr_expect_eq(t.out.len, sizeof text);
	buf_clear(&t.out);
	grpc_server_sweep(t.server, t.now_ms + 1);
	talk();
	expect_status("0");
}

/* ---- time ---- */

Test(grpc_server, the_time_that_the_client_gives)
{
	say("x");
	call_with("POST", "/t/Later", "application/grpc", "grpc-timeout", "2S");
	talk();
	grpc_server_sweep(t.server, t.now_ms + 1999);
	cr_expect_eq(t.ended, 0);
	grpc_server_sweep(t.server, t.now_ms + 2000);
	client_reads();
	expect_status("4");
	cr_expect_eq(t.ended, 1);
	cr_expect_eq(t.counters.late, 1);
}

Test(grpc_server, which_time_is_up)
{
	body.len = body.at = 0;
	body.open = true;
	call_with("POST", "/t/Stream", "application/grpc", "grpc-timeout", "2S");
	call_with("POST", "/t/Echo", "application/grpc", "grpc-timeout", "2S");
	call("/t/Echo");
	talk();
	grpc_server_sweep(t.server, t.now_ms + 2000);
	client_reads();
	cr_expect_eq(count_of(&client.seen, "the time that the client gave is up"), 2);
	grpc_server_sweep(t.server, t.now_ms + GRPC_RECEIVE_MS);
	client_reads();
	cr_expect_eq(count_of(&client.seen, "the message did not come in time"), 1);
}

Test(grpc_server, a_message_must_come_in_time)
{
	body.len = body.at = 0;
	body.open = true;
	call("/t/Echo");
	call("/t/Stream"); /* may take its time */
	talk();
	grpc_server_sweep(t.server, t.now_ms + GRPC_RECEIVE_MS - 1);
	cr_expect_eq(t.ended, 0);
	grpc_server_sweep(t.server, t.now_ms + GRPC_RECEIVE_MS);
	cr_expect_eq(t.ended, 1);
	client_reads();
	expect_status("4");
}

/* ---- the end ---- */

Test(grpc_server, a_client_that_cancels)
{
	say("x");
	int32_t id = call("/t/Later");

	talk();
	cr_assert_eq(t.n_later, 1);
	nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
	talk();
	cr_expect_eq(t.ended, 1);
	cr_expect_null(t.later[0]);
}

/* What is under way is answered; what comes later was not begun; what stays hears the last. */
Test(grpc_server, leaving)
{
	say("x");
	call("/t/Later");
	talk();
	say("y");
	call("/t/Stay");
	talk();
	buf_clear(&client.seen);
	grpc_server_leave(t.server);
	grpc_server_leave(t.server);
	client_reads();
	cr_expect(client.gone);
	cr_expect_eq(client.goaway, NGHTTP2_NO_ERROR);
	expect_seen("3 data <00><00><00><00><03>bye\n3 grpc-status=14\n"
		    "3 grpc-message=the agent is shutting down\n");
	cr_expect_not(t.finished);
	echo(t.later[0], SLICE("z"));
	grpc_call_end(t.later[0], GRPC_OK, NULL);
	grpc_server_flush(t.server);
	client_reads();
	expect_seen(HEADERS("1") "1 data <00><00><00><00><01>z\n1 grpc-status=0\n");
	cr_expect(t.finished);
}

/* As it does when it has no memory for what it would say. */
Test(grpc_server, leaving_calls_that_the_front_ends)
{
	for (int i = 0; i < 3; i++) {
		say("y");
		call("/t/Stay");
		talk();
	}
	buf_clear(&client.seen);
	t.ends_on_leave = true;
	grpc_server_leave(t.server);
	client_reads();
	cr_expect_eq(count_of(&client.seen, "grpc-status=8"), 3);
	cr_expect(t.finished);
}

Test(grpc_server, a_connection_that_is_gone)
{
	say("x");
	call("/t/Later");
	talk();
	grpc_server_free(t.server);
	t.server = NULL;
	cr_expect_eq(t.begun, 1);
	cr_expect_eq(t.ended, 1);
}
