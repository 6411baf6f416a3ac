/*
 * Listening: address → bound socket → on_connection() for each client. listener_stop() closes the
 * handle; its close callback is the only place that frees, also after a start that failed half-way.
 */
#include "io/listener.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/host_port.h"
#include "io/conn_pool.h"
#include "io/log.h"

enum { BACKLOG = 511, UNIX_MODE_MASK = 0117 /* leaves 0660 */ };

struct listener {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} io;
	struct conn_pool *pool;
	const struct front_ops *ops;
	bool tls;
	struct listener *next; /* in pool->listeners */
	struct listener *twin; /* of `localhost`: the one on [::1] */
	bool owes_accept;      /* there was no memory for a connection that libuv has offered */
	char address[CONN_ADDRESS_MAX];
};

/* ---- Addresses ---- */

struct endpoint {
	bool is_unix, is_localhost;
	struct sockaddr_storage tcp;
	char path[sizeof((struct sockaddr_un *)0)->sun_path];
};

/* Names are not looked up. */
static bool parse_tcp(struct slice address, struct endpoint *e)
{
	struct host_port a;
	char host[64];

	if (host_port_parse(address, &a) != KOVA_OK || a.host.len >= sizeof host)
		return false;
	memcpy(host, a.host.ptr, a.host.len);
	host[a.host.len] = '\0';
	if (a.bracketed) {
		struct sockaddr_in6 in6;

		if (uv_ip6_addr(host, a.port, &in6) != 0)
			return false;
		memcpy(&e->tcp, &in6, sizeof in6);
	} else {
		struct sockaddr_in in4;

		e->is_localhost = strcmp(host, "localhost") == 0;
		if (uv_ip4_addr(e->is_localhost ? "127.0.0.1" : host, a.port, &in4) != 0)
			return false;
		memcpy(&e->tcp, &in4, sizeof in4);
	}
	return true;
}

static bool parse_endpoint(const char *address, struct endpoint *ret_endpoint)
{
	struct endpoint e = {0};
	const char *path = strncmp(address, "unix:", 5) == 0 ? address + 5 : address;

	if (path != address || strchr(path, '/') != NULL) {
		size_t len = strlen(path);

		if (len == 0 || len >= sizeof e.path)
			return false;
		e.is_unix = true;
		memcpy(e.path, path, len + 1);
	} else if (!parse_tcp(slice_of(address), &e)) {
		return false;
	}
	*ret_endpoint = e;
	return true;
}

bool listener_address_is_local(const char *address)
{
	struct endpoint e;

	if (!parse_endpoint(address, &e))
		return false;
	if (e.is_unix)
		return true;
	if (e.tcp.ss_family == AF_INET6) {
		struct sockaddr_in6 in6;

		memcpy(&in6, &e.tcp, sizeof in6);
		return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
	}
	struct sockaddr_in in4;

	memcpy(&in4, &e.tcp, sizeof in4);
	return ntohl(in4.sin_addr.s_addr) >> 24 == 127;
}

/* ---- Unix sockets ---- */

/* 0, or the errno of connecting to it. */
static int knock(const char *path)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int error = 0;

	if (fd < 0)
		return errno;
	memcpy(un.sun_path, path, strlen(path) + 1);
	if (connect(fd, (const struct sockaddr *)&un, sizeof un) != 0)
		error = errno;
	(void)close(fd);
	return error;
}

/* Removes a socket file that was left behind: one on which the kernel knows no listener. */
static bool clear_stale(const char *path, struct buf *ret_error)
{
	struct stat st;
	int error;

	if (lstat(path, &st) != 0)
		return true; /* there is none, or bind() will say what is wrong */
	if (!S_ISSOCK(st.st_mode)) {
		buf_printf(ret_error, "unix:%s: there is a file of that name which is not a socket",
			   path);
		return false;
	}
	error = knock(path);
	if (error == 0 || error == EAGAIN) {
		buf_printf(ret_error, "unix:%s: another process listens there", path);
		return false;
	}
	if (error != ECONNREFUSED) {
		buf_printf(ret_error, "unix:%s: %s", path, strerror(error));
		return false;
	}
	if (unlink(path) != 0) {
		buf_printf(ret_error, "unix:%s: the stale socket can't be removed: %s", path,
			   strerror(errno));
		return false;
	}
	return true;
}

/* ---- Start and stop ---- */

static void on_connection(uv_stream_t *server, int status)
{
	struct listener *l = server->data;

	if (status != 0) {
		l->pool->counters.accept_errors++;
		log_event(LOG_WARN, "accept_failed", "a client can't be accepted",
			  LOG_TEXT_FIELD("listen", l->address),
			  LOG_TEXT_FIELD("why", uv_strerror(status)));
		return;
	}
	l->owes_accept = !conn_accept(l->pool, server, l->ops, l->tls);
}

void listener_sweep(struct listener *first)
{
	for (struct listener *l = first; l != NULL; l = l->next) {
		if (l->owes_accept)
			on_connection(&l->io.stream, 0);
	}
}

