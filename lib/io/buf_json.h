/* JSON values as text in a buffer. */
#pragma once

#include <jansson.h>

#include "core/buf.h"

/*
 * Appends `value` as json_dumps() would write it by `flags`; NULL, or what is no JSON, makes the buffer fail. Not by
 * json_dumps() itself: when its memory runs out while it writes a member's name, jansson (2.14) leaves the name out and
 * goes on. Here the buffer remembers.
 */
void buf_add_json(struct buf *b, const json_t *value, size_t flags);
