/*
 * Rows under heads, as wide as their cells.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TABLE_COLUMNS_MAX = 10 };

struct table {
	unsigned columns;
	const char *const *heads; /* borrowed; a head that begins with '>' aligns to the right */
	char **cells;             /* owned, each a malloc */
	size_t n, cap;
	bool failed; /* out of memory: prints nothing */
};

/* `columns`: 1..TABLE_COLUMNS_MAX. */
void table_init(struct table *t, const char *const *heads, unsigned columns);
void table_release(struct table *t);
void table_cell(struct table *t,
		const char *text); /* row after row; NULL: an empty one; copied, made safe */
/* On stdout. Returns EXIT_ALLOWED, or EXIT_USAGE after a complaint. */
int table_print(const struct table *t);
