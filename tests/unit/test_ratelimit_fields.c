/*
 * The draft's own examples (draft-ietf-httpapi-ratelimit-headers-10), and how long a refused caller
 * waits.
 */
#include <criterion/criterion.h>

#include "core/ratelimit_fields.h"

static void expect(const struct buf *b, const char *text)
{
	cr_assert(slice_equal(buf_slice(b), slice_of(text)), "%.*s", (int)b->len, b->ptr);
}

Test(ratelimit_fields, examples_of_the_draft)
{
	const struct ratelimit both[] = {
		{.policy = SLICE("sec"), .quota = 20, .window_s = 1},
		{.policy = SLICE("day"), .quota = 50000, .window_s = 86400},
	};
	const struct ratelimit day = {
		.policy = SLICE("day"), .remaining = 4100, .more_after_ms = 21600000};
	const struct ratelimit slots = {.policy = SLICE("slots"), .quota = 8, .concurrent = true};
	struct buf b = {0};

	ratelimit_policy_write(&b, both, 2);
	expect(&b, "\"sec\";q=20;w=1, \"day\";q=50000;w=86400");
	buf_clear(&b);
	ratelimit_write(&b, &day, 1);
	expect(&b, "\"day\";r=4100;t=21600");
	buf_clear(&b);
	ratelimit_policy_write(&b, &slots, 1);
	expect(&b, "\"slots\";q=8;qu=\"concurrent-requests\"");
	buf_release(&b);
}

Test(ratelimit_fields, examples_of_the_contract)
{
	const struct ratelimit item = {.policy = SLICE("captcha-submit"),
				       .quota = 20,
				       .window_s = 2,
				       .remaining = 5,
				       .more_after_ms = 1};
	struct buf b = {0};

	ratelimit_policy_write(&b, &item, 1);
	expect(&b, "\"captcha-submit\";q=20;w=2");
	buf_clear(&b);
	ratelimit_write(&b, &item, 1);
	expect(&b, "\"captcha-submit\";r=5;t=1");
	buf_release(&b);
}

/*
 * RFC 9651: quotes and backslashes are escaped, integers have at most 15 digits; 0 and never give
 * no t.
 */
Test(ratelimit_fields, bounds)
{
	const struct ratelimit items[] = {
		{.policy = SLICE("a\"\\"), .remaining = UINT64_MAX, .more_after_ms = -1},
		{.policy = SLICE("b"), .more_after_ms = 0},
		{.policy = SLICE("c"), .more_after_ms = INT64_MAX},
	};
	struct buf b = {0};

	ratelimit_write(&b, items, 3);
	expect(&b, "\"a\\\"\\\\\";r=999999999999999, \"b\";r=0, \"c\";r=0;t=999999999999999");
	buf_release(&b);
}

Test(ratelimit_fields, seconds_are_rounded_up)
{
	cr_assert_eq(ratelimit_seconds(0), 0);
	cr_assert_eq(ratelimit_seconds(1), 1);
	cr_assert_eq(ratelimit_seconds(1000), 1);
	cr_assert_eq(ratelimit_seconds(1001), 2);
	cr_assert_eq(ratelimit_seconds(INT64_MAX), (uint64_t)INT64_MAX / 1000 + 1);
}

Test(ratelimit_fields, retry_after_is_never_before_t)
{
	cr_assert_eq(ratelimit_retry_after_s(-1, 500), 0);
	cr_assert_eq(ratelimit_retry_after_s(0, 0), 1);
	cr_assert_eq(ratelimit_retry_after_s(999, 1), 1);
	cr_assert_eq(ratelimit_retry_after_s(1001, 1), 2);
	cr_assert_eq(ratelimit_retry_after_s(100, 3001), 4);
	cr_assert_eq(ratelimit_retry_after_s(100, -1), 1);
}
