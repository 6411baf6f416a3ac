#include "core/civil.h"

#include "core/divide.h"

/* Years begin in March here, so that the leap day is the last of its year; an era is 400 of them. */
int64_t civil_days(struct civil_date date)
{
	int64_t year = date.year - (date.month <= 2);
	int64_t era = divide_down(year, 400), of_era = year - era * 400;
	int64_t of_year = (153 * (date.month + (date.month > 2 ? -3 : 9)) + 2) / 5 + date.day - 1;

	return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct civil_date civil_date(int64_t days)
{
	int64_t since_march = days + 719468;
	int64_t era = divide_down(since_march, 146097), of_era = since_march - era * 146097;
	int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
	int month = (int)((5 * of_year + 2) / 153);

	return (struct civil_date){
		.year = year + era * 400 + (month >= 10),
		.month = month < 10 ? month + 3 : month - 9,
		.day = (int)(of_year - (153 * month + 2) / 5 + 1),
	};
}

int civil_days_of_month(int64_t year, int month)
{
	static const signed char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 ? leap : 0);
}
