/* A hash table with chains, and two lists through all quotas: the one used longest ago is first in one, the next in turn in the other. */
#include "core/quota_table.h"

#include <assert.h>
#include <stdlib.h>

#include "core/hash.h"

enum { TABLE_MIN = 64 };

struct quota_table {
	struct quota **chains;
	size_t mask, n, max;
	struct quota *oldest, *newest; /* by use */
	struct quota *first, *last;    /* by turn */
	uint64_t round, ended_us;      /* which goes on; when the one before ended */
};

struct slice quota_policy(const struct quota *q)
{
	return (struct slice){q->name, q->policy_len};
}

struct slice quota_root(const struct quota *q)
{
	return (struct slice){q->name + q->policy_len, q->root_len};
}

size_t quota_table_count(const struct quota_table *t)
{
	return t->n;
}

/* ---- Lists ---- */

static void use_last(struct quota_table *t, struct quota *q)
{
	q->older = t->newest;
	q->newer = NULL;
	*(t->newest != NULL ? &t->newest->newer : &t->oldest) = q;
	t->newest = q;
}

static void unlink_use(struct quota_table *t, struct quota *q)
{
	*(q->older != NULL ? &q->older->newer : &t->oldest) = q->newer;
	*(q->newer != NULL ? &q->newer->older : &t->newest) = q->older;
}

static void turn_last(struct quota_table *t, struct quota *q)
{
	q->earlier = t->last;
	q->later = NULL;
	*(t->last != NULL ? &t->last->later : &t->first) = q;
	t->last = q;
}

static void turn_first(struct quota_table *t, struct quota *q)
{
	q->later = t->first;
	q->earlier = NULL;
	*(t->first != NULL ? &t->first->earlier : &t->last) = q;
	t->first = q;
}

static void unlink_turn(struct quota_table *t, struct quota *q)
{
	*(q->earlier != NULL ? &q->earlier->later : &t->first) = q->later;
	*(q->later != NULL ? &q->later->earlier : &t->last) = q->earlier;
}

void quota_table_use(struct quota_table *t, struct quota *q)
{
	unlink_use(t, q);
	use_last(t, q);
}

struct quota *quota_table_next(const struct quota_table *t)
{
	return t->first;
}

void quota_table_turn(struct quota_table *t, struct quota *q, uint64_t now_ms)
{
	unlink_turn(t, q);
	turn_last(t, q);
	q->turn_ms = now_ms;
}

/* ---- The table ---- */

struct quota_table *quota_table_new(size_t max)
{
	struct quota_table *t = calloc(1, sizeof *t);

	assert(max > 0);
	if (t == NULL)
		return NULL;
	t->max = max;
	t->mask = TABLE_MIN - 1;
	while (t->mask < max)
		t->mask = 2 * t->mask + 1;
	t->chains = calloc(t->mask + 1, sizeof *t->chains);
	if (t->chains != NULL)
		return t;
	free(t);
	return NULL;
}

void quota_table_free(struct quota_table *t)
{
	if (t == NULL)
		return;
	for (struct quota *q = t->oldest, *newer; q != NULL; q = newer) {
		newer = q->newer;
		free(q);
	}
	free(t->chains);
	free(t);
}

static uint64_t hash_of(struct slice policy, struct slice root)
{
	return hash_bytes(root, hash_bytes(policy, 0));
}

static struct quota **place_of(const struct quota_table *t, uint64_t hash, struct slice policy,
			       struct slice root)
{
	struct quota **at = &t->chains[hash & t->mask];

	while (*at != NULL && !((*at)->hash == hash && slice_equal(quota_policy(*at), policy) &&
				slice_equal(quota_root(*at), root)))
		at = &(*at)->chain;
	return at;
}

struct quota *quota_table_find(const struct quota_table *t, struct slice policy, struct slice root)
{
	return *place_of(t, hash_of(policy, root), policy, root);
}

void quota_table_remove(struct quota_table *t, struct quota *q)
{
	assert(!q->busy);
	*place_of(t, q->hash, quota_policy(q), quota_root(q)) = q->chain;
	unlink_use(t, q);
	unlink_turn(t, q);
	t->n--;
	free(q);
}

/* Whether there is room for one more. */
static bool make_room(struct quota_table *t)
{
	struct quota *q = t->oldest;

	if (t->n < t->max)
		return true;
	while (q != NULL && q->busy)
		q = q->newer;
	if (q == NULL)
		return false;
	quota_table_remove(t, q);
	return true;
}

static struct quota *add(struct quota_table *t, uint64_t hash, struct slice policy,
			 struct slice root)
{
	struct quota *q = make_room(t) ? calloc(1, sizeof *q + policy.len + root.len) : NULL;

	if (q == NULL)
		return NULL;
	q->hash = hash;
	q->policy_len = (uint16_t)policy.len;
	q->root_len = (uint16_t)root.len;
	memcpy(q->name, policy.ptr, policy.len);
	if (root.len > 0)
		memcpy(q->name + policy.len, root.ptr, root.len);
	q->round = t->round;
	q->measured_us = t->ended_us;
	q->chain = t->chains[hash & t->mask];
	t->chains[hash & t->mask] = q;
	use_last(t, q);
	turn_first(t, q);
	t->n++;
	return q;
}

struct quota *quota_table_get(struct quota_table *t, struct slice policy, struct slice root)
{
	uint64_t hash = hash_of(policy, root);
	struct quota *q = *place_of(t, hash, policy, root);

	assert(policy.len <= UINT16_MAX && root.len <= UINT16_MAX);
	return q != NULL ? q : add(t, hash, policy, root);
}

/* ---- Demand ---- */

static void settle(const struct quota_table *t, struct quota *q)
{
	if (q->round == t->round)
		return;
	q->asked += q->unrounded;
	q->unrounded = 0;
	q->round = t->round;
}

void quota_table_asked(struct quota_table *t, struct quota *q, uint64_t cost)
{
	settle(t, q);
	q->unrounded += cost;
}

void quota_table_round(struct quota_table *t, uint64_t now_us)
{
	t->round++;
	t->ended_us = now_us;
}

bool quota_table_measure(const struct quota_table *t, struct quota *q, uint64_t *ret_asked)
{
	settle(t, q);
	if (t->ended_us <= q->measured_us)
		return false;
	q->rate = (double)q->asked * 1e6 / (double)(t->ended_us - q->measured_us);
	q->measured_us = t->ended_us;
	*ret_asked = q->asked;
	q->asked = 0;
	return true;
}
