/*
 * A closed-loop load generator for RESP and HTTP/1.1 servers on loopback: CONNECTIONS connections, each with
 * IN_FLIGHT requests under way at any time, on one thread.
 *
 * Whatever replies one read brings are replaced at once by as many requests in one write, so a server that answers
 * each request by a write of its own is not held back, as it is by a client that waits for a whole batch. The clock
 * is read once a wake-up of the loop, before the reads.
 *
 * Happy path: connect all, write IN_FLIGHT requests each, then on_readable() counts replies and sends the next ones
 * until --requests were sent; ends when all were answered. A connection that fails or a reply that is no reply ends
 * the run with exit status 1. With --pool a reply that brings a ticket is followed by its report, good, in the place of a next one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <llhttp.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "core/buf.h"

enum {
	CONNECTIONS_MAX = 1000,
	IN_FLIGHT_MAX = 1024,
	KEY_DIGITS = 12,
	READ_BYTES = 256 * 1024,
	BUCKETS = 200000
};

/* The place of a key's number in a request. */
static const char PLACEHOLDER[] = "{key}";

struct options {
	bool http;
	unsigned port, connections, in_flight, keys;
	uint64_t requests;
	char *pool; /* what is asked for endpoints; NULL: the template */
};

/* A request before its key is filled in. */
struct template
{
	struct buf bytes;
	size_t key_at; /* SIZE_MAX: every request is the same */
};

struct conn {
	int fd;
	redisReader *reader; /* RESP */
	llhttp_t http;       /* HTTP */
	struct buf body;     /* of its answer, where tickets are looked for */
	struct buf out;
	uint64_t sent_us[IN_FLIGHT_MAX]; /* a ring: when the requests under way were sent */
	unsigned oldest, under_way;
};

static struct options options = {.connections = 50, .in_flight = 1, .keys = 1, .requests = 100000};
static struct template template = {.key_at = SIZE_MAX};
static struct conn *conns;
static llhttp_settings_t http_settings;
static uint64_t sent, answered, now_us, dice = 88172645463325252ULL;
static uint32_t latencies[BUCKETS]; /* how many took this many µs; the last: as long or longer */

_Noreturn static void fail(const char *what)
{
	fprintf(stderr, "load: %s\n", what);
	exit(1);
}

static uint64_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- Requests ---- */

static unsigned next_key(void) /* xorshift64, Marsaglia 2003 */
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (unsigned)(dice % options.keys);
}

/* `text` with PLACEHOLDER made room of KEY_DIGITS zeros. */
static void add_text(struct buf *b, const char *text)
{
	const char *at = strstr(text, PLACEHOLDER);

	if (at == NULL) {
		buf_add_text(b, text);
		return;
	}
	buf_printf(b, "%.*s", (int)(at - text), text);
	template.key_at = b->len;
	buf_printf(b, "%0*d%s", KEY_DIGITS, 0, at + strlen(PLACEHOLDER));
}

static void make_resp(char **words, int n)
{
	size_t digits = KEY_DIGITS - strlen(PLACEHOLDER);

	buf_printf(&template.bytes, "*%d\r\n", n);
	for (int i = 0; i < n; i++) {
		buf_printf(&template.bytes, "$%zu\r\n",
			   strlen(words[i]) + (strstr(words[i], PLACEHOLDER) ? digits : 0));
		add_text(&template.bytes, words[i]);
		buf_add_text(&template.bytes, "\r\n");
	}
}

/* words: METHOD TARGET [BODY, of JSON] */
static void make_http(char **words, int n)
{
	size_t digits = KEY_DIGITS - strlen(PLACEHOLDER);

	if (n < 2 || n > 3)
		fail("HTTP needs METHOD TARGET [BODY]");
	buf_printf(&template.bytes, "%s ", words[0]);
	add_text(&template.bytes, words[1]);
	buf_add_text(&template.bytes, " HTTP/1.1\r\nHost: localhost\r\n");
	if (n == 3)
		buf_printf(&template.bytes,
			   "Content-Type: application/json\r\nContent-Length: %zu\r\n",
			   strlen(words[2]) + (strstr(words[2], PLACEHOLDER) ? digits : 0));
	buf_add_text(&template.bytes, "\r\n");
	if (n == 3)
		add_text(&template.bytes, words[2]);
}

static void count_request(struct conn *c)
{
	if (buf_failed(&c->out))
		fail("out of memory");
	c->sent_us[(c->oldest + c->under_way++) % IN_FLIGHT_MAX] = now_us;
	sent++;
}

