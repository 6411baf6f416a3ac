/* Whole numbers as people and protocols write them. */
#pragma once

#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

/* All of `text`, decimal digits and at least one. KOVA_EPROTO: it is none. KOVA_ERANGE: it is above `max`. */
KOVA_MUST_CHECK kova_status decimal_parse(struct slice text, uint64_t max, uint64_t *ret_value);
