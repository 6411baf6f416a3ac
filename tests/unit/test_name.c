#include <criterion/criterion.h>

#include "core/name.h"

Test(name, letters_digits_and_three_marks)
{
	static const char *const good[] = {
		"a",
		"Z",
		"0",
		".",
		"_",
		"-",
		"captcha-submit",
		"eu_west.1",
		"0123456789012345678901234567890123456789012345678901234567890123"};
	static const char *const bad[] = {
		"",
		" ",
		"a b",
		"a/b",
		"a:b",
		"a{b",
		"caf\xc3\xa9",
		"a\n",
		"01234567890123456789012345678901234567890123456789012345678901234"};

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		cr_expect(name_is_valid(slice_of(good[i])), "%s", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_expect_not(name_is_valid(slice_of(bad[i])), "%s", bad[i]);
	cr_expect_not(name_is_valid(SLICE("a\0b")));
}
