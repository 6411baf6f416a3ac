/*
 * Choices that are the same for everybody: TLS 1.2 with forward secrecy and authenticated encryption only, no renegotiation,
 * no compression, no early data (a replay would take twice), no session cache (tickets hold all that there is, so that
 * strangers can't make memory grow).
 */
#include "io/tls_server.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/rfc3339.h"
#include "io/tls_session.h"

enum { CLIENT_CHAIN_MAX = 32 * 1024 /* bytes of a client's certificates */ };

static const char ciphers[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

struct tls_server {
	atomic_uint references;
	SSL_CTX *ctx;
	int64_t expires_s;
	char text[320];
};

/* What OpenSSL said first, and forgets it all; in its words, where ours would not be plainer. `nothing`: where it said nothing, or found nothing. */
static const char *said(const char *nothing)
{
	unsigned long code = ERR_peek_error();
	int reason = ERR_GET_REASON(code);
	const char *text = ERR_reason_error_string(code);

	ERR_clear_error();
	if (code == 0)
		return nothing;
	if (reason == ERR_R_PEM_LIB ||
	    (ERR_GET_LIB(code) == ERR_LIB_PEM && reason == PEM_R_NO_START_LINE))
		return nothing;
	if (ERR_GET_LIB(code) == ERR_LIB_X509 &&
	    (reason == X509_R_KEY_VALUES_MISMATCH || reason == X509_R_KEY_TYPE_MISMATCH))
		return "the key is not the certificate's";
	return text != NULL ? text : nothing;
}

static bool fault(struct buf *ret_error, const char *option, const char *file, const char *nothing)
{
	buf_printf(ret_error, "`%s`: %s: %s", option, file, said(nothing));
	return false;
}

static const char no_certificate[] = "there is no certificate in PEM";

/* A daemon has nobody to ask for it. */
static int no_password(char *text, int size, int writing, void *asked)
{
	(void)text;
	(void)size;
	(void)writing;
	*(bool *)asked = true;
	return 0;
}

/* ---- The certificate ---- */

static int64_t seconds_of(const ASN1_TIME *at)
{
	struct tm tm;

	return ASN1_TIME_to_tm(at, &tm) == 1 ? (int64_t)timegm(&tm) : INT64_MAX;
}

static bool check_validity(struct tls_server *t, const char *file, struct buf *ret_error)
{
	const X509 *cert = SSL_CTX_get0_certificate(t->ctx);
	int64_t from_s = seconds_of(X509_get0_notBefore(cert)), now_s = (int64_t)time(NULL);
	char from[RFC3339_TEXT_MAX], until[RFC3339_TEXT_MAX], subject[256] = "";

	t->expires_s = seconds_of(X509_get0_notAfter(cert));
	rfc3339_write(from_s * 1000, from);
	rfc3339_write(t->expires_s * 1000, until);
	X509_NAME_oneline(X509_get_subject_name(cert), subject, sizeof subject);
	snprintf(t->text, sizeof t->text, "%s, until %s", subject, until);
	if (now_s >= t->expires_s)
		buf_printf(ret_error, "`cert`: %s: the certificate has expired at %s", file, until);
	else if (now_s < from_s)
		buf_printf(ret_error, "`cert`: %s: the certificate is not valid before %s", file,
			   from);
	else
		return true;
	return false;
}

static bool use_certificate(struct tls_server *t, const struct tls_terms *terms,
			    struct buf *ret_error)
{
	bool asked = false;

	SSL_CTX_set_default_passwd_cb(t->ctx, no_password);
	SSL_CTX_set_default_passwd_cb_userdata(t->ctx, &asked);
	if (SSL_CTX_use_certificate_chain_file(t->ctx, terms->cert) != 1)
		return fault(ret_error, "cert", terms->cert, no_certificate);
	if (SSL_CTX_use_PrivateKey_file(t->ctx, terms->key, SSL_FILETYPE_PEM) != 1 ||
	    SSL_CTX_check_private_key(t->ctx) != 1) {
		if (asked)
			ERR_clear_error();
		return fault(ret_error, "key", terms->key,
			     asked ? "the key has a password, which nobody is there to type"
				   : "there is no private key in PEM");
	}
	return check_validity(t, terms->cert, ret_error);
}

/* ---- Clients' certificates ---- */

static bool use_client_ca(struct tls_server *t, const struct tls_terms *terms,
			  struct buf *ret_error)
{
	static const int modes[] = {
		[TLS_CLIENT_NONE] = SSL_VERIFY_NONE,
		[TLS_CLIENT_OPTIONAL] = SSL_VERIFY_PEER,
		[TLS_CLIENT_REQUIRED] = SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
	};

	SSL_CTX_set_verify(t->ctx, modes[terms->client_auth], NULL);
	SSL_CTX_set_max_cert_list(t->ctx, CLIENT_CHAIN_MAX);
	if (terms->client_ca == NULL)
		return true;
	STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(terms->client_ca);

	if (names == NULL)
		return fault(ret_error, "client_ca", terms->client_ca, no_certificate);
	SSL_CTX_set_client_CA_list(t->ctx, names); /* takes it */
	return SSL_CTX_load_verify_file(t->ctx, terms->client_ca) == 1 ||
	       fault(ret_error, "client_ca", terms->client_ca, no_certificate);
}

/* A session that was begun under other terms for clients is not taken up again: it would skip them. */
static bool use_session_context(struct tls_server *t, const struct tls_terms *terms)
{
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	bool good = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
		    EVP_DigestUpdate(md, &terms->client_auth, sizeof terms->client_auth) == 1;
	const STACK_OF(X509_OBJECT) *authorities =
		X509_STORE_get0_objects(SSL_CTX_get_cert_store(t->ctx));

	for (int i = 0; good && i < sk_X509_OBJECT_num(authorities); i++) {
		const X509 *cert = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(authorities, i));
		unsigned char one[EVP_MAX_MD_SIZE];
		unsigned one_len;

		good = cert == NULL || (X509_digest(cert, EVP_sha256(), one, &one_len) == 1 &&
					EVP_DigestUpdate(md, one, one_len) == 1);
	}
	good = good && EVP_DigestFinal_ex(md, digest, &len) == 1 &&
	       SSL_CTX_set_session_id_context(t->ctx, digest, len) == 1;
	EVP_MD_CTX_free(md);
	return good;
}

