#include "nearest.h"

#include <stdbool.h>
#include <string.h>

enum { NAME_MAX_LEN = 32 };

static unsigned min3(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Optimal string alignment distance; both at most NAME_MAX_LEN long. */
static unsigned distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned row[NAME_MAX_LEN + 1][NAME_MAX_LEN + 1];

	for (unsigned i = 0; i <= a_len; i++)
		row[i][0] = i;
	for (unsigned j = 0; j <= b_len; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		for (size_t j = 1; j <= b_len; j++) {
			unsigned other = row[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			unsigned d = min3(row[i - 1][j] + 1, row[i][j - 1] + 1, other);

			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d = min3(d, d, row[i - 2][j - 2] + 1);
			row[i][j] = d;
		}
	}
	return row[a_len][b_len];
}

/* The only name that begins with `text`, or NULL. */
static const char *only_beginning(const char *text, size_t len, nearest_name_at *name_at,
				  const void *names)
{
	const char *found = NULL, *name;

	for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
		if (strncmp(name, text, len) != 0)
			continue;
		if (found != NULL)
			return NULL;
		found = name;
	}
	return found;
}

const char *nearest_find(const char *text, nearest_name_at *name_at, const void *names)
{
	size_t len = strlen(text);
	const char *best = NULL, *name;

	if (len == 0 || len > NAME_MAX_LEN)
		return NULL;
	unsigned best_distance = (unsigned)(len < 3 ? 1 : (len + 2) / 3) + 1;
	for (size_t i = 0; (name = name_at(names, i)) != NULL; i++) {
		size_t name_len = strlen(name);
		if (name_len > NAME_MAX_LEN)
			continue;
		unsigned d = distance(text, len, name, name_len);
		if (d < best_distance) {
			best_distance = d;
			best = name;
		}
	}
	const char *beginning = only_beginning(text, len, name_at, names);
	return beginning != NULL ? beginning : best;
}
