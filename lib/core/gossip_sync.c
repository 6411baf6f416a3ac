/*
 * Anti-entropy. Every ping and ack says the digest of all items. Where two nodes differ, one sends the first row of its tree of
 * digests; the other answers with the rows below those that differ, these with lists of the leaves that differ, and
 * these with the items that are newer and a request for those that are older. No step needs to know of the one
 * before: a message that is lost ends it, and the next ping begins anew. Too many differences go by a stream.
 */
#include "core/gossip_own.h"

enum {
	TOP = 0xff,     /* the number of the first row */
	ROWS_MAX = 16,  /* rows that differ: more go by a stream */
	ANSWER_MAX = 8, /* messages that answer one */
	LIST_MAX = 50,  /* items of a leaf that go into one message */
	LIST_ENTRY_BYTES = 24,
	WANT_MAX = 64,
	SAMPLE = 24, /* members that are told to one who knows others */
};

/* ---- Beginning ---- */

static void put_row(struct gossip *g, struct message *m, unsigned row)
{
	const uint64_t *digests =
		row == TOP ? g->items.row_digest : g->items.leaf_digest + row * GOSSIP_ROW;

	wire_put(&m->w, row, 1);
	for (int i = 0; i < GOSSIP_ROW; i++)
		wire_put(&m->w, digests[i], 8);
}

static void send_row(struct gossip *g, struct gossip_time now, unsigned row,
		     const struct gossip_address *to, struct gossip_out *out)
{
	struct message m;

	message_begin(g, &m, GOSSIP_DIGESTS, 0, now);
	put_row(g, &m, row);
	message_send(&m, to, out);
}

static void send_sample(struct gossip *g, struct gossip_time now, const struct gossip_address *to,
			struct gossip_out *out)
{
	struct message m;
	uint32_t n = g->members.n, from = n > 0 ? (uint32_t)gossip_below(g, n) : 0;

	message_begin(g, &m, GOSSIP_NEWS, 0, now);
	for (uint32_t i = 0; i < n && i < SAMPLE; i++)
		news_add_member(&m, g->members.list[(from + i) % n]);
	message_send(&m, to, out);
}

void sync_compare(struct gossip *g, struct gossip_time now, const struct gossip_head *head,
		  const struct gossip_address *from, struct gossip_out *out)
{
	uint64_t members =
		g->members.digest ^ gossip_member_digest(g->name_hash, g->self.incarnation);

	if (!GOSSIP_RULE(ANTI_ENTROPY))
		return;
	if (head->items != g->items.digest && now.mono_ms >= g->sync_from_ms &&
	    (g->items.n_queue == 0 || now.mono_ms >= g->synced_ms + SYNC_BUSY_MS)) {
		g->synced_ms = now.mono_ms;
		g->sync_from_ms = now.mono_ms + SYNC_MS;
		send_row(g, now, TOP, from, out);
	}
	if (head->members != members && now.mono_ms >= g->sample_from_ms &&
	    g->members.n_sends == 0 && g->self_sends == 0) {
		g->sample_from_ms = now.mono_ms + SAMPLE_MS;
		send_sample(g, now, from, out);
	}
}

/* ---- Rows ---- */

static void send_list(struct gossip *g, struct gossip_time now, unsigned leaf,
		      const struct gossip_address *to, struct gossip_out *out)
{
	struct message m;
	unsigned n = 0;

	for (uint32_t at = g->items.leaf[leaf]; at != 0; at = g->items.entries[at - 1].next)
		n++;
	message_begin(g, &m, GOSSIP_LIST, 0, now);
	wire_put(&m.w, leaf, 2);
	wire_put(&m.w, n <= LIST_MAX, 1); /* else: too many to say */
	wire_put(&m.w, n <= LIST_MAX ? n : 0, 1);
	for (uint32_t at = g->items.leaf[leaf]; at != 0 && n <= LIST_MAX;) {
		const struct gossip_entry *e = &g->items.entries[at - 1];

		wire_put(&m.w, e->id_hash, 8);
		wire_put(&m.w, e->stamp, 8);
		wire_put(&m.w, e->digest, 8);
		at = e->next;
	}
	message_send(&m, to, out);
}

static void take_row(struct gossip *g, struct gossip_time now, unsigned row,
		     const uint64_t digests[GOSSIP_ROW], const struct gossip_address *from,
		     struct gossip_out *out)
{
	const uint64_t *own =
		row == TOP ? g->items.row_digest : g->items.leaf_digest + row * GOSSIP_ROW;
	unsigned differ = 0, sent = 0, first = (unsigned)gossip_below(g, GOSSIP_ROW);

