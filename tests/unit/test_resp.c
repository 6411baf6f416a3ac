#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/resp.h"

static struct resp_command command;

static kova_status parse(const char *text, size_t len, size_t *ret_used)
{
	struct resp_parser p = {0};

	return resp_parse(&p, (struct slice){text, len}, &command, ret_used);
}

static void expect_args(const char *text, uint32_t argc, const struct slice *argv)
{
	size_t used = 0;

	cr_assert_eq(parse(text, strlen(text), &used), KOVA_OK, "%s: %s", text, command.error);
	cr_assert_eq(used, strlen(text));
	cr_assert_eq(command.argc, argc, "%s: %u arguments", text, command.argc);
	for (uint32_t i = 0; i < argc; i++)
		cr_assert(slice_equal(command.argv[i], argv[i]), "%s: argument %u", text, i);
}

#define EXPECT(text, ...)                                                             \
	do {                                                                          \
		const struct slice args_[] = {__VA_ARGS__};                           \
		expect_args(text, (uint32_t)(sizeof args_ / sizeof args_[0]), args_); \
	} while (0)

static void expect_error(const char *text, const char *error)
{
	size_t used = 0;

	cr_assert_eq(parse(text, strlen(text), &used), KOVA_EPROTO, "%s", text);
	cr_assert_str_eq(command.error, error);
	cr_assert_eq(used, 0);
}

Test(resp, array_of_bulk_strings)
{
	EXPECT("*1\r\n$4\r\nPING\r\n", SLICE("PING"));
	EXPECT("*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\n\r\n\r\n", SLICE("a"), SLICE(""), SLICE("\r\n"));
}

Test(resp, arguments_point_into_the_input)
{
	const char text[] = "*1\r\n$4\r\nPING\r\n";
	size_t used;

	cr_assert_eq(parse(text, sizeof text - 1, &used), KOVA_OK);
	cr_assert_eq(command.argv[0].ptr, text + 8);
}

Test(resp, nothing_to_do)
{
	expect_args("*0\r\n", 0, NULL);
	expect_args("*-1\r\n", 0, NULL);
	expect_args("\r\n", 0, NULL);
	expect_args("\n", 0, NULL);
	expect_args("   \t \r\n", 0, NULL);
}

Test(resp, only_its_own_bytes_are_used)
{
	const char text[] = "*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n";
	size_t used;

	cr_assert_eq(parse(text, sizeof text - 1, &used), KOVA_OK);
	cr_assert_eq(used, 11);
}

Test(resp, inline_words_by_the_rules_of_redis)
{
	EXPECT("PING\r\n", SLICE("PING"));
	EXPECT("PING\n", SLICE("PING"));
	EXPECT("  a \t b  \r\n", SLICE("a"), SLICE("b"));
	EXPECT("a \"b c\" 'd e'\n", SLICE("a"), SLICE("b c"), SLICE("d e"));
	EXPECT("\"\" ''\n", SLICE(""), SLICE(""));
	EXPECT("\"\\x00\\xfF\\n\\r\\t\\b\\a\\\\\\\"\\q\"\n", SLICE("\0\xff\n\r\t\b\a\\\"q"));
	EXPECT("\"\\xg1\\x\"\n", SLICE("xg1x"));
	EXPECT("'it\\'s \\n'\n", SLICE("it's \\n"));
	EXPECT("foo\"bar\" x\n", SLICE("foobar"), SLICE("x"));
}

