/*
 * A time zone as its TZif file says it (RFC 9636): which offset from UTC holds at an instant. Reads the 64-bit
 * block and the footer's rule for the time after it; leap seconds are refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

/* When the offset changes each year: a day, and a time of it by the clock that holds until then. */
struct tzif_change {
	enum { TZIF_MONTH_WEEK_DAY, TZIF_JULIAN, TZIF_DAY_OF_YEAR } kind;
	int month, week, day;
	int32_t time_s;
};

struct tzif_rule {
	int32_t standard_s, summer_s; /* east of UTC is positive */
	bool has_summer;
	struct tzif_change begin, end; /* of summer time */
};

struct tzif {
	const char *times, *indices, *types; /* within the file's bytes */
	uint32_t n_times, n_types;
	struct tzif_rule rule;
	bool has_rule;
};

/* `file` is borrowed for as long as *ret_tz is used. KOVA_EPROTO: not such a file. */
KOVA_MUST_CHECK kova_status tzif_parse(struct slice file, struct tzif *ret_tz);

/* Seconds to add to UTC at `at_s` (seconds since the epoch) for local time. */
int32_t tzif_offset_s(const struct tzif *tz, int64_t at_s);
