/*
 * Any bytes as a traceparent and as a tracestate: refused with the result untouched, or read; what is read, written and
 * read again is the same.
 */
#include <assert.h>
#include <string.h>

#include "core/trace_context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_parent(struct slice text)
{
	struct trace_context c, again;
	const struct trace_context untouched = {.flags = 42};
	char written[TRACE_PARENT_CHARS];

	memset(&c, 0, sizeof c);
	c.flags = 42;
	if (trace_context_parse(text, &c) != KOVA_OK) {
		assert(memcmp(c.trace_id, untouched.trace_id, sizeof c.trace_id) == 0);
		assert(c.flags == 42);
		return;
	}
	trace_context_write(&c, written);
	kova_status status = trace_context_parse((struct slice){written, sizeof written}, &again);
	assert(status == KOVA_OK && memcmp(c.trace_id, again.trace_id, sizeof c.trace_id) == 0);
	assert(memcmp(c.span_id, again.span_id, sizeof c.span_id) == 0 && c.flags == again.flags);
	assert(trace_id_is_sampled(c.trace_id, 1000000) && !trace_id_is_sampled(c.trace_id, 0));
}

/* A list of lists is one, if it is not too long. */
static void check_state(struct slice text)
{
	char twice[2 * 4096 + 1];

	if (!trace_state_is_valid(text) || text.len > 4096)
		return;
	memcpy(twice, text.ptr, text.len);
	twice[text.len] = ',';
	memcpy(twice + text.len + 1, "a=1", 3);
	if (trace_state_is_valid((struct slice){twice, text.len + 4}))
		return;
	unsigned equals = 0;

	for (size_t i = 0; i < text.len; i++)
		equals += text.ptr[i] == '=';
	assert(equals == TRACE_STATE_MEMBERS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = {(const char *)data, size};

	check_parent(text);
	check_state(text);
	return 0;
}
