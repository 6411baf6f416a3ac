/*
 * One loop accepts for all, and gives each connection to the loop that has the fewest. (With SO_REUSEPORT the kernel would
 * deal them out by a hash: of a few connections that live long, as those of workers do, several may meet in one loop while
 * another has none.) For another loop, the happy path: the socket is accepted into a handle of this loop, duplicated, and the
 * duplicate goes by the mailbox; the handle is closed here, the connection begins there. Failures: there is no memory, or no
 * descriptor: the client is turned away, counted; the other loop drains: its socket is closed.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/conn_pool.h"
#include "io/mailbox.h"

unsigned conn_spread_load(const struct conn_pool *p)
{
	unsigned sum = 0;

	if (p->n_peers == 0)
		return atomic_load_explicit(&p->load, memory_order_relaxed);
	for (unsigned i = 0; i < p->n_peers; i++)
		sum += atomic_load_explicit(&p->peers[i]->load, memory_order_relaxed);
	return sum;
}

/* Of several with as few, the next in turn. */
struct conn_pool *conn_spread_choose(struct conn_pool *p)
{
	unsigned fewest = UINT_MAX, chosen = 0;

	if (p->n_peers == 0)
		return p;
	for (unsigned i = 1; i <= p->n_peers; i++) {
		unsigned at = (p->last_peer + i) % p->n_peers;
		unsigned load = atomic_load_explicit(&p->peers[at]->load, memory_order_relaxed);

		if (load < fewest) {
			fewest = load;
			chosen = at;
		}
	}
	p->last_peer = chosen;
	return p->peers[chosen];
}

/* A socket on its way to another loop. */
struct handover {
	struct message message; /* first */
	struct conn_pool *to;
	const struct front_ops *ops;
	uv_handle_type type;
	bool tls;
	int fd;
};

static void turn_away(const struct handover *h)
{
	atomic_fetch_sub_explicit(&h->to->load, 1, memory_order_relaxed);
	(void)close(h->fd);
}

/* On the other loop. */
static void on_arrival(struct message *m)
{
	struct handover *h = (struct handover *)m;
	struct conn_pool *p = h->to;
	struct conn *c = p->draining || p->closing ? NULL : conn_new(p, h->type, h->ops);

	if (c == NULL) {
		turn_away(h);
	} else if ((h->type == UV_TCP ? uv_tcp_open(&c->io.tcp, h->fd)
				      : uv_pipe_open(&c->io.pipe, h->fd)) != 0) {
		p->counters.accept_errors++;
		turn_away(h);
		conn_close(c);
	} else {
		conn_serve(c, h->tls);
	}
	free(h);
}

/* What uv_accept() needs to give a socket to. */
union accepted {
	uv_handle_t handle;
	uv_stream_t stream;
	uv_tcp_t tcp;
	uv_pipe_t pipe;
};

static void on_accepted_closed(uv_handle_t *handle)
{
	free(handle);
}

/* Accepts, and returns a descriptor of the socket; −1: errno says why, and it is gone. */
static int accept_descriptor(uv_loop_t *loop, uv_stream_t *server, union accepted *a)
{
	uv_os_fd_t fd;

	if (server->type == UV_TCP)
		(void)uv_tcp_init(loop, &a->tcp);
	else
		(void)uv_pipe_init(loop, &a->pipe, 0);
	int duplicate = uv_accept(server, &a->stream) == 0 && uv_fileno(&a->handle, &fd) == 0
				? fcntl(fd, F_DUPFD_CLOEXEC, 0)
				: -1;

	uv_close(&a->handle, on_accepted_closed);
	return duplicate;
}

bool conn_spread_accept(struct conn_pool *p, uv_stream_t *server, const struct front_ops *ops,
			bool tls, struct conn_pool *to)
{
	struct handover *h = calloc(1, sizeof *h);
	union accepted *a = calloc(1, sizeof *a);

	if (h == NULL || a == NULL) {
		p->counters.accept_errors++;
		free(h);
		free(a);
		return false;
	}
	*h = (struct handover){
		.message.run = on_arrival, .to = to, .ops = ops, .type = server->type, .tls = tls};
	h->fd = accept_descriptor(p->place.loop, server, a);
	if (h->fd < 0) {
		p->counters.accept_errors++;
		free(h);
		return true;
	}
	atomic_fetch_add_explicit(&to->load, 1, memory_order_relaxed);
	mailbox_post(to->place.mailbox, &h->message);
	return true;
}
