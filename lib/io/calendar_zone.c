#include "io/calendar_zone.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ZONE_DIRECTORY "/usr/share/zoneinfo/"

enum {
	HOUR_S = 3600,
	DAY_S = 24 * HOUR_S,
	BEFORE_S = 4 * 31 * DAY_S,     /* three months: windows before the one of now, whatever the unit */
	AHEAD_S = 10 * 366 * DAY_S,    /* about ten years */
	ZONE_NAME_MAX = 64,
};

/* One interned (unit, zone). Entries live as long as the process, for limits borrow their edges. */
struct zone {
	struct zone *next;
	enum calendar_unit unit;
	char name[ZONE_NAME_MAX + 1];
	struct calendar_edges edges;
};

static struct zone *zones;
static pthread_mutex_t zones_lock = PTHREAD_MUTEX_INITIALIZER;

/* A name of the database, which cannot lead out of its directory. Zones with leap seconds do not count as we do. */
static bool name_valid(const char *zone)
{
	size_t len = strlen(zone);

	if (len == 0 || len > ZONE_NAME_MAX || zone[0] == '/' || strstr(zone, "..") != NULL ||
	    strncmp(zone, "right/", 6) == 0)
		return false;
	return strspn(zone, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_/.") ==
	       len;
}

/* The value of TZ for `zone`; false: there is no such zone. UTC needs no database. */
static bool zone_setting(const char *zone, char *ret_setting, size_t size)
{
	char magic[4] = "";

	if (strcmp(zone, "UTC") == 0) {
		snprintf(ret_setting, size, "UTC0");
		return true;
	}
	if (!name_valid(zone))
		return false;
	snprintf(ret_setting, size, ":" ZONE_DIRECTORY "%s", zone);
	FILE *f = fopen(ret_setting + 1, "re");

	if (f == NULL)
		return false;
	bool valid = fread(magic, 1, sizeof magic, f) == sizeof magic &&
		     memcmp(magic, "TZif", sizeof magic) == 0;

	fclose(f);
	return valid;
}

static struct tm local(int64_t at_s)
{
	time_t t = (time_t)at_s;
	struct tm tm = {0};

	localtime_r(&t, &tm);
	return tm;
}

/* A number that grows with the local date of `at_s`. */
static int64_t date_of(int64_t at_s)
{
	struct tm tm = local(at_s);

	return ((int64_t)tm.tm_year * 12 + tm.tm_mon) * 32 + tm.tm_mday;
}

/* The first instant in (from_s, to_s] with another date than `from_s`, which must be `to_s`'s. */
static int64_t date_change(int64_t from_s, int64_t to_s)
{
	int64_t date = date_of(from_s);

	while (to_s - from_s > 1) {
		int64_t middle = from_s + (to_s - from_s) / 2;

		if (date_of(middle) == date)
			from_s = middle;
		else
			to_s = middle;
	}
	return to_s;
}

/* Where the date after `from_s`'s begins, looked for from `try_s` on. */
static int64_t next_date(int64_t from_s, int64_t try_s)
{
	int64_t date = date_of(from_s);

	while (date_of(try_s) == date) {
		from_s = try_s;
		try_s += HOUR_S;
	}
	return date_change(from_s, try_s);
}

/*
 * Where the day after the one that began at `begin_s` begins. Usually 24 hours later; else it is looked for from
 * 20 hours on, for until then no zone's clock has ever reached the next date.
 */
static int64_t day_end(int64_t begin_s)
{
	int64_t guess = begin_s + DAY_S, date = date_of(begin_s);

	if (date_of(guess) != date && date_of(guess - 1) == date)
		return guess;
	return next_date(begin_s, begin_s + 20 * HOUR_S);
}

/* Whether a window of `unit` begins with the day that begins at `at_s`, the day before began at `before_s`. */
static bool window_begins(enum calendar_unit unit, int64_t before_s, int64_t at_s)
{
	struct tm before = local(before_s), at = local(at_s);

	switch (unit) {
	case CALENDAR_DAY:
		return true;
	case CALENDAR_WEEK:
		/* Days since Monday fall; also where Monday itself was left out of the calendar. */
		return (at.tm_wday + 6) % 7 < (before.tm_wday + 6) % 7;
	case CALENDAR_MONTH:
		return at.tm_mon != before.tm_mon;
	}
	return false;
}

struct edges {
	uint64_t *us;
	uint32_t n, room;
};

static bool edges_add(struct edges *e, int64_t at_s)
{
	if (e->n == e->room) {
		uint32_t room = e->room == 0 ? 64 : e->room * 2;
		uint64_t *us = realloc(e->us, room * sizeof *us);

		if (us == NULL)
			return false;
		e->us = us;
		e->room = room;
	}
	e->us[e->n++] = (uint64_t)at_s * 1000000;
	return true;
}

/* The edges by the C library's present zone: the last at or before `from_s` to the first after `to_s`. */
static bool edges_walk(enum calendar_unit unit, int64_t from_s, int64_t to_s, struct edges *e)
{
	/* A month and two days earlier, so that a window that began before `from_s` is seen. */
	int64_t before = from_s - 33 * DAY_S, at;

	for (at = next_date(before, before + HOUR_S);; at = day_end(at)) {
		if (window_begins(unit, before, at)) {
			if (at <= from_s)
				e->n = 0;
			if (!edges_add(e, at))
				return false;
			if (at > to_s)
				return true;
		}
		before = at;
	}
}

static void zone_restore(const char *before)
{
	if (before != NULL)
		setenv("TZ", before, 1);
	else
		unsetenv("TZ");
	tzset();
}

kova_status calendar_zone_compute(enum calendar_unit unit, const char *zone, int64_t from_s,
				  int64_t to_s, uint64_t **ret_edges, uint32_t *ret_n)
{
	char setting[sizeof ZONE_DIRECTORY + ZONE_NAME_MAX + 2];
	const char *tz = getenv("TZ");
	char *before = tz != NULL ? strdup(tz) : NULL;
	struct edges e = {0};

	if (!zone_setting(zone, setting, sizeof setting)) {
		free(before);
		return KOVA_ENOTFOUND;
	}
	bool done = (tz == NULL || before != NULL) && setenv("TZ", setting, 1) == 0;

	if (done) {
		tzset();
		done = edges_walk(unit, from_s, to_s, &e);
		zone_restore(before);
	}
	free(before);
	if (!done) {
		free(e.us);
		return KOVA_ENOMEM;
	}
	*ret_edges = e.us;
	*ret_n = e.n;
	return KOVA_OK;
}

static struct zone *zone_find(enum calendar_unit unit, const char *name)
{
	for (struct zone *z = zones; z != NULL; z = z->next)
		if (z->unit == unit && strcmp(z->name, name) == 0)
			return z;
	return NULL;
}

static kova_status zone_intern(enum calendar_unit unit, const char *name)
{
	struct zone *z = calloc(1, sizeof *z);
	uint64_t *us = NULL;
	int64_t now = (int64_t)time(NULL);

	if (z == NULL)
		return KOVA_ENOMEM;
	kova_status status =
		calendar_zone_compute(unit, name, now - BEFORE_S, now + AHEAD_S, &us, &z->edges.n);

	if (status != KOVA_OK) {
		free(z);
		return status;
	}
	z->edges.edge_us = us;
	z->unit = unit;
	snprintf(z->name, sizeof z->name, "%s", name);
	z->next = zones;
	zones = z;
	return KOVA_OK;
}

kova_status calendar_zone_edges(enum calendar_unit unit, const char *zone,
				struct calendar_edges *ret_edges)
{
	kova_status status = KOVA_OK;

	pthread_mutex_lock(&zones_lock);
	if (zone_find(unit, zone) == NULL)
		status = zone_intern(unit, zone);
	if (status == KOVA_OK)
		*ret_edges = zone_find(unit, zone)->edges;
	pthread_mutex_unlock(&zones_lock);
	return status;
}
