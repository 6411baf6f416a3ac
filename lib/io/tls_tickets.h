/*
 * The keys that session tickets (RFC 5077, RFC 8446 §4.6.1) are sealed with. They are made here, kept in memory only, and
 * change every TLS_TICKETS_LIFE_S; the last one opens tickets for as long again. So a ticket is good for an hour at least, and
 * who steals a key reads the sessions of two hours at most. One set serves all loops, and outlives the certificates.
 */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

enum { TLS_TICKETS_LIFE_S = 3600 };

struct tls_tickets;

/* NULL: out of memory or randomness. `now_s`: monotonic seconds; NULL: the system's. */
struct tls_tickets *tls_tickets_new(uint64_t (*now_s)(void));
void tls_tickets_free(struct tls_tickets *t); /* NULL is nothing */

/* Has `ctx` seal its tickets with these keys (borrowed; outlive it and its connections). For any thread. */
KOVA_MUST_CHECK bool tls_tickets_use(struct tls_tickets *t, SSL_CTX *ctx);
