/*
 * Where an agent listens: "HOST:PORT", "[V6]:PORT", with "rediss://" before it where it speaks TLS there, or "unix:PATH".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

#define ADDRESS_FORMS "HOST:PORT, [IPV6]:PORT, rediss://HOST:PORT or unix:PATH"

struct address {
	bool is_unix, tls;
	uint16_t port;  /* TCP: 1..65535 */
	char host[256]; /* TCP: name or number, without brackets */
	char path[108]; /* unix: fits a sockaddr_un */
	char name[256]; /* TLS: for whom its certificate must be; "": for `host` */
};

/* KOVA_EPROTO: none of the forms. KOVA_ETOOBIG: host or path is too long. KOVA_ERANGE: the port. */
KOVA_MUST_CHECK kova_status address_parse(struct slice text, struct address *ret_address);

/* Is it `localhost` or an address of the loopback interface? */
bool address_is_loopback(const struct address *a);

/* Is it the address that means every interface of the machine (0.0.0.0, ::)? */
bool address_is_wildcard(const struct address *a);
