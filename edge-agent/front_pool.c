/*
 * Pools over HTTP: next, report, and what there is. A body becomes a request, an answer becomes JSON. Every path ends in one answer:
 * a problem from what could not be read, or on_done's. A caller that is gone gets none: the front abandons call->pool_request.
 */
#include <stdio.h>
#include <string.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "control/pool_def.h"
#include "core/limit.h"
#include "core/quote.h"
#include "core/ratelimit_fields.h"
#include "http_call.h"
#include "ops.h"
#include "pool_service.h"

enum { RETRY_OVERLOAD_S = 1 };

static const struct slice prefix = {"/v1/pools/", 10};

/* ---- Answers ---- */

static void add_text(struct buf *out, const char *name, struct slice text)
{
	buf_printf(out, ",\"%s\":", name);
	if (text.len > 0)
		quote_json(out, text);
	else
		buf_add_text(out, "null");
}

static void add_retry_after(struct http_call *c, int64_t ms)
{
	if (ms < 0)
		return;
	buf_printf(call_fields(c), "Retry-After: %llu\r\n",
		   (unsigned long long)ratelimit_seconds(ms));
}

static void answer_given(struct http_call *c, const struct pool_answer *a)
{
	struct buf *out = call_body(c);

	buf_add_text(out, "{\"ticket\":");
	quote_json(out, slice_of(a->ticket));
	add_text(out, "address", buf_slice(&a->address));
	add_text(out, "endpoint", slice_of(a->endpoint));
	buf_printf(out, ",\"tier\":%u", a->tier);
	add_text(out, "session", buf_slice(&a->session));
	buf_printf(out,
		   ",\"moved\":%s,\"trial\":%s,\"lease_ms\":%lld,\"paused\":null,"
		   "\"retry_in_ms\":0}\n",
		   a->moved ? "true" : "false", a->trial ? "true" : "false",
		   (long long)a->lease_ms);
	buf_add_text(call_fields(c), "Cache-Control: no-store\r\n");
	call_answer(c, 200, "application/json");
}

static unsigned pause_status(enum pool_pause pause)
{
	return pause == POOL_SLOTS || pause == POOL_HELD || pause == POOL_LIMITED ? 429 : 503;
}

static void answer_paused(struct http_call *c, const struct pool_answer *a)
{
	struct buf *out = call_body(c);

	add_retry_after(c, a->retry_in_ms);
	buf_add_text(out, "{\"ticket\":null,\"address\":null,\"endpoint\":null,\"tier\":null,"
			  "\"session\":null,\"moved\":false,\"trial\":false,\"lease_ms\":0");
	add_text(out, "paused", slice_of(a->paused));
	buf_printf(out, ",\"retry_in_ms\":%lld}\n", (long long)a->retry_in_ms);
	call_answer(c, pause_status(a->pause), "application/json");
}

static unsigned error_status(enum pool_error error)
{
	switch (error) {
	case POOL_NO_POOL:
	case POOL_NO_POLICY:
	case POOL_UNKNOWN:
		return 404;
	case POOL_UNAVAILABLE:
		return 503;
	default:
		return 400;
	}
}

static void answer(struct http_call *c, const struct pool_request *r)
{
	const struct pool_answer *a = &r->answer;
	struct buf *out;

	if (a->error != POOL_NO_ERROR) {
		if (a->error == POOL_UNAVAILABLE)
			add_retry_after(c, RETRY_OVERLOAD_S * 1000);
		call_problem(c, error_status(a->error), a->message);
		return;
	}
	if (r->kind == POOL_ASK_NEXT) {
		if (a->pause == POOL_NOT_PAUSED)
			answer_given(c, a);
		else
			answer_paused(c, a);
		return;
	}
	out = call_body(c);
	if (r->kind == POOL_ASK_SHOW)
		buf_add_slice(out, buf_slice(&a->json));
	else
		buf_add_text(out, a->counted ? "{\"counted\":true}\n" : "{\"counted\":false}\n");
	call_answer(c, 200, "application/json");
}

static void on_done(struct pool_request *r)
{
	struct http_call *c = r->owner;

	c->pool_request = NULL;
	ops_observe(&call_agent(c)->ops, OPS_HTTP, r->begun_us);
	answer(c, r);
	pool_request_free(r);
}

/* ---- What is sent ---- */

/* The pool's name in the path, before `behind`. */
static bool pool_name(struct http_call *c, const struct http_request *r, struct slice behind,
		      struct slice *ret_name)
{
	struct http_request cut = *r;

	cut.path.len -= behind.len;
	return call_path_part(c, &cut, prefix, ret_name);
}

/* A request for this call; NULL: answered. */
static struct pool_request *request_begin(struct http_call *c, enum pool_request_kind kind,
					  struct slice pool)
{
	struct pool_request *r = pool_request_new(call_agent(c)->pools, kind);

