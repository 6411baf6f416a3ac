#include "drift_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { SLOTS_MIN = 64, SERIES_MAX = 16384 };

struct drift_entry {
	uint64_t hash;               /* 0: the slot is free */
	uint64_t held;               /* the regions that had a ledger of it in the last round */
	uint64_t seen;               /* in this one */
	int64_t ledger, kafka, most; /* of this round; the most that one region had */
	uint32_t series;
	struct drift_root root;
};

void drift_table_release(struct drift_table *t)
{
	free(t->entries);
	free(t->series);
	*t = (struct drift_table){0};
}

static uint64_t hash_of(const struct drift_found *f)
{
	uint64_t hash = hash_bytes(f->root, hash_bytes(f->policy, f->apart ? 1 + f->region : 0));

	return hash != 0 ? hash : 1;
}

/* The slot of the entry, or the free one where it belongs. */
static struct drift_entry *slot_of(struct drift_entry *entries, size_t n_slots, uint64_t hash)
{
	size_t i = hash & (n_slots - 1);

	while (entries[i].hash != 0 && entries[i].hash != hash)
		i = (i + 1) & (n_slots - 1);
	return &entries[i];
}

/* A table for `n` entries with those of `t` that `stays` names. False: out of memory, nothing is changed. */
static bool rebuild(struct drift_table *t, size_t n, bool (*stays)(const struct drift_entry *e))
{
	size_t n_slots = SLOTS_MIN;
	struct drift_entry *entries;

	while (3 * n_slots < 4 * (n + 1))
		n_slots *= 2;
	entries = calloc(n_slots, sizeof *entries);
	if (entries == NULL)
		return false;
	t->n = 0;
	for (size_t i = 0; i < t->n_slots; i++) {
		const struct drift_entry *e = &t->entries[i];

		if (e->hash == 0 || !stays(e))
			continue;
		*slot_of(entries, n_slots, e->hash) = *e;
		t->n++;
	}
	free(t->entries);
	t->entries = entries;
	t->n_slots = n_slots;
	return true;
}

static bool all_stay(const struct drift_entry *e)
{
	(void)e;
	return true;
}

/* The index of the series, which is made if it is not there; SERIES_MAX: there is no room. */
static size_t series_find(struct drift_table *t, struct slice policy, unsigned region)
{
	struct drift_series *series;

	for (size_t i = 0; i < t->n_series; i++)
		if (t->series[i].region == region &&
		    slice_equal(slice_of(t->series[i].policy), policy))
			return i;
	if (t->n_series == SERIES_MAX)
		return SERIES_MAX;
	series = realloc(t->series, (t->n_series + 1) * sizeof *series);
	if (series == NULL)
		return SERIES_MAX;
	t->series = series;
	series += t->n_series;
	*series = (struct drift_series){.region = region};
	assert(policy.len <= NAME_BYTES_MAX);
	memcpy(series->policy, policy.ptr, policy.len);
	return t->n_series++;
}

/* Whether it is of the policy and region, as most often. */
static bool is_of(const struct drift_table *t, const struct drift_entry *e,
		  const struct drift_found *f)
{
	const struct drift_series *s = e->hash != 0 ? &t->series[e->series] : NULL;

	return s != NULL && s->region == f->region && slice_equal(slice_of(s->policy), f->policy);
}

kova_status drift_table_found(struct drift_table *t, const struct drift_found *f)
{
	uint64_t hash = hash_of(f), bit = UINT64_C(1) << f->region;
	struct drift_entry *e;
	size_t series;

	assert(f->region < DRIFT_REGIONS_MAX);
	if (4 * (t->n + 1) > 3 * t->n_slots && !rebuild(t, 2 * t->n, all_stay))
		return KOVA_ENOMEM;
	e = slot_of(t->entries, t->n_slots, hash);
	if (e->hash == 0 && t->n == DRIFT_ROOTS_MAX) {
		t->overflows++;
		return KOVA_OK;
	}
	if ((e->seen & bit) != 0)
		return KOVA_OK; /* a scan may name a key twice */
	if (e->seen == 0 || f->ledger > e->most) {
		series = is_of(t, e, f) ? e->series : series_find(t, f->policy, f->region);
		if (series == SERIES_MAX)
			return KOVA_ENOMEM;
		e->series = (uint32_t)series;
		e->most = f->ledger;
	}
	t->n += e->hash == 0;
	e->hash = hash;
	e->ledger = (e->seen != 0 ? e->ledger : 0) + f->ledger;
	e->kafka = f->kafka;
	e->seen |= bit;
	return KOVA_OK;
}

static bool is_held(const struct drift_entry *e)
{
	return e->held != 0;
}

static void add_to_series(struct drift_series *s, const struct drift_root *r)
{
	s->roots++;
	s->moving += !r->resting;
	if (!r->known)
		return;
	s->drift += r->drift;
	s->kafka += r->kafka - r->forgotten;
	s->ledger += r->kafka - r->forgotten + r->drift;
}

static void end_entry(struct drift_entry *e, uint64_t whole, uint64_t now_us, uint64_t rest_us)
{
	bool complete = ((e->held | e->seen) & ~whole) == 0;

	if (complete && e->seen != 0) {
		if (e->held != 0 && e->held != e->seen)
			e->root = (struct drift_root){
				0}; /* its home has moved, or one region was not seen before */
		drift_look(&e->root, e->ledger, e->kafka, now_us, rest_us);
	}
	e->held = complete ? e->seen : e->held | e->seen;
}

void drift_table_end_round(struct drift_table *t, uint64_t whole, uint64_t now_us, uint64_t rest_us)
{
	for (size_t i = 0; i < t->n_series; i++) {
		struct drift_series *s = &t->series[i];

		s->ledger = s->kafka = s->drift = 0;
		s->roots = s->moving = 0;
	}
	for (size_t i = 0; i < t->n_slots; i++) {
		struct drift_entry *e = &t->entries[i];

		if (e->hash == 0)
			continue;
		end_entry(e, whole, now_us, rest_us);
		if (is_held(e))
			add_to_series(&t->series[e->series], &e->root);
	}
	drift_table_drop_round(t);
	(void)rebuild(t, t->n,
		      is_held); /* without memory they stay for a round more, and say nothing */
}

void drift_table_drop_round(struct drift_table *t)
{
	for (size_t i = 0; i < t->n_slots; i++)
		t->entries[i].seen = 0;
}
