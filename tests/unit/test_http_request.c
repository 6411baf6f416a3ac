/* What is read out of a request's head: target, fields, media types, Accept. */
#include <criterion/criterion.h>

#include "io/http_request.h"

static void expect_target(const char *target, const char *path, const char *query)
{
	struct slice p, q;

	cr_assert(http_target_split(slice_of(target), &p, &q), "%s", target);
	cr_assert(slice_equal(p, slice_of(path)), "%s: %.*s", target, (int)p.len, p.ptr);
	cr_assert(slice_equal(q, slice_of(query)), "%s: %.*s", target, (int)q.len, q.ptr);
}

Test(http_request, targets)
{
	struct slice p, q;

	expect_target("/", "/", "");
	expect_target("/v1/check?policy=a&key=b?c", "/v1/check", "policy=a&key=b?c");
	expect_target("/a#f?x", "/a", "");
	expect_target("http://host:7412/v1/take?x", "/v1/take", "x");
	expect_target("HTTPS://host", "/", "");
	expect_target("http://host?x=1", "/", "x=1");
	expect_target("*", "*", "");
	cr_assert(!http_target_split(slice_of("host:443"), &p, &q));
	cr_assert(!http_target_split(slice_of("http://"), &p, &q));
	cr_assert(!http_target_split(slice_of("http:///x"), &p, &q));
	cr_assert(!http_target_split(slice_of("?x"), &p, &q));
	cr_assert(!http_target_split(slice_of(""), &p, &q));
}

static unsigned accepts(const char *accept, const char *type, const char *subtype)
{
	const struct http_field field = {SLICE("accept"), slice_of(accept)};
	const struct http_request r = {.fields = &field, .n_fields = 1};

	return http_request_accepts(&r, slice_of(type), slice_of(subtype));
}

Test(http_request, accept)
{
	static const char prometheus[] =
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
		"application/openmetrics-text;version=0.0.1;q=0.4,"
		"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/"
		"plain;version=0.0.4;q=0.2,*/*;q=0.1";
	const struct http_request none = {0};

	cr_assert_eq(accepts(prometheus, "application", "openmetrics-text"), 500);
	cr_assert_eq(accepts(prometheus, "text", "plain"), 300);
	cr_assert_eq(accepts(prometheus, "image", "png"), 100);
	cr_assert_eq(accepts("text/*;q=0.125, */*; q=0", "text", "plain"), 125);
	cr_assert_eq(accepts("text/*;q=0.125, */*; q=0", "application", "json"), 0);
	cr_assert_eq(accepts("text/plain", "application", "json"), 0);
	cr_assert_eq(accepts("TEXT/PLAIN ; Q=1.0", "text", "plain"), 1000);
	cr_assert_eq(accepts("text/plain;q=1.9", "text", "plain"), 1000);
	cr_assert_eq(http_request_accepts(&none, SLICE("a"), SLICE("b")), 1000);
}

Test(http_request, fields)
{
	const struct http_field fields[] = {
		{SLICE("X-Kova-Key"), SLICE("a")},
		{SLICE("x-kova-key"), SLICE("b")},
		{SLICE("Content-Type"), SLICE("application/json ; charset=utf-8")},
	};
	const struct http_request r = {.fields = fields, .n_fields = 3};
	struct slice value;

	cr_assert_eq(http_request_field(&r, "X-KOVA-KEY", &value), 2);
	cr_assert(slice_equal(value, SLICE("a")));
	cr_assert_eq(http_request_field(&r, "X-Kova", &value), 0);
	cr_assert(slice_equal(http_request_media_type(&r), SLICE("application/json")));
}

static bool accepts_coding(const char *accept, const char *coding)
{
	const struct http_field field = {SLICE("Accept-Encoding"), slice_of(accept)};
	const struct http_request r = {.fields = &field, .n_fields = 1};

	return http_request_accepts_coding(&r, slice_of(coding));
}

Test(http_request, accept_encoding)
{
	const struct http_request silent = {0};

	cr_assert(!http_request_accepts_coding(&silent, SLICE("gzip")));
	cr_assert(accepts_coding("gzip, deflate, br", "gzip"));
	cr_assert(accepts_coding("br , GZIP;q=0.5", "gzip"));
	cr_assert(accepts_coding("*", "gzip"));
	cr_assert(!accepts_coding("", "gzip"));
	cr_assert(!accepts_coding("br, x-gzip", "gzip"));
	cr_assert(!accepts_coding("gzip;q=0, *", "gzip"));
	cr_assert(!accepts_coding("*;q=0", "gzip"));
	cr_assert(!accepts_coding("identity", "gzip"));
}
