#include "fake_redis.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void on_conn_closed(uv_handle_t *handle)
{
	struct fake_conn *conn = handle->data;

	buf_release(&conn->in);
	buf_release(&conn->owed);
	for (size_t i = 0; i < FAKE_CONNS_MAX; i++)
		if (conn->server->conns[i] == conn)
			conn->server->conns[i] = NULL;
	free(conn);
}

static void conn_close(struct fake_conn *conn)
{
	if (!conn->open)
		return;
	conn->open = false;
	uv_close((uv_handle_t *)&conn->tcp, on_conn_closed);
}

void fake_reset(struct fake_conn *conn)
{
	if (!conn->open)
		return;
	conn->open = false;
	if (uv_tcp_close_reset(&conn->tcp, on_conn_closed) != 0)
		uv_close((uv_handle_t *)&conn->tcp,
			 on_conn_closed); /* a write is still under way */
}

bool fake_is(const struct fake_command *command, const char *name)
{
	return command->n > 0 && command->word[0].len == strlen(name) &&
	       strncasecmp(command->word[0].ptr, name, command->word[0].len) == 0;
}

static void send_now(struct fake_conn *conn, const char *text)
{
	uv_buf_t bytes = uv_buf_init((char *)text, (unsigned)strlen(text));

	if (!conn->open)
		return;
	int n = uv_try_write((uv_stream_t *)&conn->tcp, &bytes, 1);
	assert(n < 0 || (size_t)n == bytes.len);
}

void fake_owe(struct fake_conn *conn, const char *text)
{
	buf_add_text(&conn->owed, text);
}

void fake_pay(struct fake_redis *f)
{
	for (size_t i = 0; i < FAKE_CONNS_MAX; i++) {
		if (f->conns[i] == NULL || f->conns[i]->owed.len == 0)
			continue;
		buf_add(&f->conns[i]->owed, "", 1);
		fake_send(f->conns[i], f->conns[i]->owed.ptr);
		buf_clear(&f->conns[i]->owed);
	}
}

struct later {
	uv_timer_t timer;
	struct fake_redis *server;
	struct fake_conn *conn;
	char text[];
};

static void on_later_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void on_later(uv_timer_t *timer)
{
	struct later *later = timer->data;

	for (size_t i = 0; i < FAKE_CONNS_MAX; i++)
		if (later->conn != NULL && later->server->conns[i] == later->conn)
			send_now(later->conn, later->text);
	uv_close((uv_handle_t *)timer, on_later_closed);
}

/* Timers of the same instant fire in the order in which they were started. */
static void send_at(struct fake_conn *conn, const char *text, uint64_t at_ms)
{
	struct later *later = calloc(1, sizeof(*later) + strlen(text) + 1);
	uint64_t now_ms = uv_now(conn->server->loop);

	later->server = conn->server;
	later->conn = conn;
	strcpy(later->text, text);
	uv_timer_init(conn->server->loop, &later->timer);
	later->timer.data = later;
	conn->busy_until_ms = at_ms;
	uv_timer_start(&later->timer, on_later, at_ms > now_ms ? at_ms - now_ms : 0, 0);
}

void fake_send_later(struct fake_conn *conn, const char *text, uint64_t delay_ms)
{
	uint64_t at_ms = uv_now(conn->server->loop) + delay_ms;

	send_at(conn, text, at_ms > conn->busy_until_ms ? at_ms : conn->busy_until_ms);
}

void fake_send(struct fake_conn *conn, const char *text)
{
	if (conn->busy_until_ms >= uv_now(conn->server->loop))
		send_at(conn, text, conn->busy_until_ms);
	else
		send_now(conn, text);
}

static void send_pong(struct fake_conn *conn, const struct fake_command *command)
{
	char text[128];
	struct slice said = command->word[1];

	assert(said.len < 64);
	snprintf(text, sizeof text, "$%zu\r\n%.*s\r\n", said.len, (int)said.len, said.ptr);
	fake_send(conn, text);
}

