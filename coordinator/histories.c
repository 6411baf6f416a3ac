#include "histories.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { CHAINS_MIN = 64 };

static void parent_free(struct history_parent *p)
{
	for (unsigned i = 0; i < p->n; i++)
		free(p->child[i]);
	free(p);
}

void histories_release(struct histories *h)
{
	for (size_t i = 0; i < h->n_chains; i++)
		for (struct history_parent *p = h->table[i], *next; p != NULL; p = next) {
			next = p->next;
			parent_free(p);
		}
	free(h->table);
	*h = (struct histories){0};
}

/* ---- Parents ---- */

static struct slice path_of(const struct history_parent *p)
{
	return (struct slice){p->path, p->len};
}

static bool grow(struct histories *h)
{
	size_t n = h->n_chains > 0 ? 2 * h->n_chains : CHAINS_MIN;
	struct history_parent **table = calloc(n, sizeof(*table));

	if (table == NULL)
		return false;
	for (size_t i = 0; i < h->n_chains; i++)
		for (struct history_parent *p = h->table[i], *next; p != NULL; p = next) {
			next = p->next;
			p->next = table[p->hash & (n - 1)];
			table[p->hash & (n - 1)] = p;
		}
	free(h->table);
	h->table = table;
	h->n_chains = n;
	return true;
}

static struct history_parent *parent_new(struct slice policy, struct slice path, uint64_t hash)
{
	struct history_parent *p = calloc(1, sizeof *p + path.len);

	assert(policy.len <= NAME_BYTES_MAX && path.len <= REQUEST_KEY_MAX);
	if (p == NULL)
		return NULL;
	p->hash = hash;
	p->len = (uint16_t)path.len;
	memcpy(p->policy, policy.ptr, policy.len);
	if (path.len > 0)
		memcpy(p->path, path.ptr, path.len);
	p->kept = p->told = true; /* there is nothing yet */
	return p;
}

/* The parent, which is made if it is not there. KOVA_ETOOBIG: there is no room for it. */
static kova_status parent_find(struct histories *h, struct slice policy, struct slice path,
			       struct history_parent **ret_parent)
{
	uint64_t hash = hash_bytes(path, hash_bytes(policy, 0));
	struct history_parent *p;

	if (h->n == h->n_chains && !grow(h))
		return KOVA_ENOMEM;
	for (p = h->table[hash & (h->n_chains - 1)]; p != NULL; p = p->next)
		if (p->hash == hash && slice_equal(path_of(p), path) &&
		    slice_equal(slice_of(p->policy), policy)) {
			*ret_parent = p;
			return KOVA_OK;
		}
	if (h->n == HISTORY_PARENTS_MAX)
		return KOVA_ETOOBIG;
	p = parent_new(policy, path, hash);
	if (p == NULL)
		return KOVA_ENOMEM;
	p->next = h->table[hash & (h->n_chains - 1)];
	h->table[hash & (h->n_chains - 1)] = p;
	h->n++;
	*ret_parent = p;
	return KOVA_OK;
}

/* ---- Children ---- */

static struct history_child *child_new(struct slice name)
{
	struct history_child *c = malloc(sizeof *c + name.len);

	assert(name.len <= REQUEST_KEY_MAX);
	if (c == NULL)
		return NULL;
	*c = (struct history_child){.len = (uint16_t)name.len};
	if (name.len > 0)
		memcpy(c->name, name.ptr, name.len);
	return c;
}

static unsigned child_index(const struct history_parent *p, struct slice name)
{
	unsigned i = 0;

	while (i < p->n && !slice_equal((struct slice){p->child[i]->name, p->child[i]->len}, name))
		i++;
	return i;
}

static unsigned least_of(const struct history_parent *p, uint64_t now_ms, uint64_t half_life_ms)
{
	uint64_t least_amount = UINT64_MAX;
	unsigned least = 0;

	for (unsigned i = 0; i < p->n; i++) {
		uint64_t amount = history_amount(&p->child[i]->history, now_ms, half_life_ms);

		if (amount < least_amount) {
			least_amount = amount;
			least = i;
		}
	}
	return least;
}

/*
 * The child, which takes the place of who consumed least if it is new and there is no other place. That one's amount goes to it, so that who comes
 * often enough gets ahead of who stays (the space-saving algorithm of Metwally, Agrawal and El Abbadi, 2005).
 */
