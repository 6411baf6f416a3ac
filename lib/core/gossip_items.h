/*
 * The items that a node knows, for gossip: which of two writes wins, digests by which two nodes find what differs, what is
 * still to be spread, and the stamps that were refused. The items themselves stay with their owner (the control plane),
 * which is asked for them when they are sent.
 *
 * The order of writes is total: stamp, then the node that wrote, then deletions, then the value's bytes. So whoever
 * has seen the same writes, in whatever order, has the same items.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/gossip_wire.h"
#include "core/status.h"

enum {
	GOSSIP_ROW = 64, /* children of a node of the tree of digests */
	GOSSIP_LEAVES = GOSSIP_ROW * GOSSIP_ROW,
	GOSSIP_QUEUE_MAX =
		256, /* items that are being spread; older ones are left to the digests */
	GOSSIP_REFUSALS_MAX = 64,
};

/* Says what the owner's `item` is. The slices are borrowed until the next call on the table. */
typedef void gossip_read_item(const void *item, struct gossip_item *ret_item);

struct gossip_entry {
	const void *item; /* the owner's; NULL: the entry is free */
	uint64_t id_hash, digest, stamp;
	uint32_t next; /* of its leaf, or of the free ones; entry + 1 */
	bool deleted;
	uint8_t sends; /* messages that still carry it */
};

/* Writes of one node that were refused: stamps from..to. */
struct gossip_refusal {
	uint64_t writer;
	uint64_t from, to;
	uint64_t
		ahead_ms; /* so far ahead of our clock each of those that were seen was, at least */
};

struct gossip_items {
	gossip_read_item *read;
	struct gossip_entry *entries;
	uint32_t n, used, room, free;
	uint32_t leaf[GOSSIP_LEAVES];
	uint64_t leaf_digest[GOSSIP_LEAVES];
	uint64_t row_digest[GOSSIP_ROW];
	uint64_t digest;
	uint32_t queue[GOSSIP_QUEUE_MAX]; /* entries with sends > 0 */
	uint32_t n_queue;
	struct gossip_refusal refusals[GOSSIP_REFUSALS_MAX];
	uint32_t n_refusals;
};

uint64_t gossip_hash(struct slice bytes); /* the same on every machine */

void gossip_items_init(struct gossip_items *t, gossip_read_item *read);
void gossip_items_release(struct gossip_items *t);

/* < 0, 0, > 0: `a` is older than, the same as, newer than `b`. */
int gossip_item_compare(const struct gossip_item *a, const struct gossip_item *b);

/* The entry of `id`, or NULL. */
struct gossip_entry *gossip_items_find(const struct gossip_items *t, struct slice id);
/* The entry whose id has this hash, from `after` (NULL: the first) on, or NULL. */
struct gossip_entry *gossip_items_next(const struct gossip_items *t, uint64_t id_hash,
				       const struct gossip_entry *after);

/* Whether `item` would take the place of what is known of its id. */
bool gossip_items_is_news(const struct gossip_items *t, const struct gossip_item *item);

/*
 * Puts the owner's `item`, whatever was known of its id; it is to be carried by `sends` messages. *ret_replaced: the owner's
 * item whose place it took, or NULL. KOVA_ENOMEM: nothing changed.
 */
KOVA_MUST_CHECK kova_status gossip_items_put(struct gossip_items *t, const void *item,
					     uint8_t sends, const void **ret_replaced);
/* Takes the item of `id` out, without a trace; returns the owner's item, or NULL. */
const void *gossip_items_forget(struct gossip_items *t, struct slice id);

/*
 * The guard: false when `item` is stamped more than `max_ahead_ms` ahead of `wall_ms`, or was, when it was seen before.
 * What one node stamped between two refused stamps of it that are not a minute apart is refused likewise: its clock was ahead
 * meanwhile.
 */
bool gossip_items_admit(struct gossip_items *t, const struct gossip_item *item, uint64_t wall_ms,
			uint64_t max_ahead_ms);

/* The refusal that this stamp of the writer (its hash) falls under, or NULL. */
const struct gossip_refusal *gossip_items_refusal(const struct gossip_items *t, uint64_t writer,
						  uint64_t stamp);
/* What another has refused, with ahead_ms as by our own clock, we refuse as well. */
void gossip_items_refuse(struct gossip_items *t, const struct gossip_refusal *refusal);
/* The next entry from *at (0 at first) on that falls under `refusal`, *ret_item what it is; NULL: there is none. */
const struct gossip_entry *gossip_items_refused(const struct gossip_items *t,
						const struct gossip_refusal *refusal, uint32_t *at,
						struct gossip_item *ret_item);

static inline unsigned gossip_leaf_of(uint64_t id_hash)
{
	return (unsigned)(id_hash % GOSSIP_LEAVES);
}
