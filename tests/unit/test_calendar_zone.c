#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "core/calendar.h"
#include "io/calendar_zone.h"

/* Seconds since the epoch of a time in UTC. */
static int64_t utc(int year, int month, int day, int hour, int minute)
{
	struct tm tm = {.tm_year = year - 1900,
			.tm_mon = month - 1,
			.tm_mday = day,
			.tm_hour = hour,
			.tm_min = minute};

	return timegm(&tm);
}

struct edges {
	uint64_t *us;
	uint32_t n;
};

static struct edges compute(enum calendar_unit unit, const char *zone, int64_t from, int64_t to)
{
	struct edges e;

	cr_assert_eq(calendar_zone_compute(unit, zone, from, to, &e.us, &e.n), KOVA_OK, "%s", zone);
	cr_assert_geq(e.n, 2);
	cr_expect_leq(e.us[0], (uint64_t)from * 1000000);
	cr_expect_gt(e.us[1], (uint64_t)from * 1000000);
	cr_expect_gt(e.us[e.n - 1], (uint64_t)to * 1000000);
	return e;
}

/* The window that holds `at` begins and ends at these seconds. */
static void window_is(enum calendar_unit unit, const char *zone, int64_t at, int64_t begin,
		      int64_t end)
{
	struct edges e = compute(unit, zone, at, at);

	cr_expect_eq(e.us[0], (uint64_t)begin * 1000000, "%s begins %lld s late", zone,
		     (long long)(e.us[0] / 1000000) - (long long)begin);
	cr_expect_eq(e.us[1], (uint64_t)end * 1000000, "%s ends %lld s late", zone,
		     (long long)(e.us[1] / 1000000) - (long long)end);
	free(e.us);
}

Test(calendar_zone, utc_days_weeks_and_months)
{
	int64_t at = utc(2026, 11, 30, 10, 20); /* a Monday */

	window_is(CALENDAR_DAY, "UTC", at, utc(2026, 11, 30, 0, 0), utc(2026, 12, 1, 0, 0));
	window_is(CALENDAR_WEEK, "UTC", at, utc(2026, 11, 30, 0, 0), utc(2026, 12, 7, 0, 0));
	window_is(CALENDAR_WEEK, "Etc/UTC", at - 86400, utc(2026, 11, 23, 0, 0),
		  utc(2026, 11, 30, 0, 0));
	window_is(CALENDAR_MONTH, "UTC", at, utc(2026, 11, 1, 0, 0), utc(2026, 12, 1, 0, 0));
	window_is(CALENDAR_MONTH, "UTC", utc(2028, 2, 29, 23, 59), utc(2028, 2, 1, 0, 0),
		  utc(2028, 3, 1, 0, 0));
}

Test(calendar_zone, an_edge_belongs_to_the_window_that_it_begins)
{
	int64_t edge = utc(2027, 1, 1, 0, 0);

	window_is(CALENDAR_DAY, "UTC", edge, edge, edge + 86400);
	window_is(CALENDAR_DAY, "UTC", edge - 1, edge - 86400, edge);
}

Test(calendar_zone, berlin_has_days_of_23_and_25_hours)
{
	window_is(CALENDAR_DAY, "Europe/Berlin", utc(2026, 3, 29, 12, 0), utc(2026, 3, 28, 23, 0),
		  utc(2026, 3, 29, 22, 0));
	window_is(CALENDAR_DAY, "Europe/Berlin", utc(2026, 10, 25, 12, 0), utc(2026, 10, 24, 22, 0),
		  utc(2026, 10, 25, 23, 0));
	window_is(CALENDAR_WEEK, "Europe/Berlin", utc(2026, 3, 29, 12, 0), utc(2026, 3, 22, 23, 0),
		  utc(2026, 3, 29, 22, 0));
	window_is(CALENDAR_MONTH, "Europe/Berlin", utc(2026, 10, 25, 12, 0),
		  utc(2026, 9, 30, 22, 0), utc(2026, 10, 31, 23, 0));
}

/* Until 2018 summer began at midnight there: that day's first instant was 01:00. */
Test(calendar_zone, sao_paulo_had_days_without_a_midnight)
{
	window_is(CALENDAR_DAY, "America/Sao_Paulo", utc(2018, 11, 4, 12, 0),
		  utc(2018, 11, 4, 3, 0), utc(2018, 11, 5, 2, 0));
	/* And it ended at midnight: the day before had 25 hours, its last hour twice. */
	window_is(CALENDAR_DAY, "America/Sao_Paulo", utc(2018, 2, 17, 12, 0),
		  utc(2018, 2, 17, 2, 0), utc(2018, 2, 18, 3, 0));
}

Test(calendar_zone, offsets_that_are_no_whole_hours)
{
	window_is(CALENDAR_DAY, "Asia/Kathmandu", utc(2026, 6, 1, 12, 0), utc(2026, 5, 31, 18, 15),
		  utc(2026, 6, 1, 18, 15));
	/* Lord Howe's clocks move by half an hour. */
	window_is(CALENDAR_DAY, "Australia/Lord_Howe", utc(2026, 4, 4, 20, 0),
		  utc(2026, 4, 4, 13, 0), utc(2026, 4, 5, 13, 30));
	window_is(CALENDAR_DAY, "Australia/Lord_Howe", utc(2026, 10, 3, 20, 0),
		  utc(2026, 10, 3, 13, 30), utc(2026, 10, 4, 13, 0));
}