	for (int i = 0; i < GOSSIP_ROW; i++)
		differ += digests[i] != own[i];
	if (row == TOP && differ > ROWS_MAX) {
		gossip_want_pull(g, now, from, out);
		return;
	}
	for (unsigned i = 0; i < GOSSIP_ROW && sent < ANSWER_MAX; i++) {
		unsigned at = (first + i) % GOSSIP_ROW;

		if (digests[at] == own[at])
			continue;
		sent++;
		if (row == TOP)
			send_row(g, now, at, from, out);
		else
			send_list(g, now, row * GOSSIP_ROW + at, from, out);
	}
}

static bool read_row(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
		     struct wire_reader *r, bool take, struct gossip_out *out)
{
	unsigned row = (unsigned)wire_get(r, 1);
	uint64_t digests[GOSSIP_ROW];

	for (int i = 0; i < GOSSIP_ROW; i++)
		digests[i] = wire_get(r, 8);
	if (r->failed || (row >= GOSSIP_ROW && row != TOP))
		return false;
	if (take)
		take_row(g, now, row, digests, from, out);
	return true;
}

/* ---- Lists ---- */

/* Items on their way to one node, in as many messages as it takes. */
struct parcel {
	struct gossip *g;
	struct gossip_time now;
	const struct gossip_address *to;
	struct gossip_out *out;
	struct message m;
	unsigned n, sent; /* items in this message, messages before it */
};

static void parcel_send(struct parcel *p)
{
	if (p->n == 0)
		return;
	message_send(&p->m, p->to, p->out);
	p->n = 0;
	p->sent++;
}

static void parcel_add(struct parcel *p, const struct gossip_entry *e)
{
	if (p->sent >= ANSWER_MAX)
		return;
	if (p->n == 0)
		message_begin(p->g, &p->m, GOSSIP_NEWS, 0, p->now);
	if (!news_add_item(p->g, &p->m, e)) {
		parcel_send(p);
		message_begin(p->g, &p->m, GOSSIP_NEWS, 0, p->now);
		if (!news_add_item(p->g, &p->m, e))
			return;
	}
	p->n++;
}

struct listed {
	uint64_t id_hash, stamp, digest;
};

static void send_want(struct gossip *g, struct gossip_time now, const uint64_t *want, unsigned n,
		      const struct gossip_address *to, struct gossip_out *out)
{
	struct message m;

	message_begin(g, &m, GOSSIP_WANT, 0, now);
	wire_put(&m.w, n, 1);
	for (unsigned i = 0; i < n; i++)
		wire_put(&m.w, want[i], 8);
	message_send(&m, to, out);
}

static void take_list(struct gossip *g, struct gossip_time now, unsigned leaf,
		      const struct listed *list, unsigned n, const struct gossip_address *from,
		      struct gossip_out *out)
{
	struct parcel p = {.g = g, .now = now, .to = from, .out = out};
	uint64_t want[LIST_MAX];
	unsigned n_want = 0;

	for (unsigned i = 0; i < n; i++) {
		const struct gossip_entry *e = gossip_items_next(&g->items, list[i].id_hash, NULL);

		if (e == NULL || (e->digest != list[i].digest && e->stamp <= list[i].stamp))
			want[n_want++] = list[i].id_hash;
	}
	for (uint32_t at = g->items.leaf[leaf]; at != 0; at = g->items.entries[at - 1].next) {
		const struct gossip_entry *e = &g->items.entries[at - 1];
		unsigned i = 0;

		while (i < n && list[i].id_hash != e->id_hash)
			i++;
		if (i == n || (e->digest != list[i].digest && e->stamp >= list[i].stamp))
			parcel_add(&p, e);
	}
	parcel_send(&p);
	if (n_want > 0)
		send_want(g, now, want, n_want, from, out);
}

static bool read_list(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
		      struct wire_reader *r, bool take, struct gossip_out *out)
{
	unsigned leaf = (unsigned)wire_get(r, 2), whole = (unsigned)wire_get(r, 1);
	unsigned n = (unsigned)wire_get(r, 1);
	struct listed list[LIST_MAX];

