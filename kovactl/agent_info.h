/*
 * The agent's INFO: lines "field:value", CR LF, as Redis.
 */
#pragma once

#include <stdbool.h>

#include "address.h"

/* False: there is no such field. The value is a slice of `info`. */
bool info_field(struct slice info, const char *name, struct slice *ret_value);

/*
 * The HTTP address in `info` (field kova_http), as it is reached from here: an address of every
 * interface is replaced by the host at which RESP was reached. KOVA_ENOTFOUND: the agent has no
 * HTTP side. KOVA_EPROTO: the field is no address. KOVA_EAUTH: RESP is by TLS, and HTTP neither is nor stays on this machine:
 * a token would cross the network in the clear. Where it speaks TLS its certificate must be for whom RESP's is.
 */
KOVA_MUST_CHECK kova_status info_http_address(struct slice info, const struct address *resp,
					      struct address *ret_address);
