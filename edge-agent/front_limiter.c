/*
 * The limiter over HTTP: a body or a query becomes a request, an answer becomes JSON and fields.
 *
 * take: front_limiter_take() → read → decide() … on_done() → answer. Every path ends in one answer: a
 * problem from what could not be read, or on_done's. A caller that is gone gets none: the front
 * abandons call->request.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "control/catalogue.h"
#include "control/control.h"
#include "core/limit.h"
#include "core/quote.h"
#include "core/ratelimit_fields.h"
#include "http_call.h"
#include "ops.h"
#include "request.h"

enum { DENY_DEFAULT = 429, RETRY_OVERLOAD_S = 1 };

/* ---- answers ---- */

static bool counts_concurrency(const struct http_call *c, const struct answer *a)
{
	const struct policy *p;

	if (a->per_us != 0)
		return false;
	p = catalogue_policy(control_catalogue(call_agent(c)->control), slice_of(a->policy));
	return p != NULL && p->levels[0].limit.algorithm == ALGORITHM_CONCURRENCY;
}

/* RateLimit-Policy, RateLimit and, on a refusal, Retry-After. */
static void add_fields(struct http_call *c, const struct answer *a)
{
	struct buf *out = call_fields(c);
	const bool concurrent = counts_concurrency(c, a);
	struct ratelimit limit = {.policy = slice_of(a->policy),
				  .quota = a->limit,
				  .window_s = concurrent ? 0 : a->window_s,
				  .concurrent = concurrent,
				  .remaining = a->remaining,
				  .more_after_ms = a->more_after_ms};

	if (a->policy[0] != '\0') {
		buf_add_slice(out, SLICE("RateLimit-Policy: "));
		ratelimit_policy_write(out, &limit, 1);
		buf_add_slice(out, SLICE("\r\nRateLimit: "));
		ratelimit_write(out, &limit, 1);
		buf_add_slice(out, SLICE("\r\n"));
	}
	uint64_t retry_s = ratelimit_retry_after_s(a->retry_after_ms, a->more_after_ms);
	if (!a->allowed && retry_s != 0) {
		buf_add_slice(out, SLICE("Retry-After: "));
		buf_add_uint(out, retry_s);
		buf_add_slice(out, SLICE("\r\n"));
	}
}

/* `,"name":"text"`, or null for an empty text. */
static void add_text(struct buf *out, const char *name, struct slice text)
{
	buf_add_slice(out, SLICE(",\""));
	buf_add_text(out, name);
	buf_add_slice(out, SLICE("\":"));
	if (text.len != 0)
		quote_json(out, text);
	else
		buf_add_slice(out, SLICE("null"));
}

static void add_number(struct buf *out, const char *name, int64_t number)
{
	buf_add_slice(out, SLICE(",\""));
	buf_add_text(out, name);
	buf_add_slice(out, SLICE("\":"));
	buf_add_int(out, number);
}

static void answer_verdict(struct http_call *c, const struct answer *a)
{
	struct buf *out = call_body(c);
	char reason[80];
	size_t reason_len = answer_reason(a, reason);

	add_fields(c, a);
	buf_add_text(out, a->allowed ? "{\"allowed\":true" : "{\"allowed\":false");
	add_number(out, "remaining", (int64_t)a->remaining);
	add_number(out, "limit", (int64_t)a->limit);
	add_number(out, "retry_after_ms", a->retry_after_ms);
	add_number(out, "reset_after_ms", a->reset_after_ms);
	add_text(out, "reason", (struct slice){reason, reason_len});
	if (c->wants_receipt)
		add_text(out, "receipt", a->receipt);
	if (c->shape == CALL_ACQUIRE) {
		add_text(out, "permit", a->permit);
		if (a->permit.len != 0)
			add_number(out, "hold_ms", a->hold_ms);
		else
			buf_add_slice(out, SLICE(",\"hold_ms\":null"));
	}
	buf_add_slice(out, SLICE("}\n"));
	call_answer(c, a->allowed ? 200 : 429, "application/json");
}

/* For proxies: the verdict is the status, and nothing is in the body. */
static void answer_check(struct http_call *c, const struct answer *a)
{
	add_fields(c, a);
	buf_add_slice(call_fields(c), SLICE("Cache-Control: no-store\r\n"));
	call_answer(c, a->allowed ? 200 : c->deny_status, NULL);
}

