/*
 * A table by hash finds the key; the lightest is looked for among all counts, which lie together, so that it costs little beside
 * the copying of the key that takes its place.
 */
#include "core/space_saving.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

struct entry {
	char *key; /* owned */
	uint32_t len, room;
	uint64_t hash, error;
};

struct space_saving {
	unsigned n, capacity;
	unsigned mask; /* of the table, which is at most half full */
	uint64_t total;
	uint64_t *counts; /* by entry */
	struct entry *entries;
	uint16_t *table; /* entry + 1; 0: free. Linear probing */
};

static unsigned table_size(unsigned capacity)
{
	unsigned size = 4;

	while (size < 2 * capacity)
		size *= 2;
	return size;
}

struct space_saving *space_saving_new(unsigned capacity)
{
	struct space_saving *s = calloc(1, sizeof *s);

	assert(capacity >= 1 && capacity <= SPACE_SAVING_MAX);
	if (s == NULL)
		return NULL;
	s->capacity = capacity;
	s->mask = table_size(capacity) - 1;
	s->counts = calloc(capacity, sizeof *s->counts);
	s->entries = calloc(capacity, sizeof *s->entries);
	s->table = calloc(s->mask + 1, sizeof *s->table);
	if (s->counts == NULL || s->entries == NULL || s->table == NULL) {
		space_saving_free(s);
		return NULL;
	}
	return s;
}

void space_saving_free(struct space_saving *s)
{
	if (s == NULL)
		return;
	for (unsigned i = 0; s->entries != NULL && i < s->capacity; i++)
		free(s->entries[i].key);
	free(s->counts);
	free(s->entries);
	free(s->table);
	free(s);
}

/* ---- the table ---- */

/* Where the key's number is, or would be. */
static unsigned place_of(const struct space_saving *s, struct slice key, uint64_t hash)
{
	unsigned at = (unsigned)hash & s->mask;

	while (s->table[at] != 0) {
		const struct entry *e = &s->entries[s->table[at] - 1];

		if (e->hash == hash && slice_equal((struct slice){e->key, e->len}, key))
			break;
		at = (at + 1) & s->mask;
	}
	return at;
}

/* Frees a place and closes the gap (Knuth 6.4, algorithm R). */
static void table_remove(struct space_saving *s, unsigned at)
{
	unsigned next = at;

	for (;;) {
		next = (next + 1) & s->mask;
		if (s->table[next] == 0)
			break;
		unsigned home = (unsigned)s->entries[s->table[next] - 1].hash & s->mask;

		if (((next - home) & s->mask) < ((next - at) & s->mask))
			continue;
		s->table[at] = s->table[next];
		at = next;
	}
	s->table[at] = 0;
}

/* ---- entries ---- */

static struct slice key_of(const struct space_saving *s, unsigned i)
{
	return (struct slice){s->entries[i].key, s->entries[i].len};
}

static bool entry_reserve(struct entry *e, size_t len)
{
	char *more;

	if (e->key != NULL && e->room >= len)
		return true;
	more = realloc(e->key, len > 0 ? len : 1);
	if (more == NULL)
		return false;
	e->key = more;
	e->room = (uint32_t)len;
	return true;
}

/* `i` is in no place of the table, and has room. */
static void entry_name(struct space_saving *s, unsigned i, struct slice key, uint64_t hash)
{
	struct entry *e = &s->entries[i];

	if (key.len > 0)
		memcpy(e->key, key.ptr, key.len);
	e->len = (uint32_t)key.len;
	e->hash = hash;
	s->table[place_of(s, key, hash)] = (uint16_t)(i + 1);
}

static void entry_unname(struct space_saving *s, unsigned i)
{
	table_remove(s, place_of(s, key_of(s, i), s->entries[i].hash));
}

static unsigned lightest(const struct space_saving *s)
{
	unsigned at = 0;

	for (unsigned i = 1; i < s->n; i++)
		if (s->counts[i] < s->counts[at])
			at = i;
	return at;
}

/* A place for a key that has none: a free one, or the lightest's. The capacity: out of memory. */
static unsigned entry_make(struct space_saving *s, struct slice key, uint64_t hash)
{
	bool is_full = s->n == s->capacity;
	unsigned i = is_full ? lightest(s) : s->n;

	if (!entry_reserve(&s->entries[i], key.len))
		return s->capacity;
	if (is_full) {
		entry_unname(s, i);
		s->entries[i].error = s->counts[i];
	} else {
		s->n++;
		s->counts[i] = s->entries[i].error = 0;
	}
	entry_name(s, i, key, hash);
	return i;
}

