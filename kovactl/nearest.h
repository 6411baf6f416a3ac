/*
 * "Did you mean": the known name that is the fewest typing mistakes away.
 */
#pragma once

#include <stddef.h>

/* Walks the known names: the `i`th, or NULL after the last. */
typedef const char *nearest_name_at(const void *names, size_t i);

/*
 * The name nearest to `text` by mistakes (a letter more, less or other, two letters swapped;
 * Damerau 1964), or the only one that `text` begins; NULL when none is within a third of its
 * length.
 */
const char *nearest_find(const char *text, nearest_name_at *name_at, const void *names);
