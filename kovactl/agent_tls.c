/*
 * The handshake blocks, for so long at most; reads and writes then must not, since a record may hold nothing for us (a session
 * ticket), and OpenSSL would wait for the next one behind poll()'s back.
 */
#include "agent_tls.h"

#include <fcntl.h>

#include "io/redis_tls.h"

static bool stop_blocking(redisContext *context)
{
	int flags = fcntl(context->fd, F_GETFL);

	context->flags &= ~REDIS_BLOCK;
	return flags >= 0 && fcntl(context->fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

kova_status agent_tls_begin(const struct agent_tls *tls, redisContext *context, const char *host,
			    unsigned timeout_ms, struct agent_error *ret_error)
{
	const struct timeval timeout = {.tv_sec = timeout_ms / 1000,
					.tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
	const char *why;
	struct redis_tls *terms = redis_tls_new(tls->ca, tls->cert, tls->key, &why);
	bool good;

	if (terms == NULL) {
		agent_error_set(ret_error, "TLS: %s", why);
		return KOVA_ECONN;
	}
	redis_tls_compare_addresses(terms);
	good = redisSetTimeout(context, timeout) == REDIS_OK &&
	       redis_tls_begin(terms, context, host) && stop_blocking(context);
	if (!good) {
		why = redis_tls_error();
		agent_error_set(ret_error, "TLS: %s", why != NULL ? why : context->errstr);
	}
	redis_tls_free(terms);
	return good ? KOVA_OK : KOVA_ECONN;
}
