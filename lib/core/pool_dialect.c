#include "core/pool_dialect.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/retry_after.h"
#include "core/rfc3339.h"

#define DAY_US RETRY_AFTER_MAX_US

enum { GITHUB_S = 60, NO_SLOT_S = 5, ZERO_BALANCE_S = 60 };

/* How a reset is written. */
enum reset_form { RESET_GO, RESET_SECONDS, RESET_EPOCH, RESET_RFC3339 };

struct reading {
	const struct pool_header *headers;
	size_t n;
	uint64_t now_us;
	struct pool_said *said;
};

/* ---- Headers ---- */

static struct slice trimmed(struct slice s)
{
	while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
		s = (struct slice){s.ptr + 1, s.len - 1};
	while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
		s.len--;
	return s;
}

static bool find(const struct reading *r, const char *name, struct slice *ret_value)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->headers[i].name.len == strlen(name) &&
		    strncasecmp(r->headers[i].name.ptr, name, r->headers[i].name.len) == 0) {
			*ret_value = trimmed(r->headers[i].value);
			return true;
		}
	return false;
}

static bool find_named(const struct reading *r, const char *before, const char *middle,
		       const char *after, struct slice *ret_value)
{
	char name[80];

	snprintf(name, sizeof name, "%s%s%s", before, middle, after);
	return find(r, name, ret_value);
}

/* ---- Numbers ---- */

static bool is_digit(struct slice s, size_t i)
{
	return i < s.len && s.ptr[i] >= '0' && s.ptr[i] <= '9';
}

/* A decimal number as a whole one of `unit`s, rounded up; at most 10^15. */
static kova_status decimal(struct slice s, uint64_t unit, uint64_t *ret_value)
{
	uint64_t value = 0, scale = unit;
	size_t i = 0;
	bool more = false;

	if (!is_digit(s, 0))
		return s.len > 1 && s.ptr[0] == '-' && is_digit(s, 1) ? KOVA_ERANGE : KOVA_EPROTO;
	for (; is_digit(s, i); i++) {
		value = value * 10 + (uint64_t)(s.ptr[i] - '0');
		if (value > UINT64_C(1000000000000000) / unit)
			return KOVA_ERANGE;
	}
	value *= unit;
	if (i < s.len && s.ptr[i] == '.') {
		for (i++; is_digit(s, i); i++) {
			uint64_t digit = (uint64_t)(s.ptr[i] - '0');

			more |= scale % 10 != 0 && digit * scale % 10 != 0;
			value += digit * scale / 10;
			scale = scale % 10 == 0 ? scale / 10 : 0;
			more |= scale == 0 && digit > 0;
		}
	}
	if (i < s.len)
		return KOVA_EPROTO;
	*ret_value = value + more;
	return KOVA_OK;
}

static const struct go_unit {
	const char *name;
	uint64_t ns;
} go_units[] = {
	{"ns", 1},       {"us", 1000},         {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
	{"ms", 1000000}, {"h", 3600000000000}, {"m", 60000000000},  {"s", 1000000000},
};

/* One number and its unit off *rest. */
static kova_status go_part(struct slice *rest, uint64_t *ns)
{
	size_t n = 0;
	uint64_t value = 0;

	while (is_digit(*rest, n) || (n < rest->len && rest->ptr[n] == '.'))
		n++;
	struct slice number = {rest->ptr, n}, unit = slice_after(*rest, n);

	for (size_t i = 0; i < sizeof go_units / sizeof *go_units; i++) {
		const struct go_unit *u = &go_units[i];
		size_t len = strlen(u->name);

		if (unit.len < len || memcmp(unit.ptr, u->name, len) != 0)
			continue;
		kova_status status = decimal(number, u->ns, &value);

		if (status != KOVA_OK)
			return status;
		*ns += value;
		*rest = slice_after(unit, len);
		return KOVA_OK;
	}
	return KOVA_EPROTO;
}

kova_status pool_go_duration(struct slice text, uint64_t *ret_us)
{
	uint64_t ns = 0;
	kova_status status = text.len > 0 ? KOVA_OK : KOVA_EPROTO;

	if (slice_equal(text, SLICE("0"))) {
		*ret_us = 0;
		return KOVA_OK;
	}
	if (text.len > 1 && text.ptr[0] == '-')
		return KOVA_ERANGE;
	while (text.len > 0 && status == KOVA_OK) {
		status = go_part(&text, &ns);
		if (ns > DAY_US * 1000)
			return KOVA_ERANGE;
	}
	if (status == KOVA_OK)
		*ret_us = (ns + 999) / 1000;
	return status;
}

/* A count; −1: not known. */
static int64_t count(struct reading *r, struct slice text)
{
	uint64_t value;
	kova_status status = decimal(text, 1000, &value);

	if (status == KOVA_OK)
		return (int64_t)(value / 1000);
	r->said->bad += status == KOVA_EPROTO;
	return -1;
}

/* ---- Resets ---- */

static kova_status read_reset(enum reset_form form, struct slice text, struct pool_quota *q)
{
	uint64_t us = 0;
	int64_t ms;

	q->absolute = form == RESET_EPOCH || form == RESET_RFC3339;
	if (form == RESET_RFC3339) {
		if (!rfc3339_parse(text, &ms))
			return KOVA_EPROTO;
		q->reset_us = ms > 0 ? (uint64_t)ms * 1000 : 0;
		return KOVA_OK;
	}
	if (form == RESET_GO)
		return pool_go_duration(text, &q->reset_us);
	if (form == RESET_EPOCH) {
		kova_status status = decimal(text, 1000, &us);

		q->reset_us = us * 1000;
		return status;
	}
	return decimal(text, 1000000, &q->reset_us);
}

/* From now; 0: it has passed. */
static uint64_t reset_in(const struct reading *r, const struct pool_quota *q)
{
	if (!q->absolute)
		return q->reset_us;
	return q->reset_us > r->now_us ? q->reset_us - r->now_us : 0;
}

/* All that a string of a structured field may have (RFC 9651, 3.3.3). */
static bool is_text(struct slice s)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.ptr[i] < ' ' || s.ptr[i] > '~')
			return false;
	return true;
}

