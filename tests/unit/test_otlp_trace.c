#include <criterion/criterion.h>
#include <otlp_trace.pb-c.h>

#include "io/otlp_trace.h"

static const struct otlp_resource from = {"kova-agent", "1.2.3", "worker-17", "eu-west"};

static Kova__Otlp__V1__ExportTraceRequest *written(const struct span *spans, size_t n)
{
	struct buf message = {0};

	cr_assert_eq(otlp_trace_write(&from, spans, n, &message), KOVA_OK);
	Kova__Otlp__V1__ExportTraceRequest *read = kova__otlp__v1__export_trace_request__unpack(
		NULL, message.len, (const uint8_t *)message.ptr);

	cr_assert_not_null(read);
	cr_assert_eq(read->n_resource_spans, 1);
	cr_assert_eq(read->resource_spans[0]->n_scope_spans, 1);
	cr_assert_eq(read->resource_spans[0]->scope_spans[0]->n_spans, n);
	buf_release(&message);
	return read;
}

static void release(Kova__Otlp__V1__ExportTraceRequest *read)
{
	kova__otlp__v1__export_trace_request__free_unpacked(read, NULL);
}

static const Kova__Otlp__V1__Span *span_at(const Kova__Otlp__V1__ExportTraceRequest *read, size_t i)
{
	return read->resource_spans[0]->scope_spans[0]->spans[i];
}

static struct span some_span(unsigned char id)
{
	struct span s = {.name = "kova.take", .kind = SPAN_SERVER, .start_ns = 1, .end_ns = 2};

	memset(s.trace_id, 0xab, sizeof s.trace_id);
	memset(s.span_id, id, sizeof s.span_id);
	return s;
}

Test(otlp_trace, a_root)
{
	struct span s = some_span(1);

	span_set_text(&s, "kova.policy", SLICE("api"));
	span_set_int(&s, "kova.retry_after_ms", -1);
	span_set_bool(&s, "kova.allowed", true);
	Kova__Otlp__V1__ExportTraceRequest *read = written(&s, 1);
	const Kova__Otlp__V1__Span *got = span_at(read, 0);

	cr_assert_str_eq(got->name, "kova.take");
	cr_assert_eq(got->kind, 2);
	cr_assert_eq(got->trace_id.len, 16);
	cr_assert_eq(got->trace_id.data[15], 0xab);
	cr_assert_eq(got->span_id.len, 8);
	cr_assert_eq(got->parent_span_id.len, 0);
	cr_assert_str_eq(got->trace_state, "");
	cr_assert_eq(got->flags, 0x101);
	cr_assert_null(got->status);
	cr_assert_eq(got->n_attributes, 3);
	cr_assert_str_eq(got->attributes[0]->key, "kova.policy");
	cr_assert_str_eq(got->attributes[0]->value->string_value, "api");
	cr_assert_eq(got->attributes[1]->value->int_value, -1);
	cr_assert_eq(got->attributes[2]->value->bool_value, 1);
	cr_assert_eq(read->resource_spans[0]->resource->n_attributes, 4);
	cr_assert_str_eq(read->resource_spans[0]->resource->attributes[2]->key,
			 "service.instance.id");
	cr_assert_str_eq(read->resource_spans[0]->resource->attributes[2]->value->string_value,
			 "worker-17");
	release(read);
}

Test(otlp_trace, below_a_far_parent_with_an_error)
{
	struct span s = some_span(1);
	char state[] = "a=1";

	s.has_parent = s.parent_is_far = true;
	memset(s.parent_id, 7, sizeof s.parent_id);
	s.trace_state = state;
	s.error = "no answer in time";
	Kova__Otlp__V1__ExportTraceRequest *read = written(&s, 1);
	const Kova__Otlp__V1__Span *got = span_at(read, 0);

	cr_assert_eq(got->parent_span_id.len, 8);
	cr_assert_eq(got->parent_span_id.data[0], 7);
	cr_assert_str_eq(got->trace_state, "a=1");
	cr_assert_eq(got->flags, 0x301);
	cr_assert_eq(got->status->code, 2);
	cr_assert_str_eq(got->status->message, "no answer in time");
	release(read);
}

Test(otlp_trace, several_in_their_order)
{
	struct span spans[3] = {some_span(1), some_span(2), some_span(3)};

	spans[0].next = &spans[1];
	spans[1].next = &spans[2];
	Kova__Otlp__V1__ExportTraceRequest *read = written(spans, 3);

	for (size_t i = 0; i < 3; i++)
		cr_assert_eq(span_at(read, i)->span_id.data[0], i + 1);
	release(read);
	release(written(spans, 2)); /* the rest of the list is left aside */
}

Test(otlp_trace, what_a_collector_rejected)
{
	const char whole[] = "\x0a\x07\x08\x05\x12\x03why";

	cr_assert_eq(otlp_trace_rejected((struct slice){whole, sizeof whole - 1}), 5);
	cr_assert_eq(otlp_trace_rejected((struct slice){NULL, 0}), 0);
	cr_assert_eq(otlp_trace_rejected(SLICE("{}")), 0);
	cr_assert_eq(otlp_trace_rejected(SLICE("\x0a\x00")), 0);
	/* A negative number is none. */
	cr_assert_eq(
		otlp_trace_rejected(SLICE("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")),
		0);
	for (size_t len = 0; len < 4; len++)
		cr_assert_eq(otlp_trace_rejected((struct slice){whole, len}), 0);
}

/* ---- Attributes ---- */

static struct slice text_of(const struct span *s, const char *name)
{
	const struct span_attribute *a = span_attribute(s, name);

	cr_assert_not_null(a);
	return (struct slice){s->text + a->at, a->len};
}

Test(span, an_attribute_is_replaced)
{
	struct span s = some_span(1);

	span_set_text(&s, "a", SLICE("one"));
	span_set_int(&s, "b", 1);
	span_set_text(&s, "a", SLICE("two"));
	span_set_bool(&s, "b", true);
	cr_assert_eq(s.n_attributes, 2);
	cr_assert(slice_equal(text_of(&s, "a"), SLICE("two")));
	cr_assert_eq(span_attribute(&s, "b")->type, SPAN_BOOL);
	cr_assert_null(span_attribute(&s, "c"));
}

Test(span, what_there_is_no_room_for)
{
	static const char names[SPAN_ATTRIBUTES_MAX + 1][3] = {"a", "b", "c", "d", "e", "f", "g",
							       "h", "i", "j", "k", "l", "m", "n",
							       "o", "p", "q", "r", "s", "t", "u"};
	struct span s = some_span(1);
	char text[SPAN_TEXT_MAX];

	memset(text, 'x', sizeof text);
	span_set_text(&s, "a", (struct slice){text, sizeof text - 2});
	span_set_text(&s, "b", SLICE("1234"));
	cr_assert(slice_equal(text_of(&s, "b"), SLICE("12")));
	span_set_text(&s, "c", SLICE("1234"));
	cr_assert_eq(text_of(&s, "c").len, 0);
	for (size_t i = 0; i <= SPAN_ATTRIBUTES_MAX; i++)
		span_set_int(&s, names[i], (int64_t)i);
	cr_assert_eq(s.n_attributes, SPAN_ATTRIBUTES_MAX);
	cr_assert_null(span_attribute(&s, "u"));
	release(written(&s, 1));
}

Test(span, a_text_is_printable)
{
	struct span s = some_span(1);

	span_set_text(&s, "a", SLICE("x\n\xff\0y~ "));
	cr_assert(slice_equal(text_of(&s, "a"), SLICE("x???y~ ")));
}
