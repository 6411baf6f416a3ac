/* The agent's TLS over its life: what of the configuration is in force, on which loop. */
#pragma once

#include "agent.h"
#include "io/tls_section.h"

/*
 * What `conf` says of TLS; *ret_tls stays NULL where there is none, by it or (`tickets` is NULL) since the start. False: its
 * files can't be used; *ret_error says why.
 */
KOVA_MUST_CHECK bool agent_tls_open(const struct edge_conf *conf, struct tls_tickets *tickets,
				    struct tls_server **ret_tls, struct buf *ret_error);

/* Connections to come on the loop of `a` are served by `tls` (takes the reference); those there are keep theirs. The owner says so. */
void agent_tls_use(struct agent *a, struct tls_server *tls);

/* Says so where tokens would cross a network in the clear. It is allowed: there are networks that nobody else can listen to. */
void agent_tls_warn(const struct edge_conf *conf, const char *option, const char *address);