static void add(struct reading *r, struct slice name, const struct pool_quota *q)
{
	struct pool_quota *made = &r->said->quotas[r->said->n_quotas];
	uint64_t in_us = reset_in(r, q);

	if (in_us > DAY_US)
		r->said->bad++;
	if (in_us == 0 || in_us > DAY_US || r->said->n_quotas == POOL_QUOTAS_MAX || name.len == 0 ||
	    name.len >= sizeof made->name || !is_text(name))
		return;
	*made = *q;
	memcpy(made->name, name.ptr, name.len);
	made->name[name.len] = '\0';
	r->said->n_quotas++;
}

/* A quantity whose headers are `before` limit, remaining or `reset` `after`. */
static void quantity(struct reading *r, const char *name, const char *before, const char *reset,
		     const char *after, enum reset_form form)
{
	struct pool_quota q = {.limit = -1, .left = -1};
	struct slice value;

	if (find_named(r, before, "limit", after, &value))
		q.limit = count(r, value);
	if (find_named(r, before, "remaining", after, &value))
		q.left = count(r, value);
	if (!find_named(r, before, reset, after, &value))
		return;
	if (read_reset(form, value, &q) != KOVA_OK)
		r->said->bad++;
	else
		add(r, slice_of(name), &q);
}

/* ---- Dialects ---- */

static void milliseconds(struct reading *r, const char *name)
{
	struct slice value;
	uint64_t us;

	if (r->said->hint_us > 0 || !find(r, name, &value))
		return;
	if (decimal(value, 1000, &us) != KOVA_OK || us > DAY_US)
		r->said->bad++;
	else
		r->said->hint_us = us;
}

static void retry_after(struct reading *r)
{
	struct slice value;
	uint64_t us;

	if (r->said->hint_us > 0 || !find(r, "retry-after", &value))
		return;
	if (retry_after_parse(value, r->now_us, &us) != KOVA_OK)
		r->said->bad++;
	else
		r->said->hint_us = us;
}

static void openai(struct reading *r, enum reset_form form)
{
	milliseconds(r, form == RESET_SECONDS ? "x-ms-retry-after-ms" : "retry-after-ms");
	milliseconds(r, "retry-after-ms");
	quantity(r, "requests", "x-ratelimit-", "reset", "-requests", form);
	quantity(r, "tokens", "x-ratelimit-", "reset", "-tokens", form);
}

static void anthropic(struct reading *r)
{
	static const char *const names[] = {"requests", "tokens", "input-tokens", "output-tokens"};
	char before[64];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(before, sizeof before, "anthropic-ratelimit-%s-", names[i]);
		quantity(r, names[i], before, "reset", "", RESET_RFC3339);
	}
}

static bool is_exhausted(const struct reading *r)
{
	for (size_t i = 0; i < r->said->n_quotas; i++)
		if (r->said->quotas[i].left == 0)
			return true;
	return false;
}

static void github(struct reading *r, uint16_t status)
{
	quantity(r, "requests", "x-ratelimit-", "reset", "", RESET_EPOCH);
	retry_after(r);
	if ((status == 403 || status == 429) && r->said->hint_us == 0 && !is_exhausted(r))
		r->said->hint_us = GITHUB_S * UINT64_C(1000000);
}

