/*
 * HTTP/1.1 as its server speaks it, without sockets: every split of the input, the order of
 * answers, bounds.
 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "io/http_server.h"

/* A server that answers each request with what it saw, at once or when it is told to. */
static struct {
	struct http_server *server;
	struct buf out, seen;
	struct http_exchange *waiting[16];
	struct http_exchange *stream;
	unsigned n_waiting, answered, abandoned, errors;
	bool later, paused, ending, finished;
} t;

static struct buf *on_out(void *data)
{
	cr_assert_eq(data, &t);
	return &t.out;
}

static bool on_may_read(void *data)
{
	(void)data;
	return !t.paused;
}

static bool on_is_ending(void *data)
{
	(void)data;
	return t.ending;
}

static size_t on_body_max(void *data, const struct http_request *r)
{
	(void)data;
	return slice_equal(r->path, SLICE("/large")) ? 1000 : 10;
}

static void answer(struct http_exchange *x)
{
	struct slice *body = http_exchange_extra(x);

	http_exchange_answer(x, &(struct http_answer){.status = 200,
						      .media_type = "text/plain",
						      .fields = SLICE("X-Test: 1\r\n"),
						      .body = *body});
}

/* An answer that goes on; t.stream. */
static void begin_stream(struct http_exchange *x)
{
	t.stream = x;
	http_exchange_stream(x, &(struct http_answer){.status = 200,
						      .media_type = "text/event-stream",
						      .body = SLICE("first ")});
}

static void on_request(struct http_exchange *x, const struct http_request *r)
{
	struct slice *body = http_exchange_extra(x);

	cr_assert_null(body->ptr, "not zeroed");
	*body = SLICE("hello");
	buf_printf(&t.seen, "%d %.*s?%.*s", (int)r->method, (int)r->path.len, r->path.ptr,
		   (int)r->query.len, r->query.ptr);
	for (unsigned i = 0; i < r->n_fields; i++)
		buf_printf(&t.seen, " [%.*s=%.*s]", (int)r->fields[i].name.len,
			   r->fields[i].name.ptr, (int)r->fields[i].value.len,
			   r->fields[i].value.ptr);
	buf_printf(&t.seen, " {%.*s}\n", (int)r->body.len, r->body.ptr);
	if (slice_equal(r->path, SLICE("/stream")))
		begin_stream(x);
	else if (t.later)
		t.waiting[t.n_waiting++] = x;
	else
		answer(x);
}

static void on_error(struct http_exchange *x, unsigned status, const char *detail)
{
	cr_assert_not_null(detail);
	t.errors++;
	http_exchange_answer(x, &(struct http_answer){.status = status});
}

static void on_answered(struct http_exchange *x)
{
	(void)x;
	t.answered++;
}

static void on_abandoned(struct http_exchange *x)
{
	(void)x;
	t.abandoned++;
}

static void on_finished(void *data)
{
	(void)data;
	cr_assert(!t.finished);
	t.finished = true;
}

static const struct http_server_ops ops = {
	.extra_bytes = sizeof(struct slice),
	.out = on_out,
	.may_read = on_may_read,
	.is_ending = on_is_ending,
	.body_max = on_body_max,
	.on_request = on_request,
	.on_error = on_error,
	.on_answered = on_answered,
	.on_abandoned = on_abandoned,
	.on_finished = on_finished,
};

static void begin(void)
{
	memset(&t, 0, sizeof t);
	t.server = http_server_new(&ops, &t);
	cr_assert_not_null(t.server);
}

static void end(void)
{
	http_server_free(t.server);
	buf_release(&t.out);
	buf_release(&t.seen);
}

TestSuite(http_server, .init = begin, .fini = end);

static size_t feed(const char *text)
{
	return http_server_feed(t.server, slice_of(text));
}

static bool out_has(const char *text)
{
	buf_add(&t.out, "", 1);
	t.out.len--;
	return strstr(t.out.ptr, text) != NULL;
}

static void expect_seen(const char *text)
{
	cr_assert(slice_equal(buf_slice(&t.seen), slice_of(text)), "%.*s", (int)t.seen.len,
		  t.seen.ptr);
}

