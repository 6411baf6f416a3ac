/* Base64 with the URL-safe alphabet and no padding (RFC 4648 §5). */
#pragma once

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"

void base64url_write(struct buf *out, struct slice bytes);

/* Appends the decoded bytes. KOVA_EPROTO: not what base64url_write() makes; `out` is as before. */
KOVA_MUST_CHECK kova_status base64url_parse(struct buf *out, struct slice text);
