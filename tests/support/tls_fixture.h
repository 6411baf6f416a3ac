/*
 * Certificates for tests, made on the spot, and a client of TLS in memory. Files are in a directory of their own, which
 * certs_remove() removes.
 */
#pragma once

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/buf.h"

struct identity {
	X509 *cert;
	EVP_PKEY *key;
	char cert_file[128], key_file[128];
};

static char certs_dir[64];

static inline const char *certs_path(const char *name, const char *suffix)
{
	static char path[128];

	if (certs_dir[0] == '\0') {
		snprintf(certs_dir, sizeof certs_dir, "/tmp/kova-test-certs-XXXXXX");
		CHECK(mkdtemp(certs_dir) != NULL);
	}
	snprintf(path, sizeof path, "%s/%s%s", certs_dir, name, suffix);
	return path;
}

static inline void certs_remove(void)
{
	char command[96];

	if (certs_dir[0] == '\0')
		return;
	snprintf(command, sizeof command, "rm -rf '%s'", certs_dir);
	CHECK(system(command) == 0);
	certs_dir[0] = '\0';
}

static inline void identity_save(struct identity *i, const char *name)
{
	FILE *f;

	snprintf(i->cert_file, sizeof i->cert_file, "%s", certs_path(name, ".pem"));
	snprintf(i->key_file, sizeof i->key_file, "%s", certs_path(name, ".key"));
	f = fopen(i->cert_file, "w");
	CHECK(f != NULL && PEM_write_X509(f, i->cert) == 1);
	fclose(f);
	f = fopen(i->key_file, "w");
	CHECK(f != NULL && PEM_write_PrivateKey(f, i->key, NULL, NULL, 0, NULL, NULL) == 1);
	fclose(f);
}

/* Valid from `from_s` to `until_s` from now on; by `issuer` (NULL: by itself, an authority). `san`: NULL: none. */
static inline struct identity identity_make(const char *name, const struct identity *issuer,
					    const char *san, long from_s, long until_s)
{
	static long serial;
	struct identity i = {.cert = X509_new(), .key = EVP_EC_gen("P-256")};
	X509_NAME *subject = X509_get_subject_name(i.cert);
	const X509 *by = issuer != NULL ? issuer->cert : i.cert;
	X509_EXTENSION *extension = NULL;

	X509_set_version(i.cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(i.cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(i.cert), from_s);
	X509_gmtime_adj(X509_getm_notAfter(i.cert), until_s);
	X509_set_pubkey(i.cert, i.key);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1,
				   0);
	X509_set_issuer_name(i.cert, X509_get_subject_name(by));
	if (issuer == NULL)
		extension =
			X509V3_EXT_conf_nid(NULL, NULL, NID_basic_constraints, "critical,CA:TRUE");
	else if (san != NULL)
		extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, san);
	if (extension != NULL)
		X509_add_ext(i.cert, extension, -1);
	X509_EXTENSION_free(extension);
	CHECK(X509_sign(i.cert, issuer != NULL ? issuer->key : i.key, EVP_sha256()) > 0);
	identity_save(&i, name);
	return i;
}

static inline void identity_release(struct identity *i)
{
	X509_free(i->cert);
	EVP_PKEY_free(i->key);
	*i = (struct identity){0};
}