	if (r == NULL) {
		add_retry_after(c, RETRY_OVERLOAD_S * 1000);
		call_problem(c, 503, "too many requests are in progress at this agent");
		return NULL;
	}
	r->pool = pool;
	r->on_done = on_done;
	r->owner = c;
	return r;
}

/* From here on the call may be answered, and gone, at any time. */
static void hand_over(struct http_call *c, struct pool_request *r)
{
	c->pool_request = r;
	r->begun_us = ops_now_us(&call_agent(c)->ops);
	r->trace = c->trace;
	pool_ask(r);
}

struct next_body {
	struct slice target, session;
	int64_t tier, wait_ms;
	const json_t *takes;
};

static const struct conf_option next_options[] = {
	{.name = "target",
	 .type = CONF_BYTES,
	 .min = 1,
	 .max = POOL_TARGET_MAX,
	 .at = offsetof(struct next_body, target),
	 .text = "what the request is for"},
	{.name = "session",
	 .type = CONF_BYTES,
	 .min = 1,
	 .max = POOL_SESSION_MAX,
	 .at = offsetof(struct next_body, session),
	 .text = "who keeps an endpoint"},
	{.name = "tier",
	 .type = CONF_INT,
	 .min = 1,
	 .max = POOL_TIER_MAX,
	 .at = offsetof(struct next_body, tier),
	 .text = "never lower"},
	{.name = "wait_ms",
	 .type = CONF_INT,
	 .min = 0,
	 .max = REQUEST_WAIT_MAX_MS,
	 .fallback = "0",
	 .at = offsetof(struct next_body, wait_ms),
	 .text = "how long to wait for it, in ms"},
	{.name = "takes",
	 .type = CONF_LIST,
	 .item = CONF_OBJECT,
	 .at = offsetof(struct next_body, takes),
	 .text = "permits that go with it"},
};
static const struct conf_table next_table = {
	.options = next_options, .n_options = sizeof next_options / sizeof next_options[0]};

struct take_body {
	struct slice policy, key;
	int64_t cost;
};

static const struct conf_option take_options[] = {
	{.name = "policy",
	 .type = CONF_BYTES,
	 .required = true,
	 .min = 1,
	 .max = NAME_BYTES_MAX,
	 .at = offsetof(struct take_body, policy),
	 .text = "the policy's name"},
	{.name = "key",
	 .type = CONF_BYTES,
	 .required = true,
	 .min = 1,
	 .max = REQUEST_KEY_MAX,
	 .at = offsetof(struct take_body, key),
	 .text = "whose quota"},
	{.name = "cost",
	 .type = CONF_INT,
	 .min = 1,
	 .max = LIMIT_MAX,
	 .fallback = "1",
	 .at = offsetof(struct take_body, cost),
	 .text = "how much is taken"},
};
static const struct conf_table take_table = {.options = take_options, .n_options = 3};

static bool read_next(struct http_call *c, struct pool_request *r, const json_t *whole)
{
	struct next_body body = {0};

	if (!call_read(c, whole, &next_table, &body))
		return false;
	if (json_array_size(body.takes) > POOL_TAKES_MAX) {
		call_problemf(c, 400, "`takes` must have at most %d items", POOL_TAKES_MAX);
		return false;
	}
	r->target = body.target;
	r->session = body.session;
	r->tier = body.tier != CONF_ABSENT ? (uint8_t)body.tier : 0;
	r->wait_ms = (uint64_t)body.wait_ms;
	for (size_t i = 0; i < json_array_size(body.takes); i++) {
		struct take_body take = {0};

		if (!call_read(c, json_array_get(body.takes, i), &take_table, &take))
			return false;
		r->takes[r->n_takes++] =
			(struct pool_take){take.policy, take.key, (uint64_t)take.cost};
	}
	return true;
}

void front_pool_next(struct http_call *c, const struct http_request *h)
{
	struct slice name;
	json_t *whole = NULL;

	if (!pool_name(c, h, SLICE("/next"), &name))
		return;
	if (h->body.len > 0) {
		whole = call_json(c, h);
		if (whole == NULL)
			return;
	}
	struct pool_request *r = request_begin(c, POOL_ASK_NEXT, name);

	if (r != NULL && whole != NULL && !read_next(c, r, whole))
		pool_request_free(r);
	else if (r != NULL)
		hand_over(c, r);
	json_decref(whole); /* pool_ask() has copied what it needs */
}

struct report_body {
	struct slice ticket, outcome;
	int64_t status, latency_ms;
	const json_t *retry_after, *headers;
};

