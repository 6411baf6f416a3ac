/* The registry: entries in the order in which they were made, and a table of them by name. */
#include "control/policy_stats.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

static struct {
	pthread_mutex_t lock; /* a reload compiles its policies in another thread */
	struct policy_stats **entries;
	size_t n, room;
	struct policy_stats **table; /* open addressing; at most half full */
	size_t mask;
	unsigned loops;
	atomic_uint with_feedback;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER, .loops = 1};

void policy_counts_add(struct policy_counts *sum, const struct policy_counts *counts)
{
	for (size_t at = 0; at < sizeof *sum; at += sizeof(uint64_t)) {
		uint64_t total, number;

		memcpy(&total, (char *)sum + at, sizeof total);
		memcpy(&number, (const char *)counts + at, sizeof number);
		total += number;
		memcpy((char *)sum + at, &total, sizeof total);
	}
}

static struct policy_stats **place_of(struct policy_stats **table, size_t mask, struct slice name)
{
	size_t i = hash_bytes(name, 0) & mask;

	while (table[i] != NULL && !slice_equal(slice_of(table[i]->name), name))
		i = (i + 1) & mask;
	return &table[i];
}

/* Room for one more entry in both arrays. */
static bool grow(void)
{
	if (registry.n < registry.room)
		return true;
	size_t room = registry.room == 0 ? 64 : registry.room * 2;
	struct policy_stats **entries = realloc(registry.entries, room * sizeof *entries);

	if (entries == NULL)
		return false;
	registry.entries = entries;
	struct policy_stats **table = calloc(room * 2, sizeof *table);

	if (table == NULL)
		return false;
	for (size_t i = 0; i < registry.n; i++)
		*place_of(table, room * 2 - 1, slice_of(entries[i]->name)) = entries[i];
	free(registry.table);
	registry.table = table;
	registry.mask = room * 2 - 1;
	registry.room = room;
	return true;
}

static struct policy_counts *counts_new(void)
{
	size_t bytes = registry.loops * sizeof(struct policy_counts);
	struct policy_counts *counts = aligned_alloc(CACHE_LINE_BYTES, bytes);

	if (counts != NULL)
		memset(counts, 0, bytes);
	return counts;
}

bool policy_stats_set_loops(unsigned loops)
{
	registry.loops = loops;
	for (size_t i = 0; i < registry.n; i++) {
		struct policy_counts *counts = counts_new();

		if (counts == NULL)
			return false;
		free(registry.entries[i]->of_loops);
		registry.entries[i]->of_loops = counts;
	}
	return true;
}

static struct policy_stats *get(struct slice name)
{
	if (!grow())
		return NULL;
	struct policy_stats **place = place_of(registry.table, registry.mask, name);

	if (*place != NULL)
		return *place;
	struct policy_stats *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->of_loops = counts_new();
	if (s->of_loops == NULL) {
		free(s);
		return NULL;
	}
	memcpy(s->name, name.ptr, name.len);
	registry.entries[registry.n++] = s;
	*place = s;
	return s;
}

struct policy_stats *policy_stats_get(struct slice name)
{
	pthread_mutex_lock(&registry.lock);
	struct policy_stats *s = get(name);

	pthread_mutex_unlock(&registry.lock);
	return s;
}

struct policy_stats *policy_stats_find(struct slice name)
{
	pthread_mutex_lock(&registry.lock);
	struct policy_stats *s =
		registry.n > 0 ? *place_of(registry.table, registry.mask, name) : NULL;

	pthread_mutex_unlock(&registry.lock);
	return s;
}

void policy_stats_feedback(struct policy_stats *s, bool here)
{
	if (here && !atomic_load_explicit(&s->has_news, memory_order_relaxed))
		atomic_store(&s->has_news, true);
	if (!policy_stats_has_feedback(s) && !atomic_exchange(&s->has_feedback, true))
		atomic_fetch_add(&registry.with_feedback, 1);
}

void policy_stats_take_news(void (*each)(struct slice name, void *data), void *data)
{
	pthread_mutex_lock(&registry.lock);
	for (size_t i = 0; i < registry.n; i++)
		if (atomic_exchange(&registry.entries[i]->has_news, false))
			each(slice_of(registry.entries[i]->name), data);
	pthread_mutex_unlock(&registry.lock);
}

unsigned policy_stats_with_feedback(void)
{
	return atomic_load_explicit(&registry.with_feedback, memory_order_relaxed);
}

void policy_stats_each(void (*each)(const struct policy_stats *s, unsigned i, void *data),
		       void *data)
{
	pthread_mutex_lock(&registry.lock);
	for (unsigned i = 0; i < registry.n; i++)
		each(registry.entries[i], i, data);
	pthread_mutex_unlock(&registry.lock);
}
