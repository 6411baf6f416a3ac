/*
 * All items of the control plane and the catalogue made of them: immutable once built, reference-counted. A
 * change builds the next state from the one in force and shares all that is the same.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "control/control_item.h"
#include "control/rule_set.h"
#include "core/hlc.h"

struct control_state {
	atomic_uint refs;
	struct control_item **items; /* by id each once; deleted ones as well */
	size_t n_items, room;
	uint32_t *index; /* open addressing by id_hash; item + 1, 0: empty */
	size_t mask;
	struct catalogue *catalogue;
	bool file_loaded; /* a file was loaded, ever: what differs from then is a new write */
};

/* Without items or catalogue; NULL: out of memory. */
struct control_state *control_state_new(size_t room);
struct control_state *control_state_ref(struct control_state *s);
void control_state_unref(struct control_state *s); /* NULL is nothing */

struct control_item *control_state_find(const struct control_state *s, struct slice id);

/*
 * While it is being built: puts `item` (its reference is taken over, also on failure) in place of the one of its id.
 */
KOVA_MUST_CHECK kova_status control_state_put(struct control_state *s, struct control_item *item);

/* Ends the building: makes the catalogue. */
KOVA_MUST_CHECK kova_status control_state_finish(struct control_state *s);

/* The state after `base` with `item` (borrowed) put. */
KOVA_MUST_CHECK kova_status control_state_with(const struct control_state *base,
					       struct control_item *item,
					       struct control_state **ret_state);

/*
 * The state after `base` with those of the `n` items (borrowed) put that are newer than what is there, by the order of writes of
 * gossip (core/gossip_items.h). What the file said of an item stays known; of one that is unread, the rule that was in force.
 */
KOVA_MUST_CHECK kova_status control_state_take(const struct control_state *base,
					       struct control_item *const *items, size_t n,
					       struct control_state **ret_state);

/*
 * The state after a load of the file: an item that differs from what the file said at the last load is a
 * new write by `file` on `node`, stamped by `clock` (0 when no load is remembered, and then everything that is there wins); an item
 * that the file no longer has is deleted by it; all else is left alone. *ret_changed: whether it differs from `base`.
 */
KOVA_MUST_CHECK kova_status control_state_merge(const struct control_state *base,
						const struct rule_set *rules,
						const struct rule_lists *lists, struct slice node,
						struct hlc *clock, uint64_t now_ms,
						struct control_state **ret_state,
						bool *ret_changed);
