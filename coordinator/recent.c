#include "recent.h"

#include <stdlib.h>

bool recent_init(struct recent *r, size_t max)
{
	*r = (struct recent){.texts = calloc(max, sizeof *r->texts), .max = max};
	return r->texts != NULL;
}

void recent_clear(struct recent *r)
{
	for (size_t i = 0; i < r->max; i++)
		buf_release(&r->texts[i]);
	r->n = 0;
}

void recent_release(struct recent *r)
{
	if (r->texts != NULL)
		recent_clear(r);
	free(r->texts);
}

void recent_add(struct recent *r, struct buf *text)
{
	struct buf *slot = &r->texts[r->n++ % r->max];

	buf_release(slot);
	*slot = *text;
	*text = (struct buf){0};
}

void recent_write(const struct recent *r, uint64_t since, struct buf *out)
{
	uint64_t oldest = r->n > r->max ? r->n - r->max : 0;
	uint64_t first = since > oldest ? since : oldest;

	buf_add_text(out, "[");
	for (uint64_t i = first; i < r->n; i++) {
		if (i > first)
			buf_add_text(out, ",");
		buf_add_slice(out, buf_slice(&r->texts[i % r->max]));
	}
	buf_add_text(out, "]");
}
