/*
 * Happy path: connect → writable → hiredis reports the connection → commands given in a turn set
 * `turn` going, which writes them at the start of the next one, before the loop sleeps, unless
 * redis_uv_flush() did → readable → hiredis calls back. Failures: a refused connect and a reset come from libuv as a negative status,
 * with the poll stopped; hiredis is then made to touch the socket until it has found out and freed
 * the context. Should it not, we free it. Every path ends in on_uv_cleanup(), once, and then in
 * on_gone().
 */
#include "io/redis_uv.h"

#include <assert.h>
#include <fcntl.h>
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
	/*
	 * Reads of 16 KiB that may be needed to come from the replies before a reset to the reset
	 * itself.
	 */
	READS_BEFORE_BROKEN = 1024,
	READS_OF_DRAIN = 64,
	KEEPALIVE_IDLE_S = 15,
	KEEPALIVE_INTERVAL_S = 5,
	KEEPALIVE_COUNT = 3,
};

struct redis_uv {
	uv_poll_t poll;
	uv_idle_t turn;        /* keeps the loop from sleeping, and writes */
	redisAsyncContext *ac; /* NULL: hiredis let go of it */
	int watched;           /* UV_READABLE | UV_WRITABLE */
	bool writing;          /* hiredis is writing: what is left over has to wait for the poll */
	unsigned handles_open;
	struct redis_uv_events events;
};

static void on_handle_closed(uv_handle_t *handle)
{
	struct redis_uv *uv = handle->data;

	if (--uv->handles_open > 0)
		return;
	struct redis_uv_events events = uv->events;
	free(uv);
	if (events.on_gone != NULL)
		events.on_gone(events.data);
}

static bool is_connected(const struct redis_uv *uv)
{
	return (uv->ac->c.flags & REDIS_CONNECTED) != 0;
}

/* libuv stopped the poll because of an error on the socket; the context must not survive this. */
static void end_broken(struct redis_uv *uv)
{
	if (!is_connected(uv)) {
		redisAsyncHandleWrite(uv->ac);
	} else {
		/* Replies that came before the reset are still worth having. */
		for (int i = 0; uv->ac != NULL && i < READS_BEFORE_BROKEN; i++)
			redisAsyncHandleRead(uv->ac);
	}
	if (uv->ac != NULL)
		redisAsyncFree(uv->ac);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct redis_uv *uv = poll->data;

	if (uv->ac == NULL)
		return;
	if (status < 0) {
		end_broken(uv);
		return;
	}
	if ((events & UV_READABLE) != 0)
		redisAsyncHandleRead(uv->ac);
	if (uv->ac != NULL && (events & UV_WRITABLE) != 0) {
		uv->writing = true;
		redisAsyncHandleWrite(uv->ac);
		uv->writing = false;
	}
}

static void watch(struct redis_uv *uv, int events)
{
	int r = 0;

	if (uv->watched == events)
		return;
	uv->watched = events;
	if (events == 0)
		uv_poll_stop(&uv->poll);
	else
		r = uv_poll_start(&uv->poll, events, on_poll);
	assert(r == 0); /* fails only for a closing handle */
}

static void on_turn(uv_idle_t *turn)
{
	struct redis_uv *uv = turn->data;

	uv_idle_stop(turn);
	assert(uv->ac != NULL);
	uv->writing = true;
	redisAsyncHandleWrite(uv->ac);
	uv->writing = false;
}

static void on_add_read(void *data)
{
	struct redis_uv *uv = data;

	watch(uv, uv->watched | UV_READABLE);
}

static void on_del_read(void *data)
{
	struct redis_uv *uv = data;

	watch(uv, uv->watched & ~UV_READABLE);
}

static void on_add_write(void *data)
{
	struct redis_uv *uv = data;

	if (uv->writing || !is_connected(uv))
		watch(uv, uv->watched | UV_WRITABLE);
	else if ((uv->watched & UV_WRITABLE) == 0)
		uv_idle_start(&uv->turn, on_turn);
}

static void on_del_write(void *data)
{
	struct redis_uv *uv = data;

	uv_idle_stop(&uv->turn);
	watch(uv, uv->watched & ~UV_WRITABLE);
}

static void on_uv_cleanup(void *data)
{
	struct redis_uv *uv = data;

	uv->ac = NULL;
	uv_close((uv_handle_t *)&uv->poll, on_handle_closed);
	uv_close((uv_handle_t *)&uv->turn, on_handle_closed);
	if (uv->events.on_detached != NULL)
		uv->events.on_detached(uv->events.data);
}

static void set_socket_options(const redisAsyncContext *ac)
{
	int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S,
	    count = KEEPALIVE_COUNT;

	fcntl(ac->c.fd, F_SETFD, FD_CLOEXEC);
	if (ac->c.connection_type != REDIS_CONN_TCP)
		return;
	/* Each only helps to notice sooner: none is worth failing for. */
	setsockopt(ac->c.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(ac->c.fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(ac->c.fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
	setsockopt(ac->c.fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

kova_status redis_uv_attach(uv_loop_t *loop, struct redisAsyncContext *ac,
			    const struct redis_uv_events *events, struct redis_uv **ret_uv)
{
	struct redis_uv *uv = calloc(1, sizeof(*uv));

	if (uv == NULL)
		return KOVA_ENOMEM;
	if (uv_poll_init(loop, &uv->poll, ac->c.fd) != 0) {
		free(uv);
		return KOVA_EIO;
	}
	int r = uv_idle_init(loop, &uv->turn);
	assert(r == 0); /* libuv documents no failure */
	uv->poll.data = uv->turn.data = uv;
	uv->handles_open = 2;
	uv->events = *events;
	uv->ac = ac;

	set_socket_options(ac);
	ac->ev.data = uv;
	ac->ev.addRead = on_add_read;
	ac->ev.delRead = on_del_read;
	ac->ev.addWrite = on_add_write;
	ac->ev.delWrite = on_del_write;
	ac->ev.cleanup = on_uv_cleanup;
	*ret_uv = uv;
	return KOVA_OK;
}

void redis_uv_flush(struct redis_uv *uv)
{
	int done = 0;

	if (!uv_is_active((uv_handle_t *)&uv->turn) && (uv->watched & UV_WRITABLE) == 0)
		return;
	if (!is_connected(uv))
		return;
	if (redisBufferWrite(&uv->ac->c, &done) != REDIS_OK)
		return; /* on_turn() has hiredis find the same */
	uv_idle_stop(&uv->turn);
	watch(uv, done ? uv->watched & ~UV_WRITABLE : uv->watched | UV_WRITABLE);
}

void redis_uv_drain(struct redis_uv *uv)
{
	for (int i = 0; uv->ac != NULL && is_connected(uv) && i < READS_OF_DRAIN; i++) {
		redisCallback *first = uv->ac->replies.head;

		if (first == NULL)
			return;
		redisAsyncHandleRead(uv->ac);
		if (uv->ac != NULL && uv->ac->replies.head == first)
			return;
	}
}
