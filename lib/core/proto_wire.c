#include "core/proto_wire.h"

enum { VARINT_BYTES_MAX = 10, NUMBER_MAX = (1 << 29) - 1 };

static bool take_varint(struct slice *rest, uint64_t *ret_value)
{
	uint64_t value = 0;

	for (size_t i = 0; i < rest->len && i < VARINT_BYTES_MAX; i++) {
		unsigned char byte = (unsigned char)rest->ptr[i];

		value |= (uint64_t)(byte & 0x7f) << (7 * i);
		if (byte < 0x80) {
			*rest = slice_after(*rest, i + 1);
			*ret_value = value;
			return true;
		}
	}
	return false;
}

static bool take_bytes(struct slice *rest, uint64_t len, struct slice *ret_bytes)
{
	if (len > rest->len)
		return false;
	*ret_bytes = (struct slice){rest->ptr, (size_t)len};
	*rest = slice_after(*rest, (size_t)len);
	return true;
}

static bool take_fixed(struct slice *rest, size_t len, uint64_t *ret_value)
{
	struct slice bytes;

	if (!take_bytes(rest, len, &bytes))
		return false;
	*ret_value = 0;
	for (size_t i = len; i-- > 0;)
		*ret_value = *ret_value << 8 | (unsigned char)bytes.ptr[i];
	return true;
}

kova_status wire_next(struct slice *rest, struct wire_field *ret_field)
{
	struct wire_field f = {0};
	uint64_t tag, len;
	bool whole = false;

	if (rest->len == 0)
		return KOVA_ENOTFOUND;
	if (!take_varint(rest, &tag) || tag >> 3 < 1 || tag >> 3 > NUMBER_MAX)
		return KOVA_EPROTO;
	f.number = (uint32_t)(tag >> 3);
	f.type = (enum wire_type)(tag & 7);
	if (f.type == WIRE_VARINT)
		whole = take_varint(rest, &f.value);
	else if (f.type == WIRE_FIXED64)
		whole = take_fixed(rest, 8, &f.value);
	else if (f.type == WIRE_FIXED32)
		whole = take_fixed(rest, 4, &f.value);
	else if (f.type == WIRE_BYTES)
		whole = take_varint(rest, &len) && take_bytes(rest, len, &f.bytes);
	if (!whole)
		return KOVA_EPROTO;
	*ret_field = f;
	return KOVA_OK;
}