static void answer_amount(struct http_call *c, const char *name, const char *value)
{
	struct buf *out = call_body(c);

	buf_add_slice(out, SLICE("{\""));
	buf_add_text(out, name);
	buf_add_slice(out, SLICE("\":"));
	buf_add_text(out, value);
	buf_add_slice(out, SLICE("}\n"));
	call_answer(c, 200, "application/json");
}

static void answer_success(struct http_call *c, const struct answer *a)
{
	char amount[24];

	switch ((enum call_shape)c->shape) {
	case CALL_TAKE:
	case CALL_ACQUIRE:
		answer_verdict(c, a);
		return;
	case CALL_CHECK:
		answer_check(c, a);
		return;
	case CALL_REFUND:
		snprintf(amount, sizeof amount, "%lld", (long long)a->amount);
		answer_amount(c, "refunded", amount);
		return;
	case CALL_RELEASE:
		answer_amount(c, "released", a->amount != 0 ? "true" : "false");
		return;
	case CALL_RENEW:
		answer_amount(c, "renewed", a->amount != 0 ? "true" : "false");
		return;
	case CALL_FEEDBACK:
		answer_amount(c, "ok", "true");
		return;
	}
}

static void problem_unavailable(struct http_call *c, const char *detail)
{
	buf_add_slice(call_fields(c), SLICE("Retry-After: "));
	buf_add_uint(call_fields(c), RETRY_OVERLOAD_S);
	buf_add_slice(call_fields(c), SLICE("\r\n"));
	call_problem(c, 503, detail);
}

/* Of several pairs, the first that names none. */
static void problem_no_policy(struct http_call *c, const struct request *r)
{
	const struct catalogue *catalogue = control_catalogue(call_agent(c)->control);

	for (unsigned i = 0; i < r->n_pairs; i++)
		if (catalogue_policy(catalogue, r->pairs[i].policy) == NULL) {
			call_no_policy(c, r->pairs[i].policy);
			return;
		}
	call_problem(c, 404, r->answer.message); /* it has just come */
}

static void answer_error(struct http_call *c, const struct request *r)
{
	switch (r->answer.error) {
	case REQUEST_NO_POLICY:
		problem_no_policy(c, r);
		return;
	case REQUEST_UNAVAILABLE:
		problem_unavailable(c, r->answer.message);
		return;
	default:
		call_problem(c, 400, r->answer.message);
		return;
	}
}

static void on_done(struct request *r)
{
	struct http_call *c = r->owner;

	c->request = NULL;
	ops_observe(&call_agent(c)->ops, OPS_HTTP, c->begun_us);
	if (r->answer.error == REQUEST_NO_ERROR)
		answer_success(c, &r->answer);
	else
		answer_error(c, r);
	request_free(r); /* its answer's slices were read until here */
}

/* A request for this call; NULL: answered. */
static struct request *request_begin(struct http_call *c, enum request_kind kind,
				     enum call_shape shape)
{
	struct request *r = request_new(call_agent(c)->engine);

	if (r == NULL) {
		problem_unavailable(c, "too many requests are in progress at this agent");
		return NULL;
	}
	r->kind = kind;
	r->refund_amount = -1;
	r->on_done = on_done;
	r->owner = c;
	c->shape = (uint8_t)shape;
	return r;
}

/* From here on the call may be answered, and gone, at any time. */
static void request_hand_over(struct http_call *c, struct request *r)
{
	c->request = r;
	c->begun_us = ops_now_us(&call_agent(c)->ops);
	r->trace = c->trace;
	decide(call_agent(c)->engine, r);
}

/* ---- take, peek, acquire ---- */

/* The first options of most bodies. AT(field) says where a body keeps a field. */
#define PAIR_OPTIONS(required_, whose_)                                                    \
	{.name = "policy",                                                                 \
	 .type = CONF_BYTES,                                                               \
	 .required = required_,                                                            \
	 .min = 1,                                                                         \
	 .max = NAME_BYTES_MAX,                                                            \
	 .at = AT(policy),                                                                 \
	 .text = "the policy's name"},                                                     \
	{                                                                                  \
		.name = "key", .type = CONF_BYTES, .required = required_, .min = 1,        \
		.max = REQUEST_KEY_MAX, .at = AT(key), .text = whose_ ", 1 to 1024 bytes", \
	}

