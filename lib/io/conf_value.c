/* The small languages of configuration values: times, addresses, paths. (Durations: core/duration.h.) */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "core/civil.h"
#include "io/conf.h"

/* The digits that begin `text`, as many as there are up to `most`; false: none, or too large. */
static bool digits_take(struct slice *text, size_t most, int64_t *ret_value)
{
	int64_t v = 0;
	size_t n = 0;

	for (; n < text->len && n < most && isdigit((unsigned char)text->ptr[n]); n++) {
		if (v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (text->ptr[n] - '0');
	}
	if (n == 0)
		return false;
	*text = (struct slice){text->ptr + n, text->len - n};
	*ret_value = v;
	return true;
}

/* Exactly `n` digits. */
static bool field_take(struct slice *text, size_t n, int64_t min, int64_t max, int64_t *ret_value)
{
	size_t before = text->len;

	return digits_take(text, n, ret_value) && before - text->len == n && *ret_value >= min &&
	       *ret_value <= max;
}

static bool mark_take(struct slice *text, const char *marks)
{
	if (text->len == 0 || text->ptr[0] == '\0' || strchr(marks, text->ptr[0]) == NULL)
		return false;
	*text = (struct slice){text->ptr + 1, text->len - 1};
	return true;
}

/* ".123456" as ms, 0 without one. */
static bool fraction_take(struct slice *text, int64_t *ret_ms)
{
	int64_t ms = 0, scale = 100;

	*ret_ms = 0;
	if (!mark_take(text, "."))
		return true;
	if (text->len == 0 || !isdigit((unsigned char)text->ptr[0]))
		return false;
	for (; text->len > 0 && isdigit((unsigned char)text->ptr[0]); scale /= 10) {
		ms += (text->ptr[0] - '0') * scale;
		*text = (struct slice){text->ptr + 1, text->len - 1};
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

bool conf_time_parse(struct slice text, int64_t *ret_ms)
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

/* The host before the last colon, without the brackets of "[v6]"; false: not of either form. */
static bool host_parse(struct slice host, struct slice *ret_host)
{
	if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']') {
		*ret_host = (struct slice){host.ptr + 1, host.len - 2};
		return true;
	}
	for (size_t i = 0; i < host.len; i++)
		if (!isalnum((unsigned char)host.ptr[i]) && strchr("._-", host.ptr[i]) == NULL)
			return false;
	*ret_host = host;
	return host.len > 0;
}

bool conf_address_parse(const char *text, struct slice *ret_host, uint16_t *ret_port)
{
	const char *colon = strrchr(text, ':');
	struct slice port, host;
	int64_t v;

	if (colon == NULL)
		return false;
	port = slice_of(colon + 1);
	if (port.len > 5 || !digits_take(&port, 5, &v) || port.len != 0 || v > UINT16_MAX)
		return false;
	if (!host_parse((struct slice){text, (size_t)(colon - text)}, &host))
		return false;
	*ret_host = host;
	*ret_port = (uint16_t)v;
	return true;
}

char *conf_path_resolve(const char *file, const char *path)
{
	const char *slash = strrchr(file, '/');
	char *resolved = NULL;

	if (path[0] == '/' || slash == NULL)
		return strdup(path);
	if (asprintf(&resolved, "%.*s/%s", (int)(slash - file), file, path) < 0)
		return NULL;
	return resolved;
}
