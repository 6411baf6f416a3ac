/*
 * The numeric address of a name: hiredis would ask a name server itself, and stop the loop for it.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

/* `status`: 0 or libuv's error. `address` is borrowed; NULL: there is none. */
typedef void redis_resolved(int status, const char *address, void *data);

/* Part of its user's object; lives until the callback. */
struct redis_resolve {
	uv_getaddrinfo_t req;
	unsigned nth;
	redis_resolved *on_resolved;
	void *data;
};

/*
 * Gives the `nth` address of `host`, counted round and round: so each try takes the next one. 0:
 * the callback comes once, not from within; else libuv's error, and it does not.
 */
int redis_resolve(struct redis_resolve *r, uv_loop_t *loop, const char *host, unsigned nth,
		  redis_resolved *on_resolved, void *data);
/* The callback comes sooner. */
void redis_resolve_cancel(struct redis_resolve *r);

/* `host` is an IPv4 or IPv6 address. */
bool redis_is_address(const char *host);