/* The last takes its number. */
static void entry_remove(struct space_saving *s, unsigned i)
{
	unsigned last = --s->n;
	struct entry gone = s->entries[i];

	entry_unname(s, i);
	if (i == last)
		return;
	s->table[place_of(s, key_of(s, last), s->entries[last].hash)] = (uint16_t)(i + 1);
	s->entries[i] = s->entries[last];
	s->counts[i] = s->counts[last];
	s->entries[last] = gone;
}

kova_status space_saving_add(struct space_saving *s, struct slice key, uint64_t weight)
{
	uint64_t hash = hash_bytes(key, 0);
	unsigned number = s->table[place_of(s, key, hash)];
	unsigned i = number > 0 ? number - 1 : entry_make(s, key, hash);

	if (i == s->capacity)
		return KOVA_ENOMEM;
	s->counts[i] += weight;
	s->total += weight;
	return KOVA_OK;
}

void space_saving_halve(struct space_saving *s)
{
	s->total /= 2;
	for (unsigned i = s->n; i-- > 0;) {
		s->counts[i] /= 2;
		s->entries[i].error /= 2;
		if (s->counts[i] == 0)
			entry_remove(s, i);
	}
}

/* ---- what there is ---- */

static int compare(const void *a, const void *b)
{
	const struct space_saving_key *x = a, *y = b;
	size_t len = x->key.len < y->key.len ? x->key.len : y->key.len;
	int order;

	if (x->count != y->count)
		return x->count > y->count ? -1 : 1;
	order = len > 0 ? memcmp(x->key.ptr, y->key.ptr, len) : 0;
	return order != 0 ? order : (x->key.len > y->key.len) - (x->key.len < y->key.len);
}

static unsigned list(const struct space_saving *s, struct space_saving_key *ret_keys)
{
	for (unsigned i = 0; i < s->n; i++)
		ret_keys[i] =
			(struct space_saving_key){key_of(s, i), s->counts[i], s->entries[i].error};
	return s->n;
}

uint64_t space_saving_total(const struct space_saving *s)
{
	return s->total;
}

unsigned space_saving_top(const struct space_saving *s, struct space_saving_key *ret_keys,
			  unsigned max)
{
	struct space_saving_key keys[SPACE_SAVING_MAX];
	unsigned n = list(s, keys);

	qsort(keys, n, sizeof *keys, compare);
	if (n > max)
		n = max;
	memcpy(ret_keys, keys, n * sizeof *keys);
	return n;
}

/* ---- merging ---- */

/* What a key that is not there may have weighed. */
static uint64_t unseen_max(const struct space_saving *s)
{
	return s->n == s->capacity ? s->counts[lightest(s)] : 0;
}

static bool holds(const struct space_saving *s, struct slice key, uint64_t hash, unsigned *ret_i)
{
	unsigned number = s->table[place_of(s, key, hash)];

	*ret_i = number - 1;
	return number > 0;
}

/* Adds what `s` has, or may have had, of the keys of another. */
static void add_other(const struct space_saving *s, struct space_saving_key *keys, unsigned n)
{
	uint64_t unseen = unseen_max(s);
	unsigned at;

	for (unsigned i = 0; i < n; i++) {
		bool is_there = holds(s, keys[i].key, hash_bytes(keys[i].key, 0), &at);

		keys[i].count += is_there ? s->counts[at] : unseen;
		keys[i].error += is_there ? s->entries[at].error : unseen;
	}
}

/* The keys of both, each once. */
static unsigned both(const struct space_saving *s, const struct space_saving *from,
		     struct space_saving_key *ret_keys)
{
	unsigned n = list(s, ret_keys), at;
	uint64_t unseen = unseen_max(s);

	add_other(from, ret_keys, n);
	for (unsigned i = 0; i < from->n; i++) {
		const struct entry *e = &from->entries[i];

		if (!holds(s, key_of(from, i), e->hash, &at))
			ret_keys[n++] = (struct space_saving_key){
				key_of(from, i), from->counts[i] + unseen, e->error + unseen};
	}
	qsort(ret_keys, n, sizeof *ret_keys, compare);
	return n;
}

kova_status space_saving_merge(struct space_saving *s, const struct space_saving *from)
{
	struct space_saving_key keys[2 * SPACE_SAVING_MAX];
	struct space_saving *sum = space_saving_new(s->capacity), old = *s;
	unsigned n = both(s, from, keys);

	for (unsigned i = 0; sum != NULL && i < n && i < s->capacity; i++) {
		if (space_saving_add(sum, keys[i].key, keys[i].count) != KOVA_OK) {
			space_saving_free(sum);
			return KOVA_ENOMEM;
		}
		sum->entries[i].error = keys[i].error;
	}
	if (sum == NULL)
		return KOVA_ENOMEM;
	sum->total = s->total + from->total;
	*s = *sum;
	*sum = old;
	space_saving_free(sum);
	return KOVA_OK;
}
