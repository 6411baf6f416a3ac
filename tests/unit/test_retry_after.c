#include <criterion/criterion.h>

#include "core/retry_after.h"

#define SECOND UINT64_C(1000000)
#define NOW (UINT64_C(784111770) * SECOND) /* Sun, 06 Nov 1994 08:49:30 GMT */

static void check(const char *text, uint64_t now_us, kova_status status, uint64_t us)
{
	uint64_t got = 77;

	cr_assert_eq(retry_after_parse(slice_of(text), now_us, &got), status, "%s", text);
	cr_assert_eq(got, status == KOVA_OK ? us : 77, "%s: %lu", text, (unsigned long)got);
}

Test(retry_after, seconds)
{
	check("0", NOW, KOVA_OK, 0);
	check("120", NOW, KOVA_OK, 120 * SECOND);
	check(" 120\t", NOW, KOVA_OK, 120 * SECOND);
	check("2.0", NOW, KOVA_OK, 2 * SECOND);
	check("0.25", NOW, KOVA_OK, 250000);
	check("1.0000001", NOW, KOVA_OK, SECOND + 1);
	check("1.9999999", NOW, KOVA_OK, 2 * SECOND);
	check("1.00000000000", NOW, KOVA_OK, SECOND);
	check("86400", NOW, KOVA_OK, RETRY_AFTER_MAX_US);
	check("000000000000000000000000000007", NOW, KOVA_OK, 7 * SECOND);
	check("-0", NOW, KOVA_OK, 0);
}

Test(retry_after, seconds_out_of_range)
{
	check("-1", NOW, KOVA_ERANGE, 0);
	check("-0.5", NOW, KOVA_ERANGE, 0);
	check("86400.000001", NOW, KOVA_ERANGE, 0);
	check("99999999999999999999999999999999999999", NOW, KOVA_ERANGE, 0);
}

Test(retry_after, neither_seconds_nor_a_date)
{
	static const char *const wrong[] = {"",
					    " ",
					    "-",
					    ".5",
					    "5.",
					    "1,5",
					    "+5",
					    "5s",
					    "1e3",
					    "nan",
					    "inf",
					    "0x10",
					    "12 34",
					    "soon",
					    "--1",
					    "1.2.3",
					    "99999999999999999999x"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		check(wrong[i], NOW, KOVA_EPROTO, 0);
}

Test(retry_after, the_three_forms_of_a_date)
{
	check("Sun, 06 Nov 1994 08:49:37 GMT", NOW, KOVA_OK, 7 * SECOND);
	check("Sunday, 06-Nov-94 08:49:37 GMT", NOW, KOVA_OK, 7 * SECOND);
	check("Sun Nov  6 08:49:37 1994", NOW, KOVA_OK, 7 * SECOND);
	check(" Sun, 06 Nov 1994 08:49:37 GMT ", NOW + 1, KOVA_OK, 7 * SECOND - 1);
	check("Wed Nov 16 08:49:37 1994", NOW, KOVA_ERANGE, 0);
	check("Mon, 07 Nov 1994 08:49:30 GMT", NOW, KOVA_OK, RETRY_AFTER_MAX_US);
	check("Mon, 07 Nov 1994 08:49:31 GMT", NOW, KOVA_ERANGE, 0);
	check("Sun, 06 Nov 1994 08:49:60 GMT", NOW, KOVA_OK, 30 * SECOND); /* a leap second */
}

Test(retry_after, a_date_that_has_passed_asks_for_nothing)
{
	check("Sun, 06 Nov 1994 08:49:30 GMT", NOW, KOVA_OK, 0);
	check("Thu, 01 Jan 1970 00:00:00 GMT", NOW, KOVA_OK, 0);
	check("Tue, 01 Jan 1901 00:00:00 GMT", NOW, KOVA_OK, 0);
}

/* RFC 9110 section 5.6.7: more than 50 years ahead means the past. */
Test(retry_after, years_of_two_digits)
{
	uint64_t now_2026 = UINT64_C(1767225600) * SECOND; /* 2026-01-01 */

	check("Thursday, 01-Jan-26 00:01:00 GMT", now_2026, KOVA_OK, 60 * SECOND);
	check("Wednesday, 01-Jan-76 00:00:00 GMT", now_2026, KOVA_ERANGE, 0);
	check("Saturday, 01-Jan-77 00:00:00 GMT", now_2026, KOVA_OK, 0);
	check("Saturday, 01-Jan-00 00:00:00 GMT", now_2026, KOVA_OK, 0);
}

Test(retry_after, dates_that_are_none)
{
	static const char *const wrong[] = {
		"Sun, 31 Feb 1994 08:49:37 GMT",   "Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:49:37 GMT",   "Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:61 GMT",   "Sun, 06 Nov 1994 08:49:37",
		"Sun, 06 Nov 1994 08:49:37 CET",   "Sun, 6 Nov 1994 08:49:37 GMT",
		"Foo, 06 Nov 1994 08:49:37 GMT",   "Sun, 06 Foo 1994 08:49:37 GMT",
		"Sun Nov 6 08:49:37 1994",         "Sunday, 06-Nov-1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 GMT x", "1994-11-06T08:49:37Z"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		check(wrong[i], NOW, KOVA_EPROTO, 0);
}

Test(retry_after, every_prefix_is_an_error_or_a_number)
{
	static const char date[] = "Sunday, 06-Nov-94 08:49:37 GMT";
	uint64_t us;

	for (size_t len = 0; len + 1 < sizeof date; len++)
		cr_assert_eq(retry_after_parse((struct slice){date, len}, NOW, &us), KOVA_EPROTO);
}
