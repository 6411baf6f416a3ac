/*
 * What the children of a limit consumed, of policies whose `weights` are `history`: from the loops' feeds to kova.usage.v1, for the coordinator
 * (proto/kova_children.proto). Each record says what came since the last, so one that is lost is missing: this makes weights, and no sums.
 * On the owner's loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control/catalogue.h"
#include "core/hlc.h"
#include "core/tally.h"
#include "io/kafka_producer.h"
#include "usage_report.h"

enum {
	USAGE_CHILDREN =
		4096, /* that an agent, and a loop, has room for; what comes beyond is not told */
	USAGE_CHILDREN_MS = 5000, /* between two records of a child */
};

/*
 * Counts for the children that `key` is of. `catalogue` is that in force. On a loop, into its own tally.
 */
void usage_children_add(struct tally *t, const struct catalogue *catalogue, struct slice policy,
			struct slice key, uint64_t admitted);

/* Whose child such a counter is of: its parent's key path, and what comes after that and a '/'. Slices of the key. */
void usage_children_split(const struct tally_key *key, struct slice *ret_parent,
			  struct slice *ret_child);

struct usage_children;

/* `producer`, `hlc` and the strings of `source` are borrowed. NULL: out of memory. */
struct usage_children *usage_children_new(struct kafka_producer *producer, struct hlc *hlc,
					  const struct usage_source *source);
void usage_children_free(struct usage_children *c); /* NULL is nothing */

/* Takes over what a loop counted, and empties `from`. */
void usage_children_take(struct usage_children *c, struct tally *from);

/* Sends some of what has changed, when it is time (`now_ms` of a steady clock). Returns whether there is more to send now. */
bool usage_children_send(struct usage_children *c, uint64_t now_ms);

/* Whether a record that the producer tells of was one of these. */
bool usage_children_delivered(const struct usage_children *c, const void *opaque);
