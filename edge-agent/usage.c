/*
 * Buckets of WAYS entries: a key lives in one of the entries of the bucket that its hash names, and when that is
 * full it replaces the one that was used longest ago. Simple, bounded, and a hot key is never evicted.
 */
#include "usage.h"

#include <stdlib.h>

#include "core/hash.h"

enum { WAYS = 4 };

struct usage_entry {
	char *name; /* owned: policy, NUL, key; NULL: free */
	size_t len;
	uint64_t hash;
	int64_t used_ms;
	struct usage_counts counts;
};

struct usage {
	size_t n_buckets; /* a power of two */
	struct usage_entry *entries;
};

static uint64_t hash_of(struct slice policy, struct slice key)
{
	return hash_bytes(key, hash_bytes(policy, 0));
}

static bool names(const struct usage_entry *e, struct slice policy, struct slice key)
{
	return e->len == policy.len + 1 + key.len && memcmp(e->name, policy.ptr, policy.len) == 0 &&
	       e->name[policy.len] == '\0' &&
	       memcmp(e->name + policy.len + 1, key.ptr, key.len) == 0;
}

struct usage *usage_new(size_t keys_max)
{
	struct usage *u = calloc(1, sizeof *u);

	if (u == NULL)
		return NULL;
	u->n_buckets = 1;
	while (u->n_buckets * WAYS < keys_max)
		u->n_buckets *= 2;
	u->entries = calloc(u->n_buckets * WAYS, sizeof *u->entries);
	if (u->entries == NULL) {
		free(u);
		return NULL;
	}
	return u;
}

void usage_free(struct usage *u)
{
	if (u == NULL)
		return;
	for (size_t i = 0; i < u->n_buckets * WAYS; i++)
		free(u->entries[i].name);
	free(u->entries);
	free(u);
}

static struct usage_entry *bucket_of(const struct usage *u, uint64_t hash)
{
	return &u->entries[(hash & (u->n_buckets - 1)) * WAYS];
}

static struct usage_entry *find(const struct usage *u, uint64_t hash, struct slice policy,
				struct slice key)
{
	struct usage_entry *e = bucket_of(u, hash);

	for (int i = 0; i < WAYS; i++)
		if (e[i].name != NULL && e[i].hash == hash && names(&e[i], policy, key))
			return &e[i];
	return NULL;
}

static struct usage_entry *place_for(struct usage *u, uint64_t hash, struct slice policy,
				     struct slice key, int64_t now_ms)
{
	struct usage_entry *bucket = bucket_of(u, hash), *oldest = bucket;
	char *name = malloc(policy.len + 1 + key.len);

	if (name == NULL)
		return NULL;
	memcpy(name, policy.ptr, policy.len);
	name[policy.len] = '\0';
	memcpy(name + policy.len + 1, key.ptr, key.len);
	for (int i = 1; i < WAYS && oldest->name != NULL; i++)
		if (bucket[i].name == NULL || bucket[i].used_ms < oldest->used_ms)
			oldest = &bucket[i];
	free(oldest->name);
	*oldest = (struct usage_entry){.name = name,
				       .len = policy.len + 1 + key.len,
				       .hash = hash,
				       .counts.since_ms = now_ms};
	return oldest;
}

void usage_add(struct usage *u, struct slice policy, struct slice key, enum usage_outcome outcome,
	       uint64_t cost, int64_t now_ms)
{
	uint64_t hash = hash_of(policy, key);
	struct usage_entry *e = find(u, hash, policy, key);

	if (e == NULL)
		e = place_for(u, hash, policy, key, now_ms);
	if (e == NULL)
		return;
	e->used_ms = now_ms;
	if (outcome == USAGE_REFUSED)
		e->counts.refused += cost;
	else
		e->counts.admitted += cost;
	if (outcome == USAGE_ADMITTED_LATE)
		e->counts.waited += cost;
}

bool usage_find(const struct usage *u, struct slice policy, struct slice key,
		struct usage_counts *ret_counts)
{
	const struct usage_entry *e = find(u, hash_of(policy, key), policy, key);

	if (e == NULL)
		return false;
	*ret_counts = e->counts;
	return true;
}
