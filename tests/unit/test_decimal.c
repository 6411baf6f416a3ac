#include <criterion/criterion.h>

#include "core/decimal.h"

Test(decimal, digits_are_a_number)
{
	uint64_t value;

	cr_assert_eq(decimal_parse(SLICE("0"), 0, &value), KOVA_OK);
	cr_assert_eq(value, 0);
	cr_assert_eq(decimal_parse(SLICE("007"), 7, &value), KOVA_OK);
	cr_assert_eq(value, 7);
	cr_assert_eq(decimal_parse(SLICE("18446744073709551615"), UINT64_MAX, &value), KOVA_OK);
	cr_assert_eq(value, UINT64_MAX);
}

Test(decimal, what_is_too_large_is_out_of_range)
{
	uint64_t value = 42;

	cr_expect_eq(decimal_parse(SLICE("8"), 7, &value), KOVA_ERANGE);
	cr_expect_eq(decimal_parse(SLICE("10"), 7, &value), KOVA_ERANGE);
	cr_expect_eq(decimal_parse(SLICE("65536"), 65535, &value), KOVA_ERANGE);
	cr_expect_eq(decimal_parse(SLICE("18446744073709551616"), UINT64_MAX, &value), KOVA_ERANGE);
	cr_expect_eq(decimal_parse(SLICE("99999999999999999999999999"), UINT64_MAX, &value),
		     KOVA_ERANGE);
	cr_expect_eq(value, 42);
}

Test(decimal, anything_else_is_none)
{
	static const char *const bad[] = {
		"", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "99999999999999999999999x"};
	uint64_t value = 42;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_expect_eq(decimal_parse(slice_of(bad[i]), UINT64_MAX, &value), KOVA_EPROTO, "%s",
			     bad[i]);
	cr_expect_eq(value, 42);
}
