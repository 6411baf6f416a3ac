/* Texts of gRPC's headers and trailers (gRPC over HTTP/2: Timeout, Percent-Encoded). */
#pragma once

#include <stdint.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "core/status.h"

/* `grpc-message`: all bytes but printable ASCII, and '%', as %XX. */
void grpc_message_write(struct buf *out, struct slice text);

/* `grpc-timeout`: one to eight digits and a unit of H M S m u n; in ms, rounded up. KOVA_EPROTO: something else. */
KOVA_MUST_CHECK kova_status grpc_timeout_parse(struct slice text, uint64_t *ret_ms);

/* `content-type`: application/grpc, with +proto or without, and parameters behind a ';'. */
bool grpc_content_type_fits(struct slice text);
