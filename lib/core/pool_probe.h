/*
 * What a probe of an endpoint found: one or two connections through it to a service that answers with the address it was asked
 * from. Pure: whoever made the connections says what it met, and here is told what that means.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/pool_url.h"

enum pool_family { POOL_FAMILY_ANY, POOL_FAMILY_V4, POOL_FAMILY_V6 };
enum pool_exit { POOL_EXIT_ANY, POOL_EXIT_SAME, POOL_EXIT_ROTATING };

enum pool_probe {
	POOL_PROBE_NONE, /* nothing: not known yet, or the agent was not able to */
	POOL_PROBE_OK,
	POOL_PROBE_CONNECT, /* no connection to the endpoint, or it was silent and hung up */
	POOL_PROBE_AUTH,    /* it refuses the credentials */
	POOL_PROBE_TUNNEL,  /* it says no to the tunnel, or what is behind is not the service */
	POOL_PROBE_STATUS,  /* the service's status is not 200 */
	POOL_PROBE_FAMILY,  /* the address is of the other family */
	POOL_PROBE_EXIT_CHANGED, /* two connections had two addresses */
	POOL_PROBE_NOT_ROTATING, /* two connections had the same address */
	POOL_PROBE_TIMEOUT,
	POOL_PROBE_BODY, /* no address in the body, or it is not whole */
	POOL_PROBE_NAME, /* the agent finds no address of the service */
	POOL_PROBES
};

/* NUL-terminated, by enum pool_probe, as the page and the metrics spell them; "" of POOL_PROBE_NONE. */
extern const char *const pool_probe_names[POOL_PROBES];

/* Why one connection ended. */
enum pool_contact_end {
	POOL_CONTACT_WHOLE, /* the answer is there */
	POOL_CONTACT_NONE,  /* no connection to the endpoint: refused, unreachable, name unknown */
	POOL_CONTACT_LOST, /* closed, reset, the protocol broken, no TLS with whoever was behind it */
	POOL_CONTACT_AUTH,    /* SOCKS: credentials refused */
	POOL_CONTACT_REFUSED, /* SOCKS: the answer was no, or none that SOCKS knows */
	POOL_CONTACT_CLOSED,  /* SOCKS: closed before the answer */
	POOL_CONTACT_TIMED_OUT,
	POOL_CONTACT_NO_NAME,   /* the service's name, where the endpoint does not look it up */
	POOL_CONTACT_NO_MEMORY, /* ours */
};

/* What one connection met. */
struct pool_contact {
	enum pool_contact_end end;
	unsigned connect_status; /* of the answer to CONNECT; 0: there was none */
	unsigned status;         /* of the service's; 0: there was none */
	struct slice body;       /* of the service's answer, or its beginning */
};

/* An address from outside; an IPv4 one in the first four bytes, the rest is 0. */
struct pool_exit_address {
	bool is_v6;
	unsigned char bytes[16];
};

/* The first IP address in a text: plain, in JSON, HTML or `name=value` lines. An IPv4 address mapped to IPv6 is an IPv4 one. */
bool pool_exit_address_find(struct slice text, struct pool_exit_address *ret_address);

/* What one connection through an endpoint of `scheme` means. *ret_address is set of POOL_PROBE_OK and POOL_PROBE_FAMILY. */
enum pool_probe pool_probe_judge(enum pool_scheme scheme, enum pool_family family,
				 const struct pool_contact *contact,
				 struct pool_exit_address *ret_address);

/* What the addresses of two good connections mean. */
enum pool_probe pool_probe_compare(enum pool_exit exit, const struct pool_exit_address *first,
				   const struct pool_exit_address *second);
