#include "core/rfc3339.h"

#include <stdio.h>

#include "core/civil.h"
#include "core/divide.h"

enum { DAY_MS = 86400000 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Exactly `n` digits, 1 to 4. */
static bool field_take(struct slice *text, size_t n, int64_t min, int64_t max, int64_t *ret_value)
{
	int64_t v = 0;

	if (text->len < n)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!is_digit(text->ptr[i]))
			return false;
		v = v * 10 + (text->ptr[i] - '0');
	}
	*text = slice_after(*text, n);
	*ret_value = v;
	return v >= min && v <= max;
}

static bool mark_take(struct slice *text, const char *marks)
{
	if (text->len == 0 || text->ptr[0] == '\0' || strchr(marks, text->ptr[0]) == NULL)
		return false;
	*text = slice_after(*text, 1);
	return true;
}

/* ".123456" as ms, 0 without one. */
static bool fraction_take(struct slice *text, int64_t *ret_ms)
{
	int64_t ms = 0, scale = 100;

	*ret_ms = 0;
	if (!mark_take(text, "."))
		return true;
	if (text->len == 0 || !is_digit(text->ptr[0]))
		return false;
	for (; text->len > 0 && is_digit(text->ptr[0]); scale /= 10) {
		ms += (text->ptr[0] - '0') * scale;
		*text = slice_after(*text, 1);
	}
	*ret_ms = ms;
	return true;
}

/* "Z" or "±hh:mm" as minutes. */
static bool offset_take(struct slice *text, int64_t *ret_minutes)
{
	int64_t h, m, sign;

	*ret_minutes = 0;
	if (mark_take(text, "Zz"))
		return true;
	sign = text->len > 0 && text->ptr[0] == '-' ? -1 : 1;
	if (!mark_take(text, "+-") || !field_take(text, 2, 0, 23, &h) || !mark_take(text, ":") ||
	    !field_take(text, 2, 0, 59, &m))
		return false;
	*ret_minutes = sign * (h * 60 + m);
	return true;
}

bool rfc3339_parse(struct slice text, int64_t *ret_ms)
{
	int64_t year, month, day, h, m, s, ms, offset;

	if (!field_take(&text, 4, 0, 9999, &year) || !mark_take(&text, "-") ||
	    !field_take(&text, 2, 1, 12, &month) || !mark_take(&text, "-") ||
	    !field_take(&text, 2, 1, 31, &day) || day > civil_days_of_month(year, (int)month))
		return false;
	if (!mark_take(&text, "Tt ") || !field_take(&text, 2, 0, 23, &h) ||
	    !mark_take(&text, ":") || !field_take(&text, 2, 0, 59, &m) || !mark_take(&text, ":") ||
	    !field_take(&text, 2, 0, 60, &s))
		return false;
	if (!fraction_take(&text, &ms) || !offset_take(&text, &offset) || text.len != 0)
		return false;
	const struct civil_date date = {year, (int)month, (int)day};
	int64_t minutes = (civil_days(date) * 24 + h) * 60 + m - offset;

	*ret_ms = (minutes * 60 + s) * 1000 + ms;
	return true;
}

void rfc3339_write(int64_t ms, char ret_text[static RFC3339_TEXT_MAX])
{
	int64_t days = divide_down(ms, DAY_MS);
	struct civil_date date = civil_date(days);
	unsigned of_day = (unsigned)(ms - days * DAY_MS);

	snprintf(ret_text, RFC3339_TEXT_MAX, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ",
		 (unsigned)date.year % 10000, (unsigned)date.month % 100, (unsigned)date.day % 100,
		 of_day / 3600000 % 24, of_day / 60000 % 60, of_day / 1000 % 60, of_day % 1000);
}
