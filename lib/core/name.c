#include "core/name.h"

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_' || c == '-';
}

bool name_is_valid(struct slice name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!is_name_char(name.ptr[i]))
			return false;
	return name.len >= 1 && name.len <= NAME_BYTES_MAX;
}
