#include "core/decimal.h"

#include <stdbool.h>

kova_status decimal_parse(struct slice text, uint64_t max, uint64_t *ret_value)
{
	uint64_t value = 0;
	bool above = false;

	if (text.len == 0)
		return KOVA_EPROTO;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned)(unsigned char)text.ptr[i] - '0';

		if (digit > 9)
			return KOVA_EPROTO;
		above |= digit > max || value > (max - digit) / 10;
		if (!above)
			value = value * 10 + digit;
	}
	if (above)
		return KOVA_ERANGE;
	*ret_value = value;
	return KOVA_OK;
}
