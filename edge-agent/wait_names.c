#include <stdlib.h>

#include "core/hash.h"
#include "waiters_own.h"

static struct named *named_find(struct named *const *buckets, struct slice policy,
				struct slice path)
{
	uint64_t hash = hash_bytes(path, hash_bytes(policy, 0));

	for (struct named *n = buckets[hash % WAIT_BUCKETS]; n != NULL; n = n->next)
		if (n->hash == hash && slice_equal(named_policy(n), policy) &&
		    slice_equal(named_path(n), path))
			return n;
	return NULL;
}

/* `size` bytes of zeros that begin with a `struct named`, which is in the table. */
static void *named_new(struct named **buckets, size_t size, struct slice policy, struct slice path)
{
	struct named *n = calloc(1, size + policy.len + path.len);

	if (n == NULL)
		return NULL;
	n->name = (char *)n + size;
	n->hash = hash_bytes(path, hash_bytes(policy, 0));
	n->policy_len = policy.len;
	n->path_len = path.len;
	memcpy(n->name, policy.ptr, policy.len);
	memcpy(n->name + policy.len, path.ptr, path.len);
	n->next = buckets[n->hash % WAIT_BUCKETS];
	buckets[n->hash % WAIT_BUCKETS] = n;
	return n;
}

static void named_free(struct named **buckets, struct named *n)
{
	struct named **at = &buckets[n->hash % WAIT_BUCKETS];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	free(n);
}

struct wait_queue *queue_find(const struct waiters *w, struct slice policy, struct slice key)
{
	return (struct wait_queue *)named_find(w->queues, policy, key);
}

struct wait_queue *queue_add(struct waiters *w, struct slice policy, struct slice key)
{
	return named_new(w->queues, sizeof(struct wait_queue), policy, key);
}

void queue_remove(struct waiters *w, struct wait_queue *q)
{
	named_free(w->queues, &q->named);
}

/* ---- Lines, by root as well ---- */

static struct slice root_of(const struct wait_line *l)
{
	struct slice path = named_path(&l->named);

	return slice_cut(&path, '/');
}

static void root_add(struct waiters *w, struct wait_line *l)
{
	l->root_hash = hash_bytes(root_of(l), hash_bytes(named_policy(&l->named), 0));
	struct wait_line **first = &w->roots[l->root_hash % WAIT_BUCKETS];

	l->next_of_root = *first;
	l->up_of_root = first;
	if (*first != NULL)
		(*first)->up_of_root = &l->next_of_root;
	*first = l;
}

static void root_remove(struct wait_line *l)
{
	*l->up_of_root = l->next_of_root;
	if (l->next_of_root != NULL)
		l->next_of_root->up_of_root = l->up_of_root;
}

struct wait_line *line_of_root(const struct waiters *w, struct slice policy, struct slice root,
			       const struct wait_line *after)
{
	uint64_t hash = hash_bytes(root, hash_bytes(policy, 0));
	struct wait_line *l = after != NULL ? after->next_of_root : w->roots[hash % WAIT_BUCKETS];

	while (l != NULL &&
	       (l->root_hash != hash || !slice_equal(named_policy(&l->named), policy) ||
		!slice_equal(root_of(l), root)))
		l = l->next_of_root;
	return l;
}

struct wait_line *line_get(struct waiters *w, struct slice policy, struct slice path, bool own)
{
	struct named **table = own ? w->own_lines : w->lines;
	struct wait_line *l = (struct wait_line *)named_find(table, policy, path);

	if (l != NULL)
		return l;
	l = named_new(table, sizeof *l, policy, path);
	if (l != NULL) {
		l->own = own;
		l->together = 1;
		root_add(w, l);
	}
	return l;
}

struct wait_line *line_above(const struct waiters *w, struct slice policy, struct slice key,
			     size_t *at)
{
	while (*at <= key.len) {
		size_t end = *at + slice_index(slice_after(key, *at), '/');
		struct slice path = {key.ptr, end};
		struct named *n = named_find(w->lines, policy, path);

		*at = end + 1;
		if (n != NULL)
			return (struct wait_line *)n;
	}
	return NULL;
}

void line_free_if_idle(struct waiters *w, struct wait_line *l)
{
	if (l->n_queues > 0 || l->n_asking > 0)
		return;
	timer_heap_remove(&w->tries, &l->try_at);
	fair_queue_release(&l->flows);
	root_remove(l);
	named_free(l->own ? w->own_lines : w->lines, &l->named);
}
