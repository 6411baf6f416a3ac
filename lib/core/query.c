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

static kova_status decode(struct buf *out, struct slice raw, bool plus_is_space)
{
	for (size_t i = 0; i < raw.len; i++) {
		char c = raw.ptr[i];

		if (c == '%') {
			if (raw.len - i < 3 || hex_value(raw.ptr[i + 1]) < 0 ||
			    hex_value(raw.ptr[i + 2]) < 0)
				return KOVA_EPROTO;
			c = (char)(hex_value(raw.ptr[i + 1]) * 16 + hex_value(raw.ptr[i + 2]));
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