struct take_body {
	struct slice policy, key, id;
	int64_t cost, wait_ms;
	bool receipt;
	const json_t *takes;
};

#define AT(field) offsetof(struct take_body, field)

#define COST_OPTION                                                                            \
	{                                                                                      \
		.name = "cost", .type = CONF_INT, .min = 1, .max = LIMIT_MAX, .fallback = "1", \
		.at = AT(cost), .text = "how much is taken",                                   \
	}
#define WAIT_OPTION                                                                           \
	{                                                                                     \
		.name = "wait_ms", .type = CONF_INT, .min = 0, .max = REQUEST_WAIT_MAX_MS,    \
		.fallback = "0", .at = AT(wait_ms), .text = "how long to wait for it, in ms", \
	}
#define ID_OPTION                                                                                \
	{                                                                                        \
		.name = "id", .type = CONF_BYTES, .min = 1, .max = REQUEST_ID_MAX, .at = AT(id), \
		.text = "makes a repeated request the same one",                                 \
	}

static const struct conf_option take_options[] = {
	PAIR_OPTIONS(false, "whose quota"),
	COST_OPTION,
	WAIT_OPTION,
	ID_OPTION,
	{.name = "receipt", .type = CONF_BOOL, .at = AT(receipt), .text = "asks for a receipt"},
	{.name = "takes",
	 .type = CONF_LIST,
	 .item = CONF_OBJECT,
	 .at = AT(takes),
	 .text = "several pairs: all or none"},
};
static const struct conf_table take_table = {
	.options = take_options, .n_options = sizeof take_options / sizeof take_options[0]};

static const struct conf_option pair_options[] = {PAIR_OPTIONS(false, "whose quota"), COST_OPTION};
static const struct conf_table pair_table = {.options = pair_options, .n_options = 3};

/* A permit is one slot: a body made for take may say so. */
static const struct conf_option acquire_options[] = {
	PAIR_OPTIONS(false, "whose quota"),
	{.name = "cost",
	 .type = CONF_INT,
	 .min = 1,
	 .max = 1,
	 .fallback = "1",
	 .at = AT(cost),
	 .text = "a permit is one"},
	WAIT_OPTION,
	ID_OPTION,
};
static const struct conf_table acquire_table = {.options = acquire_options,
						.n_options = sizeof acquire_options /
							     sizeof acquire_options[0]};

static bool add_pair(struct http_call *c, struct request *r, const struct take_body *pair)
{
	if (pair->policy.len == 0 || pair->key.len == 0) {
		call_problemf(c, 400, "`%s` is missing", pair->policy.len == 0 ? "policy" : "key");
		return false;
	}
	r->pairs[r->n_pairs++] = (struct request_pair){
		.policy = pair->policy, .key = pair->key, .cost = (uint64_t)pair->cost};
	return true;
}

static bool add_list(struct http_call *c, struct request *r, const struct take_body *body,
		     const json_t *whole)
{
	size_t n = json_array_size(body->takes);

	if (body->policy.len != 0 || body->key.len != 0 || json_object_get(whole, "cost") != NULL) {
		call_problem(c, 400,
			     "`policy`, `key` and `cost` stand in the items of `takes`, not "
			     "beside it");
		return false;
	}
	if (n < 1 || n > REQUEST_PAIRS_MAX) {
		call_problemf(c, 400, "`takes` must have 1 to %d items, not %zu", REQUEST_PAIRS_MAX,
			      n);
		return false;
	}
	for (size_t i = 0; i < n; i++) {
		struct take_body pair = {0};

		if (!call_read(c, json_array_get(body->takes, i), &pair_table, &pair) ||
		    !add_pair(c, r, &pair))
			return false;
	}
	return true;
}

/* Fills `r` from the body `whole`; false: answered. */
static bool read_take(struct http_call *c, struct request *r, const json_t *whole,
		      const struct conf_table *table)
{
	struct take_body body = {.cost = 1};

	if (!call_read(c, whole, table, &body))
		return false;
	r->wait_ms = (uint64_t)body.wait_ms;
	r->id = body.id;
	r->want_receipt = c->wants_receipt = body.receipt;
	return body.takes != NULL ? add_list(c, r, &body, whole) : add_pair(c, r, &body);
}

