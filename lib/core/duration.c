#include "core/duration.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/divide.h"

struct unit {
	const char *name;
	uint64_t ms;
};

/* Descending. */
static const struct unit units[] = {
	{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
enum { UNITS_N = sizeof units / sizeof units[0] };

static const struct unit *unit_find(struct slice name)
{
	for (size_t i = 0; i < UNITS_N; i++)
		if (slice_equal(name, slice_of(units[i].name)))
			return &units[i];
	return NULL;
}

kova_status duration_parse(struct slice text, uint64_t *ret_ms)
{
	uint64_t number = 0;
	size_t digits = 0;

	while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9') {
		number = number * 10 + (uint64_t)(text.ptr[digits] - '0');
		digits++;
		if (number > INT64_MAX / 10)
			return KOVA_ERANGE;
	}
	const struct unit *unit = unit_find((struct slice){text.ptr + digits, text.len - digits});
	if (digits == 0 || unit == NULL)
		return KOVA_EPROTO;
	if (number > INT64_MAX / unit->ms)
		return KOVA_ERANGE;
	*ret_ms = number * unit->ms;
	return KOVA_OK;
}

void duration_write(uint64_t ms, char ret_text[static DURATION_TEXT_MAX])
{
	size_t i = 0;

	while (ms % units[i].ms != 0 || (ms == 0 && i + 1 < UNITS_N))
		i++;
	snprintf(ret_text, DURATION_TEXT_MAX, "%" PRIu64 "%s", ms / units[i].ms, units[i].name);
}

/* 1 s to 1 min: tenths of a second, rounded up. */
static void write_seconds(uint64_t ms, char *text)
{
	uint64_t tenths = divide_up(ms, 100);

	if (tenths % 10 == 0)
		snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 "s", tenths / 10);
	else
		snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 ".%" PRIu64 "s", tenths / 10,
			 tenths % 10);
}

/* `big` and the unit below it; `ms` is at least one of `big`. */
static void write_two(uint64_t ms, size_t big, char *text)
{
	uint64_t small_ms = units[big + 1].ms;
	uint64_t ratio = units[big].ms / small_ms;
	uint64_t smalls = divide_up(ms, small_ms);

	if (smalls % ratio == 0)
		snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 "%s", smalls / ratio, units[big].name);
	else
		snprintf(text, DURATION_TEXT_MAX, "%" PRIu64 "%s %" PRIu64 "%s", smalls / ratio,
			 units[big].name, smalls % ratio, units[big + 1].name);
}

void duration_write_rounded(uint64_t ms, char ret_text[static DURATION_TEXT_MAX])
{
	if (ms < 1000) {
		snprintf(ret_text, DURATION_TEXT_MAX, "%" PRIu64 "ms", ms);
		return;
	}
	if (ms <= 59900) {
		write_seconds(ms, ret_text);
		return;
	}
	/* Rounded up to the smaller unit it may reach the larger one: 59 m 59.5 s is "1h". */
	size_t big = 2;
	while (big > 0 && ms + units[big + 1].ms > units[big - 1].ms)
		big--;
	write_two(ms, big, ret_text);
}
