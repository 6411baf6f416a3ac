#include "io/gossip_seal.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

#include "io/file.h"

enum { FILE_BYTES_MAX = 16384 };

struct gossip_keys {
	EVP_MAC *mac;
	EVP_MAC_CTX *keyed[GOSSIP_KEYS_MAX]; /* copied for each tag */
	unsigned n;
};

void gossip_keys_free(struct gossip_keys *keys)
{
	if (keys == NULL)
		return;
	for (unsigned i = 0; i < keys->n; i++)
		EVP_MAC_CTX_free(keys->keyed[i]);
	EVP_MAC_free(keys->mac);
	free(keys);
}

static struct gossip_keys *keys_new(void)
{
	struct gossip_keys *keys = calloc(1, sizeof *keys);

	if (keys == NULL)
		return NULL;
	keys->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (keys->mac != NULL)
		return keys;
	free(keys);
	return NULL;
}

static bool add_key(struct gossip_keys *keys, struct slice secret)
{
	char digest[] = "SHA256";
	const OSSL_PARAM parameters[] = {
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
		OSSL_PARAM_construct_end(),
	};
	EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(keys->mac);

	if (ctx == NULL ||
	    EVP_MAC_init(ctx, (const unsigned char *)secret.ptr, secret.len, parameters) != 1) {
		EVP_MAC_CTX_free(ctx);
		return false;
	}
	keys->keyed[keys->n++] = ctx;
	return true;
}

static struct slice trimmed(struct slice line)
{
	while (line.len > 0 && (line.ptr[0] == ' ' || line.ptr[0] == '\t'))
		line = slice_after(line, 1);
	while (line.len > 0 && strchr(" \t\r", line.ptr[line.len - 1]) != NULL)
		line.len--;
	return line;
}

static kova_status read_secrets(struct gossip_keys *keys, const char *path, struct slice text,
				struct buf *errors)
{
	for (unsigned number = 1; text.len > 0; number++) {
		struct slice secret = trimmed(slice_cut(&text, '\n'));

		if (secret.len == 0 || secret.ptr[0] == '#')
			continue;
		if (secret.len < GOSSIP_SECRET_MIN || secret.len > GOSSIP_SECRET_MAX) {
			buf_printf(errors, "%s:%u:1: a secret must have %d to %d bytes\n", path,
				   number, GOSSIP_SECRET_MIN, GOSSIP_SECRET_MAX);
			return KOVA_ECONFIG;
		}
		if (keys->n == GOSSIP_KEYS_MAX) {
			buf_printf(errors, "%s:%u:1: there may be %d secrets at most\n", path,
				   number, GOSSIP_KEYS_MAX);
			return KOVA_ECONFIG;
		}
		if (!add_key(keys, secret))
			return KOVA_ENOMEM;
	}
	if (keys->n > 0)
		return KOVA_OK;
	buf_printf(errors, "%s:1:1: must hold a secret of %d to %d bytes, one a line\n", path,
		   GOSSIP_SECRET_MIN, GOSSIP_SECRET_MAX);
	return KOVA_ECONFIG;
}

static kova_status read_file(struct gossip_keys *keys, const char *path, struct buf *errors)
{
	struct buf text = {0};
	kova_status status = file_read(path, FILE_BYTES_MAX, &text);

	if (status == KOVA_OK) {
		status = read_secrets(keys, path, buf_slice(&text), errors);
	} else if (status != KOVA_ENOMEM) {
		buf_printf(errors, "%s: %s\n", path,
			   status == KOVA_ENOTFOUND ? "there is no such file" : strerror(errno));
		status = KOVA_ECONFIG;
	}
	if (text.ptr != NULL)
		OPENSSL_cleanse(text.ptr, text.len);
	buf_release(&text);
	return status;
}

kova_status gossip_keys_load(const char *path, struct gossip_keys **ret_keys,
			     struct buf *ret_errors)
{
	struct gossip_keys *keys = keys_new();
	kova_status status = KOVA_ENOMEM;

	if (keys != NULL && path != NULL)
		status = read_file(keys, path, ret_errors);
	else if (keys != NULL && add_key(keys, SLICE("kova")))
		status = KOVA_OK;
	if (status == KOVA_OK)
		*ret_keys = keys;
	else
		gossip_keys_free(keys);
	return status;
}

static bool tag_of(EVP_MAC_CTX *keyed, const struct slice *parts, unsigned n,
		   uint8_t ret_tag[GOSSIP_TAG_BYTES])
{
	EVP_MAC_CTX *ctx = EVP_MAC_CTX_dup(keyed);
	size_t len = 0;
	bool ok = ctx != NULL;

	for (unsigned i = 0; i < n && ok; i++)
		ok = EVP_MAC_update(ctx, (const unsigned char *)parts[i].ptr, parts[i].len) == 1;
	ok = ok && EVP_MAC_final(ctx, ret_tag, &len, GOSSIP_TAG_BYTES) == 1 &&
	     len == GOSSIP_TAG_BYTES;
	EVP_MAC_CTX_free(ctx);
	return ok;
}

bool gossip_sign(const struct gossip_keys *keys, const struct slice *parts, unsigned n,
		 uint8_t ret_tag[GOSSIP_TAG_BYTES])
{
	return tag_of(keys->keyed[0], parts, n, ret_tag);
}

bool gossip_verify(const struct gossip_keys *keys, const struct slice *parts, unsigned n,
		   const uint8_t tag[GOSSIP_TAG_BYTES])
{
	uint8_t own[GOSSIP_TAG_BYTES];

	for (unsigned i = 0; i < keys->n; i++)
		if (tag_of(keys->keyed[i], parts, n, own) &&
		    CRYPTO_memcmp(own, tag, GOSSIP_TAG_BYTES) == 0)
			return true;
	return false;
}