/*
 * A peek takes nothing, so that a body made for take may be sent: what it can't mean is left aside.
 */
static void make_peek(struct http_call *c, struct request *r)
{
	r->wait_ms = 0;
	r->id = (struct slice){NULL, 0};
	r->want_receipt = c->wants_receipt = false;
}

static void serve_take(struct http_call *c, const struct http_request *h, enum request_kind kind,
		       enum call_shape shape, const struct conf_table *table)
{
	json_t *whole = call_json(c, h);
	struct request *r = whole != NULL ? request_begin(c, kind, shape) : NULL;

	if (r != NULL && !read_take(c, r, whole, table)) {
		request_free(r);
	} else if (r != NULL) {
		if (kind == REQUEST_PEEK)
			make_peek(c, r);
		request_hand_over(c, r);
	}
	json_decref(whole); /* decide() has copied what it needs */
}

void front_limiter_take(struct http_call *c, const struct http_request *r)
{
	serve_take(c, r, REQUEST_TAKE, CALL_TAKE, &take_table);
}

void front_limiter_peek(struct http_call *c, const struct http_request *r)
{
	serve_take(c, r, REQUEST_PEEK, CALL_TAKE, &take_table);
}

void front_limiter_acquire(struct http_call *c, const struct http_request *r)
{
	serve_take(c, r, REQUEST_ACQUIRE, CALL_ACQUIRE, &acquire_table);
}

#undef AT

/* ---- refund, release, renew ---- */

struct refund_body {
	struct slice receipt;
	int64_t amount; /* CONF_ABSENT: all */
};

static const struct conf_option refund_options[] = {
	{.name = "receipt",
	 .type = CONF_BYTES,
	 .required = true,
	 .min = 1,
	 .max = REQUEST_RECEIPT_MAX,
	 .at = offsetof(struct refund_body, receipt),
	 .text = "the receipt of a take"},
	{.name = "amount",
	 .type = CONF_INT,
	 .min = 0,
	 .max = LIMIT_MAX,
	 .at = offsetof(struct refund_body, amount),
	 .text = "how much is given back in all"},
};
static const struct conf_table refund_table = {.options = refund_options, .n_options = 2};

static bool read_refund(struct http_call *c, struct request *r, const json_t *whole)
{
	struct refund_body body = {0};

	if (!call_read(c, whole, &refund_table, &body))
		return false;
	r->receipt = body.receipt;
	r->refund_amount = body.amount != CONF_ABSENT ? body.amount : -1;
	return true;
}

struct permit_body {
	struct slice policy, key, permit;
};

#define AT(field) offsetof(struct permit_body, field)

static const struct conf_option permit_options[] = {
	PAIR_OPTIONS(true, "whose permit"),
	{.name = "permit",
	 .type = CONF_BYTES,
	 .required = true,
	 .min = 1,
	 .max = REQUEST_PERMIT_MAX,
	 .at = AT(permit),
	 .text = "the permit that acquire gave"},
};
static const struct conf_table permit_table = {.options = permit_options, .n_options = 3};

#undef AT

static bool read_permit(struct http_call *c, struct request *r, const json_t *whole)
{
	struct permit_body body = {0};

	if (!call_read(c, whole, &permit_table, &body))
		return false;
	r->pairs[r->n_pairs++] =
		(struct request_pair){.policy = body.policy, .key = body.key, .cost = 1};
	r->permit = body.permit;
	return true;
}

static void serve_amount(struct http_call *c, const struct http_request *h, enum request_kind kind,
			 enum call_shape shape,
			 bool (*read)(struct http_call *c, struct request *r, const json_t *whole))
{
	json_t *whole = call_json(c, h);
	struct request *r = whole != NULL ? request_begin(c, kind, shape) : NULL;

	if (r != NULL) {
		if (read(c, r, whole))
			request_hand_over(c, r);
		else
			request_free(r);
	}
	json_decref(whole);
}

void front_limiter_refund(struct http_call *c, const struct http_request *r)
{
	serve_amount(c, r, REQUEST_REFUND, CALL_REFUND, read_refund);
}

void front_limiter_release(struct http_call *c, const struct http_request *r)
{
	serve_amount(c, r, REQUEST_RELEASE, CALL_RELEASE, read_permit);
}

