#include "core/query.h"

#include "core/hex.h"

bool query_next(struct slice *query, struct slice *ret_name, struct slice *ret_value)
{
	while (query->len != 0) {
		struct slice pair = slice_cut(query, '&');

		if (pair.len == 0)
			continue;
		*ret_name = slice_cut(&pair, '=');
		*ret_value = pair;
		return true;
	}
	return false;
}

/* Where the first is that stands for another; raw.len: nowhere. */
static size_t plain_length(struct slice raw, bool plus_is_space)
{
	size_t n = 0;

	while (n < raw.len && raw.ptr[n] != '%' && !(raw.ptr[n] == '+' && plus_is_space))
		n++;
	return n;
}

static kova_status decode(struct buf *out, struct slice raw, bool plus_is_space)
{
	for (;;) {
		size_t plain = plain_length(raw, plus_is_space);

		buf_add(out, raw.ptr, plain);
		if (plain == raw.len)
			return buf_failed(out) ? KOVA_ENOMEM : KOVA_OK;
		raw = slice_after(raw, plain);
		if (raw.ptr[0] == '+') {
			buf_add(out, " ", 1);
			raw = slice_after(raw, 1);
			continue;
		}
		if (raw.len < 3 || hex_value(raw.ptr[1]) < 0 || hex_value(raw.ptr[2]) < 0)
			return KOVA_EPROTO;

		char c = (char)(hex_value(raw.ptr[1]) * 16 + hex_value(raw.ptr[2]));

		buf_add(out, &c, 1);
		raw = slice_after(raw, 3);
	}
}

kova_status query_decode(struct buf *out, struct slice raw)
{
	return decode(out, raw, true);
}

kova_status query_decode_path(struct buf *out, struct slice raw)
{
	return decode(out, raw, false);
}
