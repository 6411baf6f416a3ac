/* TLS of a daemon's listeners over its life: what of the configuration is in force. */
#pragma once

#include "io/tls_section.h"

/*
 * What `conf` says of TLS; *ret_tls stays NULL where there is none, by it or (`tickets` is NULL) since the start. False: its
 * files can't be used; *ret_error says why.
 */
KOVA_MUST_CHECK bool tls_use_open(const struct tls_section *conf, struct tls_tickets *tickets,
				  struct tls_server **ret_tls, struct buf *ret_error);

/* Connections to come are served by `fresh` (takes the reference) instead of *tls, NULL at first; those there are keep theirs. */
void tls_use(struct tls_server **tls, struct tls_server *fresh);
/* Says in the log with which certificate clients are served. */
void tls_use_log(const struct tls_server *tls);

/*
 * Says in the log that tokens would cross a network in the clear, where plain `address`, of the option `option`, is none of this
 * machine's own. It is allowed: there are networks that nobody else can listen to.
 */
void tls_use_warn(const char *option, const char *address);
