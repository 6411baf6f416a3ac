#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/trace_context.h"

#define ID "4bf92f3577b34da6a3ce929d0e0e4736"
#define SPAN "00f067aa0ba902b7"
#define VALID "00-" ID "-" SPAN "-01"

static void check_refused(const char *text)
{
	struct trace_context c = {.flags = 77};

	cr_expect_eq(trace_context_parse(slice_of(text), &c), KOVA_EPROTO, "%s", text);
	cr_expect_eq(c.flags, 77, "%s: the result was touched", text);
}

static struct trace_context parsed(const char *text)
{
	struct trace_context c = {0};

	cr_assert_eq(trace_context_parse(slice_of(text), &c), KOVA_OK, "%s", text);
	return c;
}

Test(trace_context, of_version_00)
{
	struct trace_context c = parsed(VALID);

	cr_assert_eq(c.trace_id[0], 0x4b);
	cr_assert_eq(c.trace_id[15], 0x36);
	cr_assert_eq(c.span_id[0], 0);
	cr_assert_eq(c.span_id[7], 0xb7);
	cr_assert_eq(c.flags, TRACE_SAMPLED);
	cr_assert_eq(parsed("00-" ID "-" SPAN "-00").flags, 0);
}

Test(trace_context, unknown_flags_are_left_aside)
{
	cr_assert_eq(parsed("00-" ID "-" SPAN "-ff").flags, TRACE_SAMPLED);
	cr_assert_eq(parsed("00-" ID "-" SPAN "-fe").flags, 0);
	cr_assert_eq(parsed("00-" ID "-" SPAN "-09").flags, TRACE_SAMPLED);
}

Test(trace_context, of_a_later_version)
{
	cr_assert_eq(parsed("01-" ID "-" SPAN "-01").flags, TRACE_SAMPLED);
	cr_assert_eq(parsed("cc-" ID "-" SPAN "-01-what-the-future-will-be-like").flags,
		     TRACE_SAMPLED);
	cr_assert_eq(parsed("cc-" ID "-" SPAN "-01-").flags, TRACE_SAMPLED);
	check_refused("cc-" ID "-" SPAN "-01.what-the-future-will-not-be-like");
	check_refused("01-" ID "-" SPAN "-011");
	check_refused("ff-" ID "-" SPAN "-01");
}

/* What the W3C's own tests send, and more. */
Test(trace_context, that_is_none)
{
	static const char *const texts[] = {
		"",
		"00",
		VALID "-",
		VALID "-extra",
		VALID "0",
		VALID " ",
		" " VALID,
		/* version */
		"0-" ID "-" SPAN "-01",
		"000-" ID "-" SPAN "-01",
		".0-" ID "-" SPAN "-01",
		"0.-" ID "-" SPAN "-01",
		"fF-" ID "-" SPAN "-01",
		"CC-" ID "-" SPAN "-01",
		/* trace id */
		"00-00000000000000000000000000000000-" SPAN "-01",
		"00-.bf92f3577b34da6a3ce929d0e0e4736-" SPAN "-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473.-" SPAN "-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473-" SPAN "-01",
		"00-4bf92f3577b34da6a3ce929d0e0e47366-" SPAN "-01",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-" SPAN "-01",
		"00-4bf92f3577b34da6a3ce929d0e0e473A-" SPAN "-01",
		/* parent id */
		"00-" ID "-0000000000000000-01",
		"00-" ID "-.0f067aa0ba902b7-01",
		"00-" ID "-00f067aa0ba902b.-01",
		"00-" ID "-00f067aa0ba902b-01",
		"00-" ID "-00f067aa0ba902b77-01",
		"00-" ID "-00F067AA0BA902B7-01",
		/* flags */
		"00-" ID "-" SPAN "-.0",
		"00-" ID "-" SPAN "-0.",
		"00-" ID "-" SPAN "-0A",
		"00-" ID "-" SPAN "-1",
		"00-" ID "-" SPAN "-001",
		"00-" ID "-" SPAN "-",
		"00-" ID "-" SPAN,
		/* hyphens */
		"00 " ID "-" SPAN "-01",
		"00-" ID "_" SPAN "-01",
		"00-" ID "-" SPAN "=01",
		"00" ID SPAN "01",
	};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		check_refused(texts[i]);
}

Test(trace_context, every_prefix_is_none)
{
	for (size_t len = 0; len < TRACE_PARENT_CHARS; len++) {
		char *copy = malloc(len + 1); /* of just this size, for the sanitizer */
		struct trace_context c;

		memcpy(copy, VALID, len);
		cr_assert_eq(trace_context_parse((struct slice){copy, len}, &c), KOVA_EPROTO);
		free(copy);
	}
}