void front_limiter_renew(struct http_call *c, const struct http_request *r)
{
	serve_amount(c, r, REQUEST_RENEW, CALL_RENEW, read_permit);
}

/* ---- feedback ---- */

struct feedback_body {
	struct slice policy, key;
	bool ok;
	const json_t *retry_after; /* a number, or a string as in the field Retry-After */
	int64_t status, latency_ms, remaining, reset_ms;
};

#define AT(field) offsetof(struct feedback_body, field)

static const struct conf_option feedback_options[] = {
	PAIR_OPTIONS(true, "whose request it was"),
	{.name = "ok",
	 .type = CONF_BOOL,
	 .required = true,
	 .at = AT(ok),
	 .text = "whether the request succeeded"},
	{.name = "status",
	 .type = CONF_INT,
	 .min = 100,
	 .max = 599,
	 .at = AT(status),
	 .text = "its HTTP status"},
	{.name = "retry_after",
	 .type = CONF_RAW,
	 .nullable = true,
	 .at = AT(retry_after),
	 .text = "seconds, or an HTTP-date"},
	{.name = "latency_ms",
	 .type = CONF_INT,
	 .min = 0,
	 .max = REQUEST_WAIT_MAX_MS,
	 .at = AT(latency_ms),
	 .text = "how long it took"},
	{.name = "remaining",
	 .type = CONF_INT,
	 .min = 0,
	 .max = LIMIT_MAX,
	 .at = AT(remaining),
	 .text = "how many more its server will take"},
	{.name = "reset_ms",
	 .type = CONF_INT,
	 .min = 0,
	 .max = REQUEST_RESET_MAX_MS,
	 .at = AT(reset_ms),
	 .text = "when it will take more"},
};
static const struct conf_table feedback_table = {.options = feedback_options,
						 .n_options = sizeof feedback_options /
							      sizeof feedback_options[0]};

#undef AT

/* `retry_after` as the text that the field would have. A number is written into `number`. */
static bool retry_after_text(struct http_call *c, const json_t *value, char number[static 512],
			     struct slice *ret_text)
{
	int len = 0;

	if (value == NULL || json_is_null(value)) {
		*ret_text = (struct slice){NULL, 0};
		return true;
	}
	if (json_is_string(value)) {
		*ret_text = (struct slice){json_string_value(value), json_string_length(value)};
		return true;
	}
	if (json_is_integer(value))
		len = snprintf(number, 512, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		len = snprintf(number, 512, "%.9f", json_real_value(value));
	else
		call_problem(c, 400, "`retry_after` must be a number of seconds, or a string");
	*ret_text = (struct slice){number, (size_t)len};
	return len > 0;
}

static void serve_feedback(struct http_call *c, const struct feedback_body *body)
{
	char number[512];
	struct slice retry_after;
	struct request *r;

	if (!retry_after_text(c, body->retry_after, number, &retry_after))
		return;
	r = request_begin(c, REQUEST_FEEDBACK, CALL_FEEDBACK);
	if (r == NULL)
		return;
	r->pairs[r->n_pairs++] =
		(struct request_pair){.policy = body->policy, .key = body->key, .cost = 1};
	r->feedback = (struct request_feedback){
		.ok = body->ok,
		.status = body->status != CONF_ABSENT ? (uint16_t)body->status : 0,
		.latency_ms = body->latency_ms != CONF_ABSENT ? (uint64_t)body->latency_ms : 0,
		.retry_after = retry_after,
		.has_remaining = body->remaining != CONF_ABSENT,
		.remaining = body->remaining != CONF_ABSENT ? (uint64_t)body->remaining : 0,
		.reset_ms = body->reset_ms != CONF_ABSENT ? (uint64_t)body->reset_ms : 0};
	request_hand_over(c, r);
}

void front_limiter_feedback(struct http_call *c, const struct http_request *h)
{
	json_t *whole = call_json(c, h);
	struct feedback_body body = {0};

	if (whole != NULL && call_read(c, whole, &feedback_table, &body))
		serve_feedback(c, &body);
	json_decref(whole); /* decide() has copied what it needs */
}

/* ---- check ---- */

enum {
	CHECK_POLICY,
	CHECK_KEY,
	CHECK_COST,
	CHECK_WAIT,
	CHECK_ID,
	CHECK_DENY,
	CHECK_KEY_FIELD,
	CHECK_N
};
enum { FIELD_NAME_MAX = 64 };

/*
 * A proxy puts policy and key into the query, or into fields of its own. The query wins: fields may
 * come from the proxy's client, what the proxy has written into the query does not.
 */
static bool field_unless_given(struct http_call *c, const struct http_request *h, const char *field,
			       struct call_parameter *p)
{
	unsigned n;

