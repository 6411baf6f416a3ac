/* Days and dates of the proleptic Gregorian calendar (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms"). */
#pragma once

#include <stdint.h>

struct civil_date {
	int64_t year;
	int month; /* 1–12 */
	int day;   /* 1–31 */
};

/* Days since 1970-01-01. */
int64_t civil_days(struct civil_date date);
struct civil_date civil_date(int64_t days);
int civil_days_of_month(int64_t year, int month);
