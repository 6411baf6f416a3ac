/* Retry-After: how long a server asks its clients to stay away (RFC 9110 sections 10.2.3 and 5.6.7). */
#pragma once

#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

#define RETRY_AFTER_MAX_US (UINT64_C(24) * 3600 * 1000000)

/*
 * Seconds, decimals allowed and rounded up to a µs, or an HTTP-date in any of its three forms, as µs from `now_us` (since
 * the epoch); blanks around it are left aside. 0: no reason to wait, as a date that has passed. KOVA_EPROTO: neither;
 * KOVA_ERANGE: negative, or more than RETRY_AFTER_MAX_US.
 */
KOVA_MUST_CHECK kova_status retry_after_parse(struct slice text, uint64_t now_us, uint64_t *ret_us);
