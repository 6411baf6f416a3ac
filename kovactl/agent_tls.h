/* TLS towards an agent, as the command line asks for it. All is borrowed. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "agent_error.h"
#include "core/status.h"

struct agent_tls {
	bool on;
	const char *ca;         /* a PEM file with the authorities to believe; NULL: the system's */
	const char *cert, *key; /* what we show, PEM; both or neither */
};

/*
 * Shakes hands on a connected, blocking context, within `timeout_ms`; the agent's certificate must be for `host`, a name or an
 * address. The context does not block any more then. KOVA_ECONN: it could not be; *ret_error says why.
 */
KOVA_MUST_CHECK kova_status agent_tls_begin(const struct agent_tls *tls, redisContext *context,
					    const char *host, unsigned timeout_ms,
					    struct agent_error *ret_error);