static void add_request(struct conn *c)
{
	size_t start = c->out.len;
	unsigned key;

	buf_add(&c->out, template.bytes.ptr, template.bytes.len);
	if (buf_failed(&c->out))
		fail("out of memory");
	if (template.key_at != SIZE_MAX) {
		key = next_key();
		for (size_t i = KEY_DIGITS; i-- > 0; key /= 10)
			c->out.ptr[start + template.key_at + i] = (char)('0' + key % 10);
	}
	count_request(c);
}

static void make_next(void)
{
	char path[128];
	char method[] = "POST", body[] = "{}", command[] = "KOVA.POOL.NEXT";
	char *http[] = {method, path, body}, *resp[] = {command, options.pool};

	snprintf(path, sizeof path, "/v1/pools/%s/next", options.pool);
	if (options.http)
		make_http(http, 3);
	else
		make_resp(resp, 2);
}

static void add_report(struct conn *c, const char *ticket, size_t len)
{
	const char *pool = options.pool;
	char body[256];
	int n;

	if (sent == options.requests)
		return;
	n = snprintf(body, sizeof body, "{\"ticket\":\"%.*s\",\"outcome\":\"ok\"}", (int)len,
		     ticket);
	if (options.http)
		buf_printf(&c->out,
			   "POST /v1/pools/%s/report HTTP/1.1\r\nHost: localhost\r\n"
			   "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
			   pool, n, body);
	else
		buf_printf(&c->out,
			   "*4\r\n$16\r\nKOVA.POOL.REPORT\r\n$%zu\r\n%s\r\n$%zu\r\n%.*s\r\n"
			   "$2\r\nok\r\n",
			   strlen(pool), pool, len, (int)len, ticket);
	count_request(c);
}

static void refill(struct conn *c)
{
	while (c->under_way < options.in_flight && sent < options.requests)
		add_request(c);
	while (c->out.len > 0) {
		ssize_t n = send(c->fd, c->out.ptr, c->out.len, MSG_NOSIGNAL);

		if (n < 0)
			fail("connection lost while writing");
		buf_consume(&c->out, (size_t)n);
	}
}

/* ---- Replies ---- */

static void on_reply(struct conn *c)
{
	uint64_t took;

	if (c->under_way == 0)
		fail("a reply that nobody asked for");
	took = now_us - c->sent_us[c->oldest];
	latencies[took < BUCKETS - 1 ? took : BUCKETS - 1]++;
	c->oldest = (c->oldest + 1) % IN_FLIGHT_MAX;
	c->under_way--;
	answered++;
}

static void read_resp(struct conn *c, const char *bytes, size_t len)
{
	redisReply *reply;

	if (redisReaderFeed(c->reader, bytes, len) != REDIS_OK)
		fail("no RESP");
	for (;;) {
		if (redisReaderGetReply(c->reader, (void **)&reply) != REDIS_OK)
			fail("no RESP");
		if (reply == NULL)
			return;
		if (reply->type == REDIS_REPLY_ERROR)
			fail(reply->str);
		on_reply(c);
		if (options.pool != NULL && reply->type == REDIS_REPLY_ARRAY &&
		    reply->elements > 1 && reply->element[1]->type == REDIS_REPLY_STRING)
			add_report(c, reply->element[1]->str, reply->element[1]->len);
		freeReplyObject(reply);
	}
}

static int on_http_body(llhttp_t *parser, const char *at, size_t len)
{
	struct conn *c = parser->data;

	buf_add(&c->body, at, len);
	return 0;
}

static int on_http_complete(llhttp_t *parser)
{
	static const char name[] = "\"ticket\":\"";
	struct conn *c = parser->data;
	unsigned status = parser->status_code;
	const char *ticket;

	if (status != 200 && status != 429)
		fail("an answer that is neither 200 nor 429");
	on_reply(c);
	buf_add(&c->body, "", 1);
	if (buf_failed(&c->body))
		fail("out of memory");
	ticket = options.pool != NULL ? strstr(c->body.ptr, name) : NULL;
	if (ticket != NULL)
		add_report(c, ticket + strlen(name), strcspn(ticket + strlen(name), "\""));
	buf_clear(&c->body);
	return 0;
}

