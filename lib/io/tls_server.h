/*
 * TLS of a listener: a certificate with its key, which clients' certificates are believed, and from which version on. Read
 * once; does not change. A reload makes another one, and established connections keep theirs. What a connection does
 * with it: tls_session.h.
 */
#pragma once

#include <openssl/ssl.h>
#include <stdint.h>

#include "core/buf.h"
#include "io/tls_tickets.h"

enum tls_client_auth {
	TLS_CLIENT_NONE,     /* clients are not asked */
	TLS_CLIENT_OPTIONAL, /* who shows a certificate must have a good one */
	TLS_CLIENT_REQUIRED,
};

enum tls_version { TLS_FROM_1_2, TLS_FROM_1_3 };

/* Files are PEM. */
struct tls_terms {
	const char *cert; /* the certificate, then those that lead to its authority */
	const char *key;  /* the certificate's, without a password */
	const char *
		client_ca; /* authorities of clients' certificates; NULL: none, and TLS_CLIENT_NONE */
	enum tls_client_auth client_auth;
	enum tls_version min_version;
};

struct tls_server;

/*
 * Reads the files. `tickets` (borrowed) outlives it and all its connections. NULL: they can't be used; *ret_error says in one
 * line which option and why: `cert`: FILE: what is wrong. A certificate that has expired, or is not valid yet, can't.
 */
struct tls_server *tls_server_new(const struct tls_terms *terms, struct tls_tickets *tickets,
				  struct buf *ret_error);

/* References, for any thread; NULL is nothing. */
struct tls_server *tls_server_ref(struct tls_server *t);
void tls_server_unref(struct tls_server *t);

SSL_CTX *tls_server_ctx(const struct tls_server *t);
/* When its certificate ends, seconds since the epoch. */
int64_t tls_server_expires_s(const struct tls_server *t);
/* "subject, until 2027-01-31T18:00:00Z": for a log. Valid as long as `t`. */
const char *tls_server_text(const struct tls_server *t);
