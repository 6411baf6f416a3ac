/*
 * Buckets of WAYS entries: a key lives in one of the entries of the bucket that its hash names, and when that is
 * full it replaces the one that was used longest ago. Simple, bounded, and a hot key is never evicted.
 *
 * With a feed, a key that is counted gets a mark: what its counts were when the feed was told last. So the feed, which is by
 * roots and has a hash table of its own, costs a key something when it is told, and not when it is counted.
 *
 * The table is larger than the caches. So what is counted waits until there is some more or somebody looks, and then the
 * memory of all is fetched at once (group prefetching: Chen et al. 2004).
 */
#include "usage.h"

#include <stdlib.h>

#include "core/hash.h"
#include "top_keys.h"
#include "usage_feed.h"

enum {
	WAYS = 4,
	WAITING_MAX = 32,
	NAME_WAITS_MAX = 96, /* policy and key; longer ones are counted at once */
};

struct usage_entry {
	char *name; /* owned: policy, NUL, key; NULL: free */
	uint32_t len;
	uint32_t mark; /* its number and 1; 0: the feed knows all of it */
	uint64_t hash;
	int64_t used_ms;
	struct usage_counts counts;
};

struct usage_mark {
	struct usage_entry *entry; /* NULL: it was told meanwhile */
	struct usage_counts told;
};

struct usage_addition {
	uint64_t hash, cost;
	int64_t now_ms;
	enum usage_outcome outcome;
	struct slice policy, key; /* in `text` */
	char text[NAME_WAITS_MAX];
};

struct usage {
	size_t n_buckets; /* a power of two */
	struct usage_entry *entries;
	struct top_keys *top;
	struct usage_feed *feed;  /* NULL: nobody is told */
	struct usage_mark *marks; /* a ring of USAGE_MARKS */
	uint32_t first_mark, n_marks;
	unsigned n_waiting;
	struct usage_addition waiting[WAITING_MAX];
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

/* ---- The feed ---- */

/* Tells of one key. Its mark stays in the ring, for nobody. */
static void tell(struct usage *u, struct usage_mark *m)
{
	struct usage_entry *e = m->entry;
	const size_t policy_len = strlen(e->name);
	const struct slice policy = {e->name, policy_len},
			   key = {e->name + policy_len + 1, e->len - policy_len - 1};
	const struct tally_counts counts = {e->counts.admitted - m->told.admitted,
					    e->counts.refused - m->told.refused,
					    e->counts.waited - m->told.waited};

	usage_feed_add(u->feed, policy, key, &counts);
	e->mark = 0;
	m->entry = NULL;
}

static void tell_first(struct usage *u)
{
	struct usage_mark *m = &u->marks[u->first_mark];

	if (m->entry != NULL)
		tell(u, m);
	u->first_mark = (u->first_mark + 1) % USAGE_MARKS;
	u->n_marks--;
}

static void mark(struct usage *u, struct usage_entry *e)
{
	uint32_t at;

	if (u->n_marks == USAGE_MARKS)
		tell_first(u);
	at = (u->first_mark + u->n_marks++) % USAGE_MARKS;
	u->marks[at] = (struct usage_mark){e, e->counts};
	e->mark = at + 1;
}

/* ---- The table ---- */

struct usage *usage_new(size_t keys_max, struct usage_feed *feed)
{
	struct usage *u = calloc(1, sizeof *u);

