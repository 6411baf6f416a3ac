#include "core/recent.h"

#include <stdlib.h>

bool recent_init(struct recent *r, size_t max, size_t max_bytes)
{
	*r = (struct recent){
		.texts = calloc(max, sizeof *r->texts), .max = max, .max_bytes = max_bytes};
	return r->texts != NULL;
}

static void forget_oldest(struct recent *r)
{
	struct buf *slot = &r->texts[r->first++ % r->max];

	r->bytes -= slot->len;
	buf_release(slot);
}

void recent_clear(struct recent *r)
{
	while (r->first < r->n)
		forget_oldest(r);
	r->first = r->n = 0;
}

void recent_release(struct recent *r)
{
	if (r->texts != NULL)
		recent_clear(r);
	free(r->texts);
}

void recent_add(struct recent *r, struct buf *text)
{
	while (r->first < r->n &&
	       (r->n - r->first == r->max || r->bytes + text->len > r->max_bytes))
		forget_oldest(r);
	r->bytes += text->len;
	r->texts[r->n++ % r->max] = *text;
	*text = (struct buf){0};
}

void recent_write(const struct recent *r, uint64_t since, struct buf *out)
{
	uint64_t first = since > r->first ? since : r->first;

	buf_add_text(out, "[");
	for (uint64_t i = first; i < r->n; i++) {
		if (i > first)
			buf_add_text(out, ",");
		buf_add_slice(out, buf_slice(&r->texts[i % r->max]));
	}
	buf_add_text(out, "]");
}
