#include <criterion/criterion.h>

#include "address.h"
#include "agent_info.h"

static struct address parsed(const char *text)
{
	struct address a = {0};

	cr_assert_eq(address_parse(slice_of(text), &a), KOVA_OK, "%s", text);
	return a;
}

Test(kovactl_address, host_and_port)
{
	struct address a = parsed("127.0.0.1:7411");

	cr_assert_not(a.is_unix);
	cr_assert_str_eq(a.host, "127.0.0.1");
	cr_assert_eq(a.port, 7411);
	cr_assert_str_eq(parsed("agent.example:65535").host, "agent.example");
}

Test(kovactl_address, brackets_of_ipv6_are_taken_off)
{
	struct address a = parsed("[::1]:1");

	cr_assert_str_eq(a.host, "::1");
	cr_assert_eq(a.port, 1);
}

Test(kovactl_address, unix_path)
{
	struct address a = parsed("unix:/run/kova/agent:1.sock");

	cr_assert(a.is_unix);
	cr_assert_str_eq(a.path, "/run/kova/agent:1.sock");
}

Test(kovactl_address, other_forms_are_refused)
{
	static const char *const bad[] = {
		"",         "host", ":7411", "host:",       "host:x", "host:-1",
		"::1:7411", "[]:1", "[::1]", "host:123456", "unix:"};
	struct address a;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_assert_neq(address_parse(slice_of(bad[i]), &a), KOVA_OK, "\"%s\"", bad[i]);
	cr_assert_eq(address_parse(SLICE("host:0"), &a), KOVA_ERANGE);
	cr_assert_eq(address_parse(SLICE("host:65536"), &a), KOVA_ERANGE);
}

Test(kovactl_address, what_is_too_long_for_a_socket_is_refused)
{
	char text[512] = "unix:";
	struct address a;

	memset(text + 5, 'p', 107);
	cr_assert_eq(address_parse(slice_of(text), &a), KOVA_OK);
	text[5 + 107] = 'p';
	cr_assert_eq(address_parse(slice_of(text), &a), KOVA_ETOOBIG);
	memset(text, 'h', 300);
	memcpy(text + 300, ":1", 3);
	cr_assert_eq(address_parse(slice_of(text), &a), KOVA_ETOOBIG);
}

Test(kovactl_address, every_interface)
{
	struct address a = parsed("0.0.0.0:7412");

	cr_assert(address_is_wildcard(&a));
	a = parsed("[::]:7412");
	cr_assert(address_is_wildcard(&a));
	a = parsed("10.0.0.5:7412");
	cr_assert_not(address_is_wildcard(&a));
}

/* ---- what INFO says ---- */

Test(kovactl_info, a_field_is_found_whole)
{
	struct slice info =
		SLICE("# Server\r\nkova_http_x:no\r\nkova_version:0.1.0\r\nkova_http:[::1]:7412");
	struct slice value;

	cr_assert(info_field(info, "kova_version", &value));
	cr_assert(slice_equal(value, SLICE("0.1.0")));
	cr_assert(info_field(info, "kova_http", &value));
	cr_assert(slice_equal(value, SLICE("[::1]:7412")));
	cr_assert_not(info_field(info, "version", &value));
	cr_assert_not(info_field((struct slice){0}, "kova_http", &value));
}

Test(kovactl_info, an_address_of_every_interface_is_the_host_of_resp)
{
	struct address resp = parsed("10.0.0.5:7411"), http;

	cr_assert_eq(info_http_address(SLICE("kova_http:0.0.0.0:7412\r\n"), &resp, &http), KOVA_OK);
	cr_assert_str_eq(http.host, "10.0.0.5");
	cr_assert_eq(http.port, 7412);
	resp = parsed("unix:/run/agent.sock");
	cr_assert_eq(info_http_address(SLICE("kova_http:[::]:7412\r\n"), &resp, &http), KOVA_OK);
	cr_assert_str_eq(http.host, "127.0.0.1");
}

Test(kovactl_info, without_http_there_is_no_address)
{
	struct address resp = parsed("127.0.0.1:7411"), http;

	cr_assert_eq(info_http_address(SLICE("kova_version:1\r\n"), &resp, &http), KOVA_ENOTFOUND);
	cr_assert_eq(info_http_address(SLICE("kova_http:\r\n"), &resp, &http), KOVA_ENOTFOUND);
	cr_assert_eq(info_http_address(SLICE("kova_http:nowhere\r\n"), &resp, &http), KOVA_EPROTO);
	cr_assert_eq(info_http_address(SLICE("kova_http:unix:/x\r\n"), &resp, &http), KOVA_EPROTO);
}
