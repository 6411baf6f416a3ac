#include "io/calendar_zone.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/buf.h"
#include "core/civil.h"
#include "core/divide.h"
#include "core/tzif.h"
#include "io/file.h"

#define ZONE_DIRECTORY "/usr/share/zoneinfo/"

enum {
	HOUR_S = 3600,
	DAY_S = 24 * HOUR_S,
	BEFORE_S =
		4 * 31 * DAY_S, /* three months: windows before the one of now, whatever the unit */
	AHEAD_S = 10 * 366 * DAY_S, /* about ten years */
	ZONE_NAME_MAX = 64,
	ZONE_FILE_MAX = 1 << 16,
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

/* A name that cannot lead out of the database's directory. */
static bool name_valid(const char *zone)
{
	size_t len = strlen(zone);

	if (len == 0 || len > ZONE_NAME_MAX || zone[0] == '/' || strstr(zone, "..") != NULL)
		return false;
	return strspn(zone,
		      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-_/.") == len;
}

/* What is known of a zone while its edges are computed. */
struct source {
	struct buf file; /* empty for UTC, which needs no database */
	struct tzif tz;
};

/* KOVA_ENOTFOUND: there is no such zone. */
static kova_status source_open(const char *zone, struct source *s)
{
	char path[sizeof ZONE_DIRECTORY + ZONE_NAME_MAX];

	*s = (struct source){0};
	if (strcmp(zone, "UTC") == 0)
		return KOVA_OK;
	if (!name_valid(zone))
		return KOVA_ENOTFOUND;
	snprintf(path, sizeof path, ZONE_DIRECTORY "%s", zone);
	kova_status status = file_read(path, ZONE_FILE_MAX, &s->file);

	if (status == KOVA_EIO ||
	    (status == KOVA_OK && tzif_parse(buf_slice(&s->file), &s->tz) != KOVA_OK))
		status = KOVA_ENOTFOUND;
	if (status != KOVA_OK)
		buf_release(&s->file);
	return status;
}

/* The local date of `at_s`, in days since the epoch. */
static int64_t date_of(const struct source *s, int64_t at_s)
{
	int32_t offset_s = s->file.len > 0 ? tzif_offset_s(&s->tz, at_s) : 0;

	return divide_down(at_s + offset_s, DAY_S);
}

/* The first instant in (from_s, to_s] with another date than `from_s`, which must be `to_s`'s. */
static int64_t date_change(const struct source *s, int64_t from_s, int64_t to_s)
{
	int64_t date = date_of(s, from_s);

	while (to_s - from_s > 1) {
		int64_t middle = from_s + (to_s - from_s) / 2;

		if (date_of(s, middle) == date)
			from_s = middle;
		else
			to_s = middle;
	}
	return to_s;
}

/* Where the date after `from_s`'s begins, looked for from `try_s` on. */
static int64_t next_date(const struct source *s, int64_t from_s, int64_t try_s)
{
	int64_t date = date_of(s, from_s);

	while (date_of(s, try_s) == date) {
		from_s = try_s;
		try_s += HOUR_S;
	}
	return date_change(s, from_s, try_s);
}

/*
 * Where the day after the one that began at `begin_s` begins. Usually 24 hours later; else it is looked for from
 * 20 hours on, for until then no zone's clock has ever reached the next date.
 */
static int64_t day_end(const struct source *s, int64_t begin_s)
{
	int64_t guess = begin_s + DAY_S, date = date_of(s, begin_s);

	if (date_of(s, guess) != date && date_of(s, guess - 1) == date)
		return guess;
	return next_date(s, begin_s, begin_s + 20 * HOUR_S);
}

/* A number that grows with the window of `unit` that `day` (days since the epoch, a Thursday) is in. */
static int64_t window_of(enum calendar_unit unit, int64_t day)
{
	if (unit == CALENDAR_WEEK)
		return divide_down(day + 3, 7);
	if (unit == CALENDAR_DAY)
		return day;
	struct civil_date date = civil_date(day);

	return date.year * 12 + date.month;
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

/* From the last edge at or before `from_s` to the first after `to_s`. */
static bool edges_walk(const struct source *s, enum calendar_unit unit, int64_t from_s,
		       int64_t to_s, struct edges *e)
{
	/* A month and two days earlier, so that a window that began before `from_s` is seen. */
	int64_t before = from_s - 33 * DAY_S, at = next_date(s, before, before + HOUR_S);

	for (;; before = at, at = day_end(s, at)) {
		if (window_of(unit, date_of(s, before)) == window_of(unit, date_of(s, at)))
			continue;
		if (at <= from_s)
			e->n = 0;
		if (!edges_add(e, at))
			return false;
		if (at > to_s)
			return true;
	}
}

/* *ret_first: the number of the first window. */
static kova_status compute(enum calendar_unit unit, const char *zone, int64_t from_s, int64_t to_s,
			   uint64_t **ret_edges, uint32_t *ret_n, uint32_t *ret_first)
{
	struct source source;
	struct edges e = {0};
	kova_status status = source_open(zone, &source);

	if (status != KOVA_OK)
		return status;
	bool done = edges_walk(&source, unit, from_s, to_s, &e);

	if (done)
		*ret_first =
			(uint32_t)window_of(unit, date_of(&source, (int64_t)(e.us[0] / 1000000)));
	buf_release(&source.file);
	if (!done) {
		free(e.us);
		return KOVA_ENOMEM;
	}
	*ret_edges = e.us;
	*ret_n = e.n;
	return KOVA_OK;
}

kova_status calendar_zone_compute(enum calendar_unit unit, const char *zone, int64_t from_s,
				  int64_t to_s, uint64_t **ret_edges, uint32_t *ret_n)
{
	uint32_t first;

	return compute(unit, zone, from_s, to_s, ret_edges, ret_n, &first);
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
	uint32_t first;
	int64_t now = (int64_t)time(NULL);

	if (z == NULL)
		return KOVA_ENOMEM;
	kova_status status =
		compute(unit, name, now - BEFORE_S, now + AHEAD_S, &us, &z->edges.n, &first);

	if (status != KOVA_OK) {
		free(z);
		return status;
	}
	z->edges.edge_us = us;
	z->edges.first = first;
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
