#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/redis_error.h"

Test(redis_error, kinds)
{
	static const struct {
		const char *text;
		enum redis_error kind;
	} cases[] = {
		{"READONLY You can't write against a read only replica.", REDIS_ERROR_READONLY},
		{"ERR Error running script (call to f_1): @user_script:1: -READONLY You can't "
		 "write",
		 REDIS_ERROR_READONLY},
		{"LOADING Redis is loading the dataset in memory", REDIS_ERROR_UNREADY},
		{"MASTERDOWN Link with MASTER is down", REDIS_ERROR_UNREADY},
		{"BUSY Redis is busy running a script.", REDIS_ERROR_UNREADY},
		{"MISCONF Errors writing to the AOF file: No space left on device",
		 REDIS_ERROR_UNREADY},
		{"ERR Error running script (call to f_1): @user_script:1: -MISCONF Errors writing",
		 REDIS_ERROR_UNREADY},
		{"OOM command not allowed when used memory > 'maxmemory'. script: f, on "
		 "@user_script:12.",
		 REDIS_ERROR_UNWRITABLE},
		{"ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed",
		 REDIS_ERROR_UNWRITABLE},
		{"NOREPLICAS Not enough good replicas to write.", REDIS_ERROR_UNWRITABLE},
		{"NOPERM this user has no permissions to run the 'evalsha' command",
		 REDIS_ERROR_FORBIDDEN},
		{"ERR ACL failure in script: User default has no permissions to run the 'set' "
		 "command",
		 REDIS_ERROR_FORBIDDEN},
		{"ERR Error running script (call to f_1): @user_script:1: The user executing the "
		 "script can't run this command or subcommand",
		 REDIS_ERROR_FORBIDDEN},
		{"ERR unknown command `EVALSHA`, with args beginning with:", REDIS_ERROR_FORBIDDEN},
		{"NOAUTH Authentication required.", REDIS_ERROR_LOGGED_OUT},
		{"MOVED 3999 127.0.0.1:6381", REDIS_ERROR_MOVED},
		{"ASK 3999 127.0.0.1:6381", REDIS_ERROR_ASK},
		{"TRYAGAIN Multiple keys request during rehashing of slot", REDIS_ERROR_TRYAGAIN},
		{"CLUSTERDOWN The cluster is down", REDIS_ERROR_CLUSTERDOWN},
		{"NOSCRIPT No matching script.", REDIS_ERROR_OTHER},
		{"BUSYGROUP Consumer Group name already exists", REDIS_ERROR_OTHER},
		{"ERR unknown commander", REDIS_ERROR_OTHER},
		{"ERR Error running script (call to f_1): wrong type", REDIS_ERROR_OTHER},
		{"ASKED", REDIS_ERROR_OTHER},
		{"", REDIS_ERROR_OTHER},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		cr_assert_eq(redis_error_kind(slice_of(cases[i].text)), cases[i].kind, "%s",
			     cases[i].text);
}

Test(redis_error, redirects)
{
	struct redis_redirect r;

	cr_assert_eq(redis_redirect_parse(SLICE("MOVED 3999 127.0.0.1:6381"), &r), KOVA_OK);
	cr_assert(r.slot == 3999 && r.port == 6381 && slice_equal(r.host, SLICE("127.0.0.1")));
	cr_assert_eq(redis_redirect_parse(SLICE("ASK 16383 ::1:65535"), &r), KOVA_OK);
	cr_assert(r.slot == 16383 && r.port == 65535 && slice_equal(r.host, SLICE("::1")));
	cr_assert_eq(redis_redirect_parse(SLICE("MOVED 0 :7000"), &r), KOVA_OK);
	cr_assert(r.slot == 0 && r.host.len == 0);
}

/* Each in memory of exactly its length, so that a read beyond is noticed. */
Test(redis_error, malformed_redirects_change_nothing)
{
	static const char *const texts[] = {
		"",
		"MOVED",
		"MOVED ",
		"MOVED 1",
		"MOVED 1 ",
		"MOVED 1 host",
		"MOVED 1 a:",
		"MOVED 16384 a:1",
		"MOVED -1 a:1",
		"MOVED x a:1",
		"MOVED 1 a:65536",
		"MOVED 1 a:0",
		"MOVED  a:1",
		"MOVED 1 a:1x",
		"ERR 1 a:1",
		"ASK 123456 a:1",
	};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		size_t len = strlen(texts[i]);
		char *exact = malloc(len > 0 ? len : 1);
		struct redis_redirect r = {.slot = 7};

		memcpy(exact, texts[i], len);
		cr_assert_eq(redis_redirect_parse((struct slice){exact, len}, &r), KOVA_EPROTO,
			     "%s", texts[i]);
		cr_assert_eq(r.slot, 7);
		free(exact);
	}
}

Test(redis_error, addresses)
{
	struct slice host;
	uint16_t port;

	cr_assert_eq(redis_address_parse(SLICE("[::1]:7000"), &host, &port), KOVA_OK);
	cr_assert(port == 7000 && slice_equal(host, SLICE("::1")));
	cr_assert_eq(redis_address_parse(SLICE("redis.example:6379"), &host, &port), KOVA_OK);
	cr_assert(port == 6379 && slice_equal(host, SLICE("redis.example")));
	cr_assert_eq(redis_address_parse(SLICE("redis.example"), &host, &port), KOVA_EPROTO);
}
