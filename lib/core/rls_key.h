/*
 * How what Envoy's rate limit service is asked (docs/protocol-grpc.md) names policies and keys. Both are
 * injective: two different lists of texts never give the same bytes.
 */
#pragma once

#include <stdbool.h>

#include "core/buf.h"
#include "core/bytes.h"

/* Adds one more text, the domain first, then each entry's key, to the name that policies are found by. */
void rls_name_add(struct buf *name, struct slice text);

/* Takes the first text off *name, which is made of rls_name_add(). False: there are no more. */
bool rls_name_next(struct slice *name, struct slice *ret_text);

/*
 * Adds one more value to the key path that begins at `start` in `out`: a '/' before all but the first; in the value
 * '/' is `%2F` and '%' is `%25`; an empty one is `%00`.
 */
void rls_path_add(struct buf *out, size_t start, struct slice value);