static void on_listener_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static int bind_unix(struct listener *l, const struct endpoint *e)
{
	mode_t mask = umask(UNIX_MODE_MASK);
	int r = uv_pipe_bind(&l->io.pipe, e->path);

	(void)umask(mask);
	snprintf(l->address, sizeof l->address, "unix:%s", e->path);
	return r;
}

static int bind_tcp(struct listener *l, const struct endpoint *e)
{
	return uv_tcp_bind(&l->io.tcp, (const struct sockaddr *)&e->tcp, 0);
}

static void name_tcp(struct listener *l)
{
	struct sockaddr_storage address = {0};
	int len = sizeof address;

	if (uv_tcp_getsockname(&l->io.tcp, (struct sockaddr *)&address, &len) == 0)
		conn_address_text(&address, l->address);
}

static int open_socket(struct listener *l, const struct endpoint *e)
{
	int r = e->is_unix ? uv_pipe_init(l->pool->place.loop, &l->io.pipe, 0)
			   : uv_tcp_init(l->pool->place.loop, &l->io.tcp);

	l->io.handle.data = l;
	if (r == 0)
		r = e->is_unix ? bind_unix(l, e) : bind_tcp(l, e);
	if (r == 0)
		r = uv_listen(&l->io.stream, BACKLOG, on_connection);
	if (r == 0 && !e->is_unix)
		name_tcp(l);
	return r;
}

static void link_last(struct listener *l)
{
	struct listener **at = &l->pool->listeners;

	while (*at != NULL)
		at = &(*at)->next;
	*at = l;
}

/* 0, or what libuv says. */
static int start_one(struct conn_pool *pool, const struct endpoint *e, const struct front_ops *ops,
		     bool tls, struct listener **ret_listener)
{
	struct listener *l = calloc(1, sizeof *l);

	if (l == NULL)
		return UV_ENOMEM;
	l->pool = pool;
	l->ops = ops;
	l->tls = tls;
	int r = open_socket(l, e);

	if (r != 0) {
		uv_close(&l->io.handle, on_listener_closed);
		return r;
	}
	link_last(l);
	*ret_listener = l;
	return 0;
}

/* `localhost` is [::1] as well, at the same port, where there is IPv6. */
static int start_twin(struct listener *l)
{
	struct endpoint e = {0};
	struct sockaddr_in in4 = {0};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int len = sizeof in4, r = uv_tcp_getsockname(&l->io.tcp, (struct sockaddr *)&in4, &len);

	if (r != 0)
		return r;
	in6.sin6_port = in4.sin_port;
	memcpy(&e.tcp, &in6, sizeof in6);
	r = start_one(l->pool, &e, l->ops, l->tls, &l->twin);
	return r == UV_EADDRNOTAVAIL || r == UV_EAFNOSUPPORT ? 0 : r;
}

static void say_error(struct buf *ret_error, const char *address, int r, const char *where)
{
	buf_printf(ret_error, "%s: %s%s%s", address, uv_strerror(r), where,
		   r == UV_EADDRINUSE ? "; stop what listens there, or set another address" : "");
}

struct listener *listener_start(struct conn_pool *pool, const char *address,
				const struct front_ops *ops, bool tls, struct buf *ret_error)
{
	struct endpoint e;
	struct listener *l = NULL;
	int r;

	if (!parse_endpoint(address, &e)) {
		buf_printf(
			ret_error,
			"\"%s\" is not an address: allowed are \"localhost:PORT\", "
			"\"127.0.0.1:PORT\", \"[::1]:PORT\" and \"unix:PATH\" (at most %zu bytes)",
			address, sizeof e.path - 1);
		return NULL;
	}
	if (e.is_unix && !clear_stale(e.path, ret_error))
		return NULL;
	r = start_one(pool, &e, ops, tls, &l);
	if (r != 0) {
		say_error(ret_error, address, r, "");
		return NULL;
	}
	r = e.is_localhost ? start_twin(l) : 0;
	if (r != 0) {
		say_error(ret_error, address, r, " on [::1]");
		listener_stop(l);
		return NULL;
	}
	return l;
}

void listener_stop(struct listener *l)
{
	struct listener **at = &l->pool->listeners;

	if (l->twin != NULL)
		listener_stop(l->twin);
	while (*at != l)
		at = &(*at)->next;
	*at = l->next;
	uv_close(&l->io.handle, on_listener_closed); /* libuv removes the socket file */
}

const char *listener_address(const struct listener *l)
{
	return l->address;
}

const char *listener_find(const struct listener *first, const char *front_name)
{
	const char *found = "";

	for (const struct listener *l = first; l != NULL; l = l->next) {
		if (strcmp(l->ops->name, front_name) != 0)
			continue;
		if (l->io.handle.type == UV_TCP)
			return l->address;
		if (found[0] == '\0')
			found = l->address;
	}
	return found;
}
