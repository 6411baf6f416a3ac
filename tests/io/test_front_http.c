/* The HTTP front on real sockets, over an engine that answers by the policy's name. Mostly waits. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent_conns.h"
#include "control/policy_stats.h"
#include "fake_http_engine.h"
#include "front_http.h"
#include "io/auth.h"
#include "io/listener.h"
#include "ops.h"

/* ---- the agent around the front ---- */

static uv_loop_t loop;
static struct agent agent;
static struct engine engine;
static struct conn_pool *pool;
static struct listener *front;
static char node[] = "worker-17", region[] = "eu-west";

static void use_tokens(const char *text)
{
	char path[] = "/tmp/kova-test-tokens-XXXXXX";
	int fd = mkstemp(path);
	struct buf error = {0};

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	auth_free(agent.auth);
	agent.auth = auth_new(&(struct auth_terms){.tokens_file = path}, &error);
	unlink(path);
	cr_assert_not_null(agent.auth, "%.*s", (int)error.len, error.ptr);
	buf_release(&error);
}

static void start(void)
{
	struct buf error = {0};

	signal(SIGPIPE, SIG_IGN);
	fake.shards_up = 3;
	uv_loop_init(&loop);
	agent.loop = &loop;
	agent.engine = &engine;
	agent.conf.node = node;
	agent.conf.region = region;
	agent.auth = auth_new(&(struct auth_terms){0}, &error);
	pool = agent_conns_new(&agent, 0);
	ops_start(&agent, pool);
	front = listener_start(pool, "127.0.0.1:0", &front_http, false, &error);
	cr_assert_not_null(front, "%.*s", (int)error.len, error.ptr);
}

static void on_pool_closed(void *data)
{
	*(bool *)data = true;
}

static void stop(void)
{
	bool closed = false;

	ops_stop(&agent);
	listener_stop(front);
	conn_pool_close(pool, on_pool_closed, &closed);
	while (!closed)
		uv_run(&loop, UV_RUN_ONCE);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0);
	auth_free(agent.auth);
	cr_assert_eq(fake.in_use, 0, "requests leaked");
}

TestSuite(front_http, .init = start, .fini = stop, .timeout = 60);

/* ---- a client ---- */

struct reply {
	int status;
	char head[8192];
	char body[65536];
};

static void turn(unsigned n)
{
	while (n-- > 0)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static int dial(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
	address.sin_port = htons((uint16_t)atoi(strrchr(listener_address(front), ':') + 1));
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	for (size_t at = 0, len = strlen(text); at < len;) {
		ssize_t n = send(fd, text + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n > 0)
			at += (size_t)n;
		turn(1);
	}
}

/* Bytes of the server, at most `size`, while the loop turns; 0: the end, or nothing for 2 s. */
static size_t recv_some(int fd, char *ret_bytes, size_t size)
{
	for (int i = 0; i < 2000; i++) {
		ssize_t n = recv(fd, ret_bytes, size, MSG_DONTWAIT);

		if (n >= 0)
			return (size_t)n;
		turn(1);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		poll(&p, 1, 1);
	}
	return 0;
}

/* One whole answer; a status of 0 when the connection ended. */
static void recv_reply(int fd, struct reply *ret_reply, bool is_head)
{
	size_t n = 0, body_len;
	struct reply *r = ret_reply;

	memset(r, 0, sizeof *r);
	while (strstr(r->head, "\r\n\r\n") == NULL) {
		if (recv_some(fd, r->head + n, 1) == 0)
			return;
		cr_assert_lt(++n, sizeof r->head - 1);
	}
	const char *length = strstr(r->head, "Content-Length: ");
	body_len = length != NULL && !is_head ? (size_t)atol(length + 16) : 0;
	cr_assert_lt(body_len, sizeof r->body);
	for (n = 0; n < body_len;) {
		size_t got = recv_some(fd, r->body + n, body_len - n);

		cr_assert_gt(got, 0);
		n += got;
	}
	r->status = atoi(r->head + strlen("HTTP/1.1 "));
}

static struct reply reply;

/* A request on a connection of its own. `fields` has its CR LF. */
static int ask_with(const char *method, const char *target, const char *fields, const char *body)
{
	static char text[200000];
	int fd = dial();

	snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: h\r\n%sContent-Length: %zu\r\n\r\n%s",
		 method, target, fields, strlen(body), body);
	send_text(fd, text);
	recv_reply(fd, &reply, strcmp(method, "HEAD") == 0);
	close(fd);
	turn(3);
	return reply.status;
}

