/*
 * Lookup by name: a table of (32 bits of the hash, index), open addressing, at most half full. Overrides stand in
 * two tables for all policies, exact keys and prefixes. The hash of a prefix is FNV-1a, so that one
 * pass over a key yields the hashes of all its prefixes; a policy knows which lengths there are, and only those are
 * looked up.
 */
#include "control/catalogue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/catalogue_build.h"
#include "core/hash.h"

struct table_entry {
	uint32_t tag;   /* the upper half of the hash */
	uint32_t index; /* + 1; 0: empty */
};

struct table {
	struct table_entry *entries;
	size_t mask;
};

/* A length that a prefix of one level has. */
struct prefix_length {
	uint16_t level, len;
};

struct entry {
	struct policy policy;             /* first: a policy's address is its entry's */
	uint32_t first_length, n_lengths; /* in `lengths`, ascending by level, then length */
};

struct bound {
	struct override override;
	const struct override_rule *rule;
	uint32_t policy; /* index of the entry */
	uint8_t level;
};

/* One child of weights that history gave. */
struct weighed {
	const struct weights_child *child;
	uint32_t policy;
	uint8_t level;
};

struct catalogue {
	atomic_uint refs;
	struct entry *entries;
	struct policy_rule **policies; /* what the entries are made of */
	size_t n_entries;
	struct bound *bounds;
	struct override_rule **overrides;
	size_t n_bounds, n_overrides;
	struct prefix_length *lengths;
	size_t n_lengths;
	struct weighed *weighed;
	struct weights_rule **weights;
	size_t n_weighed, n_weights;
	struct table names, envoys, envoy_sets, exact, prefixes,
		weighed_names;   /* the last: NULL, no weights */
	struct pool_def **pools; /* by name in order; NULL: none */
	size_t n_pools;
};

static bool table_init(struct table *t, size_t n)
{
	size_t size = 8;

	while (size < n * 2)
		size *= 2;
	t->mask = size - 1;
	t->entries = calloc(size, sizeof *t->entries);
	return t->entries != NULL;
}

static void table_add(struct table *t, uint64_t hash, size_t index)
{
	size_t i = hash & t->mask;

	while (t->entries[i].index != 0)
		i = (i + 1) & t->mask;
	t->entries[i] = (struct table_entry){(uint32_t)(hash >> 32), (uint32_t)index + 1};
}

/*
 * Walks the entries that may have this hash: start with *i = hash, and again with what it left. False: no more.
 */
static bool table_next(const struct table *t, uint64_t hash, uint64_t *i, size_t *ret_index)
{
	for (;; (*i)++) {
		const struct table_entry *e = &t->entries[*i & t->mask];

		if (e->index == 0)
			return false;
		if (e->tag == (uint32_t)(hash >> 32)) {
			*ret_index = e->index - 1;
			(*i)++;
			return true;
		}
	}
}

static uint64_t seed_of(uint32_t policy, unsigned level)
{
	return (uint64_t)policy << 8 | level;
}

static uint64_t exact_hash(uint32_t policy, unsigned level, struct slice key)
{
	return hash_bytes(key, seed_of(policy, level));
}

static uint64_t prefix_hash(uint32_t policy, unsigned level, uint64_t fnv)
{
	return hash_mix(fnv ^ hash_mix(seed_of(policy, level)));
}

static uint64_t fnv_of(struct slice s)
{
	uint64_t fnv = HASH_FNV_INIT;

	for (size_t i = 0; i < s.len; i++)
		fnv = hash_fnv_add(fnv, (unsigned char)s.ptr[i]);
	return fnv;
}