Test(resp, errors_say_what_is_wrong)
{
	expect_error("*x\r\n", "Protocol error: invalid multibulk length");
	expect_error("*\r\n", "Protocol error: invalid multibulk length");
	expect_error("*1025\r\n", "Protocol error: invalid multibulk length");
	expect_error("*99999999999\r\n", "Protocol error: invalid multibulk length");
	expect_error("*01\r\n", "Protocol error: invalid multibulk length");
	expect_error("*+1\r\n", "Protocol error: invalid multibulk length");
	expect_error("*1 \r\n", "Protocol error: invalid multibulk length");
	expect_error("*1\rx", "Protocol error: invalid multibulk length");
	expect_error("*1\r\n+OK\r\n", "Protocol error: expected '$', got '+'");
	expect_error("*1\r\n\r\n", "Protocol error: expected '$', got '?'");
	expect_error("*1\r\n$-1\r\n", "Protocol error: invalid bulk length");
	expect_error("*1\r\n$65537\r\n", "Protocol error: invalid bulk length");
	expect_error("*1\r\n$1e3\r\n", "Protocol error: invalid bulk length");
	expect_error("*1\r\n$3\r\nPING\r\n",
		     "Protocol error: expected a line end after a bulk string");
	expect_error("*1\r\n$4\r\nPING\rx",
		     "Protocol error: expected a line end after a bulk string");
	expect_error("\"a\n", "Protocol error: unbalanced quotes in request");
	expect_error("'a\n", "Protocol error: unbalanced quotes in request");
	expect_error("\"a\"b\n", "Protocol error: unbalanced quotes in request");
	expect_error("\"a\\\n", "Protocol error: unbalanced quotes in request");
}

/* A wrong byte is told as soon as it is there. */
Test(resp, errors_do_not_wait_for_more)
{
	expect_error("*x", "Protocol error: invalid multibulk length");
	expect_error("*1\r\n$x", "Protocol error: invalid bulk length");
	expect_error("*1\r\n:", "Protocol error: expected '$', got ':'");
	expect_error("*1\r\n$1\r\nab", "Protocol error: expected a line end after a bulk string");
}

static void add_command(struct buf *b, uint32_t argc, size_t arg_len)
{
	char *arg = calloc(1, arg_len + 1);

	cr_assert_not_null(arg);
	resp_write_array(b, argc);
	for (uint32_t i = 0; i < argc; i++)
		resp_write_bulk(b, (struct slice){arg, arg_len});
	free(arg);
}

Test(resp, limits)
{
	struct buf b = {0};
	size_t used;

	add_command(&b, RESP_ARGS_MAX, 10);
	cr_assert_eq(parse(b.ptr, b.len, &used), KOVA_OK);
	cr_assert_eq(command.argc, RESP_ARGS_MAX);
	buf_clear(&b);
	add_command(&b, 15, RESP_BULK_MAX);
	cr_assert_eq(parse(b.ptr, b.len, &used), KOVA_OK);
	buf_clear(&b);
	add_command(&b, 16, RESP_BULK_MAX); /* 1 MiB, and the heads on top */
	cr_assert_eq(parse(b.ptr, b.len, &used), KOVA_EPROTO);
	cr_assert_str_eq(command.error, "Protocol error: too big command");
	buf_release(&b);
}

Test(resp, inline_limits)
{
	struct buf b = {0};
	size_t used;

	for (int i = 0; i < RESP_INLINE_MAX - 1; i++)
		buf_add(&b, "a", 1);
	cr_assert_eq(parse(b.ptr, b.len, &used), KOVA_AGAIN);
	buf_add(&b, "\n", 1);
	cr_assert_eq(parse(b.ptr, b.len, &used), KOVA_OK);
	cr_assert_eq(command.argv[0].len, RESP_INLINE_MAX - 1);
	b.ptr[b.len - 1] = 'a';
	cr_assert_eq(parse(b.ptr, b.len, &used), KOVA_EPROTO);
	cr_assert_str_eq(command.error, "Protocol error: too big inline request");
	buf_clear(&b);
	for (int i = 0; i < RESP_ARGS_MAX + 1; i++)
		buf_add(&b, "a ", 2);
	buf_add(&b, "\n", 1);
	cr_assert_eq(parse(b.ptr, b.len, &used), KOVA_EPROTO);
	cr_assert_str_eq(command.error, "Protocol error: too many arguments");
	buf_release(&b);
}

