/*
 * Where a Redis server is, in one string: redis://[[user]:password@]host[:port][/db], rediss://…
 * (TLS), or unix:PATH. User and password may hold %XX. (The forms of the IANA-registered schemes
 * `redis` and `rediss`.)
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

struct redis_url {
	bool tls;
	char *path;     /* owned; NULL: not a unix socket */
	char *host;     /* owned; NULL: a unix socket. IPv6 without brackets */
	uint16_t port;  /* 1..65535; 6379 when the text names none */
	char *user;     /* owned; NULL: none */
	char *password; /* owned; NULL: none; a secret */
	uint32_t db;    /* 0..1000000 */
};

enum { REDIS_UNIX_PATH_MAX = 107 }; /* sizeof sun_path - 1, Linux */

/*
 * KOVA_EPROTO with a reason in `ret_why` (static; never the text itself, which may hold a
 * password), KOVA_ENOMEM. On success the caller releases `ret_url`.
 */
kova_status redis_url_parse(const char *text, struct redis_url *ret_url,
			    const char **ret_why) KOVA_MUST_CHECK;
void redis_url_release(struct redis_url *url);
