#include "book.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { SLOTS_MIN = 64 };

static const uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

void book_init(struct book *b, struct keys *keys)
{
	*b = (struct book){.keys = keys};
}

void book_release(struct book *b)
{
	free(b->series);
	free(b->series_slots);
	free(b->changed);
	intern_release(&b->processes);
	usage_ledger_release(&b->ledger);
	buf_release(&b->packed);
	*b = (struct book){0};
}

/* ---- Series ---- */

static uint64_t series_hash(struct slice policy, struct slice region)
{
	return hash_bytes(region, hash_bytes(policy, seed));
}

/* The slot of the series, or the free one where it belongs. */
static size_t series_slot(const struct book *b, struct slice policy, struct slice region)
{
	size_t mask = b->n_series_slots - 1, i = series_hash(policy, region) & mask;

	for (; b->series_slots[i] != 0; i = (i + 1) & mask) {
		const struct book_series *s = &b->series[b->series_slots[i] - 1];

		if (slice_equal(slice_of(s->policy), policy) &&
		    slice_equal(slice_of(s->region), region))
			break;
	}
	return i;
}

static bool series_grow(struct book *b)
{
	size_t room = b->series_room > 0 ? 2 * b->series_room : SLOTS_MIN;
	struct book_series *series = realloc(b->series, room * sizeof *series);
	uint32_t *slots = calloc(2 * room, sizeof *slots);

	if (series != NULL)
		b->series = series;
	if (series == NULL || slots == NULL) {
		free(slots);
		return false;
	}
	free(b->series_slots);
	b->series_slots = slots;
	b->n_series_slots = 2 * room;
	b->series_room = room;
	for (size_t i = 0; i < b->n_series; i++) {
		const struct book_series *s = &b->series[i];

		slots[series_slot(b, slice_of(s->policy), slice_of(s->region))] = (uint32_t)i + 1;
	}
	return true;
}

static void name_copy(char to[NAME_BYTES_MAX + 1], struct slice name)
{
	assert(name.len <= NAME_BYTES_MAX);
	memcpy(to, name.ptr, name.len);
	to[name.len] = '\0';
}

static kova_status series_find(struct book *b, const struct book_key *key, uint32_t *ret_index)
{
	size_t slot;

	if (b->n_series == b->series_room && !series_grow(b))
		return KOVA_ENOMEM;
	slot = series_slot(b, key->policy, key->region);
	if (b->series_slots[slot] == 0) {
		struct book_series *s = &b->series[b->n_series++];

		*s = (struct book_series){
			.shares_told = {.n = UINT64_MAX}}; /* not what an owner before has told */
		name_copy(s->policy, key->policy);
		name_copy(s->region, key->region);
		b->series_slots[slot] = (uint32_t)b->n_series;
	}
	*ret_index = b->series_slots[slot] - 1;
	return KOVA_OK;
}

/* ---- Ledgers ---- */

static uint32_t part_of(uint32_t series)
{
	return BOOK_FIRST_PART + series;
}

/* The key and the series of a quota, which are made if they are not there. */
static kova_status place_of(struct book *b, const struct book_key *key, struct book_change *ret_at)
{
	struct keys_name name = {.root = key->root, .other = key->other};

	if (series_find(b, key, &ret_at->series) != KOVA_OK ||
	    keys_policy(b->keys, key->policy, &name.policy) != KOVA_OK)
		return KOVA_ENOMEM;
	return keys_make(b->keys, &name, &ret_at->key);
}

/* It is b->ledger from now on. */
static kova_status load(struct book *b, struct book_change at, struct keys_part *ret_part)
{
	if (keys_part(b->keys, at.key, part_of(at.series), ret_part))
		return usage_ledger_unpack(&b->ledger, ret_part->bytes);
	*ret_part = (struct keys_part){.number = part_of(at.series)};
	b->ledger.n = 0;
	b->ledger.final = (struct usage_counts){0};
	return KOVA_OK;
}

static kova_status store(struct book *b, struct book_change at, const struct keys_part *part)
{
	bool is_new = part->bytes.ptr == NULL;
	kova_status status;

	buf_clear(&b->packed);
	status = usage_ledger_pack(&b->ledger, &b->packed);
	if (status == KOVA_OK)
		status = keys_set(
			b->keys, at.key,
			&(struct keys_part){part->number, part->marked, buf_slice(&b->packed)});
	b->n_ledgers += status == KOVA_OK && is_new;
	return status;
}

static bool has_room(struct book *b)
{
	size_t room = b->changed_room > 0 ? 2 * b->changed_room : SLOTS_MIN;
	struct book_change *changed;

	if (b->n_changed < b->changed_room)
		return true;
	changed = realloc(b->changed, room * sizeof *changed);
	if (changed == NULL)
		return false;
	b->changed = changed;
	b->changed_room = room;
	return true;
}

/* A ledger that has changed is kept, and marked, once. */
static kova_status store_changed(struct book *b, struct book_change at, struct keys_part *part)
{
	bool was_marked = part->marked;
	kova_status status;

	if (!has_room(b))
		return KOVA_ENOMEM;
	part->marked = true;
	status = store(b, at, part);
	if (status == KOVA_OK && !was_marked)
		b->changed[b->n_changed++] = at;
	return status;
}