struct catalogue *catalogue_ref(struct catalogue *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

static void catalogue_free(struct catalogue *c)
{
	for (size_t i = 0; i < c->n_entries; i++)
		policy_rule_unref(c->policies[i]);
	for (size_t i = 0; i < c->n_overrides; i++)
		override_rule_unref(c->overrides[i]);
	for (size_t i = 0; i < c->n_pools; i++)
		pool_def_unref(c->pools[i]);
	free(c->pools);
	for (size_t i = 0; i < c->n_weights; i++)
		weights_rule_unref(c->weights[i]);
	free(c->weighed);
	free(c->weights);
	free(c->weighed_names.entries);
	free(c->entries);
	free(c->policies);
	free(c->bounds);
	free(c->overrides);
	free(c->lengths);
	free(c->names.entries);
	free(c->envoys.entries);
	free(c->envoy_sets.entries);
	free(c->exact.entries);
	free(c->prefixes.entries);
	free(c);
}

void catalogue_unref(struct catalogue *c)
{
	if (c != NULL && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1)
		catalogue_free(c);
}

static struct entry *entry_find(const struct catalogue *c, struct slice name)
{
	uint64_t hash = hash_bytes(name, 0), i = hash;
	size_t index;

	while (table_next(&c->names, hash, &i, &index)) {
		struct entry *e = &c->entries[index];

		if (name.len < sizeof e->policy.name &&
		    memcmp(e->policy.name, name.ptr, name.len) == 0 &&
		    e->policy.name[name.len] == '\0')
			return e;
	}
	return NULL;
}

const struct policy *catalogue_policy(const struct catalogue *c, struct slice name)
{
	const struct entry *e = entry_find(c, name);

	return e != NULL ? &e->policy : NULL;
}

const struct policy *catalogue_policy_at(const struct catalogue *c, size_t i)
{
	return i < c->n_entries ? &c->entries[i].policy : NULL;
}

const struct policy *catalogue_envoy(const struct catalogue *c, struct slice name, uint64_t *walk)
{
	uint64_t hash = hash_bytes(name, 0), i = hash + *walk;
	size_t index;

	while (table_next(&c->envoys, hash, &i, &index)) {
		*walk = i - hash;
		if (slice_equal(c->entries[index].policy.envoy, name))
			return &c->entries[index].policy;
	}
	return NULL;
}

const struct policy *catalogue_envoy_set(const struct catalogue *c, struct slice name,
					 uint64_t *walk)
{
	uint64_t hash = hash_bytes(name, 0), i = hash + *walk;
	size_t index;

	while (table_next(&c->envoy_sets, hash, &i, &index)) {
		*walk = i - hash;
		if (slice_equal(c->entries[index].policy.envoy_set, name))
			return &c->entries[index].policy;
	}
	return NULL;
}

/* The override of `t` with this hash, policy, level and key that is in force at `now_ms`. */
static const struct override *bound_find(const struct catalogue *c, const struct table *t,
					 uint64_t hash, uint32_t policy, unsigned level,
					 struct slice key, int64_t now_ms)
{
	uint64_t i = hash;
	size_t index;

	while (table_next(t, hash, &i, &index)) {
		const struct bound *b = &c->bounds[index];

		if (b->policy == policy && b->level == level && slice_equal(b->rule->key, key))
			return b->override.until_ms > now_ms ? &b->override : NULL;
	}
	return NULL;
}

static const struct override *longest_prefix(const struct catalogue *c, const struct entry *e,
					     unsigned level, struct slice path, int64_t now_ms)
{
	const struct override *longest = NULL;
	uint32_t policy = (uint32_t)(e - c->entries);
	uint64_t fnv = HASH_FNV_INIT;
	size_t at = 0;

	for (uint32_t i = 0; i < e->n_lengths; i++) {
		const struct prefix_length *l = &c->lengths[e->first_length + i];
		const struct override *found;

		if (l->level != level)
			continue;
		if (l->len > path.len)
			break;
		for (; at < l->len; at++)
			fnv = hash_fnv_add(fnv, (unsigned char)path.ptr[at]);
		found = bound_find(c, &c->prefixes, prefix_hash(policy, level, fnv), policy, level,
				   (struct slice){path.ptr, l->len}, now_ms);
		if (found != NULL)
			longest = found;
	}
	return longest;
}

const struct override *catalogue_override(const struct catalogue *c, const struct policy *p,
					  unsigned level, struct slice path, int64_t now_ms)
{
	const struct entry *e = (const struct entry *)p;
	uint32_t policy = (uint32_t)(e - c->entries);

	if (!p->has_overrides)
		return NULL;
	assert(e >= c->entries && policy < c->n_entries);
	const struct override *exact = bound_find(c, &c->exact, exact_hash(policy, level, path),
						  policy, level, path, now_ms);

	return exact != NULL ? exact : longest_prefix(c, e, level, path, now_ms);
}

static bool policies_add(struct catalogue *c, struct policy_rule *const *policies, size_t n)
{
	size_t n_envoys = 0;

	for (size_t i = 0; i < n; i++)
		n_envoys += policies[i]->policy.envoy.len > 0;
	c->entries = calloc(n + 1, sizeof *c->entries);
	c->policies = calloc(n + 1, sizeof(struct policy_rule *));
	if (c->entries == NULL || c->policies == NULL || !table_init(&c->names, n) ||
	    !table_init(&c->envoys, n_envoys) || !table_init(&c->envoy_sets, n_envoys))
		return false;
	for (size_t i = 0; i < n; i++) {
		c->entries[i].policy = policies[i]->policy;
		c->policies[i] = policy_rule_ref(policies[i]);
		table_add(&c->names, hash_bytes(slice_of(policies[i]->policy.name), 0), i);
		if (policies[i]->policy.envoy.len == 0)
			continue;
		table_add(&c->envoys, hash_bytes(policies[i]->policy.envoy, 0), i);
		table_add(&c->envoy_sets, hash_bytes(policies[i]->policy.envoy_set, 0), i);
	}
	c->n_entries = n;
	return true;
}

static void bound_add(struct catalogue *c, struct override_rule *rule, struct entry *e)
{
	size_t index = c->n_bounds++;
	struct bound *b = &c->bounds[index];

	b->rule = rule;
	b->policy = (uint32_t)(e - c->entries);
	b->level = (uint8_t)override_rule_level(rule, &e->policy);
	e->policy.has_overrides = true;
	override_rule_bind(rule, &e->policy, &b->override);
	if (rule->is_prefix)
		table_add(&c->prefixes, prefix_hash(b->policy, b->level, fnv_of(rule->key)), index);
	else
		table_add(&c->exact, exact_hash(b->policy, b->level, rule->key), index);
}

static bool overrides_add(struct catalogue *c, struct override_rule *const *overrides, size_t n)
{
	size_t n_prefixes = 0;

	for (size_t i = 0; i < n; i++)
		n_prefixes += overrides[i]->is_prefix;
	c->bounds = malloc((n + 1) * sizeof *c->bounds);
	c->overrides = calloc(n + 1, sizeof(struct override_rule *));
	if (c->bounds == NULL || c->overrides == NULL || !table_init(&c->exact, n - n_prefixes) ||
	    !table_init(&c->prefixes, n_prefixes))
		return false;
	for (size_t i = 0; i < n; i++) {
		struct entry *e = entry_find(c, slice_of(overrides[i]->policy));

		c->overrides[c->n_overrides++] = override_rule_ref(overrides[i]);
		if (e != NULL)
			bound_add(c, overrides[i], e);
	}
	return true;
}

/* A prefix's policy, level and length as one number, so that they sort in that order. */
static int compare_numbers(const void *a, const void *b)
{
	uint64_t x, y;

	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return (x > y) - (x < y);
}

static size_t lengths_collect(const struct catalogue *c, uint64_t *numbers)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_bounds; i++) {
		const struct bound *b = &c->bounds[i];

		if (b->rule->is_prefix)
			numbers[n++] = seed_of(b->policy, b->level) << 16 | b->rule->key.len;
	}
	qsort(numbers, n, sizeof *numbers, compare_numbers);
	return n;
}