static int ask(const char *method, const char *target, const char *body)
{
	return ask_with(method, target, "", body);
}

static void expect_body(const char *text)
{
	cr_assert_str_eq(reply.body, text);
}

static void expect_head(const char *text)
{
	cr_assert_not_null(strstr(reply.head, text), "%s is not in %s", text, reply.head);
}

static void expect_no_head(const char *text)
{
	cr_assert_null(strstr(reply.head, text), "%s is in %s", text, reply.head);
}

/* A problem of that status whose detail holds `text`. */
static void expect_problem(int status, const char *text)
{
	json_error_t error;
	json_t *json = json_loads(reply.body, 0, &error);

	cr_assert_eq(reply.status, status, "%s%s", reply.head, reply.body);
	expect_head("Content-Type: application/problem+json\r\n");
	cr_assert_not_null(json, "%s", reply.body);
	cr_assert_eq(json_integer_value(json_object_get(json, "status")), status);
	const char *detail = json_string_value(json_object_get(json, "detail"));
	cr_assert(detail != NULL && strstr(detail, text) != NULL, "%s", reply.body);
	json_decref(json);
}

/* ---- take and its kin ---- */

Test(front_http, take)
{
	cr_assert_eq(ask("POST", "/v1/take", "{\"policy\":\"captcha-submit\",\"key\":\"k\"}"), 200);
	expect_body("{\"allowed\":true,\"remaining\":19,\"limit\":20,\"retry_after_ms\":0,"
		    "\"reset_after_ms\":100,\"reason\":\"ok\"}\n");
	expect_head("Content-Type: application/json\r\n");
	expect_head("RateLimit-Policy: \"captcha-submit\";q=20;w=2\r\n"
		    "RateLimit: \"captcha-submit\";r=19;t=1\r\n");
	expect_no_head("Retry-After");
	cr_assert_eq(fake.last.kind, REQUEST_TAKE);
	cr_assert_eq(fake.last.pairs[0].cost, 1);
	cr_assert_eq(fake.last.wait_ms, 0);
	cr_assert_eq(fake.last.id.len, 0);
}

Test(front_http, take_with_everything)
{
	cr_assert_eq(ask_with("POST", "/v1/take?",
			      "Content-Type: application/json;charset=utf-8\r\n",
			      "{\"policy\":\"p\",\"key\":\"\\u00fc\\u0000/x\",\"cost\":7,"
			      "\"wait_ms\":0,\"id\":\"job\",\"receipt\":true}"),
		     200);
	cr_assert(slice_equal(fake.last.pairs[0].key, SLICE("\xc3\xbc\0/x")));
	cr_assert_eq(fake.last.pairs[0].cost, 7);
	cr_assert(slice_equal(fake.last.id, SLICE("job")));
	cr_assert_not_null(strstr(reply.body, ",\"receipt\":\"r\\\"1\"}"), "%s", reply.body);
}

Test(front_http, several_takes)
{
	cr_assert_eq(ask("POST", "/v1/take",
			 "{\"takes\":[{\"policy\":\"a\",\"key\":\"k\"},"
			 "{\"policy\":\"b\",\"key\":\"l\",\"cost\":3}],\"wait_ms\":5}"),
		     200);
	cr_assert_eq(fake.last.n_pairs, 2);
	cr_assert_eq(fake.last.pairs[0].cost, 1);
	cr_assert(slice_equal(fake.last.pairs[1].policy, SLICE("b")));
	cr_assert_eq(fake.last.pairs[1].cost, 3);
	cr_assert_eq(fake.last.wait_ms, 5);
}

