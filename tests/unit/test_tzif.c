#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/civil.h"
#include "core/tzif.h"

static char file[1 << 16];

static struct slice read_zone(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name);
	FILE *f = fopen(path, "r");

	if (f == NULL)
		return (struct slice){0};
	size_t n = fread(file, 1, sizeof file, f);

	fclose(f);
	return (struct slice){file, n};
}

static void same_as_the_c_library(const char *name, unsigned *seed)
{
	struct slice bytes = read_zone(name);
	struct tzif tz;

	if (bytes.len == 0)
		return; /* a table newer than the database */
	cr_assert_eq(tzif_parse(bytes, &tz), KOVA_OK, "%s", name);
	setenv("TZ", name, 1);
	tzset();
	for (int i = 0; i < 400; i++) {
		/* 1900 to 2110; every other time near a change that the file has. */
		time_t at = (time_t)-2208988800 + (time_t)((uint64_t)rand_r(seed) * 3);
		struct tm tm;

		if (i % 2 == 1 && tz.n_times > 0) {
			const unsigned char *t = (const unsigned char *)tz.times +
						 8 * ((unsigned)rand_r(seed) % tz.n_times);
			uint64_t v = 0;

			for (int b = 0; b < 8; b++)
				v = v << 8 | t[b];
			at = (time_t)v - 1 + i / 2 % 3;
		}
		if (at < -2208988800)
			continue;
		localtime_r(&at, &tm);
		cr_assert_eq(tzif_offset_s(&tz, at), tm.tm_gmtoff, "%s at %lld", name,
			     (long long)at);
	}
}

Test(tzif, every_zone_as_the_c_library_has_it)
{
	FILE *table = fopen("/usr/share/zoneinfo/zone1970.tab", "r");
	char line[512], name[64];
	unsigned seed = 3, n = 0;

	cr_assert_not_null(table);
	while (fgets(line, sizeof line, table) != NULL) {
		if (line[0] == '#' || sscanf(line, "%*s %*s %63s", name) != 1)
			continue;
		same_as_the_c_library(name, &seed);
		n++;
	}
	fclose(table);
	cr_expect_gt(n, 200);
	same_as_the_c_library("UTC", &seed);
	same_as_the_c_library("Etc/GMT+12", &seed);
}

/* A file of one type and no changes, so that all depends on its rule. */
static struct slice with_rule(const char *rule)
{
	static char made[512];
	static const char header[44] = "TZif2";
	size_t n = 0;

	for (int block = 0; block < 2; block++) {
		memcpy(made + n, header, sizeof header);
		made[n + 20 + 19] = 1; /* one type */
		n += sizeof header;
		memset(made + n, 0, 6);
		n += 6;
	}
	n += (size_t)snprintf(made + n, sizeof made - n, "\n%s\n", rule);
	return (struct slice){made, n};
}

/* The hours from UTC by a rule at a date and hour (UTC), as the C library also has it. */
static void rule_is(const char *rule, struct civil_date date, int hour, int32_t expected_s)
{
	struct tzif tz;
	time_t at = (time_t)(civil_days(date) * 86400 + hour * 3600);
	struct tm tm;

	cr_assert_eq(tzif_parse(with_rule(rule), &tz), KOVA_OK, "%s", rule);
	cr_expect_eq(tzif_offset_s(&tz, at), expected_s, "%s: %d", rule, tzif_offset_s(&tz, at));
	setenv("TZ", rule, 1);
	tzset();
	localtime_r(&at, &tm);
	cr_expect_eq(tm.tm_gmtoff, expected_s, "the C library on %s: %ld", rule, tm.tm_gmtoff);
}

