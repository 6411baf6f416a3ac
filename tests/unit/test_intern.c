/* Strings under numbers: the same number for the same bytes, and none for what nobody uses any more. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/intern.h"

static uint32_t use(struct intern *in, unsigned i)
{
	char text[16];
	uint32_t number = UINT32_MAX;

	snprintf(text, sizeof text, "s%u", i);
	cr_assert_eq(intern_use(in, slice_of(text), &number), KOVA_OK);
	return number;
}

Test(intern, the_same_bytes_have_the_same_number)
{
	struct intern in = {0};
	uint32_t number;

	cr_expect_eq(intern_find(&in, SLICE("s1")), UINT32_MAX);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 1000; i++)
			cr_assert_eq(use(&in, i), i);
	cr_expect(slice_equal(intern_string(&in, 7), SLICE("s7")));
	cr_assert_eq(intern_use(&in, (struct slice){NULL, 0}, &number), KOVA_OK);
	cr_expect_eq(intern_string(&in, number).len, 0);
	intern_release(&in);
}

Test(intern, numbers_that_nobody_uses_are_used_again)
{
	struct intern in = {0};

	for (unsigned i = 0; i < 1000; i++)
		cr_assert_eq(use(&in, i), i);
	use(&in, 500);
	for (unsigned i = 0; i < 1000; i++)
		intern_drop(&in, i);
	cr_expect_eq(intern_find(&in, SLICE("s499")), UINT32_MAX);
	cr_expect_eq(intern_find(&in, SLICE("s500")), 500);
	for (unsigned i = 0; i < 999; i++) {
		uint32_t number = use(&in, 5000 + i);

		cr_assert_lt(number, 1000);
		cr_assert_neq(number, 500);
	}
	cr_expect_eq(use(&in, 9000), 1000);
	cr_expect_eq(intern_find(&in, SLICE("s500")), 500);
	intern_release(&in);
}
