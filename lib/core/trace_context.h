/*
 * W3C Trace Context (https://www.w3.org/TR/trace-context/): which trace a request belongs to, as its caller says, and
 * whether it is recorded. Sampling of those that begin here is OpenTelemetry's TraceIdRatioBased: every node that samples by
 * the same ratio takes the same traces.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

enum {
	TRACE_ID_BYTES = 16,
	TRACE_SPAN_ID_BYTES = 8,
	TRACE_PARENT_CHARS = 55,
	TRACE_STATE_MAX = 512, /* bytes; as many as must be passed on */
	TRACE_STATE_MEMBERS_MAX = 32,
	TRACE_ID_CHARS = 2 * TRACE_ID_BYTES,
};

/* Bits of `flags`. */
enum { TRACE_SAMPLED = 1 };

struct trace_context {
	unsigned char trace_id[TRACE_ID_BYTES];     /* not all zeros */
	unsigned char span_id[TRACE_SPAN_ID_BYTES]; /* of the caller's span; not all zeros */
	uint8_t flags;                              /* those of version 00 */
};

/*
 * The value of a field `traceparent`, without blanks around it: version 00, or what version 00 has of a later one.
 * KOVA_EPROTO: it is none, and the request is as one without.
 */
KOVA_MUST_CHECK kova_status trace_context_parse(struct slice text,
						struct trace_context *ret_context);
/* As version 00. Not NUL-terminated. */
void trace_context_write(const struct trace_context *c, char ret_text[static TRACE_PARENT_CHARS]);

/* The id in hexadecimal digits. Not NUL-terminated. */
void trace_id_write(const unsigned char id[static TRACE_ID_BYTES],
		    char ret_text[static TRACE_ID_CHARS]);

/*
 * Whether `text`, the values of all fields `tracestate` with commas between them, is a list of members as it must be. What
 * is none is not passed on. Two members of one key are let pass, as the specification allows.
 */
bool trace_state_is_valid(struct slice text);

/* Whether a trace of this id, whose caller says nothing, is recorded: `millionths` (0..1000000) of all are. */
bool trace_id_is_sampled(const unsigned char id[static TRACE_ID_BYTES], uint32_t millionths);
