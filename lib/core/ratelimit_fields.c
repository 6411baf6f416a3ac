#include "core/ratelimit_fields.h"

#include "core/divide.h"

/* RFC 9651 §3.3.1: an Integer has at most 15 digits. */
static const uint64_t integer_max = UINT64_C(999999999999999);

static bool is_escaped(char c)
{
	return c == '"' || c == '\\';
}

static void add_string(struct buf *out, struct slice text)
{
	size_t from = 0;

	buf_add(out, "\"", 1);
	for (size_t i = 0; i < text.len; i++)
		if (is_escaped(text.ptr[i])) {
			buf_add(out, text.ptr + from, i - from);
			buf_add(out, "\\", 1);
			from = i;
		}
	buf_add(out, text.ptr + from, text.len - from);
	buf_add(out, "\"", 1);
}

/* `name`: with what stands around it. */
static inline void add_parameter(struct buf *out, struct slice name, uint64_t value)
{
	buf_add_slice(out, name);
	buf_add_uint(out, value < integer_max ? value : integer_max);
}

void ratelimit_policy_write(struct buf *out, const struct ratelimit *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		buf_add_text(out, i == 0 ? "" : ", ");
		add_string(out, items[i].policy);
		add_parameter(out, SLICE(";q="), items[i].quota);
		if (items[i].concurrent)
			buf_add_text(out, ";qu=\"concurrent-requests\"");
		if (items[i].window_s != 0)
			add_parameter(out, SLICE(";w="), items[i].window_s);
	}
}

void ratelimit_write(struct buf *out, const struct ratelimit *items, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		buf_add_text(out, i == 0 ? "" : ", ");
		add_string(out, items[i].policy);
		add_parameter(out, SLICE(";r="), items[i].remaining);
		if (items[i].more_after_ms > 0)
			add_parameter(out, SLICE(";t="), ratelimit_seconds(items[i].more_after_ms));
	}
}

uint64_t ratelimit_seconds(int64_t ms)
{
	return divide_up((uint64_t)ms, 1000);
}

uint64_t ratelimit_retry_after_s(int64_t retry_after_ms, int64_t more_after_ms)
{
	if (retry_after_ms < 0)
		return 0;

	int64_t later_ms = retry_after_ms > more_after_ms ? retry_after_ms : more_after_ms;
	return later_ms > 0 ? ratelimit_seconds(later_ms) : 1;
}
