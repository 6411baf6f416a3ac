/*
 * The query of a URL as HTML forms write it: name=value pairs between `&`, percent-encoded, `+` for
 * a space.
 */
#pragma once

#include <stdbool.h>

#include "core/buf.h"
#include "core/status.h"

/*
 * Takes the first pair off *query; false when none is left. Empty pairs (`a=1&&b=2`) are skipped; a
 * pair without `=` has an empty value. The slices are raw: see query_decode().
 */
bool query_next(struct slice *query, struct slice *ret_name, struct slice *ret_value);

/* Appends `raw` decoded, `+` as a space. KOVA_EPROTO: a `%` without two hexadecimal digits. */
KOVA_MUST_CHECK kova_status query_decode(struct buf *out, struct slice raw);

/* The same for a part of a path, where `+` is a plus. */
KOVA_MUST_CHECK kova_status query_decode_path(struct buf *out, struct slice raw);