static void on_readable(struct conn *c)
{
	static char bytes[READ_BYTES];
	ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);

	if (n <= 0)
		fail("connection lost");
	if (!options.http)
		read_resp(c, bytes, (size_t)n);
	else if (llhttp_execute(&c->http, bytes, (size_t)n) != HPE_OK)
		fail(llhttp_get_error_reason(&c->http));
	refill(c);
}

/* ---- The run ---- */

static void open_conn(struct conn *c, int epoll)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons((uint16_t)options.port)};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	int on = 1;

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0)
		fail("cannot connect");
	if (setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
	    epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
		fail(strerror(errno));
	c->reader = redisReaderCreate();
	llhttp_init(&c->http, HTTP_RESPONSE, &http_settings);
	c->http.data = c;
}

static void run(void)
{
	struct epoll_event events[64];
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	conns = calloc(options.connections, sizeof *conns);
	if (epoll < 0 || conns == NULL)
		fail("out of memory");
	for (unsigned i = 0; i < options.connections; i++)
		open_conn(&conns[i], epoll);
	now_us = clock_us();
	for (unsigned i = 0; i < options.connections; i++)
		refill(&conns[i]);
	while (answered < options.requests) {
		int n = epoll_wait(epoll, events, 64, 10000);

		if (n == 0)
			fail("no reply for 10 s");
		now_us = clock_us();
		for (int i = 0; i < n; i++)
			on_readable(events[i].data.ptr);
	}
}

/* The latency in µs that `share` of the requests did not exceed. */
static unsigned quantile(double share)
{
	uint64_t rank = (uint64_t)((double)answered * share), seen = 0;

	for (unsigned us = 0; us < BUCKETS; us++) {
		seen += latencies[us];
		if (seen > rank)
			return us;
	}
	return BUCKETS - 1;
}

static void print_figures(uint64_t took_us)
{
	printf("{\"rps\": %.0f, \"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u}\n",
	       (double)answered * 1e6 / (double)took_us, quantile(0.5), quantile(0.99),
	       quantile(0.999));
}

static unsigned number(const char *text, unsigned max, const char *what)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*end != '\0' || value < 1 || value > max) {
		fprintf(stderr, "load: %s must be 1 to %u\n", what, max);
		exit(2);
	}
	return (unsigned)value;
}

static void read_options(int argc, char **argv)
{
	static const struct option table[] = {
		{"resp", required_argument, NULL, 'r'},
		{"http", required_argument, NULL, 'h'},
		{"connections", required_argument, NULL, 'c'},
		{"in-flight", required_argument, NULL, 'P'},
		{"keys", required_argument, NULL, 'k'},
		{"requests", required_argument, NULL, 'n'},
		{"pool", required_argument, NULL, 'p'},
		{0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "+r:h:c:P:k:n:p:", table, NULL)) != -1) {
		if (option == 'r' || option == 'h')
			options.port = number(optarg, 65535, "the port"),
			options.http = option == 'h';
		else if (option == 'c')
			options.connections = number(optarg, CONNECTIONS_MAX, "--connections");
		else if (option == 'P')
			options.in_flight = number(optarg, IN_FLIGHT_MAX, "--in-flight");
		else if (option == 'k')
			options.keys = number(optarg, 100000000, "--keys");
		else if (option == 'n')
			options.requests = number(optarg, 1000000000, "--requests");
		else if (option == 'p')
			options.pool = optarg;
		else
			options.port = 0, optind = argc;
	}
	if (options.port == 0 || (optind == argc) != (options.pool != NULL)) {
		fputs("usage: load (--resp PORT | --http PORT) [--connections N] [--in-flight N] "
		      "[--keys N] [--requests N] (WORD… | --pool NAME)\n"
		      "WORDs: a Redis command, or METHOD TARGET [JSON]; {key} in one of them "
		      "becomes a random key's number. A pool is asked for endpoints, "
		      "and each is reported\n",
		      stderr);
		exit(2);
	}
}

int main(int argc, char **argv)
{
	uint64_t begun;

	read_options(argc, argv);
	llhttp_settings_init(&http_settings);
	http_settings.on_body = on_http_body;
	http_settings.on_message_complete = on_http_complete;
	if (options.pool != NULL)
		make_next();
	else if (options.http)
		make_http(argv + optind, argc - optind);
	else
		make_resp(argv + optind, argc - optind);
	if (buf_failed(&template.bytes))
		fail("out of memory");
	begun = clock_us();
	run();
	print_figures(clock_us() - begun);
	return 0;
}
