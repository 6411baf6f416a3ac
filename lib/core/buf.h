/* A growable byte buffer whose failure sticks: write straight down, test buf_failed() once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/bytes.h"

struct buf {
	char *ptr;  /* owned; NULL when cap is 0 */
	size_t len; /* <= cap */
	size_t cap;
	bool failed; /* an allocation failed: what is there is not whole */
};

void buf_release(struct buf *b);               /* frees the memory; b is empty again */
void buf_clear(struct buf *b);                 /* len = 0, keeps the memory */
char *buf_reserve(struct buf *b, size_t more); /* room for `more` bytes at ptr+len, or NULL */
void buf_add_growing(struct buf *b, const void *ptr, size_t len); /* buf_add() without room */
void buf_add_int(struct buf *b, int64_t value);                   /* decimal */
void buf_add_uint(struct buf *b, uint64_t value);
void buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t n); /* drops the first n <= len bytes */

/* Inline, so that what is constant costs a store where there is room. */
static inline void buf_add(struct buf *b, const void *ptr, size_t len)
{
	if (len == 0 || len > b->cap - b->len || b->failed) {
		buf_add_growing(b, ptr, len);
		return;
	}
	memcpy(b->ptr + b->len, ptr, len);
	b->len += len;
}

static inline void buf_add_slice(struct buf *b, struct slice s)
{
	buf_add(b, s.ptr, s.len);
}

static inline void buf_add_text(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text));
}

static inline bool buf_failed(const struct buf *b)
{
	return b->failed;
}
static inline struct slice buf_slice(const struct buf *b)
{
	return (struct slice){b->ptr, b->len};
}
