#include "core/retry_after.h"

#include "core/civil.h"

enum { DIGITS_MAX = 12 }; /* of seconds: more is out of range in any case */

/* ---- A cursor whose failure sticks ---- */

struct cursor {
	const char *at, *end;
	bool failed;
};

static bool skip(struct cursor *c, struct slice text)
{
	if ((size_t)(c->end - c->at) < text.len || memcmp(c->at, text.ptr, text.len) != 0)
		return false;
	c->at += text.len;
	return true;
}

static void expect(struct cursor *c, struct slice text)
{
	c->failed |= !skip(c, text);
}

/* The index of the one of the `n` texts that comes next. */
static int choice(struct cursor *c, const char *const *texts, int n)
{
	for (int i = 0; i < n; i++)
		if (skip(c, slice_of(texts[i])))
			return i;
	c->failed = true;
	return 0;
}

static bool is_digit(const struct cursor *c)
{
	return c->at < c->end && *c->at >= '0' && *c->at <= '9';
}

/* Exactly `n` digits. */
static int digits(struct cursor *c, int n)
{
	int value = 0;

	for (int i = 0; i < n; i++) {
		if (!is_digit(c)) {
			c->failed = true;
			return 0;
		}
		value = value * 10 + (*c->at++ - '0');
	}
	return value;
}

/* ---- Dates ---- */

struct date {
	int year, month, day, hour, minute, second; /* month from 0 */
};

static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
				     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const short_days[] = {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"};
static const char *const long_days[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
					"Friday", "Saturday", "Sunday"};

static void read_clock(struct cursor *c, struct date *d)
{
	d->hour = digits(c, 2);
	expect(c, SLICE(":"));
	d->minute = digits(c, 2);
	expect(c, SLICE(":"));
	d->second = digits(c, 2);
}

static bool ends(const struct cursor *c)
{
	return !c->failed && c->at == c->end;
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool read_fixdate(struct cursor c, struct date *d)
{
	choice(&c, short_days, 7);
	expect(&c, SLICE(", "));
	d->day = digits(&c, 2);
	expect(&c, SLICE(" "));
	d->month = choice(&c, months, 12);
	expect(&c, SLICE(" "));
	d->year = digits(&c, 4);
	expect(&c, SLICE(" "));
	read_clock(&c, d);
	expect(&c, SLICE(" GMT"));
	return ends(&c);
}

/* Sun Nov  6 08:49:37 1994 */
static bool read_asctime(struct cursor c, struct date *d)
{
	choice(&c, short_days, 7);
	expect(&c, SLICE(" "));
	d->month = choice(&c, months, 12);
	expect(&c, SLICE(" "));
	d->day = skip(&c, SLICE(" ")) ? digits(&c, 1) : digits(&c, 2);
	expect(&c, SLICE(" "));
	read_clock(&c, d);
	expect(&c, SLICE(" "));
	d->year = digits(&c, 4);
	return ends(&c);
}

/* Of the years that end so, the one that is not more than 50 years ahead, and no further back than needed. */
static int whole_year(int two_digits, uint64_t now_us)
{
	int this_year = (int)civil_date((int64_t)(now_us / 1000000 / 86400)).year;
	int year = this_year - this_year % 100 + 100 + two_digits;

	while (year > this_year + 50)
		year -= 100;
	return year;
}

/* Sunday, 06-Nov-94 08:49:37 GMT */
static bool read_rfc850(struct cursor c, uint64_t now_us, struct date *d)
{
	choice(&c, long_days, 7);
	expect(&c, SLICE(", "));
	d->day = digits(&c, 2);
	expect(&c, SLICE("-"));
	d->month = choice(&c, months, 12);
	expect(&c, SLICE("-"));
	d->year = whole_year(digits(&c, 2), now_us);
	expect(&c, SLICE(" "));
	read_clock(&c, d);
	expect(&c, SLICE(" GMT"));
	return ends(&c);
}

/* A second of 60 is a leap second. */
static bool is_date(const struct date *d)
{
	return d->day >= 1 && d->day <= civil_days_of_month(d->year, d->month + 1) &&
	       d->hour <= 23 && d->minute <= 59 && d->second <= 60;
}

static kova_status until_date(struct cursor c, uint64_t now_us, uint64_t *ret_us)
{
	struct date d = {0};
	int64_t us;

	if (!read_fixdate(c, &d) && !read_rfc850(c, now_us, &d) && !read_asctime(c, &d))
		return KOVA_EPROTO;
	if (!is_date(&d))
		return KOVA_EPROTO;
	us = civil_days((struct civil_date){d.year, d.month + 1, d.day}) * 86400;
	us = (us + d.hour * 3600 + d.minute * 60 + d.second) * 1000000 - (int64_t)now_us;
	if (us > (int64_t)RETRY_AFTER_MAX_US)
		return KOVA_ERANGE;
	*ret_us = us > 0 ? (uint64_t)us : 0;
	return KOVA_OK;
}

/* ---- Seconds ---- */

/* What follows the point, in µs, rounded up. */
static uint64_t read_fraction(struct cursor *c)
{
	uint64_t us = 0, unit = 100000;
	bool more = false;

	c->failed |= !is_digit(c);
	for (; is_digit(c); c->at++) {
		us += (uint64_t)(*c->at - '0') * unit;
		more |= unit == 0 && *c->at != '0';
		unit /= 10;
	}
	return us + more;
}

static kova_status read_seconds(struct cursor c, uint64_t *ret_us)
{
	bool negative = skip(&c, SLICE("-"));
	uint64_t us = 0;
	int n = 0;

	c.failed |= !is_digit(&c);
	for (; is_digit(&c); c.at++) {
		if (n < DIGITS_MAX)
			us = us * 10 + (uint64_t)(*c.at - '0');
		n += us > 0;
	}
	us *= 1000000;
	if (skip(&c, SLICE(".")))
		us += read_fraction(&c);
	if (!ends(&c))
		return KOVA_EPROTO;
	if ((negative && us > 0) || us > RETRY_AFTER_MAX_US)
		return KOVA_ERANGE;
	*ret_us = us;
	return KOVA_OK;
}

/* ---- Either ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

kova_status retry_after_parse(struct slice text, uint64_t now_us, uint64_t *ret_us)
{
	struct cursor c;

	if (text.len == 0)
		return KOVA_EPROTO;
	c = (struct cursor){.at = text.ptr, .end = text.ptr + text.len};
	while (c.at < c.end && is_blank(*c.at))
		c.at++;
	while (c.at < c.end && is_blank(c.end[-1]))
		c.end--;
	if (is_digit(&c) || (c.at < c.end && *c.at == '-'))
		return read_seconds(c, ret_us);
	return until_date(c, now_us, ret_us);
}
