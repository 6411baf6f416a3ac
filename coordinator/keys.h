/*
 * What is known of the keys of one partition of kova.usage.v1: of each (a policy and a root) some strings of bytes, its parts, each
 * under a number of its own. There may be millions, so a key is one piece of memory: its name, then its parts. A key is never
 * forgotten, and its number stays.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/intern.h"
#include "core/name.h"
#include "core/status.h"
#include "packed_heap.h"

enum { KEYS_ROOT_MAX = 1024, KEYS_PART_MAX = 1 << 30 };

struct keys_block;

/* All zeros: there are none. Owned: keys_release(). */
struct keys {
	struct keys_block **at; /* by number */
	uint32_t n, room;
	uint32_t *slots; /* by hash, open addressing: number + 1; 0: free */
	uint32_t n_slots;
	struct packed_heap heap; /* of the blocks */
	struct intern policies;
};

/* Borrowed. */
struct keys_name {
	uint32_t policy; /* keys_policy() */
	struct slice root;
	bool other; /* no key: all those for which an agent had no room */
};

struct keys_part {
	uint32_t number; /* < KEYS_PART_MAX */
	bool marked;
	struct slice bytes; /* borrowed until something is made or set */
};

void keys_release(struct keys *k);

/* The number of a policy, which it has from now on. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status keys_policy(struct keys *k, struct slice name, uint32_t *ret_policy);
/* UINT32_MAX: it has none. */
uint32_t keys_policy_find(const struct keys *k, struct slice name);
struct slice keys_policy_name(const struct keys *k, uint32_t policy);

/* The number of a key, which is made if it is not there; its root has KEYS_ROOT_MAX bytes at most. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status keys_make(struct keys *k, const struct keys_name *name,
				      uint32_t *ret_key);
/* UINT32_MAX: it is not there. */
uint32_t keys_find(const struct keys *k, const struct keys_name *name);
/* Borrowed until something is made or set. */
struct keys_name keys_name(const struct keys *k, uint32_t key);

/* Looks for a part. False: there is none. */
bool keys_part(const struct keys *k, uint32_t key, uint32_t number, struct keys_part *ret_part);
/* The i-th part, in the order in which they were set first. False: there are no more. */
bool keys_part_at(const struct keys *k, uint32_t key, unsigned i, struct keys_part *ret_part);

/* It takes the place of the part of its number, or is one more; copied. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status keys_set(struct keys *k, uint32_t key, const struct keys_part *part);
/* Of a part that is there: nothing else of it changes. */
void keys_mark(struct keys *k, uint32_t key, uint32_t number, bool marked);
/* Such a part is no more, if it was there. */
void keys_drop(struct keys *k, uint32_t key, uint32_t number);