/* Samoa left out Friday, 30 December 2011; its week was six days long. */
Test(calendar_zone, apia_left_out_a_day)
{
	window_is(CALENDAR_DAY, "Pacific/Apia", utc(2011, 12, 30, 9, 59), utc(2011, 12, 29, 10, 0),
		  utc(2011, 12, 30, 10, 0));
	window_is(CALENDAR_DAY, "Pacific/Apia", utc(2011, 12, 30, 10, 0), utc(2011, 12, 30, 10, 0),
		  utc(2011, 12, 31, 10, 0));
	window_is(CALENDAR_WEEK, "Pacific/Apia", utc(2011, 12, 30, 12, 0), utc(2011, 12, 26, 10, 0),
		  utc(2012, 1, 1, 10, 0));
}

/* Every zone that changes anything near midnight, over years: edges ascend, and each is where the date changes. */
Test(calendar_zone, every_edge_is_a_change_of_date)
{
	static const char *const zones[] = {
		"Europe/Berlin",    "America/Sao_Paulo", "Africa/Cairo",
		"Asia/Beirut",      "America/Havana",    "Asia/Tehran",
		"America/St_Johns", "Atlantic/Azores",   "America/Nuuk"};

	for (size_t z = 0; z < sizeof zones / sizeof zones[0]; z++) {
		struct edges e = compute(CALENDAR_DAY, zones[z], utc(2005, 1, 1, 0, 0),
					 utc(2035, 1, 1, 0, 0));

		setenv("TZ", zones[z], 1);
		tzset();
		for (uint32_t i = 0; i < e.n; i++) {
			time_t at = (time_t)(e.us[i] / 1000000), before = at - 1;
			struct tm now, then;

			localtime_r(&at, &now);
			localtime_r(&before, &then);
			cr_assert_neq(now.tm_mday, then.tm_mday, "%s %lld", zones[z],
				      (long long)at);
			if (i > 0)
				cr_assert(e.us[i] - e.us[i - 1] >= UINT64_C(22) * 3600000000 &&
						  e.us[i] - e.us[i - 1] <=
							  UINT64_C(26) * 3600000000,
					  "%s %lld", zones[z], (long long)at);
		}
		free(e.us);
	}
}

Test(calendar_zone, unknown_names)
{
	static const char *const names[] = {"",
					    "Europe/Berln",
					    "/etc/localtime",
					    "../../../etc/localtime",
					    "Europe/../../../../etc/passwd",
					    "Europe",
					    "tzdata.zi",
					    "right/Europe/Berlin",
					    "Europe/Berlin\n",
					    "CET-1CEST"};
	struct calendar_edges e;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		cr_expect_eq(calendar_zone_edges(CALENDAR_DAY, names[i], &e), KOVA_ENOTFOUND, "%s",
			     names[i]);
}

Test(calendar_zone, interned_from_before_now_to_ten_years_ahead)
{
	struct calendar_edges a, b, c;
	uint64_t now = (uint64_t)time(NULL) * 1000000, day = UINT64_C(86400000000);

	cr_assert_eq(calendar_zone_edges(CALENDAR_MONTH, "Europe/Berlin", &a), KOVA_OK);
	cr_assert_eq(calendar_zone_edges(CALENDAR_MONTH, "Europe/Berlin", &b), KOVA_OK);
	cr_assert_eq(calendar_zone_edges(CALENDAR_WEEK, "Europe/Berlin", &c), KOVA_OK);
	cr_expect_eq(a.edge_us, b.edge_us);
	cr_expect_neq(a.edge_us, c.edge_us);
	cr_expect_gt(a.edge_us[a.n - 1], now + 3650 * day);
	cr_expect_lt(a.edge_us[2], now, "at least two whole windows before the one of now");
}

Test(calendar_zone, windows_are_numbered_from_the_epoch_on)
{
	static const uint64_t second = 1000000, day = 86400;
	static const enum calendar_unit units[] = {CALENDAR_DAY, CALENDAR_WEEK, CALENDAR_MONTH};
	struct calendar_edges e;

	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(calendar_zone_edges(units[i], "Pacific/Auckland", &e), KOVA_OK);
		for (uint32_t n = 0; n < e.n; n++)
			cr_assert_eq(calendar_window_number(&e, e.edge_us[n]), e.first + n);
		cr_expect_eq(calendar_window_number(&e, e.edge_us[3] + 1), 0);
	}
	cr_assert_eq(calendar_zone_edges(CALENDAR_DAY, "UTC", &e), KOVA_OK);
	cr_expect_eq(e.first, e.edge_us[0] / second / day);
	cr_assert_eq(calendar_zone_edges(CALENDAR_WEEK, "UTC", &e), KOVA_OK);
	cr_expect_eq(e.first, (e.edge_us[0] / second / day + 3) / 7);
}

Test(calendar_zone, the_process_keeps_its_own_zone)
{
	time_t at = utc(2026, 7, 1, 0, 0);
	struct tm tm;

	setenv("TZ", "Asia/Tokyo", 1);
	tzset();
	free(compute(CALENDAR_DAY, "Europe/Berlin", at, at).us);
	cr_expect_str_eq(getenv("TZ"), "Asia/Tokyo");
	localtime_r(&at, &tm);
	cr_expect_eq(tm.tm_hour, 9);
	unsetenv("TZ");
	tzset();
	free(compute(CALENDAR_DAY, "Europe/Berlin", at, at).us);
	cr_expect_null(getenv("TZ"));
}
