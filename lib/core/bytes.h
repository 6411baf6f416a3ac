/* Bytes that somebody else owns: a pointer and a length, never NUL-terminated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
	const char *ptr; /* borrowed; may be NULL when len is 0 */
	size_t len;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
	return (struct slice){text, strlen(text)};
}

/* What follows the first `n` bytes; empty when there are no more than `n`. */
static inline struct slice slice_after(struct slice s, size_t n)
{
	return n < s.len ? (struct slice){s.ptr + n, s.len - n} : (struct slice){NULL, 0};
}

/* Where `c` is first; s.len: nowhere. */
static inline size_t slice_index(struct slice s, char c)
{
	const char *at = s.len != 0 ? memchr(s.ptr, c, s.len) : NULL;

	return at != NULL ? (size_t)(at - s.ptr) : s.len;
}

/* Takes what stands before the next `separator` off *rest, and the separator; all of it without one. */
static inline struct slice slice_cut(struct slice *rest, char separator)
{
	struct slice part = {rest->ptr, slice_index(*rest, separator)};

	*rest = part.len < rest->len
			? (struct slice){rest->ptr + part.len + 1, rest->len - part.len - 1}
			: (struct slice){NULL, 0};
	return part;
}

/* < 0, 0, > 0: by their bytes, and of two of which one begins with the other the shorter first. */
static inline int slice_compare(struct slice a, struct slice b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;

	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static inline bool slice_equal(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