static const char *const samples[] = {
	"*1\r\n$4\r\nPING\r\n",
	("*6\r\n$9\r\nKOVA.TAKE\r\n$3\r\napi\r\n$9\r\nacme/\r\nbo\r\n"
	 "$4\r\nCOST\r\n$1\r\n3\r\n$0\r\n\r\n"),
	"KOVA.TAKE api \"a\\x20b\" COST 3\r\n",
	"*0\r\n",
	"\r\n",
};

enum { N_SAMPLES = sizeof samples / sizeof samples[0] };

static void copy_args(struct buf *b)
{
	resp_write_array(b, command.argc);
	for (uint32_t i = 0; i < command.argc; i++)
		resp_write_bulk(b, command.argv[i]);
}

/* Each prefix alone asks for more; the same parser, fed byte by byte from memory that moves, ends
 * with what the whole gives. */
Test(resp, every_prefix_asks_for_more)
{
	for (size_t i = 0; i < N_SAMPLES; i++) {
		struct resp_parser p = {0};
		struct buf whole = {0}, trickled = {0};
		size_t len = strlen(samples[i]), used = 0;

		cr_assert_eq(parse(samples[i], len, &used), KOVA_OK);
		copy_args(&whole);
		for (size_t n = 0; n <= len; n++) {
			char *part = malloc(n + 1);
			kova_status want = n < len ? KOVA_AGAIN : KOVA_OK;

			cr_assert_not_null(part);
			memcpy(part, samples[i], n);
			cr_assert_eq(parse(part, n, &used), want);
			memset(&command, 0xee, sizeof command); /* other connections use it too */
			cr_assert_eq(resp_parse(&p, (struct slice){part, n}, &command, &used),
				     want);
			if (n == len)
				copy_args(&trickled);
			free(part);
		}
		cr_assert_eq(used, len);
		cr_assert(slice_equal(buf_slice(&whole), buf_slice(&trickled)));
		buf_release(&whole);
		buf_release(&trickled);
	}
}

/* Random commands, cut at random places: what is parsed and written again is what was sent. */
static void random_command(struct buf *b, unsigned *seed)
{
	uint32_t argc = (uint32_t)rand_r(seed) % 20 + 1;

	resp_write_array(b, argc);
	for (uint32_t i = 0; i < argc; i++) {
		char arg[64];
		size_t len = (size_t)rand_r(seed) % sizeof arg;

		for (size_t k = 0; k < len; k++)
			arg[k] = (char)rand_r(seed);
		resp_write_bulk(b, (struct slice){arg, len});
	}
}

static void run_random(unsigned seed)
{
	struct buf sent = {0}, got = {0};
	struct resp_parser p = {0};
	size_t at = 0, have = 0;

	for (int i = 0; i < 30; i++)
		random_command(&sent, &seed);
	while (at < sent.len) {
		size_t used;
		kova_status st =
			resp_parse(&p, (struct slice){sent.ptr + at, have - at}, &command, &used);

		if (st == KOVA_OK) {
			copy_args(&got);
			at += used;
			continue;
		}
		cr_assert_eq(st, KOVA_AGAIN, "%s", command.error);
		cr_assert_lt(have, sent.len);
		have += (size_t)rand_r(&seed) % 40 + 1;
		have = have < sent.len ? have : sent.len;
	}
	cr_assert(slice_equal(buf_slice(&sent), buf_slice(&got)));
	buf_release(&sent);
	buf_release(&got);
}

Test(resp, random_splits)
{
	for (unsigned seed = 1; seed <= 300; seed++)
		run_random(seed);
}

/* 1 MiB in pieces of 100 bytes: reading every piece from the start again would take minutes. */
Test(resp, a_trickle_costs_what_is_new, .timeout = 10)
{
	struct buf b = {0};
	struct resp_parser p = {0};
	size_t used = 0;
	kova_status st = KOVA_AGAIN;

	add_command(&b, 1000, 1000);
	for (size_t n = 1; st == KOVA_AGAIN; n += 100) {
		size_t len = n < b.len ? n : b.len;

		st = resp_parse(&p, (struct slice){b.ptr, len}, &command, &used);
	}
	cr_assert_eq(st, KOVA_OK);
	cr_assert_eq(used, b.len);
	cr_assert_eq(command.argc, 1000);
	buf_release(&b);
}

