#include "core/trace_context.h"

enum { VERSION_AT = 0, TRACE_ID_AT = 3, SPAN_ID_AT = 36, FLAGS_AT = 53 };

enum { KEY_MAX = 256, TENANT_MAX = 241, SYSTEM_MAX = 14, VALUE_MAX = 256 };

#define MILLION UINT64_C(1000000)

/* ---- traceparent ---- */

/* 0..15 of a digit or a small letter; -1: neither. Capital letters are not allowed. */
static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_bytes(const char *text, size_t n, unsigned char *ret_bytes)
{
	for (size_t i = 0; i < n; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		ret_bytes[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

static bool is_zero(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

/* A later version may have more, behind another hyphen. */
static bool length_fits(struct slice text, unsigned char version)
{
	if (version == 0)
		return text.len == TRACE_PARENT_CHARS;
	return version != 0xff &&
	       (text.len == TRACE_PARENT_CHARS || text.ptr[TRACE_PARENT_CHARS] == '-');
}

kova_status trace_context_parse(struct slice text, struct trace_context *ret_context)
{
	struct trace_context c;
	unsigned char version, flags;

	if (text.len < TRACE_PARENT_CHARS || !read_bytes(text.ptr + VERSION_AT, 1, &version) ||
	    !length_fits(text, version) || text.ptr[TRACE_ID_AT - 1] != '-' ||
	    text.ptr[SPAN_ID_AT - 1] != '-' || text.ptr[FLAGS_AT - 1] != '-' ||
	    !read_bytes(text.ptr + TRACE_ID_AT, sizeof c.trace_id, c.trace_id) ||
	    !read_bytes(text.ptr + SPAN_ID_AT, sizeof c.span_id, c.span_id) ||
	    !read_bytes(text.ptr + FLAGS_AT, 1, &flags) || is_zero(c.trace_id, sizeof c.trace_id) ||
	    is_zero(c.span_id, sizeof c.span_id))
		return KOVA_EPROTO;
	c.flags = flags & TRACE_SAMPLED;
	*ret_context = c;
	return KOVA_OK;
}

static void write_bytes(const unsigned char *bytes, size_t n, char *ret_text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		ret_text[2 * i] = digits[bytes[i] >> 4];
		ret_text[2 * i + 1] = digits[bytes[i] & 15];
	}
}

void trace_context_write(const struct trace_context *c, char ret_text[static TRACE_PARENT_CHARS])
{
	memset(ret_text, '-', TRACE_PARENT_CHARS);
	memset(ret_text + VERSION_AT, '0', 2);
	write_bytes(c->trace_id, sizeof c->trace_id, ret_text + TRACE_ID_AT);
	write_bytes(c->span_id, sizeof c->span_id, ret_text + SPAN_ID_AT);
	write_bytes(&c->flags, 1, ret_text + FLAGS_AT);
}

void trace_id_write(const unsigned char id[static TRACE_ID_BYTES],
		    char ret_text[static TRACE_ID_CHARS])
{
	write_bytes(id, TRACE_ID_BYTES, ret_text);
}

/* ---- tracestate ---- */

static bool is_letter(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_letter_or_digit(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9');
}

static bool are_key_characters(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (!is_letter_or_digit(c) && c != '_' && c != '-' && c != '*' && c != '/')
			return false;
	}
	return true;
}

/* A name, or tenant@system. */
static bool is_key(struct slice key)
{
	struct slice rest = key, tenant = slice_cut(&rest, '@');

	if (key.len == 0 || key.len > KEY_MAX)
		return false;
	if (tenant.len == key.len)
		return is_letter(key.ptr[0]) && are_key_characters(key);
	return tenant.len >= 1 && tenant.len <= TENANT_MAX && rest.len >= 1 &&
	       rest.len <= SYSTEM_MAX && is_letter_or_digit(tenant.ptr[0]) &&
	       is_letter(rest.ptr[0]) && are_key_characters(tenant) && are_key_characters(rest);
}

/* Its last character is no blank: those at the end are cut off before. */
static bool is_value(struct slice value)
{
	for (size_t i = 0; i < value.len; i++) {
		char c = value.ptr[i];

		if (c < ' ' || c > '~' || c == '=')
			return false;
	}
	return value.len >= 1 && value.len <= VALUE_MAX;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct slice trim(struct slice s)
{
	while (s.len > 0 && is_blank(s.ptr[0]))
		s = slice_after(s, 1);
	while (s.len > 0 && is_blank(s.ptr[s.len - 1]))
		s.len--;
	return s;
}

bool trace_state_is_valid(struct slice text)
{
	unsigned n = 0;

	while (text.len > 0) {
		struct slice value = trim(slice_cut(&text, ','));

		if (value.len == 0)
			continue; /* an empty member is allowed, and counts for nothing */
		if (slice_index(value, '=') == value.len || ++n > TRACE_STATE_MEMBERS_MAX)
			return false;
		struct slice key = slice_cut(&value, '=');

		if (!is_key(key) || !is_value(value))
			return false;
	}
	return n > 0;
}

/* ---- Sampling ---- */

bool trace_id_is_sampled(const unsigned char id[static TRACE_ID_BYTES], uint32_t millionths)
{
	uint64_t low = 0;
	const uint64_t all = UINT64_C(1) << 63;

	for (size_t i = TRACE_ID_BYTES - sizeof low; i < TRACE_ID_BYTES; i++)
		low = low << 8 | id[i];
	return low >> 1 < all / MILLION * millionths + all % MILLION * millionths / MILLION;
}