/* Which lengths the prefixes of each policy have, each once. */
static bool lengths_add(struct catalogue *c)
{
	uint64_t *numbers = malloc((c->n_bounds + 1) * sizeof *numbers);

	c->lengths = malloc((c->n_bounds + 1) * sizeof *c->lengths);
	if (numbers == NULL || c->lengths == NULL) {
		free(numbers);
		return false;
	}
	size_t n = lengths_collect(c, numbers);

	for (size_t i = 0; i < n; i++) {
		struct entry *e = &c->entries[numbers[i] >> 24];

		if (i > 0 && numbers[i] == numbers[i - 1])
			continue;
		if (e->n_lengths++ == 0)
			e->first_length = (uint32_t)c->n_lengths;
		c->lengths[c->n_lengths++] = (struct prefix_length){
			(uint16_t)(numbers[i] >> 16 & 0xff), (uint16_t)(numbers[i] & 0xffff)};
	}
	free(numbers);
	return true;
}

uint32_t catalogue_weight(const struct catalogue *c, const struct policy *p, unsigned level,
			  struct slice path)
{
	uint32_t policy = (uint32_t)((const struct entry *)p - c->entries);
	uint64_t hash = exact_hash(policy, level, path), i = hash;
	size_t index;

	while (c->weighed_names.entries != NULL &&
	       table_next(&c->weighed_names, hash, &i, &index)) {
		const struct weighed *w = &c->weighed[index];

		if (w->policy == policy && w->level == level && slice_equal(w->child->path, path))
			return w->child->weight;
	}
	return 0;
}