Test(tzif, rules)
{
	rule_is("UTC0", (struct civil_date){2100, 6, 1}, 0, 0);
	rule_is("<+0545>-5:45", (struct civil_date){2100, 6, 1}, 0, 20700);
	rule_is("CET-1CEST,M3.5.0,M10.5.0/3", (struct civil_date){2099, 7, 1}, 0, 7200);
	rule_is("CET-1CEST,M3.5.0,M10.5.0/3", (struct civil_date){2099, 1, 1}, 0, 3600);
	rule_is("CET-1CEST,M3.5.0,M10.5.0/3", (struct civil_date){2099, 3, 29}, 0, 3600);
	rule_is("CET-1CEST,M3.5.0,M10.5.0/3", (struct civil_date){2099, 3, 29}, 1, 7200);
	/* The southern half: summer over the turn of the year. */
	rule_is("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", (struct civil_date){2099, 1, 1}, 0, 39600);
	rule_is("<+1030>-10:30<+11>-11,M10.1.0,M4.1.0", (struct civil_date){2099, 7, 1}, 0, 37800);
	rule_is("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", (struct civil_date){2099, 3, 29}, 0, -7200);
	rule_is("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", (struct civil_date){2099, 3, 29}, 1, -3600);
	rule_is("EST5EDT,J60/0,J300/0", (struct civil_date){2096, 2, 29}, 23, -18000);
	rule_is("EST5EDT,J60/0,J300/0", (struct civil_date){2096, 3, 1}, 5, -14400);
	rule_is("EST5EDT,59/0,300/0", (struct civil_date){2096, 2, 29}, 5, -14400);
}

Test(tzif, rules_that_are_none)
{
	static const char *const bad[] = {"X0",
					  "UTC",
					  "UTC99",
					  "<UTC0",
					  "CET-1CEST",
					  "CET-1CEST,M3.5.0",
					  "CET-1CEST,M13.5.0,M10.5.0",
					  "CET-1CEST,M3.6.0,M10.5.0",
					  "CET-1CEST,M3.5.7,M10.5.0",
					  "CET-1CEST,J0,J5",
					  "CET-1CEST,M3.5.0,M10.5.0x",
					  "CET-1CEST,366,5",
					  "CET-1CEST,M3.5.0/168,M10.5.0"};
	struct tzif tz;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_expect_eq(tzif_parse(with_rule(bad[i]), &tz), KOVA_EPROTO, "%s", bad[i]);
	cr_expect_eq(tzif_parse(with_rule(""), &tz), KOVA_OK, "no rule: the last type holds");
	cr_expect_eq(tzif_offset_s(&tz, 0), 0);
}

/* Cut off anywhere, it is no such file; with any byte changed nothing outside it is read (ASan watches). */
Test(tzif, damaged_files)
{
	struct slice bytes = read_zone("Europe/Berlin");
	unsigned seed = 5;
	struct tzif tz;

	cr_assert_gt(bytes.len, 100);
	for (size_t n = 0; n < bytes.len; n++) {
		char *cut = malloc(n + 1);

		memcpy(cut, bytes.ptr, n);
		cr_expect_eq(tzif_parse((struct slice){cut, n}, &tz), KOVA_EPROTO, "%zu bytes", n);
		free(cut);
	}
	for (int i = 0; i < 5000; i++) {
		char *changed = malloc(bytes.len);

		memcpy(changed, bytes.ptr, bytes.len);
		for (int k = 0; k < 3; k++)
			changed[(size_t)rand_r(&seed) % (k == 0 ? 44 : bytes.len)] =
				(char)rand_r(&seed);
		if (tzif_parse((struct slice){changed, bytes.len}, &tz) == KOVA_OK)
			for (int64_t at = -4000000000; at < 6000000000; at += 500000000)
				tzif_offset_s(&tz, at);
		free(changed);
	}
}

Test(tzif, dates_and_days)
{
	cr_expect_eq(civil_days((struct civil_date){1970, 1, 1}), 0);
	cr_expect_eq(civil_days((struct civil_date){2000, 2, 29}), 11016);
	for (int64_t day = -800000; day < 800000; day += 97) {
		struct civil_date date = civil_date(day);

		cr_assert_eq(civil_days(date), day);
		cr_assert(date.day <= civil_days_of_month(date.year, date.month));
	}
}
