/* What Envoy's rate limit service is asked, read from the wire, and the names that are made of it. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/proto_wire.h"
#include "core/rls_key.h"
#include "core/rls_request.h"

/* ---- names ---- */

/* The path of `n` values. */
static struct buf path_of(const struct slice *values, size_t n)
{
	struct buf out = {0};

	buf_add_text(&out, "before");
	for (size_t i = 0; i < n; i++)
		rls_path_add(&out, strlen("before"), values[i]);
	buf_consume(&out, strlen("before"));
	return out;
}

static void expect_path(const struct slice *values, size_t n, const char *path)
{
	struct buf out = path_of(values, n);

	cr_expect(slice_equal(buf_slice(&out), slice_of(path)), "%.*s", (int)out.len, out.ptr);
	buf_release(&out);
}

#define EXPECT_PATH(path, ...)                     \
	expect_path((struct slice[]){__VA_ARGS__}, \
		    sizeof((struct slice[]){__VA_ARGS__}) / sizeof(struct slice), path)

Test(rls, values_are_taken_whole)
{
	EXPECT_PATH("acme", SLICE("acme"));
	EXPECT_PATH("acme/alice", SLICE("acme"), SLICE("alice"));
	EXPECT_PATH("a%2Fb/c", SLICE("a/b"), SLICE("c"));
	EXPECT_PATH("a/b%2Fc", SLICE("a"), SLICE("b/c"));
	EXPECT_PATH("%2F%2F%25", SLICE("//%"));
	EXPECT_PATH("a%252Fb", SLICE("a%2Fb"));
}

Test(rls, empty_values_are_values)
{
	EXPECT_PATH("%00", SLICE(""));
	EXPECT_PATH("%00/%00", SLICE(""), SLICE(""));
	EXPECT_PATH("%2500", SLICE("%00"));
}

/* All lists of up to three values of few letters: no two of the same length have one path. */
Test(rls, paths_differ)
{
	static const char *const letters[] = {"", "/", "%", "2", "%2F", "%00", "0", "a", "a/"};
	enum { N = sizeof letters / sizeof letters[0], LISTS = N * N };
	struct buf paths[LISTS];

	for (int i = 0; i < LISTS; i++) {
		struct slice values[] = {slice_of(letters[i / N]), slice_of(letters[i % N])};

		paths[i] = path_of(values, 2);
		for (int j = 0; j < i; j++)
			cr_expect_not(slice_equal(buf_slice(&paths[i]), buf_slice(&paths[j])),
				      "%.*s", (int)paths[i].len, paths[i].ptr);
	}
	for (int i = 0; i < LISTS; i++)
		buf_release(&paths[i]);
}

static struct buf name_of(struct slice a, struct slice b)
{
	struct buf name = {0};

	rls_name_add(&name, a);
	rls_name_add(&name, b);
	return name;
}

Test(rls, names_keep_texts_apart)
{
	struct buf a = name_of(SLICE("ab"), SLICE("c")), b = name_of(SLICE("a"), SLICE("bc")),
		   c = name_of(SLICE("a"), SLICE("1:b"));

	cr_expect_not(slice_equal(buf_slice(&a), buf_slice(&b)));
	cr_expect_not(slice_equal(buf_slice(&b), buf_slice(&c)));
	buf_release(&a);
	buf_release(&b);
	buf_release(&c);
}

/* ---- the wire ---- */

Test(rls, fields_of_every_type)
{
	struct slice rest = SLICE("\x08\x96\x01" /* 1: 150 */
				  "\x12\x03"
				  "abc"                                  /* 2: "abc" */
				  "\x1d\x01\x00\x00\x80"                 /* 3, 32 bits */
				  "\x21\x02\x00\x00\x00\x00\x00\x00\x00" /* 4, 64 bits */
				  "\xf8\xff\xff\xff\x0f\x01");           /* the largest number */
	struct wire_field f;

	cr_assert_eq(wire_next(&rest, &f), KOVA_OK);
	cr_expect(wire_is(&f, 1, WIRE_VARINT) && f.value == 150);
	cr_assert_eq(wire_next(&rest, &f), KOVA_OK);
	cr_expect(wire_is(&f, 2, WIRE_BYTES) && slice_equal(f.bytes, SLICE("abc")));
	cr_assert_eq(wire_next(&rest, &f), KOVA_OK);
	cr_expect(wire_is(&f, 3, WIRE_FIXED32) && f.value == 0x80000001);
	cr_assert_eq(wire_next(&rest, &f), KOVA_OK);
	cr_expect(wire_is(&f, 4, WIRE_FIXED64) && f.value == 2);
	cr_assert_eq(wire_next(&rest, &f), KOVA_OK);
	cr_expect(wire_is(&f, (1 << 29) - 1, WIRE_VARINT) && f.value == 1);
	cr_expect_eq(wire_next(&rest, &f), KOVA_ENOTFOUND);
}

