#include "core/gossip_members.h"

#include <assert.h>
#include <stdlib.h>

#include "core/gossip_items.h"
#include "core/gossip_rules.h"
#include "core/hash.h"

enum { CLOCKS_MAX = 64 }; /* as many are looked at for the median */

uint64_t gossip_member_digest(uint64_t name_hash, uint32_t incarnation)
{
	return hash_mix(name_hash ^ incarnation);
}

void gossip_members_release(struct gossip_members *t)
{
	for (uint32_t i = 0; i < t->n; i++)
		free(t->list[i]);
	free(t->list);
	free(t->index);
	*t = (struct gossip_members){0};
}

/* ---- The table ---- */

/* The place of this name in the index, or the empty one where it belongs. */
static struct gossip_member **place_of(const struct gossip_members *t, struct slice name,
				       uint64_t name_hash)
{
	for (uint32_t i = (uint32_t)name_hash & t->mask;; i = (i + 1) & t->mask) {
		struct gossip_member *m = t->index[i];

		if (m == NULL || (m->name_hash == name_hash && slice_equal(m->name, name)))
			return &t->index[i];
	}
}

struct gossip_member *gossip_members_find(const struct gossip_members *t, struct slice name)
{
	return t->index != NULL ? *place_of(t, name, gossip_hash(name)) : NULL;
}

struct gossip_member *gossip_members_at(const struct gossip_members *t,
					const struct gossip_address *address)
{
	for (uint32_t i = 0; i < t->n; i++)
		if (t->list[i]->state != GOSSIP_DEAD &&
		    gossip_address_equal(&t->list[i]->address, address))
			return t->list[i];
	return NULL;
}

static void index_fill(struct gossip_members *t)
{
	memset(t->index, 0, (t->mask + 1) * sizeof *t->index);
	for (uint32_t i = 0; i < t->n; i++)
		*place_of(t, t->list[i]->name, t->list[i]->name_hash) = t->list[i];
}

static bool grow(struct gossip_members *t)
{
	uint32_t room = t->room > 0 ? t->room * 2 : 8;
	struct gossip_member **list = realloc(t->list, room * sizeof *list);

	if (list == NULL)
		return false;
	t->list = list;
	struct gossip_member **index = realloc(t->index, 2 * room * sizeof *index);

	if (index == NULL)
		return false;
	t->index = index;
	t->room = room;
	t->mask = 2 * room - 1;
	index_fill(t);
	return true;
}

static struct gossip_member *member_new(const struct gossip_record *record)
{
	struct gossip_member *m = malloc(sizeof *m + record->name.len + NAME_BYTES_MAX);

	if (m == NULL)
		return NULL;
	*m = (struct gossip_member){.name_hash = gossip_hash(record->name),
				    .state = GOSSIP_DEAD,
				    .name = {m->text, record->name.len},
				    .region = {m->text + record->name.len, 0}};
	memcpy(m->text, record->name.ptr, record->name.len);
	return m;
}

static void count(struct gossip_members *t, const struct gossip_member *m, int by)
{
	if (m->state == GOSSIP_DEAD)
		return;
	t->n_alive += (uint32_t)by;
	if (m->state == GOSSIP_SUSPECT)
		t->n_suspect += (uint32_t)by;
	t->digest ^= gossip_member_digest(m->name_hash, m->incarnation);
}

void gossip_member_spread(struct gossip_members *t, struct gossip_member *m, uint8_t sends)
{
	t->n_sends += (uint32_t)(sends > 0) - (uint32_t)(m->sends > 0);
	m->sends = sends;
}

void gossip_members_remove(struct gossip_members *t, uint32_t at)
{
	struct gossip_member *m = t->list[at];

	gossip_member_spread(t, m, 0);
	count(t, m, -1);
	t->list[at] = t->list[--t->n];
	index_fill(t);
	free(m);
}

struct gossip_record gossip_member_record(const struct gossip_member *m)
{
	return (struct gossip_record){.name = m->name,
				      .region = m->region,
				      .role = m->role,
				      .state = m->state,
				      .incarnation = m->incarnation,
				      .accuser = m->accusers[0],
				      .address = m->address};
}

/* ---- The rules ---- */

