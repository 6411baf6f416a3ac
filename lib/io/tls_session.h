/*
 * TLS on one connection, without the connection: bytes in, bytes out, no socket. Who owns the socket feeds what it received
 * and reads what that says; writes, and sends what is in the wire buffer.
 *
 *   feed ─▶ read ─▶ AGAIN … OPENED … DATA … AGAIN,   at last ENDED or FAILED
 *
 * After a feed, read is called until it answers AGAIN: then all bytes are used up. Anything may have been added to the wire by
 * any call. Memory is bounded: what is kept of the input is one record (16 KiB) and, before it is open, TLS_HANDSHAKE_MAX.
 */
#pragma once

#include "core/buf.h"
#include "io/tls_server.h"

enum {
	TLS_RECORD_MAX = 16384,        /* what one record holds: room for a read */
	TLS_HANDSHAKE_MAX = 64 * 1024, /* bytes from a client until it is open */
	TLS_NAMES_MAX = 16,            /* URIs and DNS names of a certificate that are looked at */
};

/* What is spoken inside (ALPN, RFC 7301). */
enum tls_inner {
	TLS_INNER_ANY,   /* a protocol without a name there */
	TLS_INNER_HTTP1, /* `http/1.1`; who offers only others is refused */
	TLS_INNER_H2,    /* `h2`, which must be agreed on (RFC 9113 §3.2) */
};

enum tls_step {
	TLS_AGAIN,  /* nothing more in what was fed */
	TLS_OPENED, /* the handshake is done; once */
	TLS_DATA,
	TLS_ENDED, /* the peer sends no more: close_notify */
	TLS_FAILED, /* the wire may hold an alert that tells the peer; nothing else can be done with it */
};

/* Why there is no connection: the label of a metric. The last ones are told by the owner. */
#define TLS_FAILURES(X)                                                                            \
	X(TLS_FAILED_PLAIN_TEXT, "plain_text") /* what came is no TLS */                           \
	X(TLS_FAILED_VERSION, "version")       /* none that is allowed */                          \
	X(TLS_FAILED_CIPHER, "cipher")         /* no cipher, group or signature in common */       \
	X(TLS_FAILED_ALPN, "alpn")             /* none of the protocols inside */                  \
	X(TLS_FAILED_NO_CERTIFICATE, "no_certificate") /* of the client, required */               \
	X(TLS_FAILED_CERTIFICATE, "certificate")       /* the client's is not believed */          \
	X(TLS_FAILED_CERTIFICATE_EXPIRED, "certificate_expired") /* the client's */                \
	X(TLS_FAILED_REFUSED,                                                                      \
	  "refused") /* by the client, with an alert: it does not believe ours, most often */      \
	X(TLS_FAILED_PROTOCOL, "protocol") /* malformed, tampered with, out of order, too large */ \
	X(TLS_FAILED_MEMORY, "memory")                                                             \
	X(TLS_FAILED_TIMEOUT, "timeout") /* the handshake took too long */                         \
	X(TLS_FAILED_GONE, "gone")       /* the client left amid the handshake */                  \
	X(TLS_FAILED_CROWDED, "crowded") /* too many handshakes, and this was slow */

enum tls_failure {
#define X(name, label) name,
	TLS_FAILURES(X)
#undef X
		TLS_FAILURE_KINDS
};

const char *tls_failure_label(enum tls_failure f);

/* What the owner of connections counts. */
struct tls_counters {
	uint64_t opened, resumed; /* handshakes that were done; of these, by a ticket */
	uint64_t failed[TLS_FAILURE_KINDS];
};

struct tls_session;

/* `server` is borrowed for the call. NULL: out of memory. */
struct tls_session *tls_session_new(const struct tls_server *server, enum tls_inner inner);
void tls_session_free(struct tls_session *s); /* NULL is nothing */

/* `bytes` came from the peer (borrowed until read answers other than OPENED and DATA). Those before are used up. */
void tls_session_feed(struct tls_session *s, struct slice bytes);
/* DATA: *ret_n bytes of 1..size are at `to`; size: TLS_RECORD_MAX, so that no record is cut. */
enum tls_step tls_session_read(struct tls_session *s, char *to, size_t size, size_t *ret_n);

/* Seals `bytes` into the wire. Open, and not ended here. False: out of memory, or it has failed; it is of no use any more. */
KOVA_MUST_CHECK bool tls_session_write(struct tls_session *s, struct slice bytes);
/* Says that nothing more is sent (close_notify): once; nothing, unless it is open and did not fail. */
void tls_session_end(struct tls_session *s);

/* What is to be sent. The owner takes off what it has sent, or all by TAKE: it is filled again. */
struct buf *tls_session_wire(struct tls_session *s);

bool tls_session_is_open(const struct tls_session *s);
/* Open, and by a ticket. */
bool tls_session_is_resumed(const struct tls_session *s);

/* Whether it is `server` that it was made from. */
bool tls_session_is_of(const struct tls_session *s, const struct tls_server *server);
/* Open, and the client has shown one, or had when it got its ticket. */
bool tls_session_has_certificate(const struct tls_session *s);

/* After FAILED: the kind, and a text for a log. */
enum tls_failure tls_session_failure(const struct tls_session *s);
const char *tls_session_why(const struct tls_session *s);

/*
 * Appends the names in the client's certificate, verified, each with a NUL behind it: `uri:…`, then `dns:…`, of the first
 * TLS_NAMES_MAX of these kinds; `cn:…` where it has none of them. Nothing when it has shown none. Names with other than printable
 * ASCII characters are left out; the CN does not take their place.
 */
void tls_session_names(const struct tls_session *s, struct buf *ret_names);

/* Chooses by ALPN what is spoken inside; tls_server.c has OpenSSL call it. */
int tls_session_on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			const unsigned char *in, unsigned in_len, void *data);
