#include "http_call.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/decimal.h"
#include "core/nearest.h"
#include "core/query.h"
#include "core/quote.h"
#include "io/buf_json.h"
#include "request.h"

/* ---- answers ---- */

struct buf *call_fields(struct http_call *c)
{
	return conn_scratch(c->front->conn, SCRATCH_FIELDS);
}

struct buf *call_body(struct http_call *c)
{
	return conn_scratch(c->front->conn, SCRATCH_BODY);
}

/* Decoded parameters. */
static struct buf *call_text(struct http_call *c)
{
	return conn_scratch(c->front->conn, SCRATCH_REQUEST);
}

void call_answer(struct http_call *c, unsigned status, const char *media_type)
{
	struct http_answer a = {.status = status,
				.media_type = media_type,
				.fields = buf_slice(call_fields(c)),
				.body = buf_slice(call_body(c))};

	call_answer_with(c, &a);
}

void call_answer_with(struct http_call *c, const struct http_answer *a)
{
	struct http_conn *front = c->front;
	struct buf *fields = call_fields(c), *body = call_body(c);
	const struct http_answer none = {.status = 503};

	if (buf_failed(fields) || buf_failed(body))
		a = &none;
	if (c->trace != NULL)
		call_trace_answer(c, a->status);
	http_exchange_answer(c->exchange, a);
	front->conn->held_bytes = http_server_held_bytes(front->server);
	conn_scratch_leave(fields);
	conn_scratch_leave(body);
}

void call_answer_json(struct http_call *c, unsigned status, json_t *value)
{
	buf_add_json(call_body(c), value, JSON_COMPACT | JSON_ENCODE_ANY);
	json_decref(value);
	call_answer(c, status, "application/json");
}

void call_problem(struct http_call *c, unsigned status, const char *detail)
{
	struct buf *body = call_body(c);

	buf_clear(body);
	buf_add_slice(body, SLICE("{\"type\":\"about:blank\",\"title\":"));
	quote_json(body, slice_of(http_status_text(status)));
	buf_add_slice(body, SLICE(",\"status\":"));
	buf_add_uint(body, status);
	buf_add_slice(body, SLICE(",\"detail\":"));
	quote_json(body, slice_of(detail));
	buf_add_slice(body, SLICE("}\n"));
	call_answer(c, status, "application/problem+json");
}

