/* Elements: what is said of members and items, taken in and passed on. */
#include "core/gossip_own.h"
#include "core/hlc.h"

enum {
	MEMBERS_BYTES = GOSSIP_BODY_MAX / 4, /* of a message, while items wait as well */
	ITEM_MAX = GOSSIP_BODY_MAX * 5 /
		   8, /* larger ones are announced: so the first item always fits */
};

/* ---- Taking in ---- */

/* Something is said of ourselves. Who is called suspect or dead makes a new incarnation, and says so. */
static void hear_of_self(struct gossip *g, struct gossip_time now,
			 const struct gossip_record *record)
{
	bool elsewhere = record->address.family != 0 && g->self.address.family != 0 &&
			 !gossip_address_equal(&record->address, &g->self.address);

	if (g->leaving || record->incarnation < g->self.incarnation || !GOSSIP_RULE(REFUTATION))
		return;
	if (g->self.address.family == 0)
		g->self.address = record->address;
	if (record->state == GOSSIP_ALIVE && record->incarnation == g->self.incarnation &&
	    !elsewhere)
		return;
	if (record->state == GOSSIP_ALIVE && elsewhere)
		g->counts.conflicts++;
	if (record->state == GOSSIP_SUSPECT && g->health < HEALTH_MAX)
		g->health++;
	g->self.incarnation = record->incarnation + 1;
	g->self_sends = gossip_sends(g);
	g->news_due_ms = now.mono_ms;
}

void gossip_hear(struct gossip *g, struct gossip_time now, const struct gossip_record *record,
		 struct gossip_out *out)
{
	struct gossip_change change;

	if (slice_equal(record->name, g->self.name)) {
		hear_of_self(g, now, record);
		return;
	}
	uint32_t at = (uint32_t)gossip_below(g, (uint64_t)g->members.n + 1);

	if (gossip_members_apply(&g->members, record, now.mono_ms, at, &change) != KOVA_OK) {
		g->counts.overflow++;
		return;
	}
	g->counts.conflicts += change.conflict;
	if (!change.changed)
		return;
	gossip_member_spread(&g->members, change.member, gossip_sends(g));
	if (change.member->state == change.was)
		return;
	struct gossip_output *o = gossip_output(out, GOSSIP_MEMBER);

	if (o != NULL) {
		o->member = change.member;
		o->was = change.was;
	}
}

/*
 * Who was not there when it was refused can't tell, once its time has come: so whoever refuses a write says so to whoever has it.
 */
static void tell_refusal(struct gossip *g, struct gossip_time now, const struct gossip_item *item,
			 const struct gossip_address *to, struct gossip_out *out)
{
	const struct gossip_refusal *r =
		gossip_items_refusal(&g->items, gossip_hash(item->writer), item->stamp);
	struct message m;

	if (r == NULL || to == NULL || to->family == 0 || now.mono_ms < g->refusal_from_ms ||
	    !GOSSIP_RULE(REFUSALS_TOLD))
		return;
	g->refusal_from_ms = now.mono_ms + REFUSAL_MS;
	message_begin(g, &m, GOSSIP_NEWS, 0, now);
	wire_put(&m.w, GOSSIP_E_REFUSAL, 1);
	wire_put(&m.w, r->writer, 8);
	wire_put(&m.w, r->from, 8);
	wire_put(&m.w, r->to, 8);
	wire_put(&m.w, r->ahead_ms < UINT32_MAX ? r->ahead_ms : UINT32_MAX, 4);
	message_send(&m, to, out);
}

/*
 * Another's clock was so far behind these writes. Ours would have been that, and what the other is ahead of us: if we would have
 * refused them as well, we do so now, and those that we have are withdrawn. A clock that is behind convinces nobody.
 */
static void hear_refusal(struct gossip *g, struct gossip_time now, struct gossip_refusal refusal,
			 struct gossip_out *out)
{
	const struct gossip_member *teller = g->teller;
	struct gossip_item item;
	uint32_t at = 0;

	if (teller == NULL || !teller->has_clock)
		return;
	int64_t ahead_ms =
		(int64_t)refusal.ahead_ms + teller->clock_ms - (int64_t)(now.wall_ms - now.mono_ms);

	if (ahead_ms <= (int64_t)g->max_skew_ms && GOSSIP_RULE(EVIDENCE))
		return;
	refusal.ahead_ms = ahead_ms > 0 ? (uint64_t)ahead_ms : 0;
	gossip_items_refuse(&g->items, &refusal);
	while (gossip_items_refused(&g->items, &refusal, &at, &item) != NULL) {
		struct gossip_output *o = gossip_output(out, GOSSIP_WITHDRAWN);

		if (o != NULL)
			o->item = item;
	}
}

static void hear_item(struct gossip *g, struct gossip_time now, const struct gossip_item *item,
		      const struct gossip_address *from, struct gossip_out *out)
{
	if (!gossip_items_is_news(&g->items, item))
		return;
	/* So old a deletion is forgotten by whoever knew of it; it must not go round for ever. */
	if (item->value.len == 0 && hlc_ms(item->stamp) + TOMBSTONE_MS < now.wall_ms &&
	    gossip_items_find(&g->items, item->id) == NULL)
		return;
	if (!gossip_items_admit(&g->items, item, now.wall_ms, g->max_skew_ms)) {
		g->counts.skew++;
		tell_refusal(g, now, item, from, out);
		return;
	}
	struct gossip_output *o = gossip_output(out, GOSSIP_CAME);

	if (o != NULL)
		o->item = *item;
}