static void expect_refused(const char *text, unsigned status)
{
	char line[32];

	feed(text);
	snprintf(line, sizeof line, "HTTP/1.1 %u ", status);
	cr_assert(out_has(line), "for %s got %s", text, t.out.ptr);
	cr_assert(out_has("Connection: close\r\n"));
	cr_assert_eq(t.errors, 1);
	cr_assert(t.finished);
	cr_assert_eq(feed("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), 27, "swallowed");
	cr_assert_eq(t.errors, 1);
	end();
	begin();
}

static const char stream[] = "\r\nPOST /v1/take?a=b HTTP/1.1\r\nHost: h\r\nEmpty:\r\nX:  y z \t\r\n"
			     "Content-Length: 5\r\n\r\n12345"
			     "GET http://h:1/c HTTP/1.1\r\nhost:h\r\n\r\n"
			     "PUT /d HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
			     "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
			     "HEAD / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
			     "GET /never HTTP/1.1\r\n";

static const char stream_seen[] =
	"2 /v1/take?a=b [Host=h] [Empty=] [X=y z] [Content-Length=5] {12345}\n"
	"0 /c? [host=h] {}\n"
	"3 /d? [Host=h] [Transfer-Encoding=chunked] {abcde}\n"
	"1 /? [Host=h] [Connection=close] {}\n";

/* Wherever the bytes are cut, and one by one, the same requests come out. */
Test(http_server, every_split)
{
	size_t n = sizeof stream - 1;

	for (size_t cut = 0; cut <= n; cut++) {
		http_server_feed(t.server, (struct slice){stream, cut});
		http_server_feed(t.server, (struct slice){stream + cut, n - cut});
		expect_seen(stream_seen);
		cr_assert_eq(t.answered, 4);
		cr_assert(t.finished);
		end();
		begin();
	}
	for (size_t i = 0; i < n; i++)
		http_server_feed(t.server, (struct slice){stream + i, 1});
	expect_seen(stream_seen);
}

/* No proper prefix of a request is one. */
Test(http_server, every_prefix)
{
	static const char request[] = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";

	for (size_t len = 0; len < sizeof request - 1; len++) {
		http_server_feed(t.server, (struct slice){request, len});
		cr_assert_eq(t.seen.len, 0);
		cr_assert_eq(t.errors, 0);
		cr_assert_eq(http_server_is_receiving(t.server), len != 0);
		end();
		begin();
	}
}

Test(http_server, an_answer)
{
	feed("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
	cr_assert(out_has("HTTP/1.1 200 OK\r\nDate: "));
	cr_assert(out_has(" GMT\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
			  "X-Test: 1\r\n\r\nhello"));
	cr_assert(!out_has("Connection:"));
	cr_assert(!t.finished);
	feed("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
	cr_assert(out_has("Content-Length: 5\r\nX-Test: 1\r\n\r\n"));
	cr_assert_eq(strcmp(t.out.ptr + t.out.len - 4, "\r\n\r\n"), 0, "HEAD has no body");
}

Test(http_server, http_1_0)
{
	feed("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	cr_assert(out_has("Connection: keep-alive\r\n"));
	cr_assert(!t.finished);
	feed("GET / HTTP/1.0\r\n\r\n");
	cr_assert(out_has("Connection: close\r\n"));
	cr_assert(t.finished);
}

/* Answers stand in the order of the requests, whatever came first. */
Test(http_server, order)
{
	t.later = true;
	feed("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
	     "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
	cr_assert_eq(t.n_waiting, 3);
	*(struct slice *)http_exchange_extra(t.waiting[0]) = SLICE("one");
	*(struct slice *)http_exchange_extra(t.waiting[1]) = SLICE("two");
	*(struct slice *)http_exchange_extra(t.waiting[2]) = SLICE("three");
	answer(t.waiting[2]);
	answer(t.waiting[1]);
	cr_assert_eq(t.out.len, 0);
	cr_assert_gt(http_server_held_bytes(t.server), 0);
	cr_assert_eq(http_server_in_progress(t.server), 3);
	answer(t.waiting[0]);
	cr_assert_eq(http_server_held_bytes(t.server), 0);
	cr_assert_eq(t.answered, 3);
	cr_assert(out_has("three"));
	char *one = strstr(t.out.ptr, "one"), *two = strstr(t.out.ptr, "two");
	cr_assert(one != NULL && two > one && strstr(t.out.ptr, "three") > two);
}

/* A parser's error waits for the answers of the requests before it. */
Test(http_server, an_error_keeps_its_place)
{
	t.later = true;
	feed("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n\x01\x02 nonsense");
	cr_assert_eq(t.errors, 1);
	cr_assert_eq(t.out.len, 0);
	answer(t.waiting[0]);
	cr_assert(out_has("HTTP/1.1 200 "));
	cr_assert(out_has("HTTP/1.1 400 "));
	cr_assert(t.finished);
}

Test(http_server, backpressure)
{
	const char *two = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n";

	t.paused = true;
	size_t used = feed(two);
	cr_assert_eq(used, strlen(two) / 2);
	cr_assert_eq(t.answered, 1);
	t.paused = false;
	cr_assert_eq(feed(two + used), strlen(two) - used);
	cr_assert_eq(t.answered, 2);
}

Test(http_server, the_end_is_announced_once)
{
	t.later = true;
	feed("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
	t.ending = true;
	answer(t.waiting[0]);
	cr_assert(!out_has("Connection: close"));
	cr_assert(!t.finished);
	answer(t.waiting[1]);
	cr_assert(out_has("Connection: close"));
	cr_assert(t.finished);
}

static bool is_second(struct http_exchange *x)
{
	return x == t.waiting[1];
}

Test(http_server, abandoning)
{
	t.later = true;
	feed("GET /1 HTTP/1.1\r\nHost: h\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n"
	     "GET /3 HTTP/1.1\r\nHost: h\r\n\r\n");
	http_server_abandon_from(t.server, is_second);
	cr_assert_eq(t.abandoned, 2);
	answer(t.waiting[0]);
	cr_assert_eq(t.answered, 1);
	cr_assert_eq(http_server_in_progress(t.server), 0);
	feed("GET /4 HTTP/1.1\r\nHost: h\r\n\r\n");
	cr_assert_eq(t.n_waiting, 3);
	end();
	cr_assert_eq(t.abandoned, 2);
	begin();
	t.later = true;
	feed("GET /1 HTTP/1.1\r\nHost: h\r\n\r\n");
	http_server_free(t.server);
	cr_assert_eq(t.abandoned, 1);
	t.server = http_server_new(&ops, &t);
}

Test(http_server, expect_continue)
{
	feed("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	cr_assert(slice_equal(buf_slice(&t.out), SLICE("HTTP/1.1 100 Continue\r\n\r\n")));
	feed("ab");
	cr_assert_eq(t.answered, 1);
	end();
	begin();
	/* not before an earlier answer, and not when the body has come by then */
	t.later = true;
	feed("GET / HTTP/1.1\r\nHost: h\r\n\r\n"
	     "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	cr_assert_eq(t.out.len, 0);
	answer(t.waiting[0]);
	cr_assert(out_has("helloHTTP/1.1 100 Continue\r\n\r\n"));
	end();
	begin();
	expect_refused("GET / HTTP/1.1\r\nHost: h\r\nExpect: coffee\r\n\r\n", 417);
	/* a body that is too long is refused before it is sent */
	expect_refused("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n"
		       "Content-Length: 11\r\n\r\n",
		       413);
}

Test(http_server, bounds)
{
	static char text[40000];

	expect_refused("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n", 413);
	expect_refused("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
		       "6\r\n123456\r\n5\r\n12345\r\n",
		       413);
	feed("POST /large HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n12345678901");
	cr_assert_eq(t.answered, 1);

	snprintf(text, sizeof text, "GET /%020000d", 1);
	expect_refused(text, 414);
	snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: h\r\nX: %017000d", 1);
	expect_refused(text, 431);
	int n = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: h\r\n");
	for (int i = 0; i < HTTP_FIELDS_MAX; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, "X%d: 1\r\n", i);
	expect_refused(text, 431);
}

Test(http_server, malformed)
{
	static const struct {
		const char *text;
		unsigned status;
	} cases[] = {
		{"nonsense\r\n\r\n", 400},
		{"get / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\n\r\n", 400}, /* no Host */
		{"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
		{"GET host:1 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"CONNECT host:1 HTTP/1.1\r\nHost: h\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
		{"GET / HTTP/1.1\r\nHost: h\r\nA: b\x01\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1e3\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: "
		 "chunked\r\n\r\n",
		 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
		{"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		expect_refused(cases[i].text, cases[i].status);
}

/* curl --http2 offers an upgrade: the request is served as it is, and the next one too. */
Test(http_server, an_upgrade_is_not_taken)
{
	feed("GET /1 HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\n"
	     "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\nGET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
	cr_assert_eq(t.answered, 2);
	cr_assert_eq(t.errors, 0);
}

Test(http_server, giving_up_on_a_slow_request)
{
	feed("GET /1 HTTP/1.1\r\nHo");
	http_server_refuse(t.server, 408, "too slow");
	cr_assert(out_has("HTTP/1.1 408 Request Timeout\r\n"));
	cr_assert(t.finished);
}

Test(http_server, a_stream)
{
	feed("GET /stream HTTP/1.1\r\nHost: h\r\n\r\nGET /behind HTTP/1.1\r\nHost: h\r\n\r\n");
	cr_assert(http_exchange_write(t.stream, SLICE("second")));
	cr_assert(out_has("Connection: close\r\n"));
	cr_assert(out_has("\r\n\r\nfirst second"));
	cr_assert(!out_has("Content-Length"));
	cr_assert(!out_has("behind"), "a stream is the last answer of its connection");
	cr_assert_eq(http_server_in_progress(t.server), 1);
	cr_assert_eq(t.answered, 0);
}

/* It begins when what is before it is answered, and meanwhile nothing is kept but its beginning. */
Test(http_server, a_stream_waits_for_its_turn)
{
	t.later = true;
	feed("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
	size_t held = http_server_held_bytes(t.server);

	cr_assert_gt(held, 0);
	for (int i = 0; i < 100; i++)
		cr_assert(!http_exchange_write(t.stream, SLICE("more")));
	cr_assert_eq(http_server_held_bytes(t.server), held);
	answer(t.waiting[0]);
	cr_assert_eq(http_server_held_bytes(t.server), 0);
	cr_assert(http_exchange_write(t.stream, SLICE("second")));
	cr_assert(out_has("first second"));
	cr_assert(!t.finished);
}

static bool is_stream(struct http_exchange *x)
{
	return x == t.stream;
}

Test(http_server, a_stream_ends_by_being_abandoned)
{
	t.later = true;
	feed("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /stream HTTP/1.1\r\nHost: h\r\n\r\n");
	http_server_abandon_from(t.server, is_stream);
	cr_assert_eq(t.abandoned, 1);
	cr_assert_eq(http_server_held_bytes(t.server), 0);
	answer(t.waiting[0]);
	cr_assert_eq(t.answered, 1);
}
