#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/redis_url.h"

static const char *text_of(const char *text)
{
	return text != NULL ? text : "-";
}

/* "tls host port user password db path" */
static void expect(const char *text, const char *parts)
{
	struct redis_url url;
	const char *why = "";
	char got[512];

	cr_assert_eq(redis_url_parse(text, &url, &why), KOVA_OK, "%s: %s", text, why);
	snprintf(got, sizeof got, "%d %s %u %s %s %u %s", url.tls, text_of(url.host), url.port,
		 text_of(url.user), text_of(url.password), url.db, text_of(url.path));
	cr_assert_str_eq(got, parts);
	redis_url_release(&url);
}

Test(redis_url, forms)
{
	expect("redis://10.0.0.5:6379", "0 10.0.0.5 6379 - - 0 -");
	expect("redis://host", "0 host 6379 - - 0 -");
	expect("redis://host/3", "0 host 6379 - - 3 -");
	expect("redis://host:1/", "0 host 1 - - 0 -");
	expect("rediss://user:pass@host:7000/15", "1 host 7000 user pass 15 -");
	expect("redis://:pass@host:7000", "0 host 7000 - pass 0 -");
	expect("redis://user@host:7000", "0 host 7000 user - 0 -");
	expect("redis://u%40x:p%2Fw%3a%25@h:1", "0 h 1 u@x p/w:% 0 -");
	expect("redis://a:b@c@host:1", "0 host 1 a b@c 0 -");
	expect("redis://[::1]:7000/2", "0 ::1 7000 - - 2 -");
	expect("redis://[fe80::1]", "0 fe80::1 6379 - - 0 -");
	expect("unix:/run/redis.sock", "0 - 0 - - 0 /run/redis.sock");
	expect("unix:relative", "0 - 0 - - 0 relative");
}

Test(redis_url, what_is_wrong_is_said_and_nothing_is_changed)
{
	static const char *const texts[] = {
		"",
		"redis:",
		"http://host",
		"redis://",
		"redis://:6379",
		"redis://host:",
		"redis://host:0",
		"redis://host:65536",
		"redis://host:x",
		"redis://host/x",
		"redis://host/-1",
		"redis://host/1000001",
		"redis://::1",
		"redis://[::1",
		"redis://[]:1",
		"redis://[",
		"redis://]",
		"redis://[]",
		"redis://[::1:7000",
		"redis://[host",
		"redis://host]",
		"redis://ho]st:1",
		"redis://a%4:b@host",
		"redis://a:b%zz@host",
		"redis://a:b%00c@host",
		"unix:",
		"REDIS://host",
	};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct redis_url url = {.port = 7};
		const char *why = NULL;

		cr_assert_eq(redis_url_parse(texts[i], &url, &why), KOVA_EPROTO, "%s", texts[i]);
		cr_assert(why != NULL && url.port == 7, "%s", texts[i]);
	}
}

Test(redis_url, a_socket_path_that_is_too_long)
{
	char text[200] = "unix:";
	struct redis_url url;
	const char *why;

	memset(text + 5, 'p', REDIS_UNIX_PATH_MAX);
	cr_assert_eq(redis_url_parse(text, &url, &why), KOVA_OK);
	redis_url_release(&url);
	text[5 + REDIS_UNIX_PATH_MAX] = 'p';
	cr_assert_eq(redis_url_parse(text, &url, &why), KOVA_EPROTO);
	cr_assert_not_null(strstr(why, "107"));
}