/* An item that is too large for a datagram exists. */
static void hear_notice(struct gossip *g, struct gossip_time now, uint64_t id_hash, uint64_t stamp,
			const struct gossip_address *from, struct gossip_out *out)
{
	const struct gossip_entry *e = NULL;

	while ((e = gossip_items_next(&g->items, id_hash, e)) != NULL)
		if (e->stamp >= stamp)
			return;
	gossip_want_pull(g, now, from, out);
}

/* One element; with `g` NULL it is only read. */
static void take_one(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
		     struct wire_reader *r, struct gossip_out *out)
{
	struct gossip_record record;
	struct gossip_item item;
	struct gossip_refusal refusal;
	uint64_t id_hash, stamp;

	switch (wire_get(r, 1)) {
	case GOSSIP_E_MEMBER:
		wire_get_record(r, &record);
		if (g != NULL)
			gossip_hear(g, now, &record, out);
		return;
	case GOSSIP_E_ITEM:
		wire_get_item(r, &item);
		if (g != NULL)
			hear_item(g, now, &item, from, out);
		return;
	case GOSSIP_E_REFUSAL:
		refusal.writer = wire_get(r, 8);
		refusal.from = wire_get(r, 8);
		refusal.to = wire_get(r, 8);
		refusal.ahead_ms = wire_get(r, 4);
		if (g != NULL)
			hear_refusal(g, now, refusal, out);
		return;
	case GOSSIP_E_NOTICE:
		id_hash = wire_get(r, 8);
		stamp = wire_get(r, 8);
		if (g != NULL)
			hear_notice(g, now, id_hash, stamp, from, out);
		return;
	default:
		r->failed = true;
	}
}

bool news_are_valid(struct wire_reader r)
{
	while (!wire_at_end(&r))
		take_one(NULL, (struct gossip_time){0}, NULL, &r, NULL);
	return !r.failed;
}

void news_take(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
	       struct wire_reader r, struct gossip_out *out)
{
	while (!wire_at_end(&r))
		take_one(g, now, from, &r, out);
}

/* ---- Passing on ---- */

static bool add_record(struct message *m, const struct gossip_record *record)
{
	size_t len = m->w.len;

	wire_put(&m->w, GOSSIP_E_MEMBER, 1);
	wire_put_record(&m->w, record);
	if (!m->w.full)
		return true;
	wire_undo(&m->w, len);
	return false;
}

void news_add_member(struct message *m, const struct gossip_member *member)
{
	struct gossip_record record = gossip_member_record(member);

	(void)add_record(m, &record);
}

bool news_add_item(struct gossip *g, struct message *m, const struct gossip_entry *e)
{
	struct gossip_item item;
	size_t len = m->w.len;

	g->items.read(e->item, &item);
	if (wire_item_bytes(&item) > ITEM_MAX) {
		wire_put(&m->w, GOSSIP_E_NOTICE, 1);
		wire_put(&m->w, e->id_hash, 8);
		wire_put(&m->w, e->stamp, 8);
	} else {
		wire_put(&m->w, GOSSIP_E_ITEM, 1);
		wire_put_item(&m->w, &item);
	}
	if (!m->w.full)
		return true;
	wire_undo(&m->w, len);
	return false;
}

/* Members that changed, from a random place on, as far as the message is below `upto` bytes. */
static void add_members(struct gossip *g, struct message *m, size_t upto)
{
	uint32_t n = g->members.n, from = n > 0 ? (uint32_t)gossip_below(g, n) : 0;

	for (uint32_t i = 0; i < n && g->members.n_sends > 0 && m->w.len < upto; i++) {
		struct gossip_member *member = g->members.list[(from + i) % n];
		struct gossip_record record;

		if (member->sends == 0)
			continue;
		record = gossip_member_record(member);
		if (!add_record(m, &record))
			return;
		gossip_member_spread(&g->members, member, (uint8_t)(member->sends - 1));
	}
}

/* The item that was sent the least, of those not yet in this message (`from` on in the queue), put at `from`. */
static void choose_item(struct gossip_items *t, uint32_t from)
{
	uint32_t best = from;

	for (uint32_t i = from + 1; i < t->n_queue; i++)
		if (t->entries[t->queue[i]].sends > t->entries[t->queue[best]].sends)
			best = i;
	uint32_t at = t->queue[best];

	t->queue[best] = t->queue[from];
	t->queue[from] = at;
}

static void add_items(struct gossip *g, struct message *m)
{
	struct gossip_items *t = &g->items;
	uint32_t n = 0;

	for (; n < t->n_queue; n++) {
		choose_item(t, n);
		struct gossip_entry *e = &t->entries[t->queue[n]];

		if (!news_add_item(g, m, e))
			break;
		e->sends--;
	}
	while (n > 0)
		if (t->entries[t->queue[--n]].sends == 0)
			t->queue[n] = t->queue[--t->n_queue];
}

void news_add(struct gossip *g, struct message *m)
{
	if (!GOSSIP_RULE(NEWS))
		return;
	add_members(g, m, g->items.n_queue > 0 ? MEMBERS_BYTES : GOSSIP_BODY_MAX);
	add_items(g, m);
	add_members(g, m, GOSSIP_BODY_MAX);
}