/* ---- Together ---- */

static bool set_up(struct tls_server *t, const struct tls_terms *terms, struct tls_tickets *tickets)
{
	SSL_CTX_set_session_cache_mode(t->ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(t->ctx, 1);
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					    SSL_OP_CIPHER_SERVER_PREFERENCE |
					    SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_mode(t->ctx, SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_alpn_select_cb(t->ctx, tls_session_on_alpn, NULL);
	return SSL_CTX_set_min_proto_version(t->ctx, terms->min_version == TLS_FROM_1_3
							     ? TLS1_3_VERSION
							     : TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_cipher_list(t->ctx, ciphers) == 1 && tls_tickets_use(tickets, t->ctx);
}

struct tls_server *tls_server_new(const struct tls_terms *terms, struct tls_tickets *tickets,
				  struct buf *ret_error)
{
	struct tls_server *t = calloc(1, sizeof *t);

	ERR_clear_error();
	if (t != NULL) {
		t->references = 1;
		t->ctx = SSL_CTX_new(TLS_server_method());
	}
	if (t == NULL || t->ctx == NULL || !set_up(t, terms, tickets)) {
		buf_printf(ret_error, "`tls`: %s", said("out of memory"));
		tls_server_unref(t);
		return NULL;
	}
	if (!use_certificate(t, terms, ret_error) || !use_client_ca(t, terms, ret_error)) {
		tls_server_unref(t);
		return NULL;
	}
	if (!use_session_context(t, terms)) {
		buf_printf(ret_error, "`tls`: %s", said("out of memory"));
		tls_server_unref(t);
		return NULL;
	}
	return t;
}

struct tls_server *tls_server_ref(struct tls_server *t)
{
	if (t != NULL)
		atomic_fetch_add_explicit(&t->references, 1, memory_order_relaxed);
	return t;
}

void tls_server_unref(struct tls_server *t)
{
	if (t == NULL || atomic_fetch_sub_explicit(&t->references, 1, memory_order_acq_rel) > 1)
		return;
	SSL_CTX_free(t->ctx); /* connections have references of their own to it */
	free(t);
}

SSL_CTX *tls_server_ctx(const struct tls_server *t)
{
	return t->ctx;
}

int64_t tls_server_expires_s(const struct tls_server *t)
{
	return t->expires_s;
}

const char *tls_server_text(const struct tls_server *t)
{
	return t->text;
}
