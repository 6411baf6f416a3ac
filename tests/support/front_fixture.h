/*
 * A loop with a pool of connections and one front on a free port, and clients in the same thread:
 * each wait of a client turns the loop. Include it after fake_engine.h, in one file of a test.
 */
#pragma once

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent_conns.h"
#include "io/auth.h"
#include "io/conn.h"
#include "io/listener.h"
#include "ops.h"

enum { FIXTURE_PATIENCE_MS = 5000 };

static uv_loop_t loop;
static struct agent agent;
static struct conn_pool *pool;
static struct listener *listener;
static int port;

static inline void turn(void)
{
	uv_run(&loop, UV_RUN_NOWAIT);
}

static inline void turn_for(unsigned ms)
{
	uint64_t end = uv_hrtime() + (uint64_t)ms * 1000000;

	while (uv_hrtime() < end) {
		turn();
		(void)usleep(1000);
	}
}

#define TURN_UNTIL(condition)                                                          \
	do {                                                                           \
		uint64_t end_ = uv_hrtime() + (uint64_t)FIXTURE_PATIENCE_MS * 1000000; \
		while (!(condition)) {                                                 \
			cr_assert_lt(uv_hrtime(), end_, "never: %s", #condition);      \
			turn();                                                        \
		}                                                                      \
	} while (0)

static inline void start_front(const struct front_ops *front, const char *tokens_file,
			       uint32_t max_clients)
{
	struct buf error = {0};

	cr_assert_eq(uv_loop_init(&loop), 0);
	agent = (struct agent){.loop = &loop, .engine = &fake};
	agent.auth = auth_new(&(struct auth_terms){.tokens_file = tokens_file}, &error);
	cr_assert_not_null(agent.auth, "%.*s", (int)error.len, error.ptr);
	pool = agent_conns_new(&agent, max_clients);
	cr_assert_not_null(pool);
	ops_start(&agent, pool);
	listener = listener_start(pool, "127.0.0.1:0", front, false, &error);
	cr_assert_not_null(listener, "%.*s", (int)error.len, error.ptr);
	port = atoi(strrchr(listener_address(listener), ':') + 1);
}

static void on_pool_gone(void *data)
{
	*(bool *)data = true;
}

/* Everything must be gone: no request, no handle, no memory (ASan). */
static inline void stop_front(void)
{
	bool gone = false;

	ops_stop(&agent);
	if (listener != NULL)
		listener_stop(listener);
	conn_pool_close(pool, on_pool_gone, &gone);
	TURN_UNTIL(gone);
	uv_run(&loop, UV_RUN_DEFAULT);
	cr_assert_eq(uv_loop_close(&loop), 0, "a handle is still open");
	auth_free(agent.auth);
	cr_assert_eq(fake.live, 0, "%u requests were not freed", fake.live);
}

static inline int dial(void)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	return fd;
}

static inline void say_bytes(int fd, const char *ptr, size_t len)
{
	uint64_t end = uv_hrtime() + (uint64_t)FIXTURE_PATIENCE_MS * 1000000;

	while (len > 0) {
		ssize_t n = send(fd, ptr, len, MSG_NOSIGNAL);

		cr_assert(n > 0 || errno == EAGAIN, "send: %s", strerror(errno));
		cr_assert_lt(uv_hrtime(), end, "%zu bytes are not taken", len);
		if (n > 0) {
			ptr += n;
			len -= (size_t)n;
		}
		turn();
	}
}

static inline void say(int fd, const char *text)
{
	say_bytes(fd, text, strlen(text));
}

/* Reads exactly `len` bytes. */
static inline void hear_bytes(int fd, char *ret_bytes, size_t len)
{
	uint64_t end = uv_hrtime() + (uint64_t)FIXTURE_PATIENCE_MS * 1000000;
	size_t have = 0;

	while (have < len) {
		ssize_t n = recv(fd, ret_bytes + have, len - have, 0);

		cr_assert_neq(n, 0, "end of stream after '%.*s'", (int)have, ret_bytes);
		cr_assert(n > 0 || errno == EAGAIN, "recv: %s", strerror(errno));
		cr_assert_lt(uv_hrtime(), end, "only '%.*s' came", (int)have, ret_bytes);
		if (n > 0)
			have += (size_t)n;
		else
			turn();
	}
}

static inline void expect(int fd, const char *text)
{
	size_t len = strlen(text);
	char *got = malloc(len + 1);

	cr_assert_not_null(got);
	hear_bytes(fd, got, len);
	got[len] = '\0';
	cr_assert_str_eq(got, text);
	free(got);
}

/* Reads to the end of the stream; returns a string to be freed. */
static inline char *hear_all(int fd)
{
	struct buf b = {0};
	uint64_t end = uv_hrtime() + (uint64_t)FIXTURE_PATIENCE_MS * 1000000;

	for (;;) {
		char part[4096];
		ssize_t n = recv(fd, part, sizeof part, 0);

		if (n == 0)
			break;
		cr_assert(n > 0 || errno == EAGAIN, "recv: %s", strerror(errno));
		cr_assert_lt(uv_hrtime(), end, "no end of stream");
		if (n > 0)
			buf_add(&b, part, (size_t)n);
		else
			turn();
	}
	buf_add(&b, "", 1);
	return b.ptr;
}

static inline void expect_end(int fd, const char *text)
{
	char *got = hear_all(fd);

	cr_assert_str_eq(got, text);
	free(got);
}

/* Nothing has come, and the connection is open. */
static inline void expect_silence(int fd)
{
	char byte;

	turn_for(20);
	cr_assert_eq(recv(fd, &byte, 1, 0), -1, "something came: %c", byte);
	cr_assert_eq(errno, EAGAIN);
}

static void keep_first(const struct conn *c, void *data)
{
	memcpy(data, &c, sizeof c);
}

/* The connection that was opened first. */
static inline struct conn *first_conn(void)
{
	struct conn *c = NULL;

	conn_pool_each(pool, keep_first, &c);
	cr_assert_not_null(c);
	return c;
}
