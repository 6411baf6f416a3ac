#include "core/nearest.h"

#include <stdint.h>

#include "core/bytes.h"

enum { COMPARED_MAX = 64 }; /* no name that is known is longer */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

static bool swapped(struct slice a, size_t i, struct slice b, size_t j)
{
	return i > 1 && j > 1 && lower(a.ptr[i - 1]) == lower(b.ptr[j - 2]) &&
	       lower(a.ptr[i - 2]) == lower(b.ptr[j - 1]);
}

/* Optimal string alignment, by rows; both at most COMPARED_MAX long. */
static size_t distance(struct slice a, struct slice b)
{
	size_t rows[3][COMPARED_MAX + 1];
	size_t *older = rows[0], *old = rows[1], *now = rows[2];

	for (size_t j = 0; j <= b.len; j++)
		old[j] = j;
	for (size_t i = 1; i <= a.len; i++) {
		now[0] = i;
		for (size_t j = 1; j <= b.len; j++) {
			size_t other = old[j - 1] + (lower(a.ptr[i - 1]) != lower(b.ptr[j - 1]));

			now[j] = min3(old[j] + 1, now[j - 1] + 1, other);
			if (swapped(a, i, b, j) && older[j - 2] + 1 < now[j])
				now[j] = older[j - 2] + 1;
		}
		size_t *spare = older;

		older = old;
		old = now;
		now = spare;
	}
	return old[b.len];
}

/* SIZE_MAX: neither is a likely misspelling of the other. */
static size_t mistakes(struct slice a, struct slice b)
{
	size_t longer = a.len > b.len ? a.len : b.len, n;

	if (longer > COMPARED_MAX)
		return SIZE_MAX;
	n = distance(a, b);
	return n <= (longer + 1) / 3 ? n : SIZE_MAX;
}

/* The only name that begins with `text`, or NULL. */
static const char *only_beginning(struct slice text, nearest_name_at *name_at, const void *names)
{
	const char *found = NULL, *name;

	for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
		if (strncmp(name, text.ptr, text.len) != 0)
			continue;
		if (found != NULL)
			return NULL;
		found = name;
	}
	return found;
}

const char *nearest_find(const char *text, nearest_name_at *name_at, const void *names)
{
	struct slice typed = slice_of(text);
	const char *best, *name;
	size_t least = SIZE_MAX;

	if (typed.len == 0)
		return NULL;
	best = only_beginning(typed, name_at, names);
	if (best != NULL)
		return best;
	for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
		size_t n = mistakes(typed, slice_of(name));

		if (n < least) {
			least = n;
			best = name;
		}
	}
	return best;
}

static const char *list_name_at(const void *names, size_t i)
{
	return ((const char *const *)names)[i];
}

const char *nearest_in_list(const char *text, const char *const *names)
{
	return nearest_find(text, list_name_at, names);
}
