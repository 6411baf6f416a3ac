#include <criterion/criterion.h>

#include "command.h"
#include "limit_text.h"
#include "output.h"
#include "verdict.h"

/* ---- bytes from outside ---- */

static void expect_safe(struct slice text, const char *expected)
{
	struct buf b = {0};

	output_safe(&b, text);
	buf_add(&b, "", 1);
	cr_assert_not(buf_failed(&b));
	cr_assert_str_eq(b.ptr, expected);
	buf_release(&b);
}

Test(kovactl_output, no_control_character_reaches_a_terminal)
{
	expect_safe(SLICE("plain text"), "plain text");
	expect_safe(SLICE("a\x1b[2Jb"), "a\\x1b[2Jb");
	expect_safe(SLICE("a\r\nb\x7f"), "a\\x0d\\x0ab\\x7f");
	expect_safe(SLICE("\xc2\x9b"),
		    "\\xc2\\x9b"); /* CSI as one character: what is no UTF-8 alone follows */
	expect_safe(SLICE("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
	expect_safe(SLICE("\xff\xfe"), "\\xff\\xfe");
	expect_safe(SLICE(""), "");
}

/* ---- verdicts ---- */

static redisReply integer(long long value)
{
	return (redisReply){.type = REDIS_REPLY_INTEGER, .integer = value};
}

static redisReply string(char *text)
{
	return (redisReply){.type = REDIS_REPLY_STRING, .str = text, .len = strlen(text)};
}

static kova_status parse_with_receipt(long long allowed, char *reason, char *receipt,
				      size_t elements, struct verdict *v)
{
	redisReply items[] = {integer(allowed), integer(7),     integer(20),    integer(-1),
			      integer(1500),    string(reason), string(receipt)};
	redisReply *pointers[7];

	for (size_t i = 0; i < 7; i++)
		pointers[i] = &items[i];
	redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = elements, .element = pointers};
	return verdict_parse(&reply, v);
}

static kova_status parse(long long allowed, char *reason, size_t elements, struct verdict *v)
{
	char receipt[] = "abc";

	return parse_with_receipt(allowed, reason, receipt, elements, v);
}

Test(kovactl_verdict, is_read_from_the_reply)
{
	char reason[] = "limited:user";
	struct verdict v;

	cr_assert_eq(parse(0, reason, 6, &v), KOVA_OK);
	cr_assert_not(v.allowed);
	cr_assert_eq(v.remaining, 7);
	cr_assert_eq(v.limit, 20);
	cr_assert_eq(v.retry_after_ms, -1);
	cr_assert_eq(v.reset_after_ms, 1500);
	cr_assert_str_eq(v.reason, "limited:user");
	cr_assert_str_eq(v.receipt, "");
	cr_assert_eq(verdict_exit(&v), EXIT_REFUSED);
	cr_assert_eq(parse(1, reason, 7, &v), KOVA_OK);
	cr_assert_str_eq(v.receipt, "abc");
	cr_assert_eq(verdict_exit(&v), EXIT_ALLOWED);
}

/* A receipt names its pairs: 16 of the longest names and keys make 23384 characters. */
Test(kovactl_verdict, the_longest_receipt_fits)
{
	char reason[] = "ok", receipt[23384 + 1];
	struct verdict v;

	memset(receipt, 'A', sizeof receipt - 1);
	receipt[sizeof receipt - 1] = '\0';
	cr_assert_eq(parse_with_receipt(1, reason, receipt, 7, &v), KOVA_OK);
	cr_assert_str_eq(v.receipt, receipt);
}

Test(kovactl_verdict, another_reply_is_malformed)
{
	char reason[] = "ok", long_reason[200];
	struct verdict v;
	redisReply status = {.type = REDIS_REPLY_STATUS, .str = reason, .len = 2};

	cr_assert_eq(verdict_parse(&status, &v), KOVA_EPROTO);
	cr_assert_eq(parse(1, reason, 5, &v), KOVA_EPROTO);
	memset(long_reason, 'x', sizeof long_reason);
	long_reason[sizeof long_reason - 1] = '\0';
	cr_assert_eq(parse(1, long_reason, 6, &v), KOVA_EPROTO);
}

static void expect_summary(const struct verdict *v, const char *expected)
{
	struct buf b = {0};

	verdict_summary(&b, v);
	buf_add(&b, "", 1);
	cr_assert_str_eq(b.ptr, expected);
	buf_release(&b);
}

Test(kovactl_verdict, says_what_is_left_and_when_again)
{
	struct verdict v = {.allowed = true,
			    .remaining = 19,
			    .limit = 20,
			    .reset_after_ms = 100,
			    .reason = "ok"};

	expect_summary(&v, "19 of 20 left, full again in 100ms");
	v.reset_after_ms = 0;
	expect_summary(&v, "19 of 20 left");
	v = (struct verdict){.limit = 20, .retry_after_ms = 95, .reason = "limited:user"};
	expect_summary(&v, "0 of 20 left, again in 95ms (limited by user)");
	v.retry_after_ms = -1;
	snprintf(v.reason, sizeof v.reason, "banned");
	expect_summary(&v, "0 of 20 left, never fits (the key is banned)");
	snprintf(v.reason, sizeof v.reason, "something_new");
	expect_summary(&v, "0 of 20 left, never fits (something_new)");
}

/* ---- limits ---- */

static void expect_limit(const char *json, const char *expected)
{
	json_t *item = json_loads(json, 0, NULL);
	struct buf b = {0};

	cr_assert_not_null(item, "%s", json);
	limit_text(&b, item);
	buf_add(&b, "", 1);
	cr_assert_str_eq(b.ptr, expected);
	buf_release(&b);
	json_decref(item);
}

Test(kovactl_limit, in_a_few_words)
{
	expect_limit("{\"limit\":10,\"per\":\"1s\",\"burst\":20}", "10 per 1s, burst 20");
	expect_limit("{\"limit\":10,\"per\":\"1s\",\"weight\":2,\"ceiling\":20}",
		     "10 per 1s, weight 2, ceiling 20");
	expect_limit("{\"weight\":3}", "weight 3");
	expect_limit("{\"limit\":8,\"hold\":\"1m\"}", "8 at once, at most 1m each");
	expect_limit("{\"plan\":{\"slots\":50,\"hold\":\"10s\"}}", "50 slots of 10s");
	expect_limit("{\"limit\":5}", "limit 5");
	expect_limit("{\"banned\":true}", "banned");
	expect_limit("{\"unlimited\":true}", "unlimited");
	expect_limit("{\"levels\":[{\"name\":\"tenant\",\"limit\":100,\"per\":\"1s\"},"
		     "{\"name\":\"user\",\"limit\":5,\"per\":\"1s\"}]}",
		     "tenant 100 per 1s; user 5 per 1s");
	expect_limit("{}", "");
}