static void add_difference(struct usage_counts *sum, struct usage_counts was,
			   struct usage_counts is)
{
	sum->admitted += is.admitted - was.admitted;
	sum->refused += is.refused - was.refused;
	sum->waited += is.waited - was.waited;
}

/* ---- Records ---- */

kova_status book_read(struct book *b, const struct book_key *key, const struct usage_record *r)
{
	struct book_change at;
	struct keys_part part;
	struct usage_counts was;

	if (place_of(b, key, &at) != KOVA_OK || load(b, at, &part) != KOVA_OK)
		return KOVA_ENOMEM;
	was = usage_ledger_total(&b->ledger);
	if (usage_ledger_read(&b->ledger, &b->processes, r) != KOVA_OK ||
	    store_changed(b, at, &part) != KOVA_OK)
		return KOVA_ENOMEM;
	add_difference(&b->series[at.series].total, was, usage_ledger_total(&b->ledger));
	return KOVA_OK;
}

kova_status book_restore(struct book *b, const struct book_key *key, const struct book_kept *kept)
{
	struct book_change at;
	struct keys_part part;
	struct usage_counts was;
	kova_status status = KOVA_OK;

	if (place_of(b, key, &at) != KOVA_OK || load(b, at, &part) != KOVA_OK)
		return KOVA_ENOMEM;
	was = usage_ledger_total(&b->ledger);
	usage_ledger_clear(&b->ledger, &b->processes);
	b->ledger.final = kept->final;
	for (size_t i = 0; status == KOVA_OK && i < kept->n; i++)
		status = usage_ledger_read(&b->ledger, &b->processes, &kept->counters[i]);
	if (status == KOVA_OK)
		status = store(b, at, &part);
	add_difference(&b->series[at.series].total, was, usage_ledger_total(&b->ledger));
	return status;
}

/* ---- What is asked ---- */

static struct book_key key_of(const struct book *b, struct book_change at)
{
	const struct book_series *s = &b->series[at.series];
	const struct keys_name name = keys_name(b->keys, at.key);

	return (struct book_key){slice_of(s->policy), slice_of(s->region), name.root, name.other};
}

kova_status book_changed(struct book *b, size_t i, struct book_key *ret_key)
{
	struct keys_part part;

	*ret_key = key_of(b, b->changed[i]);
	return load(b, b->changed[i], &part);
}

kova_status book_used(struct book *b, struct slice policy, struct slice root, const char *region,
		      struct usage_counts *ret_used)
{
	const struct keys_name name = {keys_policy_find(b->keys, policy), root, false};
	uint32_t key = keys_find(b->keys, &name);
	struct usage_counts sum = {0};
	struct keys_part part;

	for (unsigned i = 0; key != UINT32_MAX && keys_part_at(b->keys, key, i, &part); i++) {
		if (part.number < BOOK_FIRST_PART ||
		    (region != NULL &&
		     strcmp(b->series[part.number - BOOK_FIRST_PART].region, region) != 0))
			continue;
		if (usage_ledger_unpack(&b->ledger, part.bytes) != KOVA_OK)
			return KOVA_ENOMEM;
		add_difference(&sum, (struct usage_counts){0}, usage_ledger_total(&b->ledger));
	}
	*ret_used = sum;
	return KOVA_OK;
}

kova_status book_set_shares(struct book *b, struct slice policy, struct slice region,
			    struct share_sum shares)
{
	const struct book_key key = {policy, region, {NULL, 0}, false};
	uint32_t series;

	if (series_find(b, &key, &series) != KOVA_OK)
		return KOVA_ENOMEM;
	b->series[series].shares = shares;
	return KOVA_OK;
}

/* ---- What was kept ---- */

void book_settle(struct book *b)
{
	for (size_t i = 0; i < b->n_changed; i++)
		keys_mark(b->keys, b->changed[i].key, part_of(b->changed[i].series), false);
	free(b->changed);
	b->changed = NULL;
	b->n_changed = b->changed_room = 0;
	for (size_t i = 0; i < b->n_series; i++) {
		b->series[i].told = b->series[i].total;
		b->series[i].shares_told = b->series[i].shares;
	}
}

static kova_status retire(struct book *b, uint32_t key, uint64_t before_hlc)
{
	struct keys_part part;
	kova_status status = KOVA_OK;

	for (unsigned i = 0; status == KOVA_OK && keys_part_at(b->keys, key, i, &part); i++) {
		if (part.number < BOOK_FIRST_PART)
			continue;
		const struct book_change at = {key, part.number - BOOK_FIRST_PART};

		status = usage_ledger_unpack(&b->ledger, part.bytes);
		if (status == KOVA_OK && usage_ledger_forget(&b->ledger, &b->processes, before_hlc))
			status = store_changed(b, at, &part);
	}
	return status;
}

kova_status book_retire(struct book *b, uint32_t n, uint64_t before_hlc)
{
	kova_status status = KOVA_OK;

	for (; n > 0 && status == KOVA_OK && b->keys->n > 0; n--)
		status = retire(b, b->swept++ % b->keys->n, before_hlc);
	return status;
}
