#include "core/grpc_text.h"

enum { TIMEOUT_DIGITS_MAX = 8 };

void grpc_message_write(struct buf *out, struct slice text)
{
	static const char digits[] = "0123456789ABCDEF";

	for (size_t i = 0; i < text.len; i++) {
		unsigned char byte = (unsigned char)text.ptr[i];
		char encoded[3] = {'%', digits[byte >> 4], digits[byte & 15]};

		if (byte >= ' ' && byte <= '~' && byte != '%')
			buf_add(out, &text.ptr[i], 1);
		else
			buf_add(out, encoded, sizeof encoded);
	}
}

/* How many ns a unit has; 0: there is none of that letter. */
static uint64_t unit_ns(char unit)
{
	switch (unit) {
	case 'H':
		return UINT64_C(3600000000000);
	case 'M':
		return UINT64_C(60000000000);
	case 'S':
		return UINT64_C(1000000000);
	case 'm':
		return UINT64_C(1000000);
	case 'u':
		return UINT64_C(1000);
	case 'n':
		return 1;
	default:
		return 0;
	}
}

kova_status grpc_timeout_parse(struct slice text, uint64_t *ret_ms)
{
	uint64_t value = 0, ns;

	if (text.len < 2 || text.len > TIMEOUT_DIGITS_MAX + 1)
		return KOVA_EPROTO;
	for (size_t i = 0; i + 1 < text.len; i++) {
		if (text.ptr[i] < '0' || text.ptr[i] > '9')
			return KOVA_EPROTO;
		value = value * 10 + (uint64_t)(text.ptr[i] - '0');
	}
	ns = unit_ns(text.ptr[text.len - 1]);
	if (ns == 0)
		return KOVA_EPROTO;
	*ret_ms = ns >= 1000000 ? value * (ns / 1000000) : (value * ns + 999999) / 1000000;
	return KOVA_OK;
}

bool grpc_content_type_fits(struct slice text)
{
	const struct slice base = SLICE("application/grpc"), proto = SLICE("+proto");
	struct slice rest = slice_after(text, base.len);

	if (text.len < base.len || memcmp(text.ptr, base.ptr, base.len) != 0)
		return false;
	if (rest.len >= proto.len && memcmp(rest.ptr, proto.ptr, proto.len) == 0)
		rest = slice_after(rest, proto.len);
	return rest.len == 0 || rest.ptr[0] == ';';
}
