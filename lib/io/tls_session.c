/*
 * OpenSSL reads and writes through a BIO of ours: reading takes from the bytes that were fed, writing adds to the wire. It
 * never waits: without bytes it says "later", and out of memory is an error that closes the connection. A session is made
 * from the context as it is then; a reload does not touch it.
 */
#include "io/tls_session.h"

#include <assert.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_HANDSHAKE = 22 /* first byte of what a client says first */ };

struct tls_session {
	SSL *ssl;
	enum tls_inner inner;
	struct slice in; /* fed and not read yet; borrowed */
	struct buf wire;
	size_t handshake_bytes; /* received until it was open */
	bool open, ended, failed;
	enum tls_failure failure;
	const char *why; /* static */
};

const char *tls_failure_label(enum tls_failure f)
{
	static const char *const labels[TLS_FAILURE_KINDS] = {
#define X(name, label) [name] = (label),
		TLS_FAILURES(X)
#undef X
	};

	return labels[f];
}

/* ---- Our end of it ---- */

static int bio_read(BIO *bio, char *to, size_t size, size_t *ret_n)
{
	struct tls_session *s = BIO_get_data(bio);
	size_t n = s->in.len < size ? s->in.len : size;

	BIO_clear_retry_flags(bio);
	if (n == 0) {
		BIO_set_retry_read(bio);
		return 0;
	}
	memcpy(to, s->in.ptr, n);
	s->in = slice_after(s->in, n);
	*ret_n = n;
	return 1;
}

static int bio_write(BIO *bio, const char *from, size_t len, size_t *ret_n)
{
	struct tls_session *s = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	buf_add(&s->wire, from, len);
	*ret_n = len;
	return !buf_failed(&s->wire);
}

static long bio_ctrl(BIO *bio, int command, long number, void *data)
{
	(void)bio;
	(void)number;
	(void)data;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
	int type = BIO_get_new_index();

	bio_method = BIO_meth_new(type | BIO_TYPE_SOURCE_SINK, "kova");
	if (bio_method != NULL && (BIO_meth_set_read_ex(bio_method, bio_read) != 1 ||
				   BIO_meth_set_write_ex(bio_method, bio_write) != 1 ||
				   BIO_meth_set_ctrl(bio_method, bio_ctrl) != 1)) {
		BIO_meth_free(bio_method);
		bio_method = NULL;
	}
}

static BIO *bio_of(struct tls_session *s)
{
	static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;
	BIO *bio;

	if (CRYPTO_THREAD_run_once(&once, make_bio_method) != 1 || bio_method == NULL)
		return NULL;
	bio = BIO_new(bio_method);
	if (bio != NULL) {
		BIO_set_data(bio, s);
		BIO_set_init(bio, 1);
	}
	return bio;
}

/* ---- What is spoken inside ---- */

static struct slice inner_name(enum tls_inner inner)
{
	return inner == TLS_INNER_H2 ? SLICE("\2h2") : SLICE("\10http/1.1");
}

