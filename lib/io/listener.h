/*
 * A listening socket, TCP or unix, that hands its connections to one front. The connections belong
 * to a pool (conn.h) and outlive their listener.
 */
#pragma once

#include "core/buf.h"
#include "io/conn.h"

/*
 * `address`: "host:port" or "[v6]:port" (port 0: any free one), or "unix:PATH" or a PATH with a '/'
 * in it of a unix socket, which gets mode 0660. `host` is an IPv4 or IPv6 address or `localhost`,
 * 127.0.0.1 and, where the machine has IPv6, [::1]: names are not looked up. A socket file that nobody answers on is replaced; one in
 * use, or a file of another kind, is an error. `tls`: clients speak TLS, by what the place of `pool` has of it. NULL with one line, without a line end, in
 * ret_error.
 */
struct listener *listener_start(struct conn_pool *pool, const char *address,
				const struct front_ops *ops, bool tls, struct buf *ret_error);

/* Accepts no more; the socket file is removed. The memory goes with the loop's next turn. */
void listener_stop(struct listener *l);

/* Where it listens: "127.0.0.1:7411" with the real port, "[::1]:7411" or "unix:PATH". Valid until
 * listener_stop(). */
const char *listener_address(const struct listener *l);

/* Whether `address` can be reached from this machine only (loopback or a unix socket); false as
 * well when it is malformed. */
bool listener_address_is_local(const char *address);