bool fake_login(struct fake_conn *conn, const struct fake_command *command)
{
	if (fake_is(command, "PING") && command->n > 1)
		send_pong(conn, command);
	else if (fake_is(command, "PING"))
		fake_send(conn, "+PONG\r\n");
	else if (fake_is(command, "ROLE"))
		fake_send(conn, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
	else if (fake_is(command, "AUTH") || fake_is(command, "SELECT") ||
		 fake_is(command, "ASKING"))
		fake_send(conn, "+OK\r\n");
	else
		return false;
	return true;
}

/* "<mark><digits>\r\n" at `at`. Returns what follows, or NULL: not whole. */
static const char *number_read(const char *at, const char *end, char mark, size_t *ret_number)
{
	const char *nl = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;

	if (nl == NULL)
		return NULL;
	assert(*at == mark);
	*ret_number = strtoul(at + 1, NULL, 10);
	return nl + 1;
}

/* Bytes of a whole command at the beginning; 0: not whole. */
static size_t command_parse(struct slice in, struct fake_command *ret_command)
{
	const char *end = in.ptr + in.len;
	size_t len;
	const char *at = number_read(in.ptr, end, '*', &ret_command->n);

	assert(at == NULL || ret_command->n <= FAKE_WORDS_MAX);
	for (size_t i = 0; at != NULL && i < ret_command->n; i++) {
		at = number_read(at, end, '$', &len);
		if (at == NULL || (size_t)(end - at) < len + 2)
			return 0;
		ret_command->word[i] = (struct slice){at, len};
		at += len + 2;
	}
	return at != NULL ? (size_t)(at - in.ptr) : 0;
}

static void handle(struct fake_conn *conn, const struct fake_command *command)
{
	struct fake_redis *f = conn->server;

	conn->n_commands++;
	f->n_commands++;
	if (f->script != NULL)
		f->script(conn, command, f->data);
	else if (!fake_login(conn, command))
		fake_send(conn, "+OK\r\n");
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
	struct fake_conn *conn = stream->data;
	struct fake_command command;
	size_t len;

	if (n > 0)
		buf_add(&conn->in, bytes->base, (size_t)n);
	free(bytes->base);
	if (n < 0) {
		conn_close(conn);
		return;
	}
	while (conn->open && (len = command_parse(buf_slice(&conn->in), &command)) > 0) {
		handle(conn, &command);
		if (conn->open)
			buf_consume(&conn->in, len);
	}
}

static void on_alloc(uv_handle_t *h, size_t size, uv_buf_t *ret_bytes)
{
	(void)h;
	*ret_bytes = uv_buf_init(malloc(size), (unsigned)size);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct fake_redis *f = listener->data;
	struct fake_conn *conn = calloc(1, sizeof(*conn));

	assert(status == 0);
	conn->server = f;
	conn->open = true;
	uv_tcp_init(f->loop, &conn->tcp);
	conn->tcp.data = conn;
	int r = uv_accept(listener, (uv_stream_t *)&conn->tcp);
	assert(r == 0);
	uv_tcp_nodelay(&conn->tcp,
		       1); /* two answers soon after each other must not wait for an ACK */
	f->n_conns++;
	size_t i = 0;
	while (f->conns[i] != NULL)
		i++;
	assert(i < FAKE_CONNS_MAX);
	f->conns[i] = conn;
	if (f->reject)
		conn_close(conn);
	else
		uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
}

void fake_redis_listen(struct fake_redis *f)
{
	struct sockaddr_in address;
	int len = sizeof address;

	uv_tcp_init(f->loop, &f->listener);
	f->listener.data = f;
	uv_ip4_addr("127.0.0.1", f->port, &address);
	int r = uv_tcp_bind(&f->listener, (const struct sockaddr *)&address, 0);
	assert(r == 0);
	r = uv_listen((uv_stream_t *)&f->listener, 64, on_connection);
	assert(r == 0);
	uv_tcp_getsockname(&f->listener, (struct sockaddr *)&address, &len);
	f->port = ntohs(address.sin_port);
}

void fake_redis_start(struct fake_redis *f, uv_loop_t *loop, fake_script *script, void *data)
{
	*f = (struct fake_redis){.loop = loop, .script = script, .data = data};
	fake_redis_listen(f);
}

void fake_redis_refuse(struct fake_redis *f)
{
	if (uv_is_closing((uv_handle_t *)&f->listener))
		return;
	uv_close((uv_handle_t *)&f->listener, NULL);
	uv_run(f->loop, UV_RUN_NOWAIT); /* the handle is used again */
}

void fake_redis_reset_all(struct fake_redis *f)
{
	for (size_t i = 0; i < FAKE_CONNS_MAX; i++)
		if (f->conns[i] != NULL)
			fake_reset(f->conns[i]);
}

void fake_redis_stop(struct fake_redis *f)
{
	if (!uv_is_closing((uv_handle_t *)&f->listener))
		uv_close((uv_handle_t *)&f->listener, NULL);
	for (size_t i = 0; i < FAKE_CONNS_MAX; i++)
		if (f->conns[i] != NULL)
			conn_close(f->conns[i]);
}
