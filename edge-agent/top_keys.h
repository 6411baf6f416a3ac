/*
 * Which keys of each policy ask for most, and of which most is refused, as one loop counts them (core/space_saving.h). Of late: every
 * TOP_HALVED_MS what was counted counts half. Bounded: so many policies, so many keys of each.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/name.h"
#include "core/space_saving.h"

enum {
	TOP_POLICIES_MAX = 256, /* the first so many that are asked for */
	TOP_KEYS = 64,          /* of each */
	TOP_HALVED_MS = 300000,
	TOP_LISTED_MAX = 100,
};

enum top_kind { TOP_ASKED, TOP_REFUSED, TOP_KINDS };

struct top_keys;

/* NULL: out of memory. */
struct top_keys *top_keys_new(void);
void top_keys_free(struct top_keys *t); /* NULL is nothing */

/* `cost` was asked for, and `refused` or not, at `now_ms` (wall clock). What there is no memory for is not counted. */
void top_keys_add(struct top_keys *t, struct slice policy, struct slice key, bool refused,
		  uint64_t cost, int64_t now_ms);
/* Time has passed: before it is looked at. */
void top_keys_age(struct top_keys *t, int64_t now_ms);
/* Adds what another loop has counted. What there is no memory for is left out. */
void top_keys_merge(struct top_keys *sum, const struct top_keys *t);

struct top_key {
	const char *policy; /* borrowed, as the key, until `t` changes */
	struct space_saving_key of;
};
/* The first `max` (at most TOP_LISTED_MAX) of a policy, empty: of all; the heaviest first. Returns how many there are. */
unsigned top_keys_list(const struct top_keys *t, enum top_kind kind, struct slice policy,
		       struct top_key *ret_keys, unsigned max);

/* The name of policy number `i`, from 0 on; NULL: there are no more. */
const char *top_keys_policy(const struct top_keys *t, unsigned i);
/* How often something was not counted, since there were TOP_POLICIES_MAX other policies. */
uint64_t top_keys_overflows(const struct top_keys *t);