/* Retry-After: whole seconds, rounded up, never before t; left out when waiting is in vain. */
Test(front_http, refused)
{
	cr_assert_eq(ask("POST", "/v1/take", "{\"policy\":\"no\",\"key\":\"k\",\"receipt\":true}"),
		     429);
	expect_body("{\"allowed\":false,\"remaining\":0,\"limit\":20,\"retry_after_ms\":1001,"
		    "\"reset_after_ms\":100,\"reason\":\"limited:tenant\",\"receipt\":null}\n");
	expect_head("RateLimit: \"captcha-submit\";r=0;t=3\r\nRetry-After: 3\r\n");
	cr_assert_eq(ask("POST", "/v1/take", "{\"policy\":\"never\",\"key\":\"k\"}"), 429);
	expect_no_head("Retry-After");
	expect_head("RateLimit: \"captcha-submit\";r=0\r\n");
}

Test(front_http, peek)
{
	cr_assert_eq(ask("POST", "/v1/peek",
			 "{\"policy\":\"p\",\"key\":\"k\",\"cost\":2,\"wait_ms\":9,\"id\":\"i\","
			 "\"receipt\":true}"),
		     200);
	cr_assert_eq(fake.last.kind, REQUEST_PEEK);
	cr_assert_eq(fake.last.wait_ms, 0);
	cr_assert_eq(fake.last.id.len, 0);
	cr_assert(!fake.last.want_receipt);
	cr_assert_null(strstr(reply.body, "receipt"));
}

Test(front_http, permits)
{
	cr_assert_eq(ask("POST", "/v1/acquire", "{\"policy\":\"p\",\"key\":\"k\",\"wait_ms\":1}"),
		     200);
	cr_assert_not_null(strstr(reply.body, ",\"permit\":\"permit\",\"hold_ms\":10000}"));
	cr_assert_eq(ask("POST", "/v1/acquire", "{\"policy\":\"slots\",\"key\":\"k\"}"), 200);
	expect_head("RateLimit-Policy: \"slots\";q=20;qu=\"concurrent-requests\"\r\n");
	cr_assert_eq(ask("POST", "/v1/acquire", "{\"policy\":\"no\",\"key\":\"k\"}"), 429);
	cr_assert_not_null(strstr(reply.body, ",\"permit\":null,\"hold_ms\":null}"));
	const char *body = "{\"policy\":\"p\",\"key\":\"k\",\"permit\":\"x\"}";
	cr_assert_eq(ask("POST", "/v1/release", body), 200);
	expect_body("{\"released\":true}\n");
	cr_assert(slice_equal(fake.last.permit, SLICE("x")));
	cr_assert_eq(ask("POST", "/v1/renew", body), 200);
	expect_body("{\"renewed\":true}\n");
	cr_assert_eq(ask("POST", "/v1/renew", "{\"policy\":\"no\",\"key\":\"k\",\"permit\":\"x\"}"),
		     200);
	expect_body("{\"renewed\":false}\n");
}

Test(front_http, refund)
{
	cr_assert_eq(ask("POST", "/v1/refund", "{\"receipt\":\"abc\"}"), 200);
	expect_body("{\"refunded\":3}\n");
	cr_assert_eq(fake.last.refund_amount, -1);
	cr_assert_eq(ask("POST", "/v1/refund", "{\"receipt\":\"abc\",\"amount\":2}"), 200);
	cr_assert_eq(fake.last.refund_amount, 2);
}

Test(front_http, errors_of_the_engine)
{
	ask("POST", "/v1/take", "{\"policy\":\"missing\",\"key\":\"k\"}");
	expect_problem(404, "there is no policy `missing`; GET /v1/policies lists them");
	ask("POST", "/v1/take", "{\"policy\":\"range\",\"key\":\"k\"}");
	expect_problem(400, "the engine says so");
	ask("POST", "/v1/release", "{\"policy\":\"down\",\"key\":\"k\",\"permit\":\"x\"}");
	expect_problem(503, "the engine says so");
	expect_head("Retry-After: 1\r\n");
	fake.full = true;
	ask("POST", "/v1/take", "{\"policy\":\"p\",\"key\":\"k\"}");
	expect_problem(503, "too many requests");
}

