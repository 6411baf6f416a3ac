/*
 * What each (policy, key) consumed, as this agent saw it: a table of fixed size, in which a key that was
 * not seen for long makes room for a new one. So memory does not grow with keys.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

enum { USAGE_KEYS = 65536 }; /* remembered at once */

struct usage_counts {
	uint64_t admitted, refused; /* sum of costs */
	uint64_t waited;            /* of those admitted: after waiting */
	int64_t since_ms;           /* wall clock, ms since the epoch: counted from then on */
};

struct engine;
struct usage;

enum usage_outcome { USAGE_ADMITTED, USAGE_ADMITTED_LATE, USAGE_REFUSED };

struct usage *usage_new(size_t keys_max); /* NULL: out of memory */
void usage_free(struct usage *u);
/* A key too long to be remembered or memory that is out leaves the key uncounted. */
void usage_add(struct usage *u, struct slice policy, struct slice key, enum usage_outcome outcome,
	       uint64_t cost, int64_t now_ms);
bool usage_find(const struct usage *u, struct slice policy, struct slice key,
		struct usage_counts *ret_counts);

/* As usage_find(), in the engine's table. */
bool usage_get(const struct engine *e, struct slice policy, struct slice key,
	       struct usage_counts *ret_counts);