static void reddit(struct reading *r)
{
	struct slice used;
	size_t n = r->said->n_quotas;

	quantity(r, "requests", "x-ratelimit-", "reset", "", RESET_SECONDS);
	if (r->said->n_quotas == n || !find(r, "x-ratelimit-used", &used))
		return;
	struct pool_quota *q = &r->said->quotas[n];
	int64_t spent = count(r, used);

	if (spent >= 0 && q->left >= 0)
		q->limit = spent + q->left;
}

/* The value of parameter `name` in one member of a list (`"name";r=5;t=1`). */
static bool parameter(struct slice member, char name, struct slice *ret_value)
{
	(void)slice_cut(&member, ';');
	while (member.len > 0) {
		struct slice p = trimmed(slice_cut(&member, ';'));

		if (p.len > 2 && p.ptr[0] == name && p.ptr[1] == '=') {
			*ret_value = slice_after(p, 2);
			return true;
		}
	}
	return false;
}

/* The next member of a list off *rest: its string, and all of it. Strings may hold commas. */
static bool next_member(struct slice *rest, struct slice *ret_name, struct slice *ret_member)
{
	size_t i = 0;
	bool quoted = false;

	*rest = trimmed(*rest);
	if (rest->len < 2 || rest->ptr[0] != '"')
		return false;
	*ret_name = slice_after(*rest, 1);
	ret_name->len = slice_index(*ret_name, '"');
	for (; i < rest->len && (quoted || rest->ptr[i] != ','); i++)
		quoted ^= rest->ptr[i] == '"';
	*ret_member = (struct slice){rest->ptr, i};
	*rest = slice_after(*rest, i + 1);
	return !quoted;
}

static int64_t policy_quota(struct reading *r, struct slice wanted)
{
	struct slice rest, name, member, q;

	if (!find(r, "ratelimit-policy", &rest))
		return -1;
	while (next_member(&rest, &name, &member))
		if (slice_equal(name, wanted) && parameter(member, 'q', &q))
			return count(r, q);
	return -1;
}

static void ietf(struct reading *r)
{
	struct slice rest, name, member, value;

	if (!find(r, "ratelimit", &rest))
		return;
	while (next_member(&rest, &name, &member)) {
		struct pool_quota q = {.limit = policy_quota(r, name), .left = -1};

		if (parameter(member, 'r', &value))
			q.left = count(r, value);
		if (!parameter(member, 't', &value))
			continue;
		if (read_reset(RESET_SECONDS, value, &q) != KOVA_OK)
			r->said->bad++;
		else
			add(r, name, &q);
	}
}

static void two_captcha(struct reading *r)
{
	struct slice error;

	if (!find(r, "error", &error))
		return;
	if (slice_equal(error, SLICE("ERROR_NO_SLOT_AVAILABLE")))
		r->said->hint_us = NO_SLOT_S * UINT64_C(1000000);
	else if (slice_equal(error, SLICE("ERROR_ZERO_BALANCE")))
		r->said->hint_us = ZERO_BALANCE_S * UINT64_C(1000000);
	else if (slice_equal(error, SLICE("ERROR_WRONG_USER_KEY")) ||
		 slice_equal(error, SLICE("ERROR_KEY_DOES_NOT_EXIST")))
		r->said->unknown_key = true;
}

void pool_dialect_read(enum pool_dialect dialect, const struct pool_header *headers, size_t n,
		       uint16_t status, uint64_t now_us, struct pool_said *ret_said)
{
	struct reading r = {.headers = headers, .n = n, .now_us = now_us, .said = ret_said};

	*ret_said = (struct pool_said){0};
	switch (dialect) {
	case POOL_DIALECT_NONE:
		break;
	case POOL_DIALECT_OPENAI:
	case POOL_DIALECT_GROQ:
		openai(&r, RESET_GO);
		break;
	case POOL_DIALECT_AZURE:
		openai(&r, RESET_SECONDS);
		break;
	case POOL_DIALECT_ANTHROPIC:
		anthropic(&r);
		break;
	case POOL_DIALECT_GITHUB:
		github(&r, status);
		break;
	case POOL_DIALECT_DISCORD:
		quantity(&r, "requests", "x-ratelimit-", "reset-after", "", RESET_SECONDS);
		break;
	case POOL_DIALECT_REDDIT:
		reddit(&r);
		break;
	case POOL_DIALECT_TWITTER:
		quantity(&r, "requests", "x-rate-limit-", "reset", "", RESET_EPOCH);
		break;
	case POOL_DIALECT_IETF:
		ietf(&r);
		break;
	case POOL_DIALECT_2CAPTCHA:
		two_captcha(&r);
		break;
	}
	retry_after(&r);
}
