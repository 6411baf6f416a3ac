/*
 * What one loop counted of each policy and root, on its way to the usage report of the agent: the loop counts into one
 * tally while the owner empties the other.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/tally.h"

enum { USAGE_FEED_ROOTS = 16384 }; /* between two reports */

struct control;

struct usage_feed {
	const struct control
		*control; /* the loop's: what is in force. NULL: children are not counted */
	struct tally *
		children; /* as `active` and `handed`: of policies that weigh by history (usage_children.h) */
	struct tally *handed_children;
	struct tally *active; /* the loop's */
	struct tally *handed; /* the owner's, from usage_feed_swap() until it is empty */
	uint64_t lost;        /* costs that were not counted: memory was out. The loop's */
	uint64_t handed_lost; /* the owner's, as `handed` */
};

/* False: out of memory. */
bool usage_feed_init(struct usage_feed *f);
void usage_feed_release(struct usage_feed *f);

/* On the loop. `key` is the whole key. */
void usage_feed_add(struct usage_feed *f, struct slice policy, struct slice key,
		    const struct tally_counts *counts);
/* On the loop, while it is known that `handed` is empty. */
void usage_feed_swap(struct usage_feed *f);
