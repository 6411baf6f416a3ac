#include "core/tzif.h"

#include "core/civil.h"
#include "core/divide.h"

enum { HEADER_BYTES = 44, TYPE_BYTES = 6, DAY_S = 86400 };

/* ---- The footer: a TZ string (RFC 9636, 3.3; POSIX with hours up to 167) ---- */

static bool take_char(struct slice *s, char c)
{
	if (s->len == 0 || s->ptr[0] != c)
		return false;
	*s = (struct slice){s->ptr + 1, s->len - 1};
	return true;
}

static bool is_digit(const struct slice *s)
{
	return s->len > 0 && s->ptr[0] >= '0' && s->ptr[0] <= '9';
}

static bool take_number(struct slice *s, int min, int max, int *ret_value)
{
	int v = 0;

	if (!is_digit(s))
		return false;
	while (is_digit(s) && v <= max) {
		v = v * 10 + (s->ptr[0] - '0');
		*s = (struct slice){s->ptr + 1, s->len - 1};
	}
	*ret_value = v;
	return v >= min && v <= max;
}

/* A name of letters, or of anything within < >. */
static bool take_name(struct slice *s)
{
	size_t n = 0;

	if (take_char(s, '<')) {
		while (s->len > 0 && s->ptr[0] != '>')
			*s = (struct slice){s->ptr + 1, s->len - 1};
		return take_char(s, '>');
	}
	while (n < s->len && ((s->ptr[n] | 0x20) >= 'a' && (s->ptr[n] | 0x20) <= 'z'))
		n++;
	*s = (struct slice){s->ptr + n, s->len - n};
	return n >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct slice *s, int max_hours, int32_t *ret_s)
{
	int h, m = 0, sec = 0;
	bool negative = take_char(s, '-');

	if (!negative)
		take_char(s, '+');
	if (!take_number(s, 0, max_hours, &h))
		return false;
	if (take_char(s, ':') && !take_number(s, 0, 59, &m))
		return false;
	if (take_char(s, ':') && !take_number(s, 0, 59, &sec))
		return false;
	*ret_s = (h * 3600 + m * 60 + sec) * (negative ? -1 : 1);
	return true;
}

/* Mm.w.d, Jn or n, and [/time]. */
static bool take_change(struct slice *s, struct tzif_change *ret_change)
{
	struct tzif_change c = {.kind = TZIF_DAY_OF_YEAR, .time_s = 2 * 3600};

	if (take_char(s, 'M')) {
		c.kind = TZIF_MONTH_WEEK_DAY;
		if (!take_number(s, 1, 12, &c.month) || !take_char(s, '.') ||
		    !take_number(s, 1, 5, &c.week) || !take_char(s, '.') ||
		    !take_number(s, 0, 6, &c.day))
			return false;
	} else if (take_char(s, 'J')) {
		c.kind = TZIF_JULIAN;
		if (!take_number(s, 1, 365, &c.day))
			return false;
	} else if (!take_number(s, 0, 365, &c.day)) {
		return false;
	}
	if (take_char(s, '/') && !take_time(s, 167, &c.time_s))
		return false;
	*ret_change = c;
	return true;
}

static bool parse_rule(struct slice s, struct tzif_rule *ret_rule)
{
	struct tzif_rule r = {0};

	if (!take_name(&s) || !take_time(&s, 24, &r.standard_s))
		return false;
	r.standard_s = -r.standard_s; /* there west is positive */
	if (s.len == 0) {
		*ret_rule = r;
		return true;
	}
	r.has_summer = true;
	r.summer_s = r.standard_s + 3600;
	if (!take_name(&s))
		return false;
	if (s.len > 0 && s.ptr[0] != ',') {
		if (!take_time(&s, 24, &r.summer_s))
			return false;
		r.summer_s = -r.summer_s;
	}
	if (!take_char(&s, ',') || !take_change(&s, &r.begin) || !take_char(&s, ',') ||
	    !take_change(&s, &r.end) || s.len != 0)
		return false;
	*ret_rule = r;
	return true;
}

/* The day of `year` on which it changes, in days since the epoch. */
static int64_t change_day(const struct tzif_change *c, int64_t year)
{
	int64_t first = civil_days((struct civil_date){year, 1, 1});

	if (c->kind == TZIF_DAY_OF_YEAR)
		return first + c->day;
	if (c->kind == TZIF_JULIAN) /* 29 February is not counted */
		return first + c->day - 1 + (c->day >= 60 && civil_days_of_month(year, 2) == 29);
	int64_t month = civil_days((struct civil_date){year, c->month, 1});
	int weekday = (int)(month + 4 - divide_down(month + 4, 7) * 7); /* 0: Sunday */
	int day = (c->day - weekday + 7) % 7 + 7 * (c->week - 1);

	if (day >= civil_days_of_month(year, c->month))
		day -= 7; /* week 5: the last */
	return month + day;
}

