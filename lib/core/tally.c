/*
 * A hash table with chains. The counters that have changed are in one list, those of roots that are settled (and so may be
 * given up) in another, oldest first.
 */
#include "core/tally.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"

enum { TABLE_MIN = 64 };

enum tally_state { TALLY_SETTLED, TALLY_CHANGED, TALLY_SENT };

struct tally_entry {
	struct tally_entry *chain, *prev, *next;
	uint64_t hash, window;
	struct tally_counts counts, sent;
	uint16_t policy_len, root_len;
	bool other;
	enum tally_state state;
	char name[]; /* policy, root */
};

struct tally_list {
	struct tally_entry *first, *last;
};

struct tally {
	struct tally_entry **table;
	size_t mask, n_roots, roots_max;
	size_t n_settled, n_changed, n_sent;
	struct tally_list changed, settled;
	uint64_t overflows;
};

/* ---- Lists ---- */

static void list_append(struct tally_list *l, struct tally_entry *e)
{
	e->prev = l->last;
	e->next = NULL;
	if (l->last != NULL)
		l->last->next = e;
	else
		l->first = e;
	l->last = e;
}

static void list_remove(struct tally_list *l, struct tally_entry *e)
{
	if (e->prev != NULL)
		e->prev->next = e->next;
	else
		l->first = e->next;
	if (e->next != NULL)
		e->next->prev = e->prev;
	else
		l->last = e->prev;
}

static struct tally_list *list_of(struct tally *t, const struct tally_entry *e)
{
	if (e->state == TALLY_CHANGED)
		return &t->changed;
	return e->state == TALLY_SETTLED && !e->other ? &t->settled : NULL;
}

static size_t *count_of(struct tally *t, const struct tally_entry *e)
{
	return e->state == TALLY_CHANGED ? &t->n_changed
	       : e->state == TALLY_SENT  ? &t->n_sent
					 : &t->n_settled;
}

static void enter(struct tally *t, struct tally_entry *e, enum tally_state state)
{
	e->state = state;
	++*count_of(t, e);
	if (list_of(t, e) != NULL)
		list_append(list_of(t, e), e);
}

static void leave(struct tally *t, struct tally_entry *e)
{
	--*count_of(t, e);
	if (list_of(t, e) != NULL)
		list_remove(list_of(t, e), e);
}

static void move(struct tally *t, struct tally_entry *e, enum tally_state to)
{
	leave(t, e);
	enter(t, e, to);
}

/* ---- The table ---- */

struct tally *tally_new(size_t roots_max)
{
	struct tally *t = calloc(1, sizeof *t);

	assert(roots_max > 0);
	if (t == NULL)
		return NULL;
	t->roots_max = roots_max;
	t->mask = TABLE_MIN - 1;
	t->table = calloc(TABLE_MIN, sizeof(struct tally_entry *));
	if (t->table == NULL) {
		free(t);
		return NULL;
	}
	return t;
}

void tally_free(struct tally *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i <= t->mask; i++)
		for (struct tally_entry *e = t->table[i], *next; e != NULL; e = next) {
			next = e->chain;
			free(e);
		}
	free(t->table);
	free(t);
}

static uint64_t hash_of(const struct tally_key *key)
{
	return hash_bytes(key->root, hash_bytes(key->policy, key->other));
}

static bool is_of(const struct tally_entry *e, uint64_t hash, const struct tally_key *key)
{
	const struct tally_key has = tally_entry_key(e);

	return e->hash == hash && has.other == key->other && slice_equal(has.policy, key->policy) &&
	       slice_equal(has.root, key->root);
}

static struct tally_entry *find(const struct tally *t, uint64_t hash, const struct tally_key *key)
{
	struct tally_entry *e = t->table[hash & t->mask];

	while (e != NULL && !is_of(e, hash, key))
		e = e->chain;
	return e;
}

/* Twice the chains when there are as many entries; chains grow where memory is out. */
static void grow(struct tally *t)
{
	size_t n = (t->mask + 1) * 2;
	struct tally_entry **table;

	if (t->n_settled + t->n_changed + t->n_sent <= t->mask ||
	    (table = calloc(n, sizeof *table)) == NULL)
		return;
	for (size_t i = 0; i <= t->mask; i++)
		for (struct tally_entry *e = t->table[i], *next; e != NULL; e = next) {
			next = e->chain;
			e->chain = table[e->hash & (n - 1)];
			table[e->hash & (n - 1)] = e;
		}
	free(t->table);
	t->table = table;
	t->mask = n - 1;
}

