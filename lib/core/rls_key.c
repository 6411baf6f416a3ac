#include "core/rls_key.h"

void rls_name_add(struct buf *name, struct slice text)
{
	buf_add_uint(name, text.len);
	buf_add(name, ":", 1);
	buf_add_slice(name, text);
}

void rls_path_add(struct buf *out, size_t start, struct slice value)
{
	if (out->len > start)
		buf_add(out, "/", 1);
	if (value.len == 0)
		buf_add_slice(out, SLICE("%00"));
	while (value.len > 0) {
		size_t plain = 0;

		while (plain < value.len && value.ptr[plain] != '/' && value.ptr[plain] != '%')
			plain++;
		buf_add(out, value.ptr, plain);
		if (plain < value.len)
			buf_add_slice(out, value.ptr[plain] == '/' ? SLICE("%2F") : SLICE("%25"));
		value = slice_after(value, plain + 1);
	}
}
