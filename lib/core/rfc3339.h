/* Instants as RFC 3339 writes them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

enum { RFC3339_TEXT_MAX = sizeof "9999-12-31T23:59:59.999Z" };

/*
 * ms since the epoch of "2027-01-31T18:00:00Z": any offset, `T` or a space between date and time, fractions cut to ms.
 * False: not of that form, or no such date; *ret_ms is as before.
 */
bool rfc3339_parse(struct slice text, int64_t *ret_ms);

/* In UTC with milliseconds. `ms`: since the epoch; of years beyond 9999 the last four digits. */
void rfc3339_write(int64_t ms, char ret_text[static RFC3339_TEXT_MAX]);
