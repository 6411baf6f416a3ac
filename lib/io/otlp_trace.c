#include "io/otlp_trace.h"

#include <otlp_trace.pb-c.h>
#include <stdlib.h>

#include "core/proto_wire.h"

enum { FLAGS_KNOW_REMOTE = 0x100, FLAGS_IS_REMOTE = 0x200, STATUS_ERROR = 2 };

/* Numbers of fields of the answer. */
enum { PARTIAL_SUCCESS = 1, REJECTED_SPANS = 1 };

/* A message's inside is made of pointers to structs: those of one attribute, and of one span with its attributes. */
struct pair {
	Kova__Otlp__V1__KeyValue of;
	Kova__Otlp__V1__AnyValue value;
};

struct whole_span {
	Kova__Otlp__V1__Span of;
	Kova__Otlp__V1__Status status;
	Kova__Otlp__V1__KeyValue *list[SPAN_ATTRIBUTES_MAX];
	struct pair pairs[SPAN_ATTRIBUTES_MAX];
	char text[SPAN_TEXT_MAX + SPAN_ATTRIBUTES_MAX]; /* each NUL-terminated */
};

/* protobuf-c's structs have no const; packing changes nothing. */
static char *plain(const char *text)
{
	return (char *)(uintptr_t)text;
}

static struct pair *pair_init(struct pair *p, const char *key)
{
	kova__otlp__v1__key_value__init(&p->of);
	kova__otlp__v1__any_value__init(&p->value);
	p->of.key = plain(key);
	p->of.value = &p->value;
	return p;
}

static void set_text(struct pair *p, const char *text)
{
	p->value.value_case = KOVA__OTLP__V1__ANY_VALUE__VALUE_STRING_VALUE;
	p->value.string_value = plain(text);
}

/* Returns what is behind the text that it used. */
static char *set_value(struct pair *p, const struct span *s, const struct span_attribute *a,
		       char *text)
{
	switch ((enum span_type)a->type) {
	case SPAN_TEXT:
		memcpy(text, s->text + a->at, a->len);
		text[a->len] = '\0';
		set_text(p, text);
		return text + a->len + 1;
	case SPAN_INT:
		p->value.value_case = KOVA__OTLP__V1__ANY_VALUE__VALUE_INT_VALUE;
		p->value.int_value = a->number;
		return text;
	case SPAN_BOOL:
		p->value.value_case = KOVA__OTLP__V1__ANY_VALUE__VALUE_BOOL_VALUE;
		p->value.bool_value = a->number != 0;
		return text;
	}
	return text;
}

static ProtobufCBinaryData bytes_of(const unsigned char *bytes, size_t len)
{
	return (ProtobufCBinaryData){len, (uint8_t *)(uintptr_t)bytes};
}

static void span_fill(struct whole_span *w, const struct span *s)
{
	char *text = w->text;

	kova__otlp__v1__span__init(&w->of);
	w->of.trace_id = bytes_of(s->trace_id, sizeof s->trace_id);
	w->of.span_id = bytes_of(s->span_id, sizeof s->span_id);
	w->of.name = plain(s->name);
	w->of.kind = (int32_t)s->kind;
	w->of.start_time_unix_nano = s->start_ns;
	w->of.end_time_unix_nano = s->end_ns;
	w->of.flags = TRACE_SAMPLED | FLAGS_KNOW_REMOTE;
	if (s->has_parent)
		w->of.parent_span_id = bytes_of(s->parent_id, sizeof s->parent_id);
	if (s->parent_is_far)
		w->of.flags |= FLAGS_IS_REMOTE;
	if (s->trace_state != NULL)
		w->of.trace_state = s->trace_state;
	for (uint8_t i = 0; i < s->n_attributes; i++) {
		const struct span_attribute *a = &s->attributes[i];

		text = set_value(pair_init(&w->pairs[i], a->name), s, a, text);
		w->list[i] = &w->pairs[i].of;
	}
	w->of.n_attributes = s->n_attributes;
	w->of.attributes = w->list;
	if (s->error != NULL) {
		kova__otlp__v1__status__init(&w->status);
		w->status.code = STATUS_ERROR;
		w->status.message = plain(s->error);
		w->of.status = &w->status;
	}
}

static void pack(Kova__Otlp__V1__Span **spans, size_t n, const struct otlp_resource *from,
		 struct buf *ret_message)
{
	Kova__Otlp__V1__Scope scope = KOVA__OTLP__V1__SCOPE__INIT;
	Kova__Otlp__V1__ScopeSpans of_scope = KOVA__OTLP__V1__SCOPE_SPANS__INIT, *scopes[1];
	Kova__Otlp__V1__Resource resource = KOVA__OTLP__V1__RESOURCE__INIT;
	Kova__Otlp__V1__ResourceSpans of_resource = KOVA__OTLP__V1__RESOURCE_SPANS__INIT,
				      *resources[1];
	Kova__Otlp__V1__ExportTraceRequest all = KOVA__OTLP__V1__EXPORT_TRACE_REQUEST__INIT;
	const char *const attributes[][2] = {{"service.name", from->service},
					     {"service.version", from->version},
					     {"service.instance.id", from->instance},
					     {"cloud.region", from->region}};
	enum { N = sizeof attributes / sizeof attributes[0] };
	struct pair pairs[N];
	Kova__Otlp__V1__KeyValue *list[N];

	for (size_t i = 0; i < N; i++) {
		set_text(pair_init(&pairs[i], attributes[i][0]), attributes[i][1]);
		list[i] = &pairs[i].of;
	}
	resource.n_attributes = N;
	resource.attributes = list;
	scope.name = plain("kova");
	scope.version = plain(from->version);
	of_scope.scope = &scope;
	of_scope.n_spans = n;
	of_scope.spans = spans;
	scopes[0] = &of_scope;
	of_resource.resource = &resource;
	of_resource.n_scope_spans = 1;
	of_resource.scope_spans = scopes;
	resources[0] = &of_resource;
	all.n_resource_spans = 1;
	all.resource_spans = resources;

	size_t len = kova__otlp__v1__export_trace_request__get_packed_size(&all);
	char *at = buf_reserve(ret_message, len);

	if (at != NULL)
		ret_message->len += kova__otlp__v1__export_trace_request__pack(&all, (uint8_t *)at);
}

kova_status otlp_trace_write(const struct otlp_resource *from, const struct span *spans, size_t n,
			     struct buf *ret_message)
{
	struct whole_span *whole = calloc(n, sizeof *whole);
	Kova__Otlp__V1__Span **list = calloc(n, sizeof(Kova__Otlp__V1__Span *));

	if (whole != NULL && list != NULL) {
		for (size_t i = 0; i < n; i++, spans = spans->next) {
			span_fill(&whole[i], spans);
			list[i] = &whole[i].of;
		}
		pack(list, n, from, ret_message);
	}
	bool done = whole != NULL && list != NULL && !buf_failed(ret_message);

	free(whole);
	free(list);
	return done ? KOVA_OK : KOVA_ENOMEM;
}

uint64_t otlp_trace_rejected(struct slice answer)
{
	struct wire_field f, inner;
	uint64_t rejected = 0;

	while (wire_next(&answer, &f) == KOVA_OK) {
		if (!wire_is(&f, PARTIAL_SUCCESS, WIRE_BYTES))
			continue;
		while (wire_next(&f.bytes, &inner) == KOVA_OK)
			if (wire_is(&inner, REJECTED_SPANS, WIRE_VARINT))
				rejected = inner.value;
	}
	return rejected <= INT64_MAX ? rejected : 0;
}
