#include <criterion/criterion.h>
#include <stdio.h>

#include "core/pool_url.h"

static const char *refused(const char *text, size_t *ret_at)
{
	struct pool_url url;
	const char *why = NULL;

	cr_assert_eq(pool_url_parse(slice_of(text), &url, &why, ret_at), KOVA_EPROTO, "%s", text);
	return why;
}

static struct pool_url parsed(const char *text)
{
	struct pool_url url;
	const char *why = "";
	size_t at;

	cr_assert_eq(pool_url_parse(slice_of(text), &url, &why, &at), KOVA_OK, "%s: %s", text, why);
	return url;
}

static const char *text_of(struct buf *b)
{
	static char texts[4][256];
	static unsigned at;

	at = (at + 1) % 4;
	snprintf(texts[at], sizeof texts[at], "%.*s", (int)b->len, b->ptr);
	buf_release(b);
	return texts[at];
}

Test(pool_url, parts)
{
	struct pool_url url =
		parsed("SOCKS5h://us%40er:p%40%3A%2F%3F%23%5B%5Dss@[2001:DB8::1]:1080/");

	cr_expect_eq(url.scheme, POOL_SOCKS5H);
	cr_expect(slice_equal(url.user, SLICE("us%40er")));
	cr_expect(slice_equal(url.password, SLICE("p%40%3A%2F%3F%23%5B%5Dss")));
	cr_expect(slice_equal(url.host, SLICE("2001:DB8::1")));
	cr_expect(url.is_v6 && url.port == 1080 && !url.has_session);
	cr_expect(slice_equal(
		url.text, SLICE("SOCKS5h://us%40er:p%40%3A%2F%3F%23%5B%5Dss@[2001:DB8::1]:1080")));
	url = parsed("direct://");
	cr_expect(url.scheme == POOL_DIRECT && url.port == 0);
	url = parsed("https://a_b.example:65535");
	cr_expect(!url.has_user && url.port == 65535);
}

static const char *decoded(const char *text, const char *session)
{
	struct buf b = {0};

	pool_url_decode(slice_of(text), slice_of(session), &b);
	return text_of(&b);
}

Test(pool_url, credentials_decoded)
{
	cr_expect_str_eq(decoded("p%40%3A%2F%3f%23%5B%5Dss", ""), "p@:/?#[]ss");
	cr_expect_str_eq(decoded("cust-{session}-de", "a%41"), "cust-a%41-de");
	cr_expect_str_eq(decoded("{session}{session}", "7"), "77");
	cr_expect_str_eq(decoded("", "7"), "");
}

Test(pool_url, what_is_refused)
{
	static const struct {
		const char *text;
		size_t at;
	} bad[] = {
		{"", 0},
		{"192.0.2.1:80", 0},
		{"ftp://192.0.2.1:80", 0},
		{"http://192.0.2.1", 16},
		{"http://192.0.2.1:", 17},
		{"http://192.0.2.1:0", 17},
		{"http://192.0.2.1:65536", 17},
		{"http://192.0.2.1:80/x", 17},
		{"http://:80", 7},
		{"http://[::1:80", 7},
		{"http://[x]:80", 7},
		{"http://u:p@ss@h:1", 10},
		{"http://u:p%4@h:1", 10},
		{"http://u:p%00@h:1", 10},
		{"http://u:p ss@h:1", 10},
		{"http://{u}:p@h:1", 7},
		{"direct://h:1", 9},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		size_t at = 99;

		cr_expect_not_null(refused(bad[i].text, &at));
		cr_expect_eq(at, bad[i].at, "%s: %zu", bad[i].text, at);
	}
}

Test(pool_url, a_session_is_put_in)
{
	struct pool_url url = parsed("http://cust-sess-{session}:secret@gw.example:7000");
	struct buf out = {0};

	cr_expect(url.has_session);
	pool_url_write(&url, SLICE("a b@1"), &out);
	cr_expect_str_eq(text_of(&out), "http://cust-sess-a%20b%401:secret@gw.example:7000");
}

static const char *identity(const char *text)
{
	struct pool_url url = parsed(text);
	struct buf out = {0};

	pool_url_identity(&url, &out);
	return text_of(&out);
}

Test(pool_url, the_same_address)
{
	cr_expect_str_eq(identity("http://u:p%40@Gw.Example:80"),
			 identity("HTTP://%75:p%40@gw.example:80"));
	cr_expect_str_neq(identity("http://a:p@h:80"), identity("http://b:p@h:80"));
	cr_expect_str_neq(identity("http://a@h:80"), identity("http://a:@h:80"));
	cr_expect_str_neq(identity("http://h:80"), identity("https://h:80"));
	cr_expect_str_neq(identity("http://ab:c@h:80"), identity("http://a:bc@h:80"));
}

static const char *line(const char *text)
{
	struct buf url = {0};
	const char *why = "";
	size_t at;

	cr_assert_eq(pool_line_parse(slice_of(text), &url, &why, &at), KOVA_OK, "%s: %s", text,
		     why);
	return text_of(&url);
}

Test(pool_url, lines)
{
	cr_expect_str_eq(line("192.0.2.7:3128"), "http://192.0.2.7:3128");
	cr_expect_str_eq(line("  192.0.2.7:3128:us er:p:a@ss  # home\r"),
			 "http://us%20er:p%3Aa%40ss@192.0.2.7:3128");
	cr_expect_str_eq(line("[2001:db8::1]:1080:u:p"), "http://u:p@[2001:db8::1]:1080");
	cr_expect_str_eq(line("u:p%40ss@h:1"), "http://u:p%40ss@h:1");
	cr_expect_str_eq(line("u:p@ss/@h:1"), "http://u:p%40ss%2F@h:1");
	cr_expect_str_eq(line("socks5://u:p@h:1"), "socks5://u:p@h:1");
	cr_expect_str_eq(line("# http://h:1"), "");
	cr_expect_str_eq(line(" \t\r"), "");
}

Test(pool_url, bad_lines)
{
	static const struct {
		const char *text;
		size_t at;
	} bad[] = {{"h", 1},       {" h:x", 3},       {"h:1:u", 4},
		   {"h:1::p", 4},  {"u:p@h", 5},      {"http://u:p@@h:1", 10},
		   {"a b:1", 0},   {"[::1:1:u:p", 0}, {"[::1:80", 0},
		   {"u:p@h:1x", 6}};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct buf url = {0};
		const char *why = NULL;
		size_t at = 99;

		cr_expect_eq(pool_line_parse(slice_of(bad[i].text), &url, &why, &at), KOVA_EPROTO,
			     "%s", bad[i].text);
		cr_expect_eq(at, bad[i].at, "%s: %zu", bad[i].text, at);
		cr_expect(why != NULL && url.len == 0);
		buf_release(&url);
	}
}