	if (u == NULL)
		return NULL;
	u->n_buckets = 1;
	while (u->n_buckets * WAYS < keys_max)
		u->n_buckets *= 2;
	u->entries = calloc(u->n_buckets * WAYS, sizeof *u->entries);
	if (feed != NULL)
		u->marks = calloc(USAGE_MARKS, sizeof *u->marks);
	u->top = top_keys_new();
	if (u->entries == NULL || u->top == NULL || (feed != NULL && u->marks == NULL)) {
		usage_free(u);
		return NULL;
	}
	u->feed = feed;
	return u;
}

void usage_free(struct usage *u)
{
	if (u == NULL)
		return;
	if (u->feed != NULL)
		usage_report(u);
	for (size_t i = 0; u->entries != NULL && i < u->n_buckets * WAYS; i++)
		free(u->entries[i].name);
	free(u->entries);
	free(u->marks);
	top_keys_free(u->top);
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

static struct usage_entry *oldest_of(struct usage_entry *bucket)
{
	struct usage_entry *oldest = bucket;

	for (int i = 1; i < WAYS && oldest->name != NULL; i++)
		if (bucket[i].name == NULL || bucket[i].used_ms < oldest->used_ms)
			oldest = &bucket[i];
	return oldest;
}

static struct usage_entry *place_for(struct usage *u, uint64_t hash, struct slice policy,
				     struct slice key, int64_t now_ms)
{
	struct usage_entry *oldest = oldest_of(bucket_of(u, hash));
	size_t len = policy.len + 1 + key.len;
	char *name = oldest->name;

	if (oldest->mark != 0)
		tell(u, &u->marks[oldest->mark - 1]);
	if (name == NULL || oldest->len < len) {
		name = malloc(len);
		if (name == NULL)
			return NULL;
		free(oldest->name);
	}
	memcpy(name, policy.ptr, policy.len);
	name[policy.len] = '\0';
	memcpy(name + policy.len + 1, key.ptr, key.len);
	*oldest = (struct usage_entry){
		.name = name, .len = (uint32_t)len, .hash = hash, .counts.since_ms = now_ms};
	return oldest;
}

static void count(struct usage *u, uint64_t hash, struct slice policy, struct slice key,
		  enum usage_outcome outcome, uint64_t cost, int64_t now_ms)
{
	const struct tally_counts counts = {.admitted = outcome == USAGE_REFUSED ? 0 : cost,
					    .refused = outcome == USAGE_REFUSED ? cost : 0,
					    .waited = outcome == USAGE_ADMITTED_LATE ? cost : 0};
	struct usage_entry *e = find(u, hash, policy, key);

	top_keys_add(u->top, policy, key, outcome == USAGE_REFUSED, cost, now_ms);
	if (e == NULL)
		e = place_for(u, hash, policy, key, now_ms);
	if (e == NULL) {
		if (u->feed != NULL)
			usage_feed_add(u->feed, policy, key, &counts);
		return;
	}
	if (u->feed != NULL && e->mark == 0)
		mark(u, e);
	e->used_ms = now_ms;
	e->counts.admitted += counts.admitted;
	e->counts.refused += counts.refused;
	e->counts.waited += counts.waited;
}

/* The name that will be compared or replaced. */
static void fetch_name(const struct usage *u, uint64_t hash)
{
	struct usage_entry *bucket = bucket_of(u, hash);

	for (int i = 0; i < WAYS; i++)
		if (bucket[i].hash == hash) {
			__builtin_prefetch(bucket[i].name);
			return;
		}
	__builtin_prefetch(oldest_of(bucket)->name, 1);
}

static void count_waiting(struct usage *u)
{
	const struct usage_addition *w = u->waiting;
	unsigned n = u->n_waiting;

	u->n_waiting = 0;
	for (unsigned i = 0; i < n; i++)
		for (int way = 0; way < WAYS; way++)
			__builtin_prefetch(&bucket_of(u, w[i].hash)[way], 1);
	for (unsigned i = 0; i < n; i++)
		fetch_name(u, w[i].hash);
	for (unsigned i = 0; i < n; i++)
		count(u, w[i].hash, w[i].policy, w[i].key, w[i].outcome, w[i].cost, w[i].now_ms);
}

void usage_add(struct usage *u, struct slice policy, struct slice key, enum usage_outcome outcome,
	       uint64_t cost, int64_t now_ms)
{
	struct usage_addition *w = &u->waiting[u->n_waiting];
	uint64_t hash = hash_of(policy, key);

	if (policy.len + key.len > NAME_WAITS_MAX) {
		count(u, hash, policy, key, outcome, cost, now_ms);
		return;
	}
	memcpy(w->text, policy.ptr, policy.len);
	memcpy(w->text + policy.len, key.ptr, key.len);
	w->policy = (struct slice){w->text, policy.len};
	w->key = (struct slice){w->text + policy.len, key.len};
	w->hash = hash;
	w->cost = cost;
	w->now_ms = now_ms;
	w->outcome = outcome;
	if (++u->n_waiting == WAITING_MAX)
		count_waiting(u);
}

bool usage_find(struct usage *u, struct slice policy, struct slice key,
		struct usage_counts *ret_counts)
{
	const struct usage_entry *e;

	count_waiting(u);
	e = find(u, hash_of(policy, key), policy, key);
	if (e == NULL)
		return false;
	*ret_counts = e->counts;
	return true;
}

const struct top_keys *usage_top(struct usage *u, int64_t now_ms)
{
	count_waiting(u);
	top_keys_age(u->top, now_ms);
	return u->top;
}

void usage_report(struct usage *u)
{
	count_waiting(u);
	while (u->n_marks > 0)
		tell_first(u);
}
