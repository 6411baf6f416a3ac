/*
 * One connection to one Redis server, made again whenever it is lost.
 *
 * A command that was accepted ends in exactly one callback: its reply, or KOVA_ETIMEDOUT when its
 * time is up (a reply that comes later is dropped), KOVA_ECONN when the connection ended first,
 * KOVA_ECLOSED when the link was closed. After the last two and a time-out nobody knows whether it
 * was executed.
 *
 * The link is *up* while commands are answered in time. When one is not, and nothing else was
 * either, it is down at once, takes no more commands, and asks with PING (or with a write, when it is
 * writes that the server refuses) until it is answered in time again. So a server that is stopped costs its callers one time-out, not one a request.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/bytes.h"
#include "core/status.h"

struct redisReply;
struct redis_link;
struct redis_tls;
struct redis_counters;

/* See redis_store_reply. Never called from within redis_link_call(). */
typedef void redis_link_reply(kova_status status, const struct redisReply *reply, void *data);

/*
 * The link went up or down; `down` also once for a link that never was up. `why` is borrowed and
 * holds no secret. Never called from within redis_link_new() and redis_link_call(). May close the
 * link.
 */
typedef void redis_link_changed(bool up, const char *why, void *data);

/* Strings are copied; `tls` and `counters` are borrowed and outlive the link. */
struct redis_link_options {
	const char *path; /* unix socket; NULL: host and port */
	const char *host; /* name or address */
	uint16_t port;
	const char *user;     /* NULL: none */
	const char *password; /* NULL: none */
	uint32_t db;
	bool auth_optional; /* a refused AUTH is no failure: servers without passwords refuse it */
	bool want_master;   /* a server that says it is a replica is as good as none */
	const struct redis_tls *tls; /* NULL: none */
	uint64_t timeout_ms;         /* 1..; what a probe may take */
	uint64_t connect_timeout_ms; /* 1..; resolving, connecting, TLS and logging in together */
	struct redis_counters *counters;
	redis_link_changed *on_changed;
	void *data;
};

/* Puts copies in the place of all texts. False: out of memory, and none is left. */
bool redis_link_options_own(struct redis_link_options *o);
/* Frees texts that are owned. */
void redis_link_options_release(struct redis_link_options *o);

/*
 * Starts connecting in the next loop turn. NULL: out of memory. SIGPIPE must be ignored by the
 * process.
 */
struct redis_link *redis_link_new(uv_loop_t *loop, const struct redis_link_options *options);

/*
 * Commands under way end with KOVA_ECLOSED, before or soon after this returns; on_changed comes no
 * more. `on_closed` (may be NULL) comes when all handles are gone, never from within.
 */
void redis_link_close(struct redis_link *link, void (*on_closed)(void *data), void *data);

bool redis_link_up(const struct redis_link *link);

/*
 * Sends `command`, a whole RESP command (copied), not SUBSCRIBE or MONITOR. `deadline_ms` is a time
 * of uv_now(). `on_reply` may be NULL. Anything but KOVA_OK (KOVA_ECONN: not up; KOVA_ENOMEM): no
 * callback follows.
 */
kova_status redis_link_call(struct redis_link *link, struct slice command, uint64_t deadline_ms,
			    redis_link_reply *on_reply, void *data) KOVA_MUST_CHECK;

/* Writes what was asked for, instead of at the end of the turn. Never calls back. */
void redis_link_flush(struct redis_link *link);

/*
 * The connection is no good (out of step, a replica): replies are believed no more from now on, and
 * in the next loop turn it is dropped and made anew. Commands under way end with KOVA_ECONN.
 */
void redis_link_drop(struct redis_link *link, const char *why);

/*
 * The server said that it can't serve now: down, and probed until it answers PING without an error.
 */
void redis_link_doubt(struct redis_link *link, const char *why);

/*
 * The server refuses what PING says nothing about (a write, a script): down, and probed by a script that writes to a key
 * of `slot` until it may. Where the link is a Cluster's (no want_master), a server that has the slot no more is up: its calls tell.
 */
void redis_link_doubt_writes(struct redis_link *link, const char *why, uint16_t slot);

/*
 * Connects to another server from now on; commands under way end with KOVA_ECONN. False: out of
 * memory.
 */
bool redis_link_retarget(struct redis_link *link, const char *host, uint16_t port);
