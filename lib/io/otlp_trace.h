/*
 * Spans as the OpenTelemetry protocol has them (OTLP 1: opentelemetry-proto's ExportTraceServiceRequest, in binary
 * protobuf), and what a collector answers. No I/O.
 */
#pragma once

#include <stdint.h>

#include "core/buf.h"
#include "core/span.h"
#include "core/status.h"

/* Who sends; each is borrowed, and none may be NULL. */
struct otlp_resource {
	const char *service, *version, *instance, *region;
};

/* Appends one message of the `n` >= 1 spans of the list (borrowed). KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status otlp_trace_write(const struct otlp_resource *from,
					     const struct span *spans, size_t n,
					     struct buf *ret_message);

/* How many spans an answer with status 200 says were rejected: 0 where it says nothing, or is none. */
uint64_t otlp_trace_rejected(struct slice answer);