	if (p->given)
		return true;
	n = http_request_field(h, field, &p->value);
	if (n == 1)
		return true;
	call_problemf(c, 400,
		      n == 0 ? "`%s` is missing: a parameter of the query, or the field %s"
			     : "`%s` is given twice, in the field %s",
		      p->name, field);
	return false;
}

static bool is_field_name(struct slice name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!isalnum((unsigned char)name.ptr[i]) && name.ptr[i] != '-' &&
		    name.ptr[i] != '_')
			return false;
	return name.len >= 1 && name.len <= FIELD_NAME_MAX;
}

/* Which field has the key: X-Kova-Key, or the one that `key_field` names, where the proxy can't choose. */
static bool name_key_field(struct http_call *c, const struct call_parameter p[static CHECK_N],
			   char ret_name[static FIELD_NAME_MAX + 1])
{
	const struct call_parameter *named = &p[CHECK_KEY_FIELD];

	if (!named->given) {
		strcpy(ret_name, "X-Kova-Key");
		return true;
	}
	if (p[CHECK_KEY].given) {
		call_problem(c, 400, "give `key` or `key_field`, not both");
		return false;
	}
	if (!is_field_name(named->value)) {
		call_problemf(c, 400,
			      "`key_field` must be the name of a field: 1 to %d of A-Z a-z 0-9 - _",
			      FIELD_NAME_MAX);
		return false;
	}
	memcpy(ret_name, named->value.ptr, named->value.len);
	ret_name[named->value.len] = '\0';
	return true;
}

static bool read_check(struct http_call *c, const struct http_request *h, struct request *r)
{
	struct call_parameter p[CHECK_N] = {{.name = "policy"},   {.name = "key"}, {.name = "cost"},
					    {.name = "wait_ms"},  {.name = "id"},  {.name = "deny"},
					    {.name = "key_field"}};
	char key_field[FIELD_NAME_MAX + 1];
	uint64_t cost = 1, wait_ms = 0, deny = DENY_DEFAULT;

	if (!call_query(c, h->query, p, CHECK_N) ||
	    !field_unless_given(c, h, "X-Kova-Policy", &p[CHECK_POLICY]) ||
	    !name_key_field(c, p, key_field) ||
	    !field_unless_given(c, h, key_field, &p[CHECK_KEY]) ||
	    !call_key_fits(c, p[CHECK_KEY].value))
		return false;
	if ((p[CHECK_COST].given &&
	     !call_integer(c, "cost", p[CHECK_COST].value, 1, LIMIT_MAX, &cost)) ||
	    (p[CHECK_WAIT].given &&
	     !call_integer(c, "wait_ms", p[CHECK_WAIT].value, 0, REQUEST_WAIT_MAX_MS, &wait_ms)) ||
	    (p[CHECK_DENY].given && !call_integer(c, "deny", p[CHECK_DENY].value, 400, 599, &deny)))
		return false;
	if (p[CHECK_ID].given &&
	    (p[CHECK_ID].value.len < 1 || p[CHECK_ID].value.len > REQUEST_ID_MAX)) {
		call_problemf(c, 400, "`id` must be 1 to %d bytes long", REQUEST_ID_MAX);
		return false;
	}
	r->pairs[r->n_pairs++] = (struct request_pair){
		.policy = p[CHECK_POLICY].value, .key = p[CHECK_KEY].value, .cost = cost};
	r->wait_ms = wait_ms;
	r->id = p[CHECK_ID].value;
	c->deny_status = (uint16_t)deny;
	return true;
}

void front_limiter_check(struct http_call *c, const struct http_request *h)
{
	struct request *r = request_begin(c, REQUEST_TAKE, CALL_CHECK);

	if (r == NULL)
		return;
	if (read_check(c, h, r))
		request_hand_over(c, r);
	else
		request_free(r);
}