/* Whether what `record` says of `m` overrides what is known (SWIM, 4.2). */
static bool overrides(const struct gossip_member *m, const struct gossip_record *record)
{
	if (!GOSSIP_RULE(INCARNATIONS))
		return record->state != m->state || record->incarnation > m->incarnation;
	if (record->state == GOSSIP_ALIVE || record->state == m->state || m->state == GOSSIP_DEAD)
		return record->incarnation > m->incarnation;
	return record->incarnation >= m->incarnation &&
	       !(record->state == GOSSIP_SUSPECT && m->state != GOSSIP_ALIVE);
}

/* One more accuser of the same suspicion. */
static bool accuse(struct gossip_member *m, const struct gossip_record *record)
{
	if (record->state != GOSSIP_SUSPECT || m->state != GOSSIP_SUSPECT ||
	    record->incarnation != m->incarnation || m->n_accusers > GOSSIP_ACCUSERS_MAX)
		return false;
	for (uint8_t i = 0; i < m->n_accusers; i++)
		if (m->accusers[i] == record->accuser)
			return false;
	m->accusers[m->n_accusers++] = record->accuser;
	return true;
}

static void take_over(struct gossip_members *t, struct gossip_member *m,
		      const struct gossip_record *record, uint64_t now_ms)
{
	count(t, m, -1);
	if (m->state != record->state)
		m->since_ms = now_ms;
	m->state = record->state;
	m->incarnation = record->incarnation;
	m->role = record->role;
	m->region.len = record->region.len;
	if (m->region.len > 0)
		memcpy(m->text + m->name.len, record->region.ptr, m->region.len);
	if (record->address.family != 0)
		m->address = record->address;
	m->accusers[0] = record->accuser;
	m->n_accusers = record->state == GOSSIP_SUSPECT;
	count(t, m, 1);
}

static kova_status add(struct gossip_members *t, const struct gossip_record *record,
		       uint64_t now_ms, uint32_t at, struct gossip_change *ret_change)
{
	if (t->n == GOSSIP_MEMBERS_MAX)
		return KOVA_ETOOBIG;
	if (t->n == t->room && !grow(t))
		return KOVA_ENOMEM;
	struct gossip_member *m = member_new(record);

	if (m == NULL)
		return KOVA_ENOMEM;
	assert(at <= t->n);
	*place_of(t, m->name, m->name_hash) = m;
	if (at < t->n)
		t->list[t->n] = t->list[at];
	t->list[at] = m;
	t->n++;
	take_over(t, m, record, now_ms);
	m->since_ms = now_ms;
	*ret_change = (struct gossip_change){
		.member = m, .is_new = true, .changed = true, .was = GOSSIP_DEAD};
	return KOVA_OK;
}

kova_status gossip_members_apply(struct gossip_members *t, const struct gossip_record *record,
				 uint64_t now_ms, uint32_t at, struct gossip_change *ret_change)
{
	struct gossip_member *m = gossip_members_find(t, record->name);
	struct gossip_change change = {.member = m};

	if (m == NULL) {
		/* Nobody needs to hear of one who was dead before they met. */
		if (record->state == GOSSIP_DEAD || record->address.family == 0) {
			*ret_change = change;
			return KOVA_OK;
		}
		return add(t, record, now_ms, at, ret_change);
	}
	change.was = m->state;
	change.conflict = record->state == GOSSIP_ALIVE && m->state == GOSSIP_ALIVE &&
			  record->incarnation == m->incarnation && record->address.family != 0 &&
			  !gossip_address_equal(&record->address, &m->address);
	if (overrides(m, record)) {
		take_over(t, m, record, now_ms);
		change.changed = true;
	} else {
		change.changed = accuse(m, record);
	}
	*ret_change = change;
	return KOVA_OK;
}

/* ---- Clocks ---- */

static int compare_clocks(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

bool gossip_members_skew(const struct gossip_members *t, int64_t own_clock_ms, int64_t *ret_ms)
{
	int64_t ahead[CLOCKS_MAX];
	size_t n = 0;

	for (uint32_t i = 0; i < t->n && n < CLOCKS_MAX; i++)
		if (t->list[i]->has_clock && t->list[i]->state != GOSSIP_DEAD)
			ahead[n++] = t->list[i]->clock_ms - own_clock_ms;
	if (n == 0)
		return false;
	qsort(ahead, n, sizeof ahead[0], compare_clocks);
	int64_t low = ahead[(n - 1) / 2], high = ahead[n / 2];

	*ret_ms = (low < 0 ? -low : low) <= (high < 0 ? -high : high) ? low : high;
	return true;
}
