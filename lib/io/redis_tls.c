#include "io/redis_tls.h"

#include <hiredis/hiredis.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

struct redis_tls {
	SSL_CTX *ctx;
	bool own_ca;
};

const char *redis_tls_error(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error(); /* an old entry would be taken for the next connection's */
	return text;
}

static bool use_files(SSL_CTX *ctx, const char *ca, const char *cert, const char *key,
		      const char **ret_why)
{
	*ret_why = "the authorities in `ca` can't be read";
	if (ca != NULL ? SSL_CTX_load_verify_file(ctx, ca) != 1
		       : SSL_CTX_set_default_verify_paths(ctx) != 1)
		return false;
	*ret_why = "`cert` and `key` belong together: give both or neither";
	if ((cert == NULL) != (key == NULL))
		return false;
	if (cert == NULL)
		return true;
	*ret_why = "the certificate in `cert` can't be read";
	if (SSL_CTX_use_certificate_chain_file(ctx, cert) != 1)
		return false;
	*ret_why = "the private key in `key` can't be read, or is not the certificate's";
	return SSL_CTX_use_PrivateKey_file(ctx, key, SSL_FILETYPE_PEM) == 1 &&
	       SSL_CTX_check_private_key(ctx) == 1;
}

struct redis_tls *redis_tls_new(const char *ca, const char *cert, const char *key,
				const char **ret_why)
{
	struct redis_tls *tls = calloc(1, sizeof(*tls));

	*ret_why = "out of memory";
	if (tls == NULL)
		return NULL;
	tls->own_ca = ca != NULL;
	tls->ctx = SSL_CTX_new(TLS_client_method());
	if (tls->ctx == NULL || SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) != 1) {
		redis_tls_free(tls);
		return NULL;
	}
	SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
	if (!use_files(tls->ctx, ca, cert, key, ret_why)) {
		redis_tls_free(tls);
		ERR_clear_error();
		return NULL;
	}
	return tls;
}

void redis_tls_free(struct redis_tls *tls)
{
	if (tls == NULL)
		return;
	SSL_CTX_free(tls->ctx);
	free(tls);
}

void redis_tls_compare_addresses(struct redis_tls *tls)
{
	tls->own_ca = false;
}

static bool is_address(const char *host)
{
	ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
	bool is = address != NULL;

	ASN1_OCTET_STRING_free(address);
	ERR_clear_error();
	return is;
}

/* RFC 9110 §4.3.4: the certificate has to be for the name (or address) that was asked for. */
static bool expect_host(const struct redis_tls *tls, SSL *ssl, const char *host)
{
	if (!is_address(host))
		return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
	return tls->own_ca || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
}

bool redis_tls_begin(const struct redis_tls *tls, struct redisContext *c, const char *host)
{
	SSL *ssl = SSL_new(tls->ctx);

	if (ssl == NULL)
		return false;
	if (!expect_host(tls, ssl, host) || redisInitiateSSL(c, ssl) != REDIS_OK) {
		SSL_free(ssl); /* redisInitiateSSL() takes it only when it succeeds */
		return false;
	}
	return true;
}
