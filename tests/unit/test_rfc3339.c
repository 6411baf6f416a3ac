#include <criterion/criterion.h>

#include "core/rfc3339.h"

Test(rfc3339, any_form_is_read)
{
	static const struct {
		const char *text;
		int64_t ms;
	} good[] = {{"1970-01-01T00:00:00Z", 0},
		    {"2027-01-31T18:00:00Z", INT64_C(1801418400000)},
		    {"2027-01-31t18:00:00.5z", INT64_C(1801418400500)},
		    {"2027-01-31T18:00:00.1239+01:00", INT64_C(1801414800123)},
		    {"2027-01-31 18:00:00-00:30", INT64_C(1801420200000)},
		    {"2028-02-29T23:59:59Z", INT64_C(1835481599000)},
		    {"1969-12-31T23:59:59Z", -1000},
		    {"2016-12-31T23:59:60Z", INT64_C(1483228800000)}};
	static const char *const bad[] = {"",
					  "2027-01-31",
					  "2027-01-31T18:00:00",
					  "2027-02-29T18:00:00Z",
					  "2027-13-01T18:00:00Z",
					  "2027-00-01T18:00:00Z",
					  "2027-01-31T24:00:00Z",
					  "2027-01-31T18:60:00Z",
					  "2027-01-31T18:00:00.Z",
					  "2027-01-31T18:00:00+1:00",
					  "2027-01-31T18:00:00+24:00",
					  "2027-01-31T18:00:00Zx",
					  "27-01-31T18:00:00Z",
					  "1801418400"};
	int64_t ms;

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
		cr_expect(rfc3339_parse(slice_of(good[i].text), &ms), "%s", good[i].text);
		cr_expect_eq(ms, good[i].ms, "%s: %lld", good[i].text, (long long)ms);
	}
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_expect_not(rfc3339_parse(slice_of(bad[i]), &ms), "%s", bad[i]);
}

Test(rfc3339, what_is_written_is_read)
{
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {{0, "1970-01-01T00:00:00.000Z"},
		     {-1, "1969-12-31T23:59:59.999Z"},
		     {INT64_C(1801418400500), "2027-01-31T18:00:00.500Z"},
		     {INT64_C(1835481599007), "2028-02-29T23:59:59.007Z"},
		     {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"}};
	char text[RFC3339_TEXT_MAX];
	int64_t ms;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		rfc3339_write(cases[i].ms, text);
		cr_expect_str_eq(text, cases[i].text);
		cr_expect(rfc3339_parse(slice_of(text), &ms));
		cr_expect_eq(ms, cases[i].ms, "%s", text);
	}
}