/* Case 8: each is an error that says what is allowed, and nothing reaches the engine. */
Test(front_http, bad_bodies)
{
	static char long_key[1200];
	static const struct {
		const char *body, *says;
	} cases[] = {
		{"", "empty"},
		{"{", "no JSON object"},
		{"[]", "a list"},
		{"null", "no JSON object"},
		{"{\"policy\":\"p\",\"key\":\"k\"} x", "no JSON object"},
		{"{\"policy\":\"p\",\"policy\":\"q\",\"key\":\"k\"}", "duplicate"},
		{"{\"policy\":\"p\",\"key\":\"\xff\"}", "decode byte"},
		{"{\"policy\":\"p\"}", "`key` is missing"},
		{"{\"key\":\"k\"}", "`policy` is missing"},
		{"{\"policy\":\"p\",\"key\":\"\"}", "1 to 1024 bytes"},
		{"{\"policy\":\"p\",\"key\":7}", "a string"},
		{"{\"policy\":\"\",\"key\":\"k\"}", "1 to 64 bytes"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cots\":1}", "did you mean `cost`"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":0}", "from 1 to 1000000000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":-5}", "from 1 to 1000000000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":1e3}", "from 1 to 1000000000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":1.0}", "from 1 to 1000000000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":\"\"}", "from 1 to 1000000000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":\"1\"}", "from 1 to 1000000000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":null}", "from 1 to 1000000000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":9223372036854775807}", "from 1 to"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"cost\":9223372036854775808}", "too big"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"wait_ms\":86400001}", "from 0 to 86400000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"wait_ms\":-1}", "from 0 to 86400000"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"id\":\"\"}", "1 to 256 bytes"},
		{"{\"policy\":\"p\",\"key\":\"k\",\"receipt\":1}", "true or false"},
		{"{\"takes\":[]}", "1 to 16 items"},
		{"{\"takes\":{}}", "a list"},
		{"{\"takes\":[1]}", "objects"},
		{"{\"takes\":[{\"policy\":\"p\"}]}", "`key` is missing"},
		{"{\"takes\":[{\"policy\":\"p\",\"key\":\"k\",\"id\":\"x\"}]}",
		 "unknown field `id`"},
		{"{\"takes\":[{\"policy\":\"p\",\"key\":\"k\"}],\"key\":\"k\"}", "in the items"},
		{"{\"takes\":[{\"policy\":\"p\",\"key\":\"k\"}],\"cost\":1}", "in the items"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ask("POST", "/v1/take", cases[i].body);
		expect_problem(400, cases[i].says);
	}
	memset(long_key, 'k', sizeof long_key);
	snprintf(long_key, sizeof long_key, "{\"policy\":\"p\",\"key\":\"%01025d\"}", 1);
	ask("POST", "/v1/take", long_key);
	expect_problem(400, "1 to 1024 bytes long, not 1025");
	ask("POST", "/v1/release", "{\"policy\":\"p\",\"key\":\"k\"}");
	expect_problem(400, "`permit` is missing");
	ask("POST", "/v1/refund", "{\"receipt\":\"r\",\"amount\":-1}");
	expect_problem(400, "from 0 to");
	cr_assert_eq(fake.decided, 0);
	cr_assert_eq(fake.in_use, 0);
}

/* ---- check ---- */

Test(front_http, check)
{
	cr_assert_eq(ask("GET", "/v1/check?policy=p&key=a%2Fb+c%00%ff&cost=5", ""), 200);
	expect_body("");
	expect_head("Content-Length: 0\r\n");
	expect_no_head("Content-Type");
	expect_head("RateLimit: \"captcha-submit\";r=19;t=1\r\n");
	cr_assert(slice_equal(fake.last.pairs[0].key, SLICE("a/b c\0\xff")));
	cr_assert_eq(fake.last.pairs[0].cost, 5);
	cr_assert_eq(ask("GET", "/v1/check?policy=no&key=k", ""), 429);
	expect_head("Retry-After: 3\r\n");
	cr_assert_eq(ask("GET", "/v1/check?policy=no&key=k&deny=403", ""), 403);
	expect_head("Retry-After: 3\r\n");
	expect_body("");
	cr_assert_eq(ask("HEAD", "/v1/check?policy=p&key=k", ""), 200);
	cr_assert_eq(ask_with("GET", "/v1/check?policy=p&key=k", "Content-Type: text/plain\r\n",
			      "of the proxy's client"),
		     200);
}

