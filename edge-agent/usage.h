/*
 * What each (policy, key) consumed, as this agent saw it: a table of fixed size, in which a key that was
 * not seen for long makes room for a new one. So memory does not grow with keys.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"

enum {
	USAGE_KEYS = 65536, /* remembered at once */
	USAGE_MARKS = 2048, /* of those that have changed since they were reported */
};

struct usage_counts {
	uint64_t admitted, refused; /* sum of costs */
	uint64_t waited;            /* of those admitted: after waiting */
	int64_t since_ms;           /* wall clock, ms since the epoch: counted from then on */
};

struct engine;
struct top_keys;
struct usage;
struct usage_feed;

enum usage_outcome { USAGE_ADMITTED, USAGE_ADMITTED_LATE, USAGE_REFUSED };

/* `feed` (borrowed) is told what is counted; NULL: nobody is. NULL: out of memory. */
struct usage *usage_new(size_t keys_max, struct usage_feed *feed);
/* Tells the feed the rest. */
void usage_free(struct usage *u);
/* Without memory the key is not counted here; the feed is told all the same. */
void usage_add(struct usage *u, struct slice policy, struct slice key, enum usage_outcome outcome,
	       uint64_t cost, int64_t now_ms);
/* The keys that ask for most, and of which most is refused, of all that was counted; borrowed. */
const struct top_keys *usage_top(struct usage *u, int64_t now_ms);
/* Tells the feed all that was counted. */
void usage_report(struct usage *u);
bool usage_find(struct usage *u, struct slice policy, struct slice key,
		struct usage_counts *ret_counts);

/* As usage_top(), of the engine. */
const struct top_keys *usage_get_top(const struct engine *e);
/* As usage_find(), in the engine's table. */
bool usage_get(const struct engine *e, struct slice policy, struct slice key,
	       struct usage_counts *ret_counts);