static struct history_child *child_find(struct history_parent *p, struct slice name,
					uint64_t now_ms, uint64_t half_life_ms)
{
	unsigned i = child_index(p, name);
	struct history_child *c;

	if (i < p->n)
		return p->child[i];
	c = child_new(name);
	if (c == NULL)
		return NULL;
	if (p->n < HISTORY_CHILDREN_MAX) {
		i = p->n++;
	} else {
		i = least_of(p, now_ms, half_life_ms);
		c->history = p->child[i]->history;
		free(p->child[i]);
	}
	return p->child[i] = c;
}

kova_status histories_read(struct histories *h, const struct child_usage *u, uint64_t half_life_ms)
{
	struct history_parent *p;
	struct history_child *c;
	kova_status status = parent_find(h, u->policy, u->parent, &p);

	if (status == KOVA_ETOOBIG) {
		h->overflows++;
		return KOVA_OK;
	}
	if (status != KOVA_OK)
		return status;
	c = child_find(p, u->child, u->at_ms, half_life_ms);
	if (c == NULL)
		return KOVA_ENOMEM;
	history_add(&c->history, u->admitted, u->at_ms, half_life_ms);
	p->kept = false;
	return KOVA_OK;
}

/* ---- Weighing ---- */

static void forget_faded(struct history_parent *p, uint64_t now_ms, uint64_t half_life_ms)
{
	for (unsigned i = p->n; i-- > 0;) {
		if (history_amount(&p->child[i]->history, now_ms, half_life_ms) >= HISTORY_UNIT)
			continue;
		p->told = p->told && p->child[i]->weight == 0;
		p->kept = false;
		free(p->child[i]);
		p->child[i] = p->child[--p->n];
	}
}

/* Whether the weights, 0 where `average` is, are so far from those that were published that these change. */
static bool reweigh(struct history_parent *p, uint64_t now_ms, uint64_t half_life_ms,
		    uint32_t average)
{
	uint64_t amount[HISTORY_CHILDREN_MAX];
	uint32_t weight[HISTORY_CHILDREN_MAX];
	bool differs = false;

	for (unsigned i = 0; i < p->n; i++)
		amount[i] = history_amount(&p->child[i]->history, now_ms, half_life_ms);
	if (p->n > 0)
		history_weigh(amount, p->n, average, weight);
	for (unsigned i = 0; i < p->n; i++) {
		uint32_t was = p->child[i]->weight > 0 ? p->child[i]->weight : average;

		differs = differs || history_differs(was, weight[i]);
	}
	for (unsigned i = 0; differs && i < p->n; i++)
		p->child[i]->weight = weight[i];
	return differs;
}

static void weigh(struct history_parent *p, uint64_t now_ms, uint64_t half_life_ms,
		  uint32_t average, histories_told *told, void *data)
{
	forget_faded(p, now_ms, half_life_ms);
	if (average > 0 && reweigh(p, now_ms, half_life_ms, average))
		p->kept = p->told = false;
	if (p->told)
		return;
	told(p, data);
	p->told = true;
}

void histories_weigh(struct histories *h, uint64_t now_ms, uint64_t half_life_ms,
		     histories_average *average, histories_told *told, void *data)
{
	for (size_t i = 0; i < h->n_chains; i++)
		for (struct history_parent *p = h->table[i]; p != NULL; p = p->next)
			weigh(p, now_ms, half_life_ms, average(p, data), told, data);
}

/* ---- What is kept ---- */

void histories_settle(struct histories *h)
{
	for (size_t i = 0; i < h->n_chains; i++)
		for (struct history_parent **at = &h->table[i]; *at != NULL;) {
			struct history_parent *p = *at;

			p->kept = true;
			if (p->n > 0 || !p->told) {
				at = &p->next;
				continue;
			}
			*at = p->next;
			parent_free(p);
			h->n--;
		}
}

kova_status histories_begin(struct histories *h, struct slice policy, struct slice path,
			    struct history_parent **ret_parent)
{
	kova_status status = parent_find(h, policy, path, ret_parent);

	if (status != KOVA_OK)
		return status;
	while ((*ret_parent)->n > 0)
		free((*ret_parent)->child[--(*ret_parent)->n]);
	(*ret_parent)->kept = (*ret_parent)->told = true;
	return KOVA_OK;
}

kova_status histories_add(struct history_parent *p, struct slice name, struct history history,
			  uint32_t weight)
{
	struct history_child *c;

	if (p->n == HISTORY_CHILDREN_MAX || name.len > REQUEST_KEY_MAX ||
	    weight > SHARE_WEIGHT_MAX || child_index(p, name) < p->n)
		return KOVA_EPROTO;
	c = child_new(name);
	if (c == NULL)
		return KOVA_ENOMEM;
	c->history = history;
	c->weight = weight;
	p->child[p->n++] = c;
	p->told = p->told && weight == 0;
	return KOVA_OK;
}
