/* Linear probing; a removal moves back those behind it that would no more be found (Knuth, TAOCP 6.4, algorithm R). */
#include "lease_table.h"

#include <stdlib.h>

#include "core/hash.h"

enum { CAP_MIN = 256 };

/* Never 0. */
static uint8_t tag_of(uint64_t hash)
{
	return hash >> 56 != 0 ? (uint8_t)(hash >> 56) : 1;
}

static uint64_t entry_hash(const struct lease_entry *e)
{
	return lease_hash(lease_entry_policy(e), lease_entry_key(e));
}

uint64_t lease_hash(struct slice policy, struct slice key)
{
	return hash_bytes(key, hash_bytes(policy, 0));
}

void lease_table_release(struct lease_table *t)
{
	free(t->entries);
	free(t->tags);
	*t = (struct lease_table){0};
}

struct lease_entry *lease_table_find(const struct lease_table *t, uint64_t hash,
				     struct slice policy, struct slice key)
{
	size_t mask = t->cap - 1;

	for (size_t i = hash & mask; t->cap > 0 && t->tags[i] != 0; i = (i + 1) & mask)
		if (t->tags[i] == tag_of(hash) &&
		    slice_equal(lease_entry_key(t->entries[i]), key) &&
		    slice_equal(lease_entry_policy(t->entries[i]), policy))
			return t->entries[i];
	return NULL;
}

static void put(struct lease_table *t, uint64_t hash, struct lease_entry *e)
{
	size_t i = hash & (t->cap - 1);

	while (t->tags[i] != 0)
		i = (i + 1) & (t->cap - 1);
	t->entries[i] = e;
	t->tags[i] = tag_of(hash);
}

static bool grow(struct lease_table *t)
{
	struct lease_table bigger = {.cap = t->cap == 0 ? CAP_MIN : 2 * t->cap, .n = t->n};

	bigger.entries = calloc(bigger.cap, sizeof *bigger.entries);
	bigger.tags = calloc(bigger.cap, sizeof *bigger.tags);
	if (bigger.entries == NULL || bigger.tags == NULL) {
		lease_table_release(&bigger);
		return false;
	}
	for (size_t i = 0; i < t->cap; i++)
		if (t->tags[i] != 0)
			put(&bigger, entry_hash(t->entries[i]), t->entries[i]);
	lease_table_release(t);
	*t = bigger;
	return true;
}

bool lease_table_add(struct lease_table *t, uint64_t hash, struct lease_entry *e)
{
	if (t->n >= t->cap / 5 * 4 && !grow(t))
		return false;
	put(t, hash, e);
	t->n++;
	return true;
}

void lease_table_remove(struct lease_table *t, const struct lease_entry *e)
{
	size_t mask = t->cap - 1, hole = entry_hash(e) & mask;

	while (t->entries[hole] != e)
		hole = (hole + 1) & mask;
	for (size_t i = (hole + 1) & mask; t->tags[i] != 0; i = (i + 1) & mask) {
		size_t home = entry_hash(t->entries[i]) & mask;

		if (((i - home) & mask) < ((i - hole) & mask))
			continue; /* it is found without the hole */
		t->entries[hole] = t->entries[i];
		t->tags[hole] = t->tags[i];
		hole = i;
	}
	t->entries[hole] = NULL;
	t->tags[hole] = 0;
	t->n--;
}