Test(resp, integers_strictly)
{
	static const struct {
		const char *text;
		kova_status status;
		int64_t value;
	} cases[] = {
		{"0", KOVA_OK, 0},
		{"7", KOVA_OK, 7},
		{"-12", KOVA_OK, -12},
		{"9223372036854775807", KOVA_OK, INT64_MAX},
		{"-9223372036854775808", KOVA_OK, INT64_MIN},
		{"9223372036854775808", KOVA_ERANGE, 0},
		{"-9223372036854775809", KOVA_ERANGE, 0},
		{"99999999999999999999999999", KOVA_ERANGE, 0},
		{"18446744073709551617", KOVA_ERANGE, 0},
		{"9999999999999999999x", KOVA_EPROTO, 0},
		{"", KOVA_EPROTO, 0},
		{"-", KOVA_EPROTO, 0},
		{"-0", KOVA_EPROTO, 0},
		{"00", KOVA_EPROTO, 0},
		{"01", KOVA_EPROTO, 0},
		{"+1", KOVA_EPROTO, 0},
		{" 1", KOVA_EPROTO, 0},
		{"1 ", KOVA_EPROTO, 0},
		{"1e3", KOVA_EPROTO, 0},
		{"1.0", KOVA_EPROTO, 0},
		{"0x1", KOVA_EPROTO, 0},
		{"--1", KOVA_EPROTO, 0},
		{"abc", KOVA_EPROTO, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		int64_t value = 42;
		kova_status st = resp_integer(slice_of(cases[i].text), &value);

		cr_assert_eq(st, cases[i].status, "%s", cases[i].text);
		cr_assert_eq(value, st == KOVA_OK ? cases[i].value : 42, "%s", cases[i].text);
	}
	cr_assert_eq(resp_integer((struct slice){"1\0", 2}, &(int64_t){0}), KOVA_EPROTO);
}

Test(resp, words_whatever_their_case)
{
	cr_assert(resp_word_is(SLICE("KOVA.Take"), "kova.take"));
	cr_assert(!resp_word_is(SLICE("KOVA.TAK"), "kova.take"));
	cr_assert(!resp_word_is(SLICE("KOVA.TAKES"), "kova.take"));
	cr_assert(!resp_word_is(SLICE("ab\0"), "ab"));
	cr_assert(!resp_word_is(SLICE(""), "a"));
	cr_assert(resp_word_is(SLICE(""), ""));
	cr_assert(!resp_word_is(SLICE("@"), "`")); /* differ in the bit that letters fold */
}

Test(resp, replies)
{
	struct buf b = {0};
	const char *want =
		"+OK\r\n-ERR a  "
		"b\r\n:-5\r\n$3\r\na\r\n\r\n$-1\r\n_\r\n*2\r\n*4\r\n%2\r\n*3\r\n~3\r\n"
		"$2\r\nhi\r\n=6\r\ntxt:hi\r\n:9223372036854775807\r\n:-9223372036854775808\r\n";

	resp_write_simple(&b, "OK");
	resp_write_error(&b, "ERR", "a\r\nb");
	resp_write_int(&b, -5);
	resp_write_bulk(&b, SLICE("a\r\n"));
	resp_write_null(&b, 2);
	resp_write_null(&b, 3);
	resp_write_array(&b, 2);
	resp_write_map(&b, 2, 2);
	resp_write_map(&b, 3, 2);
	resp_write_set(&b, 2, 3);
	resp_write_set(&b, 3, 3);
	resp_write_verbatim(&b, 2, SLICE("hi"));
	resp_write_verbatim(&b, 3, SLICE("hi"));
	resp_write_int(&b, INT64_MAX);
	resp_write_int(&b, INT64_MIN);
	cr_assert(slice_equal(buf_slice(&b), slice_of(want)), "%.*s", (int)b.len, b.ptr);
	buf_release(&b);
}
