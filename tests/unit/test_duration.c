#include <criterion/criterion.h>

#include "core/duration.h"

static uint64_t parsed(const char *text)
{
	uint64_t ms = UINT64_MAX;

	cr_assert_eq(duration_parse(slice_of(text), &ms), KOVA_OK, "%s", text);
	return ms;
}

Test(duration, every_unit)
{
	cr_assert_eq(parsed("250ms"), 250);
	cr_assert_eq(parsed("0ms"), 0);
	cr_assert_eq(parsed("10s"), 10000);
	cr_assert_eq(parsed("5m"), 300000);
	cr_assert_eq(parsed("1h"), 3600000);
	cr_assert_eq(parsed("7d"), 7 * 86400000u);
	cr_assert_eq(parsed("007s"), 7000);
}

Test(duration, other_forms_are_refused_and_leave_the_result_alone)
{
	static const char *const bad[] = {"",     "s",    "10",  "-1s", "+1s",  "1.5s",
					  " 1s",  "1s ",  "1 s", "1S",  "1sec", "1e3s",
					  "0x1s", "1s1s", "ms",  "5m5s"};
	uint64_t ms = 42;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_assert_eq(duration_parse(slice_of(bad[i]), &ms), KOVA_EPROTO, "\"%s\"", bad[i]);
	cr_assert_eq(ms, 42);
}

Test(duration, what_does_not_fit_is_out_of_range)
{
	uint64_t ms;

	cr_assert_eq(duration_parse(SLICE("99999999999999999999999ms"), &ms), KOVA_ERANGE);
	cr_assert_eq(duration_parse(SLICE("106751991168d"), &ms), KOVA_ERANGE);
	cr_assert_eq(parsed("106751991167d"), UINT64_C(106751991167) * 86400000);
}

static void expect(uint64_t ms, const char *text)
{
	char written[DURATION_TEXT_MAX];

	duration_write_rounded(ms, written);
	cr_assert_str_eq(written, text, "%llu ms: %s, not %s", (unsigned long long)ms, written,
			 text);
}

Test(duration, people_read_two_units_rounded_up)
{
	expect(0, "0ms");
	expect(999, "999ms");
	expect(1000, "1s");
	expect(1001, "1.1s");
	expect(59900, "59.9s");
	expect(59901, "1m");
	expect(60000, "1m");
	expect(60001, "1m 1s");
	expect(3599000, "59m 59s");
	expect(3599001, "1h");
	expect(3600001, "1h 1m");
	expect(86399999, "1d");
	expect(90000000, "1d 1h");
	expect(UINT64_C(400) * 86400000, "400d");
}

Test(duration, exact_text_comes_back_the_same)
{
	static const uint64_t lengths[] = {0,     1,     999,     1000,     1500,      60000,
					   61000, 90000, 3600000, 86400000, 604800000, 604800001};
	char text[DURATION_TEXT_MAX];

	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		duration_write(lengths[i], text);
		cr_assert_eq(parsed(text), lengths[i], "%s", text);
	}
	duration_write(90000, text);
	cr_assert_str_eq(text, "90s");
	duration_write(0, text);
	cr_assert_str_eq(text, "0ms");
}
