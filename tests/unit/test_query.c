/* Queries as forms write them. */
#include <criterion/criterion.h>

#include "core/query.h"

static void expect_pair(struct slice *query, const char *name, const char *value)
{
	struct slice n, v;

	cr_assert(query_next(query, &n, &v));
	cr_assert(slice_equal(n, slice_of(name)), "%.*s", (int)n.len, n.ptr);
	cr_assert(slice_equal(v, slice_of(value)), "%.*s", (int)v.len, v.ptr);
}

Test(query, pairs)
{
	struct slice n, v, query = SLICE("&a=1&&b=&c&=d&e=f=g&");

	expect_pair(&query, "a", "1");
	expect_pair(&query, "b", "");
	expect_pair(&query, "c", "");
	expect_pair(&query, "", "d");
	expect_pair(&query, "e", "f=g");
	cr_assert(!query_next(&query, &n, &v));
	query = (struct slice){NULL, 0};
	cr_assert(!query_next(&query, &n, &v));
}

Test(query, decoding)
{
	struct buf b = {0};

	cr_assert_eq(query_decode(&b, SLICE("a+b%2Fc%00%fF%2B")), KOVA_OK);
	cr_assert(slice_equal(buf_slice(&b), SLICE("a b/c\0\xff+")));
	buf_clear(&b);
	cr_assert_eq(query_decode_path(&b, SLICE("a+b%20")), KOVA_OK);
	cr_assert(slice_equal(buf_slice(&b), SLICE("a+b ")));
	buf_release(&b);
}

Test(query, bad_escapes)
{
	static const char *const bad[] = {"%", "a%", "%4", "%4g", "%g4", "%%41", "%-1", "% 1"};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct buf b = {0};

		cr_assert_eq(query_decode(&b, slice_of(bad[i])), KOVA_EPROTO, "%s", bad[i]);
		buf_release(&b);
	}
}
