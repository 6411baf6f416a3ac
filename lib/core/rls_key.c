#include "core/rls_key.h"

#include <assert.h>

void rls_name_add(struct buf *name, struct slice text)
{
	buf_add_uint(name, text.len);
	buf_add(name, ":", 1);
	buf_add_slice(name, text);
}

bool rls_name_next(struct slice *name, struct slice *ret_text)
{
	struct slice digits = slice_cut(name, ':');
	size_t len = 0;

	if (digits.len == 0)
		return false;
	for (size_t i = 0; i < digits.len; i++)
		len = len * 10 + (size_t)(digits.ptr[i] - '0');
	assert(len <= name->len);
	*ret_text = (struct slice){name->ptr, len};
	*name = slice_after(*name, len);
	return true;
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