void call_problemf(struct http_call *c, unsigned status, const char *format, ...)
{
	char detail[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(detail, sizeof detail, format, args);
	va_end(args);
	call_problem(c, status, detail);
}

void call_no_policy(struct http_call *c, struct slice name)
{
	call_problemf(c, 404, "there is no policy `%.*s`; GET /v1/policies lists them",
		      (int)name.len, name.ptr);
}

/* ---- errands ---- */

void call_errand_begin(struct call_errand *e, struct http_call *c)
{
	e->call = c;
	c->errand = e;
}

struct http_call *call_errand_end(struct call_errand *e)
{
	struct http_call *c = e->call;

	if (c != NULL)
		c->errand = NULL;
	return c;
}

/* ---- bodies ---- */

json_t *call_json(struct http_call *c, const struct http_request *r)
{
	json_error_t error;
	json_t *value;

	if (r->body.len == 0) {
		call_problem(c, 400, "the body must be a JSON object, and is empty");
		return NULL;
	}
	value = json_loadb(r->body.ptr, r->body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
			   &error);
	if (value == NULL) {
		call_problemf(c, 400, "the body is no JSON object: %s (line %d, column %d)",
			      error.text, error.line, error.column);
		return NULL;
	}
	if (!json_is_object(value)) {
		json_decref(value);
		call_problem(c, 400, "the body must be a JSON object, and is a list");
		return NULL;
	}
	return value;
}

bool call_read(struct http_call *c, const json_t *value, const struct conf_table *table,
	       void *ret_values)
{
	struct conf_reader reader; /* large: only its count needs to be set */
	char text[512];

	reader.n_errors = 0;
	conf_read(&reader, NULL, value, table, ret_values);
	if (reader.n_errors == 0)
		return true;
	conf_reader_text(&reader, text, sizeof text);
	call_problem(c, 400, text);
	return false;
}

/* ---- parameters ---- */

/* Decodes into the connection's text, which has room: slices into it stay. */
static kova_status decode(struct http_call *c, struct slice raw,
			  kova_status (*decoder)(struct buf *out, struct slice raw),
			  struct slice *ret_text)
{
	struct buf *text = call_text(c);
	size_t at = text->len;
	kova_status status = decoder(text, raw);

	*ret_text = (struct slice){text->ptr + at, text->len - at};
	return status;
}

static bool reserve_text(struct http_call *c, size_t len)
{
	conn_scratch_leave(call_text(c));
	if (buf_reserve(call_text(c), len + 1) != NULL)
		return true;
	call_problem(c, 503, "out of memory");
	return false;
}

static struct call_parameter *parameter_find(struct call_parameter *parameters, size_t n,
					     struct slice name)
{
	for (size_t i = 0; i < n; i++)
		if (slice_equal(slice_of(parameters[i].name), name))
			return &parameters[i];
	return NULL;
}

static void problem_unknown(struct http_call *c, const struct call_parameter *parameters, size_t n,
			    struct slice name)
{
	const char *names[17] = {NULL};
	char text[65], allowed[256] = "";
	size_t at = 0;

	snprintf(text, sizeof text, "%.*s", (int)(name.len < 64 ? name.len : 64), name.ptr);
	for (size_t i = 0; i < n && i < 16 && at < sizeof allowed; i++) {
		names[i] = parameters[i].name;
		at += (size_t)snprintf(allowed + at, sizeof allowed - at, " `%s`", names[i]);
	}
	const char *nearest = nearest_in_list(text, names);
	if (nearest != NULL)
		call_problemf(c, 400, "unknown parameter `%s`; did you mean `%s`?", text, nearest);
	else
		call_problemf(c, 400, "unknown parameter `%s`; allowed:%s", text, allowed);
}

bool call_query(struct http_call *c, struct slice query, struct call_parameter *parameters,
		size_t n)
{
	struct slice raw_name, raw_value, name;

	if (!reserve_text(c, query.len))
		return false;
	while (query_next(&query, &raw_name, &raw_value)) {
		if (decode(c, raw_name, query_decode, &name) != KOVA_OK) {
			call_problem(c, 400, "`%` in a query must begin two hexadecimal digits");
			return false;
		}
		struct call_parameter *p = parameter_find(parameters, n, name);
		if (p == NULL) {
			problem_unknown(c, parameters, n, name);
			return false;
		}
		if (p->given) {
			call_problemf(c, 400, "`%s` is given twice", p->name);
			return false;
		}
		p->given = true;
		if (decode(c, raw_value, query_decode, &p->value) != KOVA_OK) {
			call_problemf(c, 400, "`%%` in `%s` must begin two hexadecimal digits",
				      p->name);
			return false;
		}
	}
	return true;
}

bool call_integer(struct http_call *c, const char *name, struct slice text, uint64_t min,
		  uint64_t max, uint64_t *ret_value)
{
	uint64_t value;

	if (decimal_parse(text, max, &value) != KOVA_OK || value < min) {
		call_problemf(c, 400, "`%s` must be a whole number from %llu to %llu", name,
			      (unsigned long long)min, (unsigned long long)max);
		return false;
	}
	*ret_value = value;
	return true;
}

bool call_key_fits(struct http_call *c, struct slice key)
{
	if (key.len >= 1 && key.len <= REQUEST_KEY_MAX)
		return true;
	call_problemf(c, 400, "`key` must be 1 to %d bytes long, not %zu", REQUEST_KEY_MAX,
		      key.len);
	return false;
}

bool call_path_part(struct http_call *c, const struct http_request *r, struct slice prefix,
		    struct slice *ret_part)
{
	struct slice raw = {r->path.ptr + prefix.len, r->path.len - prefix.len};

	if (!reserve_text(c, raw.len))
		return false;
	if (decode(c, raw, query_decode_path, ret_part) != KOVA_OK) {
		call_problem(c, 400, "`%` in a path must begin two hexadecimal digits");
		return false;
	}
	return true;
}
