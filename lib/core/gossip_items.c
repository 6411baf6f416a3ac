#include "core/gossip_items.h"

#include <assert.h>
#include <stdlib.h>

#include "core/gossip_rules.h"
#include "core/hash.h"
#include "core/hlc.h"

uint64_t gossip_hash(struct slice bytes)
{
	uint64_t h = HASH_FNV_INIT;

	for (size_t i = 0; i < bytes.len; i++)
		h = hash_fnv_add(h, (unsigned char)bytes.ptr[i]);
	return hash_mix(h);
}

enum { REFUSALS_APART_MS = 60000 };

void gossip_items_init(struct gossip_items *t, gossip_read_item *read)
{
	*t = (struct gossip_items){.read = read};
}

void gossip_items_release(struct gossip_items *t)
{
	free(t->entries);
	t->entries = NULL;
}

/* ---- Which write wins ---- */

static int compare_bytes(struct slice a, struct slice b)
{
	size_t n = a.len < b.len ? a.len : b.len;
	int c = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;

	return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

int gossip_item_compare(const struct gossip_item *a, const struct gossip_item *b)
{
	if (a->stamp != b->stamp)
		return a->stamp < b->stamp ? -1 : 1;
	if (!GOSSIP_RULE(TIES))
		return 0;
	int c = compare_bytes(a->writer, b->writer);

	if (c == 0)
		c = (a->value.len == 0) - (b->value.len == 0);
	if (c == 0)
		c = compare_bytes(a->value, b->value);
	return c != 0 ? c : compare_bytes(a->who, b->who);
}

static uint64_t digest_of(const struct gossip_item *item, uint64_t id_hash)
{
	uint64_t h = hash_mix(id_hash ^ item->stamp);

	h = hash_mix(h ^ gossip_hash(item->writer));
	h = hash_mix(h ^ gossip_hash(item->value));
	return hash_mix(h ^ gossip_hash(item->who));
}

/* ---- The table: the leaves are its chains ---- */

struct gossip_entry *gossip_items_next(const struct gossip_items *t, uint64_t id_hash,
				       const struct gossip_entry *after)
{
	uint32_t at = after != NULL ? after->next : t->leaf[gossip_leaf_of(id_hash)];

	while (at != 0 && t->entries[at - 1].id_hash != id_hash)
		at = t->entries[at - 1].next;
	return at != 0 ? &t->entries[at - 1] : NULL;
}

static struct gossip_entry *find(const struct gossip_items *t, struct slice id, uint64_t id_hash)
{
	struct gossip_entry *e = NULL;
	struct gossip_item item;

	while ((e = gossip_items_next(t, id_hash, e)) != NULL) {
		t->read(e->item, &item);
		if (slice_equal(item.id, id))
			break;
	}
	return e;
}

struct gossip_entry *gossip_items_find(const struct gossip_items *t, struct slice id)
{
	return find(t, id, gossip_hash(id));
}

bool gossip_items_is_news(const struct gossip_items *t, const struct gossip_item *item)
{
	const struct gossip_entry *e = gossip_items_find(t, item->id);
	struct gossip_item known;

	if (e == NULL)
		return true;
	if (!GOSSIP_RULE(LAST_WRITER_WINS))
		return e->stamp != item->stamp;
	t->read(e->item, &known);
	return gossip_item_compare(item, &known) > 0;
}

/* Adds the entry's digest to the sums, or takes it from them. */
static void digest_flip(struct gossip_items *t, const struct gossip_entry *e)
{
	unsigned leaf = gossip_leaf_of(e->id_hash);

	t->leaf_digest[leaf] ^= e->digest;
	t->row_digest[leaf / GOSSIP_ROW] ^= e->digest;
	t->digest ^= e->digest;
}

static struct gossip_entry *entry_new(struct gossip_items *t, uint64_t id_hash)
{
	uint32_t *leaf = &t->leaf[gossip_leaf_of(id_hash)];
	uint32_t at = t->free;

	if (at != 0) {
		t->free = t->entries[at - 1].next;
	} else {
		if (t->used == t->room) {
			uint32_t room = t->room > 0 ? t->room * 2 : 16;
			struct gossip_entry *entries = realloc(t->entries, room * sizeof *entries);

			if (entries == NULL)
				return NULL;
			t->entries = entries;
			t->room = room;
		}
		at = ++t->used;
	}
	struct gossip_entry *e = &t->entries[at - 1];

	*e = (struct gossip_entry){.id_hash = id_hash, .next = *leaf};
	*leaf = at;
	t->n++;
	return e;
}

static void queue_remove(struct gossip_items *t, uint32_t at)
{
	for (uint32_t i = 0; i < t->n_queue; i++)
		if (t->queue[i] == at)
			t->queue[i--] = t->queue[--t->n_queue];
}

static void queue_add(struct gossip_items *t, uint32_t at)
{
	uint32_t place;

	queue_remove(t, at);
	if (t->n_queue < GOSSIP_QUEUE_MAX) {
		place = t->n_queue++;
	} else {
		place = 0;
		for (uint32_t i = 1; i < t->n_queue; i++)
			if (t->entries[t->queue[i]].sends < t->entries[t->queue[place]].sends)
				place = i;
		t->entries[t->queue[place]].sends = 0;
	}
	t->queue[place] = at;
}

kova_status gossip_items_put(struct gossip_items *t, const void *item, uint8_t sends,
			     const void **ret_replaced)
{
	struct gossip_item said;

	t->read(item, &said);
	uint64_t id_hash = gossip_hash(said.id);
	struct gossip_entry *e = find(t, said.id, id_hash);

	if (e == NULL)
		e = entry_new(t, id_hash);
	else
		digest_flip(t, e);
	if (e == NULL)
		return KOVA_ENOMEM;
	*ret_replaced = e->item;
	e->item = item;
	e->stamp = said.stamp;
	e->deleted = said.value.len == 0;
	e->digest = digest_of(&said, id_hash);
	e->sends = sends;
	digest_flip(t, e);
	if (sends > 0)
		queue_add(t, (uint32_t)(e - t->entries));
	return KOVA_OK;
}

const void *gossip_items_forget(struct gossip_items *t, struct slice id)
{
	uint64_t id_hash = gossip_hash(id);
	struct gossip_entry *e = find(t, id, id_hash);

	if (e == NULL)
		return NULL;
	uint32_t at = (uint32_t)(e - t->entries) + 1;
	uint32_t *link = &t->leaf[gossip_leaf_of(id_hash)];
	const void *item = e->item;

	while (*link != at)
		link = &t->entries[*link - 1].next;
	*link = e->next;
	digest_flip(t, e);
	queue_remove(t, at - 1);
	*e = (struct gossip_entry){.next = t->free};
	t->free = at;
	t->n--;
	return item;
}

/* ---- The guard ---- */

/* One after the other, from a clock that was ahead meanwhile. */
static bool is_near(const struct gossip_refusal *a, const struct gossip_refusal *b)
{
	const uint64_t near = (uint64_t)REFUSALS_APART_MS << HLC_COUNTER_BITS;

	return a->writer == b->writer && a->from <= b->to + near && b->from <= a->to + near;
}

/* The oldest make room. */
static struct gossip_refusal *refusal_add(struct gossip_items *t)
{
	struct gossip_refusal *oldest = &t->refusals[0];

	if (t->n_refusals < GOSSIP_REFUSALS_MAX)
		return &t->refusals[t->n_refusals++];
	for (uint32_t i = 1; i < t->n_refusals; i++)
		if (t->refusals[i].to < oldest->to)
			oldest = &t->refusals[i];
	return oldest;
}

void gossip_items_refuse(struct gossip_items *t, const struct gossip_refusal *refusal)
{
	struct gossip_refusal *r = NULL;

	for (uint32_t i = 0; i < t->n_refusals && r == NULL; i++)
		if (is_near(&t->refusals[i], refusal))
			r = &t->refusals[i];
	if (r == NULL) {
		*refusal_add(t) = *refusal;
		return;
	}
	r->from = refusal->from < r->from ? refusal->from : r->from;
	r->to = refusal->to > r->to ? refusal->to : r->to;
	r->ahead_ms = refusal->ahead_ms < r->ahead_ms ? refusal->ahead_ms : r->ahead_ms;
}

const struct gossip_refusal *gossip_items_refusal(const struct gossip_items *t, uint64_t writer,
						  uint64_t stamp)
{
	for (uint32_t i = 0; i < t->n_refusals; i++) {
		const struct gossip_refusal *r = &t->refusals[i];

		if (r->writer == writer && stamp >= r->from && stamp <= r->to)
			return r;
	}
	return NULL;
}

const struct gossip_entry *gossip_items_refused(const struct gossip_items *t,
						const struct gossip_refusal *refusal, uint32_t *at,
						struct gossip_item *ret_item)
{
	while (*at < t->used) {
		const struct gossip_entry *e = &t->entries[(*at)++];

		if (e->item == NULL || e->stamp < refusal->from || e->stamp > refusal->to)
			continue;
		t->read(e->item, ret_item);
		if (gossip_hash(ret_item->writer) == refusal->writer)
			return e;
	}
	return NULL;
}

bool gossip_items_admit(struct gossip_items *t, const struct gossip_item *item, uint64_t wall_ms,
			uint64_t max_ahead_ms)
{
	uint64_t stamp_ms = hlc_ms(item->stamp), writer = gossip_hash(item->writer);

	if (!GOSSIP_RULE(SKEW_GUARD))
		return true;
	if (GOSSIP_RULE(REFUSED_LATER) && gossip_items_refusal(t, writer, item->stamp) != NULL)
		return false;
	if (stamp_ms <= wall_ms + max_ahead_ms)
		return true;
	const struct gossip_refusal refusal = {writer, item->stamp, item->stamp,
					       stamp_ms - wall_ms};

	gossip_items_refuse(t, &refusal);
	return false;
}
