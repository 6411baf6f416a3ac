/*
 * A span of a trace, as it is recorded: what was done, for whom, from when until when, and what is to be said of it. Plain
 * memory; attributes are few, and their texts are cut rather than allocated.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/trace_context.h"

enum { SPAN_ATTRIBUTES_MAX = 20, SPAN_TEXT_MAX = 384 };

/* OTLP's numbers. */
enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER = 2, SPAN_CLIENT = 3 };

enum span_type { SPAN_TEXT, SPAN_INT, SPAN_BOOL };

struct span_attribute {
	const char *name; /* a constant */
	int64_t number;   /* SPAN_INT, SPAN_BOOL */
	uint16_t at, len; /* SPAN_TEXT: in `text` */
	uint8_t type;     /* enum span_type */
};

/* All zeros at first. */
struct span {
	struct span *next;
	const char *name;                           /* a constant */
	unsigned char trace_id[TRACE_ID_BYTES];     /* not all zeros */
	unsigned char span_id[TRACE_SPAN_ID_BYTES]; /* not all zeros */
	unsigned char parent_id[TRACE_SPAN_ID_BYTES];
	bool has_parent;    /* else it is a root */
	bool parent_is_far; /* of another process */
	enum span_kind kind;
	uint64_t start_ns, end_ns; /* since the epoch, UTC */
	const char *error;         /* a constant that says what went wrong; NULL: nothing */
	char *trace_state;         /* owned by the span's owner; NULL: none */
	uint8_t n_attributes;
	uint16_t text_len;
	struct span_attribute attributes[SPAN_ATTRIBUTES_MAX];
	char text[SPAN_TEXT_MAX];
};

/*
 * Sets an attribute; one of that `name` (a constant) that is there is replaced. What there is no room for is cut, or left
 * out: at most SPAN_ATTRIBUTES_MAX of them, at most SPAN_TEXT_MAX bytes of all texts, replaced ones included. A byte that is not printable ASCII
 * becomes `?`.
 */
void span_set_text(struct span *s, const char *name, struct slice value);
void span_set_int(struct span *s, const char *name, int64_t value);
void span_set_bool(struct span *s, const char *name, bool value);

/* NULL: it has none of that name. */
const struct span_attribute *span_attribute(const struct span *s, const char *name);