	if (r->failed || leaf >= GOSSIP_LEAVES || n > LIST_MAX)
		return false;
	for (unsigned i = 0; i < n; i++) {
		list[i].id_hash = wire_get(r, 8);
		list[i].stamp = wire_get(r, 8);
		list[i].digest = wire_get(r, 8);
		if (gossip_leaf_of(list[i].id_hash) != leaf)
			return false;
	}
	if (r->failed)
		return false;
	if (take && whole == 0)
		gossip_want_pull(g, now, from, out);
	else if (take)
		take_list(g, now, leaf, list, n, from, out);
	return true;
}

static bool read_want(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
		      struct wire_reader *r, bool take, struct gossip_out *out)
{
	unsigned n = (unsigned)wire_get(r, 1);
	struct parcel p = {.g = g, .now = now, .to = from, .out = out};

	if (n > WANT_MAX)
		return false;
	for (unsigned i = 0; i < n; i++) {
		uint64_t id_hash = wire_get(r, 8);
		const struct gossip_entry *e = NULL;

		if (r->failed)
			return false;
		while (take && (e = gossip_items_next(&g->items, id_hash, e)) != NULL)
			parcel_add(&p, e);
	}
	parcel_send(&p);
	return !r->failed;
}

bool sync_take(struct gossip *g, struct gossip_time now, enum gossip_type type,
	       const struct gossip_address *from, struct wire_reader *r, bool take,
	       struct gossip_out *out)
{
	switch (type) {
	case GOSSIP_DIGESTS:
		return read_row(g, now, from, r, take, out);
	case GOSSIP_LIST:
		return read_list(g, now, from, r, take, out);
	case GOSSIP_WANT:
		return read_want(g, now, from, r, take, out);
	case GOSSIP_GRANTS:
		return grants_take(g, now, r, take, out);
	default:
		return true;
	}
}

/* ---- By a stream ---- */

void gossip_pull_write(const struct gossip *g, struct buf *out)
{
	uint8_t *room = (uint8_t *)buf_reserve(out, GOSSIP_PULL_BYTES);
	struct wire_writer w = {.ptr = room, .cap = GOSSIP_PULL_BYTES};

	if (room == NULL)
		return;
	for (int i = 0; i < GOSSIP_LEAVES; i++)
		wire_put(&w, g->items.leaf_digest[i], 8);
	out->len += GOSSIP_PULL_BYTES;
}

static void bulk_record(struct buf *out, const struct gossip_record *record)
{
	struct message m = {.w = {.cap = sizeof m.body}};

	m.w.ptr = m.body;
	wire_put(&m.w, GOSSIP_E_MEMBER, 1);
	wire_put_record(&m.w, record);
	buf_add(out, m.body, m.w.len);
}

static void bulk_item(const struct gossip *g, struct buf *out, const struct gossip_entry *e)
{
	struct gossip_item item;

	g->items.read(e->item, &item);
	size_t len = 1 + wire_item_bytes(&item);
	struct wire_writer w = {.ptr = (uint8_t *)buf_reserve(out, len), .cap = len};

	if (w.ptr == NULL)
		return;
	wire_put(&w, GOSSIP_E_ITEM, 1);
	wire_put_item(&w, &item);
	out->len += len;
}

bool gossip_bulk_write(const struct gossip *g, struct slice question, uint32_t *at, struct buf *out)
{
	size_t from = out->len;
	struct wire_reader r = wire_reader(slice_after(question, (size_t)*at * 8));

	if (*at == 0) {
		bulk_record(out, &g->self);
		for (uint32_t i = 0; i < g->members.n; i++) {
			struct gossip_record record = gossip_member_record(g->members.list[i]);

			bulk_record(out, &record);
		}
	}
	while (*at < GOSSIP_LEAVES && out->len - from < GOSSIP_CHUNK_BYTES) {
		uint32_t leaf = (*at)++;

		if (wire_get(&r, 8) == g->items.leaf_digest[leaf])
			continue;
		for (uint32_t i = g->items.leaf[leaf]; i != 0; i = g->items.entries[i - 1].next)
			bulk_item(g, out, &g->items.entries[i - 1]);
	}
	return *at < GOSSIP_LEAVES;
}

kova_status gossip_bulk_read(struct gossip *g, struct gossip_time now, struct slice part,
			     struct gossip_out *out)
{
	struct wire_reader r = wire_reader(part);
	struct gossip_address nobody = {0};

	if (!news_are_valid(r)) {
		g->counts.malformed++;
		return KOVA_EPROTO;
	}
	news_take(g, now, &nobody, r, out);
	return KOVA_OK;
}
