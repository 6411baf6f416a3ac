#include <criterion/criterion.h>

#include "core/grpc_text.h"

static void expect_message(struct slice text, const char *encoded)
{
	struct buf out = {0};

	grpc_message_write(&out, text);
	cr_expect(slice_equal(buf_slice(&out), slice_of(encoded)), "%.*s", (int)out.len, out.ptr);
	buf_release(&out);
}

Test(grpc_text, messages_are_printable_ascii)
{
	expect_message(SLICE(""), "");
	expect_message(SLICE("a key must have 1 to 1024 bytes ~"),
		       "a key must have 1 to 1024 bytes ~");
	expect_message(SLICE("100%"), "100%25");
	expect_message(SLICE("\0\n\x1f\x7f\xc3\xbc"), "%00%0A%1F%7F%C3%BC");
}

static void expect_timeout(const char *text, kova_status status, uint64_t expected_ms)
{
	uint64_t ms = 12345;

	cr_expect_eq(grpc_timeout_parse(slice_of(text), &ms), status, "%s", text);
	cr_expect_eq(ms, status == KOVA_OK ? expected_ms : 12345, "%s: %lu", text,
		     (unsigned long)ms);
}

Test(grpc_text, timeouts_are_rounded_up_to_ms)
{
	expect_timeout("20m", KOVA_OK, 20);
	expect_timeout("1S", KOVA_OK, 1000);
	expect_timeout("2M", KOVA_OK, 120000);
	expect_timeout("99999999H", KOVA_OK, UINT64_C(99999999) * 3600000);
	expect_timeout("19999u", KOVA_OK, 20);
	expect_timeout("1000000n", KOVA_OK, 1);
	expect_timeout("1000001n", KOVA_OK, 2);
	expect_timeout("0n", KOVA_OK, 0);
}

Test(grpc_text, timeouts_that_are_none)
{
	const char *const texts[] = {"", "m", "1", "1s", "123456789m", "-1m", "1.5S", " 1m", "1m "};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		expect_timeout(texts[i], KOVA_EPROTO, 0);
}

Test(grpc_text, content_types)
{
	cr_expect(grpc_content_type_fits(SLICE("application/grpc")));
	cr_expect(grpc_content_type_fits(SLICE("application/grpc+proto")));
	cr_expect(grpc_content_type_fits(SLICE("application/grpc;charset=utf-8")));
	cr_expect(grpc_content_type_fits(SLICE("application/grpc+proto;a=b")));
	cr_expect_not(grpc_content_type_fits(SLICE("")));
	cr_expect_not(grpc_content_type_fits(SLICE("application/grp")));
	cr_expect_not(grpc_content_type_fits(SLICE("application/grpc+json")));
	cr_expect_not(grpc_content_type_fits(SLICE("application/grpc-web")));
	cr_expect_not(grpc_content_type_fits(SLICE("application/json")));
}