Test(trace_context, written_as_read)
{
	struct trace_context c = parsed(VALID);
	char text[TRACE_PARENT_CHARS], id[TRACE_ID_CHARS];

	trace_context_write(&c, text);
	cr_assert(slice_equal((struct slice){text, sizeof text}, SLICE(VALID)));
	trace_id_write(c.trace_id, id);
	cr_assert(slice_equal((struct slice){id, sizeof id}, SLICE(ID)));
}

/* ---- tracestate ---- */

static void check_state(const char *text, bool valid)
{
	cr_expect_eq(trace_state_is_valid(slice_of(text)), valid, "%s", text);
}

/* `n` times `what`, then `end`. */
static char *repeated(const char *what, size_t n, const char *end)
{
	char *text = calloc(1, n * strlen(what) + strlen(end) + 1);

	for (size_t i = 0; i < n; i++)
		strcat(text, what);
	return strcat(text, end);
}

static void check_repeated(const char *what, size_t n, const char *end, bool valid)
{
	char *text = repeated(what, n, end);

	check_state(text, valid);
	free(text);
}

Test(trace_state, that_is_one)
{
	check_state("foo=1", true);
	check_state("foo=1,bar=2", true);
	check_state("foo=1 \t , \t bar=2, \t baz=3", true);
	check_state("foo=1,", true);
	check_state("foo=1,,,bar=2", true);
	check_state(" foo=1\t", true);
	check_state("foo=1,foo=2", true);
	check_state("a-b_c*d/e0=1", true);
	check_state("foo@bar=1", true);
	check_state("0foo@bar=1", true);
	check_state("foo=a b", true);
	check_state("foo= a", true);
	check_state("foo=!\"#$%&'()*+-./0123456789:;<>?@[\\]^_`{|}~", true);
	check_repeated("a", 256, "=1", true);
	check_repeated("a", 241, "@bbbbbbbbbbbbbb=1", true);
}

Test(trace_state, that_is_none)
{
	check_state("", false);
	check_state(" , ", false);
	check_state("foo", false);
	check_state("=1", false);
	check_state("foo=", false);
	check_state("foo=1=2", false);
	check_state("foo =1", false);
	check_state("FOO=1", false);
	check_state("foo.bar=1", false);
	check_state("0foo=1", false);
	check_state("_foo=1", false);
	check_state("foo@=1", false);
	check_state("@foo=1", false);
	check_state("foo@@bar=1", false);
	check_state("foo@bar@baz=1", false);
	check_state("foo@0bar=1", false);
	check_state("foo=\x7f", false);
	check_state("foo=\xc3\xa4", false);
	check_state("foo=a\tb", false);
	check_state("foo=1;bar=2", false);
	check_repeated("a", 257, "=1", false);
	check_repeated("a", 242, "@b=1", false);
	check_state("a@bbbbbbbbbbbbbbb=1", false);
}

Test(trace_state, as_long_as_allowed)
{
	check_repeated("a=1,", 32, "", true);
	check_repeated("a=1,", 32, "a=1", false);
	char *value = repeated("v", 256, ""), *more = repeated("v", 257, "");
	char text[600];

	snprintf(text, sizeof text, "foo=%s", value);
	check_state(text, true);
	snprintf(text, sizeof text, "foo=%s", more);
	check_state(text, false);
	free(value);
	free(more);
}

/* ---- Sampling ---- */

static bool sampled(uint64_t low, uint32_t millionths)
{
	unsigned char id[TRACE_ID_BYTES] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	for (int i = 0; i < 8; i++)
		id[8 + i] = (unsigned char)(low >> (56 - 8 * i));
	return trace_id_is_sampled(id, millionths);
}

/* The upper 63 bits of the last 8 bytes, below the ratio's part of 2^63. */
Test(trace_sampling, by_the_last_eight_bytes)
{
	cr_assert(!sampled(0, 0));
	cr_assert(sampled(0, 1));
	cr_assert(sampled(UINT64_MAX, 1000000));
	cr_assert(!sampled(UINT64_MAX, 999999));
	cr_assert(sampled(UINT64_MAX / 2, 500000));
	cr_assert(!sampled(UINT64_MAX / 2 + 1, 500000));
	cr_assert(sampled(UINT64_C(184467440737095515), 10000));
	cr_assert(!sampled(UINT64_C(184467440737095518), 10000));
}

/* Who is taken at a ratio is taken at every greater one. */
Test(trace_sampling, greater_ratios_take_all_of_lesser_ones)
{
	uint64_t random = 88172645463325252;
	unsigned n = 0;

	for (int i = 0; i < 100000; i++) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		bool at_100 = sampled(random, 10000);

		n += at_100;
		if (at_100)
			cr_assert(sampled(random, 10001) && sampled(random, 700000));
	}
	cr_assert(n > 850 && n < 1150, "%u of 100000", n);
}
