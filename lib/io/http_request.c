#include "io/http_request.h"

#include <string.h>
#include <strings.h>

/* Most differ in length or in their first byte: letters there differ in case by one bit. */
bool http_same_text(struct slice a, struct slice b)
{
	if (a.len != b.len)
		return false;
	return a.len == 0 ||
	       (((a.ptr[0] ^ b.ptr[0]) & ~0x20) == 0 && strncasecmp(a.ptr, b.ptr, a.len) == 0);
}

unsigned http_request_field(const struct http_request *r, const char *name, struct slice *ret_value)
{
	struct slice wanted = slice_of(name);
	unsigned found = 0;

	for (unsigned i = 0; i < r->n_fields; i++) {
		if (!http_same_text(r->fields[i].name, wanted))
			continue;
		if (found++ == 0)
			*ret_value = r->fields[i].value;
	}
	return found;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct slice trim(struct slice s)
{
	while (s.len != 0 && is_blank(s.ptr[0]))
		s = (struct slice){s.ptr + 1, s.len - 1};
	while (s.len != 0 && is_blank(s.ptr[s.len - 1]))
		s.len--;
	return s;
}

/* Takes what stands before the next `separator` off *rest, without blanks around it. */
static struct slice next_part(struct slice *rest, char separator)
{
	return trim(slice_cut(rest, separator));
}

struct slice http_request_media_type(const struct http_request *r)
{
	struct slice value = {NULL, 0};

	http_request_field(r, "Content-Type", &value);
	return next_part(&value, ';');
}

static bool begins_with(struct slice s, struct slice prefix)
{
	return s.len >= prefix.len && http_same_text((struct slice){s.ptr, prefix.len}, prefix);
}

/* 0: the target is a path. */
static size_t scheme_length(struct slice target)
{
	if (begins_with(target, SLICE("http://")))
		return 7;
	return begins_with(target, SLICE("https://")) ? 8 : 0;
}

bool http_target_split(struct slice target, struct slice *ret_path, struct slice *ret_query)
{
	struct slice rest = target;
	size_t scheme = scheme_length(target);

	if (scheme != 0) {
		rest = (struct slice){target.ptr + scheme, target.len - scheme};
		size_t authority = 0;
		while (authority < rest.len && rest.ptr[authority] != '/' &&
		       rest.ptr[authority] != '?')
			authority++;
		if (authority == 0)
			return false;
		rest = (struct slice){rest.ptr + authority, rest.len - authority};
	}
	rest.len = slice_index(rest, '#'); /* a fragment is never meant for us */
	size_t path = slice_index(rest, '?');

	*ret_path = scheme != 0 && path == 0 ? SLICE("/") : (struct slice){rest.ptr, path};
	*ret_query = slice_after(rest, path + 1);
	return ret_path->len != 0 &&
	       (ret_path->ptr[0] == '/' || slice_equal(*ret_path, SLICE("*")));
}

/* A qvalue in thousandths; 1000 for what is none. */
static unsigned parse_q(struct slice text)
{
	unsigned q = 0, scale = 1000;

	for (size_t i = 0; i < text.len && scale != 0; i++) {
		if (text.ptr[i] == '.' && i == 1)
			continue;
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return 1000;
		q += (unsigned)(text.ptr[i] - '0') * scale;
		scale /= 10;
	}
	return q < 1000 ? q : 1000;
}

/* The q among a range's parameters. */
static unsigned range_q(struct slice parameters)
{
	while (parameters.len != 0) {
		struct slice value = next_part(&parameters, ';');
		struct slice name = next_part(&value, '=');

		if (http_same_text(name, SLICE("q")))
			return parse_q(trim(value));
	}
	return 1000;
}

/* 3: type/subtype, 2: type/any, 1: any/any, 0: no match. */
static unsigned range_matches(struct slice range, struct slice type, struct slice subtype)
{
	struct slice rest = range;
	struct slice first = next_part(&rest, '/');

	if (http_same_text(first, type))
		return http_same_text(rest, subtype) ? 3 : slice_equal(rest, SLICE("*")) ? 2 : 0;
	return slice_equal(first, SLICE("*")) && slice_equal(rest, SLICE("*")) ? 1 : 0;
}

unsigned http_request_accepts(const struct http_request *r, struct slice type, struct slice subtype)
{
	unsigned best = 0, best_q = 0;
	bool asked = false;

	for (unsigned i = 0; i < r->n_fields; i++) {
		if (!http_same_text(r->fields[i].name, SLICE("Accept")))
			continue;
		asked = true;
		for (struct slice rest = r->fields[i].value; rest.len != 0;) {
			struct slice parameters = next_part(&rest, ',');
			struct slice range = next_part(&parameters, ';');
			unsigned match = range_matches(range, type, subtype);
			unsigned q = range_q(parameters);

			if (match > best || (match == best && match != 0 && q > best_q)) {
				best = match;
				best_q = q;
			}
		}
	}
	return asked ? best_q : 1000;
}

bool http_request_accepts_coding(const struct http_request *r, struct slice coding)
{
	unsigned q = 0, any_q = 0;
	bool named = false;

	for (unsigned i = 0; i < r->n_fields; i++) {
		if (!http_same_text(r->fields[i].name, SLICE("Accept-Encoding")))
			continue;
		for (struct slice rest = r->fields[i].value; rest.len != 0;) {
			struct slice parameters = next_part(&rest, ',');
			struct slice name = trim(next_part(&parameters, ';'));

			if (http_same_text(name, coding)) {
				named = true;
				q = range_q(parameters);
			} else if (slice_equal(name, SLICE("*"))) {
				any_q = range_q(parameters);
			}
		}
	}
	return (named ? q : any_q) != 0;
}
