/*
 * Edges of calendar windows (days, weeks that begin on Monday, months) in a time zone of the IANA database
 * (/usr/share/zoneinfo). A day begins at the first instant of its local date, so days of 23 and 25 hours and
 * days whose midnight does not exist are right.
 */
#pragma once

#include <stdint.h>

#include "core/limit.h"
#include "core/status.h"

enum calendar_unit { CALENDAR_DAY, CALENDAR_WEEK, CALENDAR_MONTH };

/*
 * The edges from some windows before now to about ten years ahead, numbered from the epoch on; made once a process for each unit and zone, and
 * never freed: a changed time zone database is seen after a restart. KOVA_ENOTFOUND: no such zone; KOVA_ENOMEM.
 * Any thread. Neither uses nor changes the process's own time zone.
 */
KOVA_MUST_CHECK kova_status calendar_zone_edges(enum calendar_unit unit, const char *zone,
						struct calendar_edges *ret_edges);

/*
 * Writes the edges of the windows that touch [from_s, to_s] (seconds since the epoch), in µs, ascending, to
 * *ret_edges (owned by the caller: free()). Not interned.
 */
KOVA_MUST_CHECK kova_status calendar_zone_compute(enum calendar_unit unit, const char *zone,
						  int64_t from_s, int64_t to_s,
						  uint64_t **ret_edges, uint32_t *ret_n);