int tls_session_on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			const unsigned char *in, unsigned in_len, void *data)
{
	const struct tls_session *s = SSL_get_app_data(ssl);
	struct slice ours = inner_name(s->inner);
	unsigned char *chosen;

	(void)data;
	if (s->inner == TLS_INNER_ANY)
		return SSL_TLSEXT_ERR_NOACK;
	if (SSL_select_next_proto(&chosen, out_len, (const unsigned char *)ours.ptr,
				  (unsigned)ours.len, in, in_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static bool inner_is_agreed(const struct tls_session *s)
{
	const unsigned char *name;
	unsigned len;

	SSL_get0_alpn_selected(s->ssl, &name, &len);
	return s->inner != TLS_INNER_H2 || len > 0;
}

/* ---- Failing ---- */

static enum tls_step fail(struct tls_session *s, enum tls_failure failure, const char *why)
{
	s->failed = true;
	s->failure = failure;
	s->why = why;
	return TLS_FAILED;
}

static enum tls_failure kind_of_reason(int reason)
{
	switch (reason) {
	case SSL_R_HTTP_REQUEST:
	case SSL_R_HTTPS_PROXY_REQUEST:
		return TLS_FAILED_PLAIN_TEXT;
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_VERSION_TOO_LOW:
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_INAPPROPRIATE_FALLBACK:
		return TLS_FAILED_VERSION;
	case SSL_R_NO_SHARED_CIPHER:
	case SSL_R_NO_SHARED_GROUPS:
	case SSL_R_NO_SUITABLE_GROUPS:
	case SSL_R_NO_SUITABLE_KEY_SHARE:
	case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
	case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
		return TLS_FAILED_CIPHER;
	case SSL_R_NO_APPLICATION_PROTOCOL:
		return TLS_FAILED_ALPN;
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
		return TLS_FAILED_NO_CERTIFICATE;
	case ERR_R_MALLOC_FAILURE:
		return TLS_FAILED_MEMORY;
	default:
		return reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256
			       ? TLS_FAILED_REFUSED
			       : TLS_FAILED_PROTOCOL;
	}
}

/* OpenSSL has given up; what it said last tells why. */
static enum tls_step fail_as_told(struct tls_session *s)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = ERR_reason_error_string(code);
	long verdict = SSL_get_verify_result(s->ssl);
	int reason = ERR_GET_REASON(code);

	ERR_clear_error();
	if (buf_failed(&s->wire))
		return fail(s, TLS_FAILED_MEMORY, "out of memory");
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return fail(s,
			    verdict == X509_V_ERR_CERT_HAS_EXPIRED ? TLS_FAILED_CERTIFICATE_EXPIRED
								   : TLS_FAILED_CERTIFICATE,
			    X509_verify_cert_error_string(verdict));
	return fail(s, kind_of_reason(reason), text != NULL ? text : "protocol error");
}

/* ---- A session's life ---- */

static bool ssl_set_up(struct tls_session *s)
{
	BIO *bio = bio_of(s);

	if (bio == NULL)
		return false;
	SSL_set_bio(s->ssl, bio, bio); /* takes it */
	SSL_set_accept_state(s->ssl);
	return SSL_set_app_data(s->ssl, s) == 1;
}

struct tls_session *tls_session_new(const struct tls_server *server, enum tls_inner inner)
{
	struct tls_session *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->inner = inner;
	s->ssl = SSL_new(tls_server_ctx(server));
	if (s->ssl == NULL || !ssl_set_up(s)) {
		tls_session_free(s);
		ERR_clear_error();
		return NULL;
	}
	return s;
}

void tls_session_free(struct tls_session *s)
{
	if (s == NULL)
		return;
	SSL_free(s->ssl);
	buf_release(&s->wire);
	free(s);
}

struct buf *tls_session_wire(struct tls_session *s)
{
	return &s->wire;
}

bool tls_session_is_open(const struct tls_session *s)
{
	return s->open;
}

bool tls_session_is_resumed(const struct tls_session *s)
{
	return s->open && SSL_session_reused(s->ssl) == 1;
}

bool tls_session_is_of(const struct tls_session *s, const struct tls_server *server)
{
	return SSL_get_SSL_CTX(s->ssl) == tls_server_ctx(server);
}

bool tls_session_has_certificate(const struct tls_session *s)
{
	return s->open && SSL_get0_peer_certificate(s->ssl) != NULL;
}

enum tls_failure tls_session_failure(const struct tls_session *s)
{
	assert(s->failed);
	return s->failure;
}

const char *tls_session_why(const struct tls_session *s)
{
	assert(s->failed);
	return s->why;
}

/* ---- Input ---- */

void tls_session_feed(struct tls_session *s, struct slice bytes)
{
	assert(s->in.len == 0);
	s->in = bytes;
}

/* A ticket is believed for an hour, and a certificate that it stands for may have ended meanwhile. */
static bool certificate_has_ended(const struct tls_session *s)
{
	const X509 *cert = SSL_get0_peer_certificate(s->ssl);

	return cert != NULL && SSL_session_reused(s->ssl) &&
	       X509_cmp_current_time(X509_get0_notAfter(cert)) <= 0;
}

static enum tls_step shake_hands(struct tls_session *s)
{
	int r;

	if (s->handshake_bytes == 0 && s->in.len > 0 && s->in.ptr[0] != RECORD_HANDSHAKE)
		return fail(s, TLS_FAILED_PLAIN_TEXT, "what came is no TLS");
	s->handshake_bytes += s->in.len;
	r = SSL_do_handshake(s->ssl);
	if (r == 1) {
		if (!inner_is_agreed(s))
			return fail(s, TLS_FAILED_ALPN, "the client did not offer h2 by ALPN");
		if (certificate_has_ended(s))
			return fail(s, TLS_FAILED_CERTIFICATE_EXPIRED, "certificate has expired");
		s->open = true;
		return TLS_OPENED;
	}
	if (SSL_get_error(s->ssl, r) != SSL_ERROR_WANT_READ)
		return fail_as_told(s);
	return s->handshake_bytes > TLS_HANDSHAKE_MAX
		       ? fail(s, TLS_FAILED_PROTOCOL, "the handshake is too large")
		       : TLS_AGAIN;
}

enum tls_step tls_session_read(struct tls_session *s, char *to, size_t size, size_t *ret_n)
{
	int r;

	if (s->failed)
		return TLS_FAILED;
	ERR_clear_error();
	if (!s->open)
		return shake_hands(s);
	if (SSL_read_ex(s->ssl, to, size, ret_n) == 1)
		return TLS_DATA;
	r = SSL_get_error(s->ssl, 0);
	if (r == SSL_ERROR_WANT_READ)
		return TLS_AGAIN;
	s->in = (struct slice){0};
	return r == SSL_ERROR_ZERO_RETURN ? TLS_ENDED : fail_as_told(s);
}

/* ---- Output ---- */

bool tls_session_write(struct tls_session *s, struct slice bytes)
{
	size_t n;

	if (s->failed || s->ended || !s->open)
		return false;
	if (bytes.len == 0)
		return true;
	ERR_clear_error();
	if (SSL_write_ex(s->ssl, bytes.ptr, bytes.len, &n) == 1)
		return true;
	(void)fail_as_told(s);
	return false;
}

void tls_session_end(struct tls_session *s)
{
	if (s->failed || s->ended || !s->open)
		return;
	s->ended = true;
	ERR_clear_error();
	(void)SSL_shutdown(s->ssl); /* 0: the peer's end is still to come, which nobody waits for */
}

/* ---- Who the client is ---- */

static void add_name(struct buf *names, const char *kind, const ASN1_STRING *name)
{
	const char *text = (const char *)ASN1_STRING_get0_data(name);
	int len = ASN1_STRING_length(name);

	for (int i = 0; i < len; i++)
		if (text[i] < '!' || text[i] > '~')
			return;
	if (len == 0)
		return;
	buf_add_text(names, kind);
	buf_add(names, text, (size_t)len);
	buf_add(names, "", 1);
}

static bool is_name_of_client(const GENERAL_NAME *name)
{
	return name->type == GEN_URI || name->type == GEN_DNS;
}

/* Those of `type` among the first TLS_NAMES_MAX that are URIs or DNS names. */
static void add_alternatives(struct buf *names, const GENERAL_NAMES *all, int type,
			     const char *kind)
{
	int n = 0;

	for (int i = 0; i < sk_GENERAL_NAME_num(all) && n < TLS_NAMES_MAX; i++) {
		const GENERAL_NAME *one = sk_GENERAL_NAME_value(all, i);

		n += is_name_of_client(one);
		if (one->type == type)
			add_name(names, kind, one->d.ia5); /* of URI and DNS alike */
	}
}

/* Whether there is no URI and no DNS name, usable or not. `found`: of X509_get_ext_d2i(). */
static bool has_subject_only(const GENERAL_NAMES *all, int found)
{
	if (all == NULL)
		return found == -1; /* else it is there and can't be read */
	for (int i = 0; i < sk_GENERAL_NAME_num(all); i++)
		if (is_name_of_client(sk_GENERAL_NAME_value(all, i)))
			return false;
	return true;
}

void tls_session_names(const struct tls_session *s, struct buf *ret_names)
{
	const X509 *cert = SSL_get0_peer_certificate(s->ssl);
	GENERAL_NAMES *all;
	int at = -1, found;

	if (cert == NULL)
		return;
	all = X509_get_ext_d2i(cert, NID_subject_alt_name, &found, NULL);
	add_alternatives(ret_names, all, GEN_URI, "uri:");
	add_alternatives(ret_names, all, GEN_DNS, "dns:");
	if (has_subject_only(all, found))
		at = X509_NAME_get_index_by_NID(X509_get_subject_name(cert), NID_commonName, -1);
	GENERAL_NAMES_free(all);
	if (at >= 0)
		add_name(ret_names, "cn:",
			 X509_NAME_ENTRY_get_data(
				 X509_NAME_get_entry(X509_get_subject_name(cert), at)));
}
