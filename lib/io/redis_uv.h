/*
 * hiredis' asynchronous contexts on a libuv loop.
 *
 * hiredis' own adapter swallows what libuv reports as UV_EBADF: a refused connect, a reset. This
 * one hands every end of a connection to hiredis, which then ends each command with exactly one
 * callback. And it writes all commands of a loop turn together, before the loop sleeps, instead of
 * waiting for the poll.
 */
#pragma once

#include <uv.h>

#include "core/status.h"

struct redisAsyncContext;
struct redis_uv;

struct redis_uv_events {
	/* hiredis lets go of the context; it is freed right after. Not to call hiredis from. */
	void (*on_detached)(void *data);
	/* All handles are closed: the last callback, some turns later. */
	void (*on_gone)(void *data);
	void *data;
};

/*
 * Serves `ac`, a context that has no error and no callbacks yet. The adapter frees itself after the
 * context. KOVA_ENOMEM, KOVA_EIO: the loop can't watch the socket; no event follows, `ac` stays the
 * caller's.
 */
kova_status redis_uv_attach(uv_loop_t *loop, struct redisAsyncContext *ac,
			    const struct redis_uv_events *events,
			    struct redis_uv **ret_uv) KOVA_MUST_CHECK;

/* Writes what was asked for in this turn, as far as the socket takes it. Never calls back. */
void redis_uv_flush(struct redis_uv *uv);

/*
 * Reads what has arrived already, before somebody judges that nothing did. May end in
 * on_detached(). Not from a callback of hiredis.
 */
void redis_uv_drain(struct redis_uv *uv);
