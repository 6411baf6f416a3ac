#include "top_keys.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { TABLE = 2 * TOP_POLICIES_MAX };

struct top_policy {
	char name[NAME_BYTES_MAX + 1];
	int64_t halved_ms;                  /* 0: not counted yet */
	struct space_saving *of[TOP_KINDS]; /* owned; NULL: nothing to be counted yet */
};

struct top_keys {
	unsigned n;
	uint64_t overflows;
	struct top_policy *policies[TOP_POLICIES_MAX]; /* owned */
	uint16_t table[TABLE]; /* by the name's hash: number + 1; 0: free. Linear probing */
};

struct top_keys *top_keys_new(void)
{
	return calloc(1, sizeof(struct top_keys));
}

void top_keys_free(struct top_keys *t)
{
	for (unsigned i = 0; t != NULL && i < t->n; i++) {
		for (int kind = 0; kind < TOP_KINDS; kind++)
			space_saving_free(t->policies[i]->of[kind]);
		free(t->policies[i]);
	}
	free(t);
}

/* ---- counting ---- */

static struct top_policy *policy_make(struct top_keys *t, struct slice name, uint16_t *place)
{
	struct top_policy *p;

	if (t->n == TOP_POLICIES_MAX || name.len > NAME_BYTES_MAX) {
		t->overflows++;
		return NULL;
	}
	p = calloc(1, sizeof *p);
	if (p == NULL)
		return NULL;
	memcpy(p->name, name.ptr, name.len);
	t->policies[t->n++] = p;
	*place = (uint16_t)t->n;
	return p;
}

static uint16_t *place_of(struct top_keys *t, struct slice name)
{
	size_t at = hash_bytes(name, 0) % TABLE;

	while (t->table[at] != 0 &&
	       !slice_equal(slice_of(t->policies[t->table[at] - 1]->name), name))
		at = (at + 1) % TABLE;
	return &t->table[at];
}

/* Made if need be. NULL: there is no room. */
static struct top_policy *policy_of(struct top_keys *t, struct slice name)
{
	uint16_t *place = place_of(t, name);

	return *place != 0 ? t->policies[*place - 1] : policy_make(t, name, place);
}

static struct space_saving *summary_of(struct top_policy *p, enum top_kind kind)
{
	if (p->of[kind] == NULL)
		p->of[kind] = space_saving_new(TOP_KEYS);
	return p->of[kind];
}

static void halve(struct top_policy *p)
{
	for (int kind = 0; kind < TOP_KINDS; kind++)
		if (p->of[kind] != NULL)
			space_saving_halve(p->of[kind]);
}

/* For all the time that has passed; after 64 times nothing is left. A clock that was set back changes nothing. */
static void age(struct top_policy *p, int64_t now_ms)
{
	if (p->halved_ms == 0)
		p->halved_ms = now_ms;
	for (int i = 0; i < 64 && now_ms - p->halved_ms >= TOP_HALVED_MS; i++) {
		halve(p);
		p->halved_ms += TOP_HALVED_MS;
	}
	if (now_ms - p->halved_ms >= TOP_HALVED_MS)
		p->halved_ms = now_ms;
}

static void count(struct top_policy *p, enum top_kind kind, struct slice key, uint64_t cost)
{
	struct space_saving *s = summary_of(p, kind);

	if (s == NULL || space_saving_add(s, key, cost) != KOVA_OK)
		return; /* memory is out: it is not among the first */
}

void top_keys_add(struct top_keys *t, struct slice policy, struct slice key, bool refused,
		  uint64_t cost, int64_t now_ms)
{
	struct top_policy *p = policy_of(t, policy);

	if (p == NULL)
		return;
	age(p, now_ms);
	count(p, TOP_ASKED, key, cost);
	if (refused)
		count(p, TOP_REFUSED, key, cost);
}

void top_keys_age(struct top_keys *t, int64_t now_ms)
{
	for (unsigned i = 0; i < t->n; i++)
		age(t->policies[i], now_ms);
}

void top_keys_merge(struct top_keys *sum, const struct top_keys *t)
{
	sum->overflows += t->overflows;
	for (unsigned i = 0; i < t->n; i++) {
		struct top_policy *p = policy_of(sum, slice_of(t->policies[i]->name));

		for (int kind = 0; p != NULL && kind < TOP_KINDS; kind++) {
			const struct space_saving *from = t->policies[i]->of[kind];
			struct space_saving *to =
				from != NULL ? summary_of(p, (enum top_kind)kind) : NULL;

			if (to == NULL || space_saving_merge(to, from) != KOVA_OK)
				continue; /* nothing of it, or memory is out */
		}
	}
}

/* ---- what there is ---- */

/* Puts `key` where it belongs among the `n` of `keys`, of which there may be `max`. */
static unsigned insert(struct top_key *keys, unsigned n, unsigned max, struct top_key key)
{
	unsigned at = n;

	while (at > 0 && keys[at - 1].of.count < key.of.count)
		at--;
	if (at == max)
		return n;
	n += n < max;
	memmove(&keys[at + 1], &keys[at], (n - 1 - at) * sizeof *keys);
	keys[at] = key;
	return n;
}

unsigned top_keys_list(const struct top_keys *t, enum top_kind kind, struct slice policy,
		       struct top_key *ret_keys, unsigned max)
{
	struct space_saving_key keys[TOP_KEYS];
	unsigned n = 0;

	for (unsigned i = 0; i < t->n; i++) {
		const struct top_policy *p = t->policies[i];

		if (p->of[kind] == NULL ||
		    (policy.len > 0 && !slice_equal(slice_of(p->name), policy)))
			continue;
		unsigned own = space_saving_top(p->of[kind], keys, TOP_KEYS);

		for (unsigned k = 0; k < own; k++)
			n = insert(ret_keys, n, max, (struct top_key){p->name, keys[k]});
	}
	return n;
}

const char *top_keys_policy(const struct top_keys *t, unsigned i)
{
	return i < t->n ? t->policies[i]->name : NULL;
}

uint64_t top_keys_overflows(const struct top_keys *t)
{
	return t->overflows;
}
