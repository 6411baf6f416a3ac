/*
 * Connections through the endpoints of pools, on a loop, by libcurl: each is a new one that gets one URL and is closed. HTTP
 * endpoints are asked for a tunnel (CONNECT) whatever the URL's scheme is. The environment's proxies don't count. TLS, with the
 * endpoint and with the service, needs a certificate that the system trusts, or one of $SSL_CERT_FILE.
 */
#pragma once

#include <uv.h>

#include "core/pool_probe.h"

enum {
	CONTACT_BODY_MAX = 16384, /* bytes of the body that are read; the rest does not count */
	CONTACT_HEAD_MAX =
		65536, /* of header fields, CONNECT's included; more: the connection is lost */
};

struct contacts;
struct contact;

/* `loop` is borrowed. NULL: out of memory. */
struct contacts *contacts_new(uv_loop_t *loop);
/* Ends all of them unheard; on_closed is called from the loop, and then it is gone. NULL is nothing, on_closed is not called. */
void contacts_close(struct contacts *c, void (*on_closed)(void *data), void *data);

struct contact_order {
	const struct pool_url *through;
	struct slice session; /* in the place of `{session}` */
	const char *url;      /* http:// or https:// */
	uint64_t timeout_ms;  /* from 1 on, for all of it */
};

/*
 * Borrows `order` for the call. on_done is called once, from the loop and never from within; `met` is borrowed for that call, and the
 * contact is over. NULL: out of memory, or the URL is none.
 */
struct contact *contact_start(struct contacts *c, const struct contact_order *order,
			      void (*on_done)(const struct pool_contact *met, void *data),
			      void *data);
