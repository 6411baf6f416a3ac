#include "core/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BUF_MIN_CAP = 256 };

void buf_release(struct buf *b)
{
	free(b->ptr);
	*b = (struct buf){0};
}

void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = false;
}

/* Doubles, so that a buffer filled byte by byte costs linear time. */
static bool buf_grow(struct buf *b, size_t more)
{
	size_t need = b->len + more;
	size_t cap = b->cap < BUF_MIN_CAP ? BUF_MIN_CAP : b->cap;
	char *ptr;

	if (need < more || need > SIZE_MAX / 2) {
		b->failed = true;
		return false;
	}
	while (cap < need)
		cap *= 2;
	ptr = realloc(b->ptr, cap);
	if (ptr == NULL) {
		b->failed = true;
		return false;
	}
	b->ptr = ptr;
	b->cap = cap;
	return true;
}

char *buf_reserve(struct buf *b, size_t more)
{
	if (b->failed)
		return NULL;
	if ((b->ptr == NULL || b->cap - b->len < more) && !buf_grow(b, more))
		return NULL;
	return b->ptr + b->len;
}

void buf_add_growing(struct buf *b, const void *ptr, size_t len)
{
	char *to;

	if (len == 0)
		return;
	to = buf_reserve(b, len);
	if (to == NULL)
		return;
	memcpy(to, ptr, len);
	b->len += len;
}

void buf_add_uint(struct buf *b, uint64_t value)
{
	char digits[20];
	size_t at = sizeof digits;

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	buf_add(b, digits + at, sizeof digits - at);
}

void buf_add_int(struct buf *b, int64_t value)
{
	if (value >= 0) {
		buf_add_uint(b, (uint64_t)value);
		return;
	}
	buf_add(b, "-", 1);
	buf_add_uint(b, (uint64_t)0 - (uint64_t)value); /* INT64_MIN has no positive twin */
}

void buf_printf(struct buf *b, const char *format, ...)
{
	va_list args;
	int n;
	char *to;

	va_start(args, format);
	n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	assert(n >= 0); /* a bug in `format` */
	to = buf_reserve(b, (size_t)n + 1);
	if (to == NULL)
		return;
	va_start(args, format);
	vsnprintf(to, (size_t)n + 1, format, args);
	va_end(args);
	b->len += (size_t)n;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	b->len -= n;
	if (b->len != 0 && n != 0)
		memmove(b->ptr, b->ptr + n, b->len);
}