Test(rls, fields_that_are_none)
{
	const struct slice bad[] = {
		SLICE("\x08"),
		SLICE("\x08\x80"),
		SLICE("\x12\x04"
		      "abc"),
		SLICE("\x1d\x01"),
		SLICE("\x21\x01"),
		SLICE("\x00\x01"), /* number 0 */
		SLICE("\x0b"),     /* a group */
		SLICE("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
		SLICE("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* 11 bytes */
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct slice rest = bad[i];
		struct wire_field f;

		cr_expect_eq(wire_next(&rest, &f), KOVA_EPROTO, "%zu", i);
	}
}

/* ---- the request ---- */

/* domain "edge"; a descriptor (tenant, a/b) (user, "") with a limit of 7 a minute and 3 hits; one (x, NUL); 9 hits. */
static const char request[] = "\x0a\x04"
			      "edge"
			      "\x12\x23"
			      "\x0a\x0d\x0a\x06tenant\x12\x03"
			      "a/b"
			      "\x0a\x08\x0a\x04user\x12\x00"
			      "\x12\x04\x08\x07\x10\x02"
			      "\x1a\x02\x08\x03"
			      "\x12\x08\x0a\x06\x0a\x01x\x12\x01\x00"
			      "\x18\x09";

Test(rls, request)
{
	struct rls_request m;
	struct slice rest, key, value;

	cr_assert_eq(rls_request_parse(SLICE(request), &m), KOVA_OK);
	cr_expect(slice_equal(m.domain, SLICE("edge")));
	cr_expect_eq(m.hits, 9);
	cr_assert_eq(m.n_descriptors, 2);
	cr_expect_eq(m.descriptor[0].n_entries, 2);
	cr_expect(m.descriptor[0].has_limit && m.descriptor[0].requests_per_unit == 7 &&
		  m.descriptor[0].unit == 2);
	cr_expect(m.descriptor[0].has_hits && m.descriptor[0].hits == 3);
	cr_expect_not(m.descriptor[1].has_limit || m.descriptor[1].has_hits ||
		      m.descriptor[1].gives_back);
	rest = m.descriptor[0].bytes;
	cr_assert(rls_entry_next(&rest, &key, &value));
	cr_expect(slice_equal(key, SLICE("tenant")) && slice_equal(value, SLICE("a/b")));
	cr_assert(rls_entry_next(&rest, &key, &value));
	cr_expect(slice_equal(key, SLICE("user")) && value.len == 0);
	cr_expect_not(rls_entry_next(&rest, &key, &value));
	rest = m.descriptor[1].bytes;
	cr_assert(rls_entry_next(&rest, &key, &value));
	cr_expect(slice_equal(value, SLICE("\0")), "a NUL is a byte like any other");
}

/* Each byte at the end of its own memory, for AddressSanitizer. */
Test(rls, every_prefix_is_a_request_or_an_error)
{
	for (size_t len = 0; len < sizeof request; len++) {
		char *bytes = malloc(len + 1);
		struct rls_request m;

		cr_assert_not_null(bytes);
		memcpy(bytes, request, len);
		(void)!rls_request_parse((struct slice){bytes, len}, &m);
		free(bytes);
	}
	struct rls_request m;

	cr_expect_eq(rls_request_parse((struct slice){request, sizeof request - 2}, &m),
		     KOVA_EPROTO);
	cr_expect_eq(rls_request_parse(SLICE(""), &m), KOVA_OK);
	cr_expect_eq(m.n_descriptors, 0);
}

Test(rls, more_descriptors_than_are_read)
{
	struct buf message = {0};
	struct rls_request m;

	for (int i = 0; i < RLS_DESCRIPTORS_MAX + 5; i++)
		buf_add_slice(&message, SLICE("\x12\x08\x0a\x06\x0a\x01x\x12\x01y"));
	cr_assert_eq(rls_request_parse(buf_slice(&message), &m), KOVA_OK);
	cr_expect_eq(m.n_descriptors, RLS_DESCRIPTORS_MAX + 5);
	buf_release(&message);
}
