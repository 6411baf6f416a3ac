/* A request of HTTP/1.x as its server sees it. All slices live until the handler returns. */
#pragma once

#include <stdbool.h>

#include "core/bytes.h"

enum http_method {
	METHOD_GET,
	METHOD_HEAD,
	METHOD_POST,
	METHOD_PUT,
	METHOD_DELETE,
	METHOD_PATCH,
	METHOD_OTHER,
};

struct http_field {
	struct slice name, value; /* the value without the blanks around it */
};

struct http_request {
	enum http_method method;
	struct slice path;  /* as sent (percent-encoded), begins with '/'; or "*" */
	struct slice query; /* as sent, without '?'; empty when there is none */
	const struct http_field *fields;
	unsigned n_fields;
	struct slice body;
};

/* How many fields are called `name` (any case); the first one's value, when there is one. */
unsigned http_request_field(const struct http_request *r, const char *name,
			    struct slice *ret_value);

/* The media type of Content-Type without its parameters; empty when the field is missing. */
struct slice http_request_media_type(const struct http_request *r);

/* Whether two slices differ in nothing but the case of ASCII letters. */
bool http_same_text(struct slice a, struct slice b);

/*
 * Splits the request's target (RFC 9112 §3.2): origin-form, absolute-form (its authority is
 * dropped) or `*`. false: none of these.
 */
bool http_target_split(struct slice target, struct slice *ret_path, struct slice *ret_query);

/*
 * How much Accept (RFC 9110 §12.5.1) likes `type`/`subtype`, in thousandths: the most specific
 * range that matches counts. Parameters other than q are not compared. 1000 when there is no
 * Accept.
 */
unsigned http_request_accepts(const struct http_request *r, struct slice type,
			      struct slice subtype);

/*
 * Whether Accept-Encoding (RFC 9110 §12.5.3) allows the content coding, by its name or by `*`. Without that field: false, so
 * that who does not speak of codings gets what it surely reads.
 */
bool http_request_accepts_coding(const struct http_request *r, struct slice coding);