static void give_up(struct tally *t, struct tally_entry *e)
{
	struct tally_entry **at = &t->table[e->hash & t->mask];

	while (*at != e)
		at = &(*at)->chain;
	*at = e->chain;
	leave(t, e);
	t->n_roots--;
	free(e);
}

static struct tally_entry *begin(struct tally *t, uint64_t hash, const struct tally_key *key,
				 uint64_t stamp)
{
	struct tally_entry *e = malloc(sizeof *e + key->policy.len + key->root.len);

	assert(key->policy.len <= UINT16_MAX && key->root.len <= UINT16_MAX);
	if (e == NULL)
		return NULL;
	*e = (struct tally_entry){.hash = hash,
				  .window = stamp,
				  .policy_len = (uint16_t)key->policy.len,
				  .root_len = (uint16_t)key->root.len,
				  .other = key->other,
				  .chain = t->table[hash & t->mask]};
	memcpy(e->name, key->policy.ptr, key->policy.len);
	if (key->root.len > 0)
		memcpy(e->name + key->policy.len, key->root.ptr, key->root.len);
	t->table[hash & t->mask] = e;
	enter(t, e, TALLY_SETTLED);
	t->n_roots += !key->other;
	grow(t);
	return e;
}

/* Room for one root more, by giving up what has been settled longest. */
static bool has_room(struct tally *t)
{
	if (t->n_roots < t->roots_max)
		return true;
	if (t->settled.first == NULL)
		return false;
	give_up(t, t->settled.first);
	return true;
}

static struct tally_entry *entry_of(struct tally *t, const struct tally_key *key, uint64_t stamp)
{
	const struct tally_key other = {.policy = key->policy, .other = true};
	uint64_t hash = hash_of(key);
	struct tally_entry *e = find(t, hash, key);

	if (e != NULL)
		return e;
	if (key->other || has_room(t))
		return begin(t, hash, key, stamp);
	t->overflows++;
	return entry_of(t, &other, stamp);
}

bool tally_add(struct tally *t, const struct tally_key *key, const struct tally_counts *counts,
	       uint64_t stamp)
{
	struct tally_entry *e = entry_of(t, key, stamp);

	if (e == NULL)
		return false;
	e->counts.admitted += counts->admitted;
	e->counts.refused += counts->refused;
	e->counts.waited += counts->waited;
	if (e->state == TALLY_SETTLED)
		move(t, e, TALLY_CHANGED);
	return true;
}

struct tally_entry *tally_next(struct tally *t)
{
	struct tally_entry *e = t->changed.first;

	if (e == NULL)
		return NULL;
	e->sent = e->counts;
	move(t, e, TALLY_SENT);
	return e;
}

void tally_done(struct tally *t, struct tally_entry *e, bool arrived)
{
	bool changed = e->counts.admitted != e->sent.admitted ||
		       e->counts.refused != e->sent.refused || e->counts.waited != e->sent.waited;

	assert(e->state == TALLY_SENT);
	move(t, e, arrived && !changed ? TALLY_SETTLED : TALLY_CHANGED);
}

bool tally_take(struct tally *t, struct tally_key *ret_key, struct tally_counts *ret_counts)
{
	struct tally_entry *e = t->changed.first;

	if (e == NULL)
		return false;
	*ret_key = tally_entry_key(e);
	*ret_counts = e->counts;
	e->counts = (struct tally_counts){0};
	move(t, e, TALLY_SETTLED);
	return true;
}

struct tally_key tally_entry_key(const struct tally_entry *e)
{
	return (struct tally_key){.policy = {e->name, e->policy_len},
				  .root = {e->name + e->policy_len, e->root_len},
				  .other = e->other};
}

struct tally_counts tally_entry_counts(const struct tally_entry *e)
{
	return e->state == TALLY_SENT ? e->sent : e->counts;
}

uint64_t tally_entry_window(const struct tally_entry *e)
{
	return e->window;
}

size_t tally_unsettled(const struct tally *t)
{
	return t->n_changed + t->n_sent;
}

uint64_t tally_overflows(const struct tally *t)
{
	return t->overflows;
}
