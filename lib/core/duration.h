/* Lengths of time as people and configurations write them: "250ms" "10s" "5m" "1h" "7d". */
#pragma once

#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

enum { DURATION_TEXT_MAX = 48 };

/* What duration_parse() takes, for messages. */
#define DURATION_FORMS "a whole number with a unit: 250ms, 10s, 5m, 1h or 7d"

/*
 * One whole number and one unit of ms, s, m, h, d; nothing around them.
 * KOVA_EPROTO: not of that form. KOVA_ERANGE: more than INT64_MAX ms.
 */
KOVA_MUST_CHECK kova_status duration_parse(struct slice text, uint64_t *ret_ms);

/* Exact, as duration_parse() takes it: in the largest unit that leaves no rest ("90s", "1500ms", "0ms"). */
void duration_write(uint64_t ms, char ret_text[static DURATION_TEXT_MAX]);

/* For people, the two largest units that say something, rounded up: "250ms" "1.5s" "1m 5s" "3d 4h". */
void duration_write_rounded(uint64_t ms, char ret_text[static DURATION_TEXT_MAX]);
