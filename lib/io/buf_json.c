#include "io/buf_json.h"

static int on_text(const char *text, size_t len, void *data)
{
	struct buf *b = data;

	buf_add(b, text, len);
	return buf_failed(b) ? -1 : 0;
}

void buf_add_json(struct buf *b, const json_t *value, size_t flags)
{
	if (value == NULL || json_dump_callback(value, on_text, b, flags) != 0)
		b->failed = true;
}
