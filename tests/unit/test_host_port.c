#include <criterion/criterion.h>

#include "core/host_port.h"

static void expect(const char *text, const char *host, bool bracketed, uint16_t port)
{
	struct host_port a;

	cr_assert_eq(host_port_parse(slice_of(text), &a), KOVA_OK, "%s", text);
	cr_expect(slice_equal(a.host, slice_of(host)), "%s", text);
	cr_expect_eq(a.bracketed, bracketed, "%s", text);
	cr_expect_eq(a.port, port, "%s", text);
}

Test(host_port, splits_at_the_last_colon)
{
	expect("127.0.0.1:7411", "127.0.0.1", false, 7411);
	expect("[::1]:0", "::1", true, 0);
	expect("redis-1.example:65535", "redis-1.example", false, 65535);
	expect(":80", "", false, 80);
	expect("[]:80", "", true, 80);
	expect("::1:7411", "::1", false, 7411);
}

Test(host_port, anything_else_is_refused_and_leaves_the_result_alone)
{
	static const char *const bad[] = {"",        "7411",    "host:", "host:x",
					  "host:-1", "host:1 ", "[::1]", "host:123456"};
	struct host_port a = {.port = 42};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_expect_eq(host_port_parse(slice_of(bad[i]), &a), KOVA_EPROTO, "%s", bad[i]);
	cr_expect_eq(host_port_parse(SLICE("host:65536"), &a), KOVA_ERANGE);
	cr_expect_eq(a.port, 42);
}