static int32_t rule_offset_s(const struct tzif_rule *r, int64_t at_s)
{
	if (!r->has_summer)
		return r->standard_s;
	int64_t year = civil_date(divide_down(at_s + r->standard_s, DAY_S)).year;
	int64_t begin = change_day(&r->begin, year) * DAY_S + r->begin.time_s - r->standard_s;
	int64_t end = change_day(&r->end, year) * DAY_S + r->end.time_s - r->summer_s;
	bool summer = begin < end ? at_s >= begin && at_s < end : at_s >= begin || at_s < end;

	return summer ? r->summer_s : r->standard_s;
}

/* ---- The data block ---- */

static uint64_t big_endian(const char *at, size_t n)
{
	uint64_t v = 0;

	for (size_t i = 0; i < n; i++)
		v = v << 8 | (unsigned char)at[i];
	return v;
}

/* What a header counts. */
struct counts {
	uint64_t utc_marks, standard_marks, leaps, times, types, chars;
};

static bool header_parse(struct slice s, struct counts *ret_counts)
{
	if (s.len < HEADER_BYTES || memcmp(s.ptr, "TZif", 4) != 0 || s.ptr[4] < '2')
		return false;
	const char *at = s.ptr + 20;

	*ret_counts = (struct counts){big_endian(at, 4),      big_endian(at + 4, 4),
				      big_endian(at + 8, 4),  big_endian(at + 12, 4),
				      big_endian(at + 16, 4), big_endian(at + 20, 4)};
	return true;
}

/* Bytes of the block after the header, whose times have `width` bytes. All counts are below 2^32. */
static uint64_t block_bytes(const struct counts *c, uint64_t width)
{
	return c->times * (width + 1) + c->types * TYPE_BYTES + c->chars + c->leaps * (width + 4) +
	       c->standard_marks + c->utc_marks;
}

static bool skip(struct slice *s, uint64_t n)
{
	if (s->len < n)
		return false;
	*s = (struct slice){s->ptr + n, s->len - n};
	return true;
}

static bool indices_valid(const struct tzif *tz)
{
	for (uint32_t i = 0; i < tz->n_times; i++)
		if ((unsigned char)tz->indices[i] >= tz->n_types)
			return false;
	return true;
}

kova_status tzif_parse(struct slice file, struct tzif *ret_tz)
{
	struct counts c;

	/* The 32-bit block first, of no use. */
	if (!header_parse(file, &c) || !skip(&file, HEADER_BYTES + block_bytes(&c, 4)) ||
	    !header_parse(file, &c) || !skip(&file, HEADER_BYTES))
		return KOVA_EPROTO;
	struct tzif tz = {
		.times = file.ptr, .n_times = (uint32_t)c.times, .n_types = (uint32_t)c.types};

	if (c.leaps != 0 || c.types == 0 || c.types > 256 || !skip(&file, block_bytes(&c, 8)))
		return KOVA_EPROTO;
	tz.indices = tz.times + c.times * 8;
	tz.types = tz.indices + c.times;
	if (!indices_valid(&tz) || !take_char(&file, '\n') || file.len == 0 ||
	    file.ptr[file.len - 1] != '\n')
		return KOVA_EPROTO;
	file.len--;
	tz.has_rule = file.len > 0;
	if (tz.has_rule && !parse_rule(file, &tz.rule))
		return KOVA_EPROTO;
	*ret_tz = tz;
	return KOVA_OK;
}

static int64_t time_at(const struct tzif *tz, uint32_t i)
{
	return (int64_t)big_endian(tz->times + (size_t)i * 8, 8);
}

static int32_t type_offset_s(const struct tzif *tz, unsigned char type)
{
	return (int32_t)(uint32_t)big_endian(tz->types + (size_t)type * TYPE_BYTES, 4);
}

int32_t tzif_offset_s(const struct tzif *tz, int64_t at_s)
{
	uint32_t low = 0,
		 high = tz->n_times; /* changes before `low` are past, from `high` on to come */

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (time_at(tz, middle) <= at_s)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == tz->n_times && tz->has_rule)
		return rule_offset_s(&tz->rule, at_s);
	return type_offset_s(tz, low == 0 ? 0 : (unsigned char)tz->indices[low - 1]);
}