static void weighed_add(struct catalogue *c, const struct weights_rule *rule, const struct entry *e)
{
	uint32_t policy = (uint32_t)(e - c->entries);

	for (size_t i = 0; i < rule->n; i++) {
		c->weighed[c->n_weighed] =
			(struct weighed){&rule->child[i], policy, (uint8_t)rule->level};
		table_add(&c->weighed_names, exact_hash(policy, rule->level, rule->child[i].path),
			  c->n_weighed++);
	}
}

bool catalogue_set_weights(struct catalogue *c, struct weights_rule *const *weights, size_t n)
{
	size_t children = 0;

	if (n == 0)
		return true;
	for (size_t i = 0; i < n; i++)
		children += weights[i]->n;
	c->weighed = malloc((children + 1) * sizeof *c->weighed);
	c->weights = calloc(n + 1, sizeof(struct weights_rule *));
	if (c->weighed == NULL || c->weights == NULL || !table_init(&c->weighed_names, children))
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct entry *e = entry_find(c, slice_of(weights[i]->policy));

		c->weights[c->n_weights++] = weights_rule_ref(weights[i]);
		if (e != NULL && e->policy.weighs_history && weights[i]->level < e->policy.n_levels)
			weighed_add(c, weights[i], e);
	}
	return true;
}

struct catalogue *catalogue_new(struct policy_rule *const *policies, size_t n_policies,
				struct override_rule *const *overrides, size_t n_overrides)
{
	struct catalogue *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	atomic_init(&c->refs, 1);
	if (!policies_add(c, policies, n_policies) || !overrides_add(c, overrides, n_overrides) ||
	    !lengths_add(c)) {
		catalogue_free(c);
		return NULL;
	}
	return c;
}

/* ---- Pools ---- */

static int compare_pools(const void *a, const void *b)
{
	struct pool_def *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

bool catalogue_set_pools(struct catalogue *c, struct pool_def *const *pools, size_t n)
{
	if (n == 0)
		return true;
	c->pools = calloc(n, sizeof(struct pool_def *));
	if (c->pools == NULL)
		return false;
	for (; c->n_pools < n; c->n_pools++)
		c->pools[c->n_pools] = pool_def_ref(pools[c->n_pools]);
	qsort(c->pools, n, sizeof(struct pool_def *), compare_pools);
	return true;
}

struct pool_def *catalogue_pool(const struct catalogue *c, struct slice name)
{
	size_t low = 0, high = c->n_pools;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const char *at = c->pools[middle]->name;
		int order = strncmp(name.ptr, at, name.len);

		if (order == 0)
			order = at[name.len] == '\0' ? 0 : -1;
		if (order == 0)
			return c->pools[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

struct pool_def *catalogue_pool_at(const struct catalogue *c, size_t i)
{
	return i < c->n_pools ? c->pools[i] : NULL;
}
