#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>

#include "core/buf.h"

static void expect(struct buf *b, const char *text)
{
	cr_assert(!buf_failed(b));
	cr_assert(slice_equal(buf_slice(b), slice_of(text)), "%.*s", (int)b->len, b->ptr);
	buf_release(b);
}

Test(buf, adds_in_order)
{
	struct buf b = {0};

	buf_add_text(&b, "a");
	buf_add(&b, "b\0c", 3);
	buf_add_slice(&b, (struct slice){NULL, 0});
	buf_printf(&b, "%s-%d", "d", 7);
	cr_assert_eq(b.len, 7);
	cr_assert_arr_eq(b.ptr, "ab\0cd-7", 7);
	buf_release(&b);
	cr_assert_eq(b.ptr, NULL);
	cr_assert_eq(b.cap, 0);
}

Test(buf, integers_as_printf_has_them)
{
	static const int64_t values[] = {0, 1, -1, 9, 10, -10, 1000000007, INT64_MAX, INT64_MIN};

	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		struct buf b = {0};
		char text[32];

		buf_add_int(&b, values[i]);
		snprintf(text, sizeof text, "%" PRId64, values[i]);
		expect(&b, text);
		buf_add_uint(&b, (uint64_t)values[i]);
		snprintf(text, sizeof text, "%" PRIu64, (uint64_t)values[i]);
		expect(&b, text);
	}
}

Test(buf, printf_longer_than_the_buffer)
{
	struct buf b = {0};
	char text[2000];

	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	buf_add_text(&b, "1");
	buf_printf(&b, "%s", text);
	cr_assert_eq(b.len, sizeof text);
	cr_assert_eq(b.ptr[sizeof text - 1], 'x');
	buf_release(&b);
}

Test(buf, grows_by_bytes_and_keeps_all)
{
	struct buf b = {0};

	for (int i = 0; i < 100000; i++)
		buf_add(&b, &(char){(char)(i % 251)}, 1);
	for (int i = 0; i < 100000; i++)
		cr_assert_eq(b.ptr[i], (char)(i % 251));
	cr_assert_leq(b.cap, 4 * b.len);
	buf_release(&b);
}

Test(buf, consumes_from_the_front)
{
	struct buf b = {0};

	buf_add_text(&b, "abcdef");
	buf_consume(&b, 0);
	buf_consume(&b, 2);
	cr_assert(slice_equal(buf_slice(&b), SLICE("cdef")));
	buf_consume(&b, 4);
	cr_assert_eq(b.len, 0);
	buf_release(&b);
}

Test(buf, failure_sticks_until_cleared)
{
	struct buf b = {0};

	buf_add_text(&b, "kept");
	cr_assert_eq(buf_reserve(&b, SIZE_MAX - 2), NULL);
	cr_assert(buf_failed(&b));
	buf_add_text(&b, "lost");
	cr_assert_eq(b.len, 4);
	buf_clear(&b);
	cr_assert(!buf_failed(&b));
	buf_add_text(&b, "again");
	expect(&b, "again");
}
