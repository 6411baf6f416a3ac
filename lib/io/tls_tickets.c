#include "io/tls_tickets.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME_BYTES = 16, KEY_BYTES = 32 };

struct ticket_key {
	unsigned char name[NAME_BYTES]; /* goes with the ticket, in the clear */
	unsigned char cipher[KEY_BYTES];
	unsigned char mac[KEY_BYTES];
};

struct tls_tickets {
	pthread_mutex_t lock;
	uint64_t (*now_s)(void);
	uint64_t since_s; /* when `current` was made */
	bool has_last;    /* `last` still opens tickets */
	struct ticket_key current, last;
};

static uint64_t monotonic_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

static bool make_key(struct ticket_key *k)
{
	return RAND_bytes(k->name, sizeof k->name) == 1 &&
	       RAND_priv_bytes(k->cipher, sizeof k->cipher) == 1 &&
	       RAND_priv_bytes(k->mac, sizeof k->mac) == 1;
}

struct tls_tickets *tls_tickets_new(uint64_t (*now_s)(void))
{
	struct tls_tickets *t = calloc(1, sizeof *t);

	if (t == NULL)
		return NULL;
	if (!make_key(&t->current)) {
		free(t);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	t->now_s = now_s != NULL ? now_s : monotonic_s;
	t->since_s = t->now_s();
	return t;
}

void tls_tickets_free(struct tls_tickets *t)
{
	if (t == NULL)
		return;
	pthread_mutex_destroy(&t->lock);
	OPENSSL_cleanse(t, sizeof *t);
	free(t);
}

/* With the lock held. Without randomness the key stays, and no ticket is worse for it. */
static void rotate(struct tls_tickets *t)
{
	uint64_t age_s = t->now_s() - t->since_s;
	struct ticket_key fresh;

	if (age_s < TLS_TICKETS_LIFE_S || !make_key(&fresh))
		return;
	t->last = t->current;
	t->has_last = age_s < 2 * TLS_TICKETS_LIFE_S;
	t->current = fresh;
	t->since_s += age_s;
	OPENSSL_cleanse(&fresh, sizeof fresh);
}

static void key_now(struct tls_tickets *t, struct ticket_key *ret_key)
{
	pthread_mutex_lock(&t->lock);
	rotate(t);
	*ret_key = t->current;
	pthread_mutex_unlock(&t->lock);
}

/* *ret_old: a newer ticket should be given. */
static bool key_named(struct tls_tickets *t, const unsigned char *name, struct ticket_key *ret_key,
		      bool *ret_old)
{
	bool found = true;

	pthread_mutex_lock(&t->lock);
	rotate(t);
	*ret_old = memcmp(name, t->current.name, NAME_BYTES) != 0;
	if (!*ret_old)
		*ret_key = t->current;
	else if (t->has_last && memcmp(name, t->last.name, NAME_BYTES) == 0)
		*ret_key = t->last;
	else
		found = false;
	pthread_mutex_unlock(&t->lock);
	return found;
}

static bool use_key(const struct ticket_key *k, const unsigned char *iv, EVP_CIPHER_CTX *cipher,
		    EVP_MAC_CTX *mac, int seal)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)(uintptr_t)k->mac,
						  sizeof k->mac),
		OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST,
						 (char *)(uintptr_t) "SHA256", 0),
		OSSL_PARAM_construct_end(),
	};

	return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, k->cipher, iv, seal) == 1 &&
	       EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* As SSL_CTX_set_tlsext_ticket_key_evp_cb() wants it: −1 failed, 0 no such key, 1 done, 2 done and a newer one is due. */
static int on_ticket(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
		     EVP_MAC_CTX *mac, int seal)
{
	struct tls_tickets *t = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	struct ticket_key key;
	bool old = false, good;

	if (seal) {
		key_now(t, &key);
		memcpy(name, key.name, NAME_BYTES);
	} else if (!key_named(t, name, &key, &old)) {
		return 0;
	}
	good = (!seal || RAND_bytes(iv, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) == 1) &&
	       use_key(&key, iv, cipher, mac, seal);
	OPENSSL_cleanse(&key, sizeof key);
	return !good ? -1 : old ? 2 : 1;
}

bool tls_tickets_use(struct tls_tickets *t, SSL_CTX *ctx)
{
	SSL_CTX_set_app_data(ctx, t);
	SSL_CTX_set_timeout(ctx, TLS_TICKETS_LIFE_S);
	return SSL_CTX_set_tlsext_ticket_key_evp_cb(ctx, on_ticket) == 1;
}
