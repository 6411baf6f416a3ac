/* The last texts of many: what is kept, in which order, from which number on. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/recent.h"

enum { KEPT = 3 };

static void add(struct recent *r, unsigned from, unsigned to)
{
	for (unsigned i = from; i <= to; i++) {
		struct buf text = {0};

		buf_add_uint(&text, i);
		recent_add(r, &text);
		cr_assert_null(text.ptr);
	}
}

static void expect(const struct recent *r, uint64_t since, const char *text)
{
	struct buf out = {0};

	recent_write(r, since, &out);
	buf_add(&out, "", 1);
	cr_expect_str_eq(out.ptr, text);
	buf_release(&out);
}

Test(recent, the_oldest_are_forgotten)
{
	struct recent r;

	cr_assert(recent_init(&r, KEPT, 1000));
	expect(&r, 0, "[]");
	add(&r, 10, 12);
	expect(&r, 0, "[10,11,12]");
	add(&r, 13, 14);
	expect(&r, 0, "[12,13,14]");
	cr_expect_eq(r.n, 5);
	recent_release(&r);
}

Test(recent, from_a_number_on)
{
	struct recent r;

	cr_assert(recent_init(&r, KEPT, 1000));
	add(&r, 0, 4);
	expect(&r, 1, "[2,3,4]");
	expect(&r, 3, "[3,4]");
	expect(&r, 5, "[]");
	expect(&r, 6, "[]");
	recent_clear(&r);
	expect(&r, 0, "[]");
	add(&r, 7, 7);
	expect(&r, 0, "[7]");
	recent_release(&r);
}

Test(recent, so_many_bytes_are_kept)
{
	struct recent r;

	cr_assert(recent_init(&r, KEPT, 4));
	add(&r, 10, 12);
	expect(&r, 0, "[11,12]");
	add(&r, 7, 7);
	expect(&r, 0, "[12,7]");
	add(&r, 12345, 12345); /* one is kept, whatever its size */
	expect(&r, 0, "[12345]");
	add(&r, 8, 8);
	expect(&r, 0, "[8]");
	cr_expect_eq(r.bytes, 1);
	recent_release(&r);
}
