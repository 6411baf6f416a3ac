#include "rls_answer.h"

#include <envoy/service/ratelimit/v3/rls.pb-c.h>

#include "core/limit.h"
#include "core/ratelimit_fields.h"
#include "core/rls_request.h"
#include "grpc_task.h"

typedef Envoy__Service__Ratelimit__V3__RateLimitResponse rls_response;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__DescriptorStatus rls_status;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit rls_limit;
typedef Envoy__Service__Ratelimit__V3__RateLimitResponse__RateLimit__Unit rls_unit;
typedef Envoy__Config__Core__V3__HeaderValue rls_header;

#define UNIT(name) ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__RATE_LIMIT__UNIT__##name
#define CODE(name) ENVOY__SERVICE__RATELIMIT__V3__RATE_LIMIT_RESPONSE__CODE__##name

enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S, HEADERS_MAX = 3 };

void rls_answer_hear(struct rls_answer *a, uint8_t i, const struct answer *said, bool is_over)
{
	struct rls_pair *p = &a->pair[i];

	p->is_known = true;
	p->is_over = is_over;
	p->is_unlimited = said->allowed && said->per_us == 0 && said->window_s == 0;
	memcpy(p->policy, said->policy, sizeof p->policy);
	p->limit = said->limit;
	p->remaining = said->remaining;
	p->rate = said->rate;
	p->per_us = said->per_us;
	p->window_s = said->window_s;
	p->reset_after_ms = said->reset_after_ms;
	p->retry_after_ms = said->retry_after_ms;
	p->more_after_ms = said->more_after_ms;
}

bool rls_answer_is_over(const struct rls_answer *a)
{
	for (uint8_t i = 0; i < a->n_pairs; i++)
		if (a->pair[i].is_over)
			return true;
	return false;
}

/* Of two the one that says more: one that is over, then the one with less. */
static const struct rls_pair *tighter(const struct rls_pair *a, const struct rls_pair *b)
{
	if (a == NULL || (b->is_over && !a->is_over))
		return b;
	if ((a->is_over && !b->is_over) || b->is_unlimited)
		return a;
	return a->is_unlimited || b->remaining < a->remaining ? b : a;
}

/* The one to tell of a descriptor; of all, if it is RLS_DESCRIPTORS_MAX. NULL: no policy limits it, or nothing is known. */
static const struct rls_pair *tightest(const struct rls_answer *a, uint8_t descriptor)
{
	const struct rls_pair *found = NULL;

	for (uint8_t i = 0; i < a->n_pairs; i++)
		if (a->pair[i].is_known &&
		    (descriptor == RLS_DESCRIPTORS_MAX || a->pair[i].descriptor == descriptor))
			found = tighter(found, &a->pair[i]);
	return found;
}

/* A calendar's windows vary: an hour with daylight saving, months, leap years. */
static rls_unit calendar_unit(uint64_t window_s)
{
	if (window_s <= DAY_S + HOUR_S)
		return UNIT(DAY);
	if (window_s <= 7 * DAY_S + HOUR_S)
		return UNIT(WEEK);
	return UNIT(MONTH);
}

/* UNKNOWN: there is no name for it. */
static rls_unit unit_of(const struct rls_pair *p)
{
	static const struct {
		uint64_t s;
		rls_unit unit;
	} units[] = {{1, UNIT(SECOND)},        {60, UNIT(MINUTE)},      {HOUR_S, UNIT(HOUR)},
		     {DAY_S, UNIT(DAY)},       {7 * DAY_S, UNIT(WEEK)}, {30 * DAY_S, UNIT(MONTH)},
		     {365 * DAY_S, UNIT(YEAR)}};

	if (p->per_us == 0)
		return p->window_s > 0 ? calendar_unit(p->window_s) : UNIT(UNKNOWN);
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (p->per_us == units[i].s * 1000000)
			return units[i].unit;
	return UNIT(UNKNOWN);
}

/* What of a status points elsewhere. */
struct status_parts {
	rls_status status;
	rls_limit limit;
	Google__Protobuf__Duration reset;
};

