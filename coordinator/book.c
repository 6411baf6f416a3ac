#include "book.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { SLOTS_MIN = 64 };

/* Another partition's table must not have this one's order. */
static const uint64_t seed = UINT64_C(0x9e3779b97f4a7c15);

void book_release(struct book *b)
{
	for (size_t i = 0; i < b->n_slots; i++)
		if (b->quotas[i] != NULL) {
			usage_ledger_release(&b->quotas[i]->ledger);
			free(b->quotas[i]);
		}
	free(b->quotas);
	free(b->series);
	free(b->series_slots);
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

		*s = (struct book_series){0};
		name_copy(s->policy, key->policy);
		name_copy(s->region, key->region);
		b->series_slots[slot] = (uint32_t)b->n_series;
	}
	*ret_index = b->series_slots[slot] - 1;
	return KOVA_OK;
}

/* ---- Quotas ---- */

static struct slice root_of(const struct book_quota *q)
{
	return (struct slice){q->root, q->root_len};
}

static size_t quota_slot(const struct book *b, uint32_t series, struct slice root, bool other)
{
	size_t mask = b->n_slots - 1;
	size_t i = hash_bytes(root, hash_mix(seed + 2 * (uint64_t)series + other)) & mask;

	for (; b->quotas[i] != NULL; i = (i + 1) & mask) {
		const struct book_quota *q = b->quotas[i];

		if (q->series == series && q->other == other && slice_equal(root_of(q), root))
			break;
	}
	return i;
}

static bool quotas_grow(struct book *b)
{
	struct book_quota **old = b->quotas;
	size_t n_old = b->n_slots, n = n_old > 0 ? 2 * n_old : SLOTS_MIN;
	struct book_quota **slots = calloc(n, sizeof(*slots));

	if (slots == NULL)
		return false;
	b->quotas = slots;
	b->n_slots = n;
	for (size_t i = 0; i < n_old; i++) {
		struct book_quota *q = old[i];

		if (q != NULL)
			slots[quota_slot(b, q->series, root_of(q), q->other)] = q;
	}
	free(old);
	return true;
}

static struct book_quota *quota_new(uint32_t series, const struct book_key *key)
{
	struct book_quota *q = malloc(sizeof *q + key->root.len);

	assert(key->root.len <= BOOK_ROOT_MAX);
	if (q == NULL)
		return NULL;
	*q = (struct book_quota){
		.series = series, .root_len = (uint16_t)key->root.len, .other = key->other};
	if (key->root.len > 0)
		memcpy(q->root, key->root.ptr, key->root.len);
	return q;
}

/* The quota, which is made if it is not there. */
static struct book_quota *quota_find(struct book *b, const struct book_key *key)
{
	uint32_t series;
	size_t slot;

	if (series_find(b, key, &series) != KOVA_OK)
		return NULL;
	if (4 * (b->n_quotas + 1) > 3 * b->n_slots && !quotas_grow(b))
		return NULL;
	slot = quota_slot(b, series, key->root, key->other);
	if (b->quotas[slot] == NULL) {
		b->quotas[slot] = quota_new(series, key);
		b->n_quotas += b->quotas[slot] != NULL;
	}
	return b->quotas[slot];
}

static void add_difference(struct usage_counts *sum, struct usage_counts was,
			   struct usage_counts is)
{
	sum->admitted += is.admitted - was.admitted;
	sum->refused += is.refused - was.refused;
	sum->waited += is.waited - was.waited;
}

struct usage_counts book_used(const struct book *b, struct slice policy, struct slice root,
			      const char *region)
{
	struct usage_counts sum = {0};

	for (size_t i = 0; i < b->n_series; i++) {
		const struct book_series *s = &b->series[i];
		const struct book_quota *q;

		if (!slice_equal(slice_of(s->policy), policy) ||
		    (region != NULL && strcmp(s->region, region) != 0))
			continue;
		q = b->quotas[quota_slot(b, (uint32_t)i, root, false)];
		if (q != NULL)
			add_difference(&sum, (struct usage_counts){0},
				       usage_ledger_total(&q->ledger));
	}
	return sum;
}

struct book_key book_key_of(const struct book *b, const struct book_quota *q)
{
	const struct book_series *s = &b->series[q->series];

	return (struct book_key){slice_of(s->policy), slice_of(s->region), root_of(q), q->other};
}

/* ---- Records ---- */

static void mark(struct book *b, struct book_quota *q)
{
	if (q->changed)
		return;
	q->changed = true;
	q->next_changed = b->changed;
	b->changed = q;
}

kova_status book_read(struct book *b, const struct book_key *key, const struct usage_record *r)
{
	struct book_quota *q = quota_find(b, key);
	struct usage_counts was;

	if (q == NULL)
		return KOVA_ENOMEM;
	was = usage_ledger_total(&q->ledger);
	if (usage_ledger_read(&q->ledger, r) != KOVA_OK)
		return KOVA_ENOMEM;
	add_difference(&b->series[q->series].total, was, usage_ledger_total(&q->ledger));
	mark(b, q);
	return KOVA_OK;
}

kova_status book_restore(struct book *b, const struct book_key *key, struct usage_ledger *kept)
{
	struct book_quota *q = quota_find(b, key);
	struct book_series *s;

	if (q == NULL)
		return KOVA_ENOMEM;
	s = &b->series[q->series];
	add_difference(&s->total, usage_ledger_total(&q->ledger), usage_ledger_total(kept));
	usage_ledger_release(&q->ledger);
	q->ledger = *kept;
	*kept = (struct usage_ledger){0};
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

void book_settle(struct book *b)
{
	for (struct book_quota *q = b->changed; q != NULL; q = q->next_changed)
		q->changed = false;
	b->changed = NULL;
	for (size_t i = 0; i < b->n_series; i++) {
		b->series[i].told = b->series[i].total;
		b->series[i].shares_told = b->series[i].shares;
	}
}

void book_retire(struct book *b, size_t n, uint64_t before_hlc)
{
	for (; n > 0 && b->n_slots > 0; n--) {
		struct book_quota *q = b->quotas[b->swept++ % b->n_slots];

		if (q != NULL && usage_ledger_forget(&q->ledger, before_hlc))
			mark(b, q);
	}
}