/* Fields may come from the proxy's client, so that the query wins. */
Test(front_http, check_by_fields)
{
	const char *fields = "X-Kova-Policy: p\r\nx-kova-key: \xc3\xbc b\r\n";

	cr_assert_eq(ask_with("GET", "/v1/check", fields, ""), 200);
	cr_assert(slice_equal(fake.last.pairs[0].key, SLICE("\xc3\xbc b")));
	cr_assert_eq(ask_with("GET", "/v1/check?key=mine", fields, ""), 200);
	cr_assert(slice_equal(fake.last.pairs[0].key, SLICE("mine")));
	cr_assert_eq(ask_with("GET", "/v1/check?policy=p&key_field=X-Forwarded-For",
			      "X-Kova-Key: a\r\nx-forwarded-for: 192.0.2.1\r\n", ""),
		     200);
	cr_assert(slice_equal(fake.last.pairs[0].key, SLICE("192.0.2.1")));
	fake.decided = 0;
	ask_with("GET", "/v1/check?policy=p&key_field=X-Other", "X-Kova-Key: a\r\n", "");
	expect_problem(400, "the field X-Other");
	ask_with("GET", "/v1/check?policy=p", "X-Kova-Key: a\r\nX-Kova-Key: b\r\n", "");
	expect_problem(400, "given twice");
	cr_assert_eq(fake.decided, 0);
}