static void fill_limit(struct status_parts *s, const struct rls_pair *p)
{
	s->limit.requests_per_unit = (uint32_t)p->rate;
	s->limit.unit = unit_of(p);
	s->limit.name = (char *)(uintptr_t)p->policy;
	s->status.current_limit = &s->limit;
	if (p->reset_after_ms > 0) {
		s->reset.seconds = p->reset_after_ms / 1000;
		s->reset.nanos = (int32_t)(p->reset_after_ms % 1000 * 1000000);
	}
	s->status.duration_until_reset = &s->reset;
}

static void fill_status(struct status_parts *s, const struct rls_pair *p)
{
	envoy__service__ratelimit__v3__rate_limit_response__descriptor_status__init(&s->status);
	envoy__service__ratelimit__v3__rate_limit_response__rate_limit__init(&s->limit);
	google__protobuf__duration__init(&s->reset);
	s->status.code = CODE(OK);
	if (p == NULL)
		return;
	if (p->is_over)
		s->status.code = CODE(OVER_LIMIT);
	s->status.limit_remaining = p->is_unlimited ? UINT32_MAX : (uint32_t)p->remaining;
	if (p->per_us > 0 || p->window_s > 0) /* else it is banned, or not limited now */
		fill_limit(s, p);
}

/* The fields of docs/protocol-http.md, of the tightest pair. */
struct header_parts {
	rls_header header[HEADERS_MAX], *headers[HEADERS_MAX];
	size_t n;
	size_t at[HEADERS_MAX]; /* where in `text` its value begins; each ends with a NUL */
	struct buf *text;
};

static void begin_header(struct header_parts *h, const char *key)
{
	rls_header *header = &h->header[h->n];

	envoy__config__core__v3__header_value__init(header);
	header->key = (char *)(uintptr_t)key;
	h->headers[h->n] = header;
	h->at[h->n++] = h->text->len;
}

static void end_header(struct header_parts *h)
{
	buf_add(h->text, "", 1);
}

static void fill_headers(struct header_parts *h, const struct rls_pair *p)
{
	struct ratelimit limit = {.policy = slice_of(p->policy),
				  .quota = p->limit,
				  .window_s = p->window_s,
				  .remaining = p->remaining,
				  .more_after_ms = p->more_after_ms};
	uint64_t retry_s = ratelimit_retry_after_s(p->retry_after_ms, p->more_after_ms);

	begin_header(h, "ratelimit-policy");
	ratelimit_policy_write(h->text, &limit, 1);
	end_header(h);
	begin_header(h, "ratelimit");
	ratelimit_write(h->text, &limit, 1);
	end_header(h);
	if (p->is_over && retry_s != 0) {
		begin_header(h, "retry-after");
		buf_add_uint(h->text, retry_s);
		end_header(h);
	}
	for (size_t i = 0; i < h->n; i++)
		h->header[i].value = h->text->ptr + h->at[i];
}

void rls_answer_send(const struct rls_answer *a, struct grpc_task *t)
{
	struct status_parts parts[RLS_DESCRIPTORS_MAX];
	rls_status *statuses[RLS_DESCRIPTORS_MAX];
	struct header_parts headers = {.n = 0,
				       .text = conn_scratch(t->front->conn, SCRATCH_FIELDS)};
	const struct rls_pair *least = tightest(a, RLS_DESCRIPTORS_MAX);
	rls_response response;

	envoy__service__ratelimit__v3__rate_limit_response__init(&response);
	response.overall_code = rls_answer_is_over(a) ? CODE(OVER_LIMIT) : CODE(OK);
	for (uint8_t i = 0; i < a->n_descriptors; i++) {
		fill_status(&parts[i], tightest(a, i));
		statuses[i] = &parts[i].status;
	}
	response.n_statuses = a->n_descriptors;
	response.statuses = statuses;
	if (least != NULL && !least->is_unlimited && least->policy[0] != '\0')
		fill_headers(&headers, least);
	response.n_response_headers_to_add = buf_failed(headers.text) ? 0 : headers.n;
	response.response_headers_to_add = headers.headers;
	task_answer(t, &response.base);
	conn_scratch_leave(headers.text);
}
