#include "core/query.h"

static size_t index_of(struct slice s, char c)
{
	const char *at = s.len != 0 ? memchr(s.ptr, c, s.len) : NULL;

	return at != NULL ? (size_t)(at - s.ptr) : s.len;
}

static struct slice drop(struct slice s, size_t n)
{
	return n < s.len ? (struct slice){s.ptr + n, s.len - n} : (struct slice){NULL, 0};
}

bool query_next(struct slice *query, struct slice *ret_name, struct slice *ret_value)
{
	while (query->len != 0) {
		size_t end = index_of(*query, '&');
		struct slice pair = {query->ptr, end};

		*query = drop(*query, end + 1);
		if (pair.len == 0)
			continue;
		size_t equals = index_of(pair, '=');
		*ret_name = (struct slice){pair.ptr, equals};
		*ret_value = drop(pair, equals + 1);
		return true;
	}
	return false;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static kova_status decode(struct buf *out, struct slice raw, bool plus_is_space)
{
	for (size_t i = 0; i < raw.len; i++) {
		char c = raw.ptr[i];

		if (c == '%') {
			if (raw.len - i < 3 || hex_digit(raw.ptr[i + 1]) < 0 ||
			    hex_digit(raw.ptr[i + 2]) < 0)
				return KOVA_EPROTO;
			c = (char)(hex_digit(raw.ptr[i + 1]) * 16 + hex_digit(raw.ptr[i + 2]));
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		buf_add(out, &c, 1);
	}
	return buf_failed(out) ? KOVA_ENOMEM : KOVA_OK;
}

kova_status query_decode(struct buf *out, struct slice raw)
{
	return decode(out, raw, true);
}

kova_status query_decode_path(struct buf *out, struct slice raw)
{
	return decode(out, raw, false);
}