Test(front_http, bad_checks)
{
	static const struct {
		const char *target, *says;
	} cases[] = {
		{"/v1/check", "`policy` is missing"},
		{"/v1/check?policy=p", "`key` is missing"},
		{"/v1/check?policy=p&key=", "1 to 1024 bytes"},
		{"/v1/check?policy=p&key=k&key=l", "given twice"},
		{"/v1/check?policy=p&key=%zz", "hexadecimal"},
		{"/v1/check?policy=p&key=k&cots=1", "did you mean `cost`"},
		{"/v1/check?policy=p&key=k&cost=", "from 1 to 1000000000"},
		{"/v1/check?policy=p&key=k&cost=0", "from 1 to 1000000000"},
		{"/v1/check?policy=p&key=k&cost=-5", "from 1 to 1000000000"},
		{"/v1/check?policy=p&key=k&cost=1e3", "from 1 to 1000000000"},
		{"/v1/check?policy=p&key=k&cost=99999999999999999999999", "from 1 to 1000000000"},
		{"/v1/check?policy=p&key=k&deny=200", "from 400 to 599"},
		{"/v1/check?policy=p&key=k&key_field=X-A", "not both"},
		{"/v1/check?policy=p&key_field=", "1 to 64"},
		{"/v1/check?policy=p&key_field=X%22", "1 to 64"},
		{"/v1/check?policy=p&key_field=X%00", "1 to 64"},
		{"/v1/check?policy=p&key=k&wait_ms=x", "from 0 to"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ask("GET", cases[i].target, "");
		expect_problem(400, cases[i].says);
	}
	cr_assert_eq(fake.decided, 0);
}

/* ---- routes and tokens ---- */

Test(front_http, routes)
{
	ask("GET", "/v2/take", "");
	expect_problem(404, "GET /");
	ask("GET", "/v1/policies/a/b", "");
	expect_problem(404, "GET /");
	ask("GET", "/v1/take", "");
	expect_problem(405, "Allow");
	expect_head("Allow: POST\r\n");
	ask("PATCH", "/v1/overrides", "");
	expect_head("Allow: GET, HEAD, PUT, DELETE\r\n");
	ask_with("POST", "/v1/take", "Content-Type: text/plain\r\n", "{}");
	expect_problem(415, "application/json");
	cr_assert_eq(ask_with("GET", "/", "Accept: text/plain\r\n", ""), 200);
	cr_assert_not_null(strstr(reply.body, "/v1/check"));
	cr_assert_eq(ask_with("GET", "/", "Accept: text/html,*/*;q=0.8\r\n", ""), 200);
	expect_head("Content-Type: text/html; charset=utf-8\r\n");
	cr_assert_eq(ask("GET", "/", ""), 200);
	expect_head("Content-Security-Policy: default-src 'self';");
	ask("GET", "/assets/0123456789abcdef/style.css", "");
	expect_problem(404, "load `/` again");
	cr_assert_eq(ask("GET", "http://any:1/healthz", ""), 200);
}

Test(front_http, tokens)
{
	const char *take = "{\"policy\":\"p\",\"key\":\"k\"}";

	use_tokens("worker secret-one-1234567 check\noperator secret-two-1234567 admin\n");
	ask("POST", "/v1/take", take);
	expect_problem(401, "Bearer");
	expect_head("WWW-Authenticate: Bearer\r\n");
	ask_with("POST", "/v1/take", "Authorization: Basic abc\r\n", take);
	expect_problem(401, "Bearer");
	ask_with("POST", "/v1/take", "Authorization: Bearer wrong\r\n", take);
	expect_problem(401, "not known");
	cr_assert_null(strstr(reply.body, "wrong"));
	expect_head("WWW-Authenticate: Bearer error=\"invalid_token\"\r\n");
	cr_assert_eq(
		ask_with("POST", "/v1/take", "Authorization: bearer  secret-one-1234567\r\n", take),
		200);
	ask_with("POST", "/v1/take", "Authorization: Bearer secret-two-1234567\r\n", take);
	expect_problem(403, "check");
	ask_with("GET", "/v1/policies", "Authorization: Bearer secret-one-1234567\r\n", "");
	expect_problem(403, "admin");
	cr_assert_eq(ask_with("PUT", "/v1/policies/a",
			      "Authorization: Bearer secret-two-1234567\r\n", "{\"limit\":1}"),
		     200);
	cr_assert_str_eq(fake.changed, "put a by token:operator, 1 members");
	cr_assert_eq(ask("GET", "/metrics", ""), 401);
	cr_assert_eq(ask("GET", "/healthz", ""), 200);
	cr_assert_eq(ask("GET", "/readyz", ""), 200);
	cr_assert_eq(fake.decided, 1);
}

/* ---- administration ---- */

Test(front_http, administration)
{
	cr_assert_eq(ask("GET", "/v1/policies", ""), 200);
	expect_body("{\"policies\":[{\"name\":\"captcha-submit\"}]}");
	cr_assert_eq(ask("PUT", "/v1/policies/a%2Db", "{}"), 200);
	cr_assert_str_eq(fake.changed, "put a-b by local, 0 members");
	cr_assert_eq(ask("DELETE", "/v1/policies/a", ""), 204);
	cr_assert_str_eq(fake.changed, "delete a by local");
	cr_assert_eq(ask("GET", "/v1/overrides", ""), 200);
	cr_assert_eq(ask("PUT", "/v1/overrides", "{\"policy\":\"p\",\"key\":\"k\"}"), 200);
	cr_assert_str_eq(fake.changed, "override k by local");
	cr_assert_eq(ask("DELETE", "/v1/overrides?policy=p&key=a%20b", ""), 204);
	cr_assert_str_eq(fake.changed, "delete p key a b by local");
	cr_assert_eq(ask("DELETE", "/v1/overrides?policy=p&prefix=", ""), 204);
	cr_assert_str_eq(fake.changed, "delete p prefix  by local");
	ask("DELETE", "/v1/overrides?policy=p", "");
	expect_problem(400, "either `key` or `prefix`");
	ask("DELETE", "/v1/overrides?policy=p&key=k&prefix=k", "");
	expect_problem(400, "either `key` or `prefix`");
	fake.control_status = KOVA_ECONFIG;
	ask("PUT", "/v1/policies/a", "{}");
	expect_problem(400, "`limit` must be \"so\"");
	fake.control_status = KOVA_ENOTFOUND;
	ask("DELETE", "/v1/policies/a", "");
	expect_problem(404, "");
	fake.control_status = KOVA_EIO;
	ask("PUT", "/v1/overrides", "{}");
	expect_problem(503, "could not be kept");
}

Test(front_http, what_is_known)
{
	ask("GET", "/v1/members", "");
	json_t *json = json_loads(reply.body, 0, NULL);
	const char *address = NULL, *name = NULL;
	cr_assert_eq(
		json_unpack(json, "{s:[{s:s,s:s}]}", "members", "address", &address, "node", &name),
		0, "%s", reply.body);
	cr_assert_str_eq(address, listener_address(front));
	cr_assert_str_eq(name, "worker-17");
	json_decref(json);
	ask("GET", "/v1/usage?policy=p&key=a/b", "");
	expect_body("{\"policy\":\"p\",\"key\":\"a/b\",\"admitted\":1,\"refused\":2,\"waited\":3,"
		    "\"since\":\"2026-11-30T00:00:00.123Z\"}\n");
	ask("GET", "/v1/usage?policy=p&key=other", "");
	cr_assert_not_null(strstr(reply.body, "\"since\":null"));
	ask("GET", "/v1/usage?policy=missing&key=k", "");
	expect_problem(404, "policy");
	ask("GET", "/v1/home?key=acme/user/x", "");
	expect_body("{\"key\":\"acme/user/x\",\"root\":\"acme\",\"region\":\"eu-west\"}\n");
}

Test(front_http, operations)
{
	cr_assert_eq(ask("GET", "/readyz", ""), 200);
	cr_assert_not_null(strstr(reply.body, "\"status\":\"ready\",\"degraded\":[]"));
	fake.shards_up = 2;
	cr_assert_eq(ask("GET", "/readyz", ""), 200);
	cr_assert_not_null(strstr(reply.body, "\"status\":\"degraded\",\"degraded\":[\"redis\"]"));
	cr_assert_eq(ask("GET", "/metrics", ""), 200);
	expect_head("Content-Type: application/openmetrics-text; version=1.0.0");
	cr_assert_str_eq(reply.body + strlen(reply.body) - 6, "# EOF\n");
	cr_assert_not_null(strstr(reply.body, "\nkova_redis_commands_total 7\n"));
	cr_assert_not_null(strstr(reply.body, "\nkova_outage{part=\"redis\"} 1\n"));
	cr_assert_not_null(strstr(reply.body, "\nkova_outage_keys_full_total 7\n"));
	cr_assert_eq(ask_with("GET", "/metrics", "Accept: text/plain\r\n", ""), 200);
	expect_head("Content-Type: text/plain; version=0.0.4");
	cr_assert_null(strstr(reply.body, "# EOF"));
	agent.draining = true;
	cr_assert_eq(ask("GET", "/readyz", ""), 503);
	cr_assert_eq(ask("GET", "/healthz", ""), 200);
}

/* Series stay bounded: policies beyond the first thousand are one. */
Test(front_http, policies_in_metrics)
{
	static struct ops_policies policies;
	struct ops_totals totals = {.policies = &policies};
	struct buf b = {0};

	for (unsigned i = 0; i < OPS_POLICIES_MAX + 3; i++) {
		char name[16];
		int n = snprintf(name, sizeof name, "p%u", i);

		policy_counts_of(policy_stats_get((struct slice){name, (size_t)n}), 0)->allowed = i;
	}
	ops_add(&agent, &totals);
	ops_metrics(&totals, &b, true);
	buf_add(&b, "", 1);
	cr_assert_not_null(
		strstr(b.ptr, "kova_decisions_total{policy=\"p999\",outcome=\"allowed\"} 999\n"));
	cr_assert_not_null(strstr(
		b.ptr, "kova_decisions_total{policy=\"(other)\",outcome=\"allowed\"} 3003\n"));
	cr_assert_null(strstr(b.ptr, "\"p1000\""));
	cr_assert_not_null(strstr(b.ptr, "kova_waiters{policy=\"(other)\"} 0\n"));
	buf_release(&b);
}

/* ---- connections ---- */

Test(front_http, pipelined)
{
	int fd = dial();

	send_text(fd, "GET /v1/check?policy=later&key=a HTTP/1.1\r\nHost: h\r\n\r\n"
		      "GET /v1/check?policy=no&key=b HTTP/1.1\r\nHost: h\r\n\r\n"
		      "GET /v1/home?key=c HTTP/1.1\r\nHost: h\r\n\r\n");
	turn(5);
	cr_assert_not_null(fake.later);
	cr_assert_eq(fake.decided, 2);
	fake_answer_later();
	recv_reply(fd, &reply, false);
	cr_assert_eq(reply.status, 200);
	recv_reply(fd, &reply, false);
	cr_assert_eq(reply.status, 429);
	recv_reply(fd, &reply, false);
	cr_assert_not_null(strstr(reply.body, "\"key\":\"c\""));
	close(fd);
}

/* Who hangs up while waiting leaves the queue. */
Test(front_http, hang_up)
{
	int fd = dial();

	send_text(fd, "GET /v1/check?policy=later&key=a&wait_ms=60000 HTTP/1.1\r\nHost: h\r\n\r\n");
	turn(5);
	cr_assert_not_null(fake.later);
	close(fd);
	for (int i = 0; i < 500 && fake.abandoned == 0; i++) {
		turn(1);
		usleep(1000);
	}
	cr_assert_eq(fake.abandoned, 1);
}

/* The same when it had said that this request is its last: nginx does. */
Test(front_http, hang_up_of_a_last_request)
{
	int fd = dial();

	send_text(fd, "GET /v1/check?policy=later&key=a&wait_ms=60000 HTTP/1.0\r\n\r\n");
	turn(5);
	cr_assert_not_null(fake.later);
	close(fd);
	for (int i = 0; i < 500 && fake.abandoned == 0; i++) {
		turn(1);
		usleep(1000);
	}
	cr_assert_eq(fake.abandoned, 1);
}

/* Who shuts its side and does not wait still gets its answer. */
Test(front_http, half_closed)
{
	int fd = dial();

	send_text(fd, "GET /v1/check?policy=later&key=a HTTP/1.1\r\nHost: h\r\n\r\n");
	shutdown(fd, SHUT_WR);
	turn(5);
	cr_assert_eq(fake.abandoned, 0);
	fake_answer_later();
	recv_reply(fd, &reply, false);
	cr_assert_eq(reply.status, 200);
	expect_head("Connection: close\r\n");
	close(fd);
}

Test(front_http, keep_alive_and_close)
{
	int fd = dial();
	char byte;

	send_text(fd, "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
	recv_reply(fd, &reply, false);
	expect_no_head("Connection:");
	send_text(fd, "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	recv_reply(fd, &reply, false);
	expect_head("Connection: close\r\n");
	cr_assert_eq(recv_some(fd, &byte, 1), 0);
	close(fd);
}

Test(front_http, too_large)
{
	static char body[70000];

	memset(body, ' ', sizeof body - 1);
	ask("POST", "/v1/take", body);
	expect_problem(413, "longer");
	cr_assert_eq(ask("PUT", "/v1/policies/a", body), 400, "administration takes more");
	cr_assert_eq(fake.decided, 0);
}

/* A request that drips is given up after 20 s, however busy it looks. */
Test(front_http, slow_request)
{
	int fd = dial();
	struct pollfd p = {.fd = fd, .events = POLLIN};

	send_text(fd, "GET /healthz HTTP/1.1\r\nHost: h\r\n");
	for (int i = 0; i < 250 && poll(&p, 1, 0) == 0; i++) {
		send_text(fd, i == 0 ? "X: " : "y"); /* one field without end */
		usleep(100000);
	}
	recv_reply(fd, &reply, false);
	expect_problem(408, "in time");
	close(fd);
}
