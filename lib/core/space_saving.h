/*
 * Space-Saving (Metwally, Agrawal, El Abbadi 2005): which keys of a stream weigh most, in memory for `capacity` keys however many
 * there are. A key that is not there takes the place of the lightest, and its count with it, which it then has as error.
 *
 * With N the sum of all weights and k the capacity, for each key that is there: true ≤ count ≤ true + error, error ≤ N / k; and
 * each key of more than N / k is there. The same holds of what summaries of several streams are merged into, with the N of
 * all (Agarwal et al. 2012). Halving makes the past count for less: it rounds down, which takes less than 1 off these bounds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/status.h"

enum { SPACE_SAVING_MAX = 512 };

struct space_saving;

struct space_saving_key {
	struct slice key;      /* borrowed until the summary changes */
	uint64_t count, error; /* sums of weights */
};

/* `capacity`: 1..SPACE_SAVING_MAX. NULL: out of memory. */
struct space_saving *space_saving_new(unsigned capacity);
void space_saving_free(struct space_saving *s); /* NULL is nothing */

/* Adds `weight` to `key`. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status space_saving_add(struct space_saving *s, struct slice key,
					     uint64_t weight);
/* Adds what `from` has seen. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status space_saving_merge(struct space_saving *s,
					       const struct space_saving *from);
/* Halves every count; keys of which nothing is left are forgotten. */
void space_saving_halve(struct space_saving *s);

/* The sum of all weights: N. */
uint64_t space_saving_total(const struct space_saving *s);
/* The heaviest `max`, in their order; those that weigh the same by their bytes. Returns how many there are. */
unsigned space_saving_top(const struct space_saving *s, struct space_saving_key *ret_keys,
			  unsigned max);