static const struct conf_option report_options[] = {
	{.name = "ticket",
	 .type = CONF_BYTES,
	 .required = true,
	 .min = 1,
	 .max = 1024,
	 .at = offsetof(struct report_body, ticket),
	 .text = "what next gave"},
	{.name = "outcome",
	 .type = CONF_BYTES,
	 .required = true,
	 .min = 1,
	 .max = 32,
	 .at = offsetof(struct report_body, outcome),
	 .text = "how it went"},
	{.name = "status",
	 .type = CONF_INT,
	 .min = 100,
	 .max = 599,
	 .at = offsetof(struct report_body, status),
	 .text = "of HTTP"},
	{.name = "retry_after",
	 .type = CONF_RAW,
	 .at = offsetof(struct report_body, retry_after),
	 .form = "number or string",
	 .text = "how long to stay away"},
	{.name = "latency_ms",
	 .type = CONF_INT,
	 .min = 0,
	 .max = REQUEST_WAIT_MAX_MS,
	 .at = offsetof(struct report_body, latency_ms),
	 .text = "how long it took"},
	{.name = "headers",
	 .type = CONF_RAW,
	 .at = offsetof(struct report_body, headers),
	 .form = "object",
	 .text = "the response's"},
};
static const struct conf_table report_table = {
	.options = report_options, .n_options = sizeof report_options / sizeof report_options[0]};

static bool read_retry_after(struct http_call *c, struct pool_request *r, const json_t *value,
			     char ret_text[static 32])
{
	if (value == NULL)
		return true;
	r->has_retry_after = true;
	if (json_is_string(value)) {
		r->retry_after =
			(struct slice){json_string_value(value), json_string_length(value)};
		return true;
	}
	if (!json_is_number(value)) {
		call_problem(c, 400, "`retry_after` must be a number or a string");
		return false;
	}
	snprintf(ret_text, 32, "%.6f", json_number_value(value));
	r->retry_after = slice_of(ret_text);
	return true;
}

static bool read_headers(struct http_call *c, struct pool_request *r, const json_t *headers)
{
	const char *name;
	json_t *value;

	if (headers != NULL &&
	    (!json_is_object(headers) || json_object_size(headers) > POOL_HEADERS_MAX)) {
		call_problem(c, 400, "`headers` must be an object of at most 64 strings");
		return false;
	}
	json_object_foreach((json_t *)(uintptr_t)headers, name, value) {
		if (!json_is_string(value)) {
			call_problem(c, 400, "`headers` must be an object of strings");
			return false;
		}
		r->headers[r->n_headers++] = (struct pool_header){
			slice_of(name), {json_string_value(value), json_string_length(value)}};
	}
	return true;
}

static bool read_report(struct http_call *c, struct pool_request *r, const json_t *whole,
			char ret_text[static 32])
{
	struct report_body body = {0};

	if (!call_read(c, whole, &report_table, &body))
		return false;
	if (!pool_outcome_find(body.outcome, &r->outcome)) {
		call_problem(
			c, 400,
			"`outcome` must be ok, refused, auth, tunnel, timeout, target, blocked, "
			"captcha, empty or cancelled");
		return false;
	}
	r->ticket = body.ticket;
	r->status = body.status != CONF_ABSENT ? (uint16_t)body.status : 0;
	return read_retry_after(c, r, body.retry_after, ret_text) &&
	       read_headers(c, r, body.headers);
}

void front_pool_report(struct http_call *c, const struct http_request *h)
{
	struct slice name;
	char seconds[32];

	if (!pool_name(c, h, SLICE("/report"), &name))
		return;
	json_t *whole = call_json(c, h);
	struct pool_request *r = whole != NULL ? request_begin(c, POOL_ASK_REPORT, name) : NULL;

	if (r != NULL && !read_report(c, r, whole, seconds))
		pool_request_free(r);
	else if (r != NULL)
		hand_over(c, r);
	json_decref(whole);
}

void front_pool_show(struct http_call *c, const struct http_request *h)
{
	struct slice name;
	struct pool_request *r;

	if (!call_path_part(c, h, prefix, &name))
		return;
	r = request_begin(c, POOL_ASK_SHOW, name);
	if (r != NULL)
		hand_over(c, r);
}

void front_pool_list(struct http_call *c, const struct http_request *h)
{
	const struct catalogue *catalogue = control_catalogue(call_agent(c)->control);
	struct buf *out = call_body(c);
	const struct pool_def *def;

	(void)h;
	buf_add_text(out, "{\"pools\":[");
	for (size_t i = 0; (def = catalogue_pool_at(catalogue, i)) != NULL; i++)
		buf_printf(out, "%s\"%s\"", i > 0 ? "," : "", def->name);
	buf_add_text(out, "]}\n");
	call_answer(c, 200, "application/json");
}
