/* "Did you mean": the known name that is the fewest typing mistakes away. */
#pragma once

#include <stddef.h>

/* Walks the known names: the `i`th, or NULL after the last. */
typedef const char *nearest_name_at(const void *names, size_t i);

/*
 * The only name that begins with `text`, or else the one nearest to it by mistakes (a letter more, less or other, two
 * neighbours swapped: Damerau 1964; case does not count). NULL: none is within a third of its length.
 */
const char *nearest_find(const char *text, nearest_name_at *name_at, const void *names);

/* The same among the names of a list that ends with NULL. */
const char *nearest_in_list(const char *text, const char *const *names);
