/* TLS towards Redis: which authorities are believed, and how we show who we are. */
#pragma once

#include <stdbool.h>

struct redisContext;
struct redis_tls;

/*
 * `ca`: a PEM file with the authorities to believe; NULL: the system's. `cert` and `key`: our own
 * certificate (chain) and its key, PEM; both or neither. Files are read once, here. NULL: one of
 * them can't be used; the reason (static, or OpenSSL's) is in `ret_why`.
 */
struct redis_tls *redis_tls_new(const char *ca, const char *cert, const char *key,
				const char **ret_why);
void redis_tls_free(struct redis_tls *tls);

/* From now on addresses are compared, whoever has signed the certificate. */
void redis_tls_compare_addresses(struct redis_tls *tls);

/*
 * Begins TLS on a connected context. `host`: the name or address that was asked for. The server's
 * certificate must be for `host`; except that with a `ca` of one's own an address, which
 * certificates seldom carry, is not compared. False: it could not begin; redis_tls_error() says
 * why.
 */
bool redis_tls_begin(const struct redis_tls *tls, struct redisContext *c, const char *host);

/* Why TLS failed last on this thread, and forgets it; NULL: it did not. */
const char *redis_tls_error(void);
