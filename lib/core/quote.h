/*
 * Text for others to parse: JSON strings (RFC 8259 §7) from bytes that need not be UTF-8. What is
 * no UTF-8 becomes U+FFFD, one for each bad byte, so that the output is always valid.
 */
#pragma once

#include "core/buf.h"

/* Appends `text` as a JSON string, quotes included. */
void quote_json(struct buf *b, struct slice text);

/*
 * The same without the quotes: for text that stands between other text, free of control characters.
 */
void quote_json_inner(struct buf *b, struct slice text);

/*
 * Length in bytes (1..4) of the well-formed UTF-8 sequence that `text` begins with; 0: none. RFC
 * 3629.
 */
size_t quote_utf8_length(struct slice text);
