/*
 * The turns of a node: probes, news, seeds; and what each kind of message makes it do. gossip_news.c has the elements,
 * gossip_sync.c the digests.
 */
#include "core/gossip_own.h"

#include <assert.h>
#include <stdlib.h>

#include "core/hash.h"
#include "core/hlc.h"

/* ---- Life ---- */

static int64_t clock_of(struct gossip_time now)
{
	return (int64_t)(now.wall_ms - now.mono_ms);
}

struct gossip *gossip_new(const struct gossip_conf *conf, struct gossip_time now)
{
	struct gossip *g = calloc(1, sizeof *g);

	if (g == NULL)
		return NULL;
	assert(conf->name.len <= NAME_BYTES_MAX && conf->region.len <= NAME_BYTES_MAX);
	memcpy(g->name, conf->name.ptr, conf->name.len);
	if (conf->region.len > 0)
		memcpy(g->region, conf->region.ptr, conf->region.len);
	g->self = (struct gossip_record){.name = {g->name, conf->name.len},
					 .region = {g->region, conf->region.len},
					 .role = conf->role,
					 .address = conf->address};
	g->name_hash = gossip_hash(g->self.name);
	g->max_skew_ms = conf->max_skew_ms;
	g->random = conf->seed;
	gossip_items_init(&g->items, conf->read);
	g->clock_ms = clock_of(now);
	g->probe_due_ms = now.mono_ms + gossip_below(g, GOSSIP_PROBE_MS);
	g->news_due_ms = g->seed_due_ms = g->grants_due_ms = now.mono_ms;
	return g;
}

void gossip_free(struct gossip *g)
{
	if (g == NULL)
		return;
	gossip_items_release(&g->items);
	gossip_members_release(&g->members);
	gossip_grants_release(&g->grants);
	free(g);
}

void gossip_set_seeds(struct gossip *g, const struct gossip_address *seeds, size_t n)
{
	assert(n <= GOSSIP_SEEDS_MAX);
	for (size_t i = 0; i < n; i++)
		g->seeds[i] = seeds[i];
	g->n_seeds = n;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t gossip_below(struct gossip *g, uint64_t n)
{
	uint64_t z = g->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % n;
}

/* Decimal digits of the number of nodes: its logarithm, about. */
static unsigned scale(const struct gossip *g)
{
	unsigned digits = 1;

	for (uint32_t n = g->members.n_alive + 1; n >= 10; n /= 10)
		digits++;
	return digits;
}

uint8_t gossip_sends(const struct gossip *g)
{
	return (uint8_t)(4 * scale(g));
}

/* ---- Outputs ---- */

void gossip_out_clear(struct gossip_out *out)
{
	out->n = 0;
	buf_clear(&out->bytes);
	out->bytes.failed = false;
}

void gossip_out_release(struct gossip_out *out)
{
	free(out->list);
	buf_release(&out->bytes);
	*out = (struct gossip_out){0};
}

struct gossip_output *gossip_output(struct gossip_out *out, enum gossip_output_kind kind)
{
	if (out->n == out->room) {
		size_t room = out->room > 0 ? out->room * 2 : 16;
		struct gossip_output *list = realloc(out->list, room * sizeof *list);

		if (list == NULL)
			return NULL;
		out->list = list;
		out->room = room;
	}
	struct gossip_output *o = &out->list[out->n++];

	*o = (struct gossip_output){.kind = kind};
	return o;
}

void gossip_want_pull(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
		      struct gossip_out *out)
{
	if (now.mono_ms < g->pull_from_ms)
		return;
	struct gossip_output *o = gossip_output(out, GOSSIP_PULL);

	if (o == NULL)
		return;
	o->to = *from;
	g->pull_from_ms = now.mono_ms + PULL_MS;
}

/* ---- Messages ---- */

void message_begin(struct gossip *g, struct message *m, enum gossip_type type, uint32_t seq,
		   struct gossip_time now)
{
	struct gossip_head head = {.type = type,
				   .seq = seq,
				   .wall_ms = now.wall_ms,
				   .items = g->items.digest,
				   .members =
					   g->members.digest ^
					   gossip_member_digest(g->name_hash, g->self.incarnation),
				   .sender = g->self};

	m->w = (struct wire_writer){.ptr = m->body, .cap = sizeof m->body};
	wire_put_head(&m->w, &head);
}

void message_send(struct message *m, const struct gossip_address *to, struct gossip_out *out)
{
	struct gossip_output *o;

	assert(!m->w.full);
	buf_add(&out->bytes, m->body, m->w.len);
	if (buf_failed(&out->bytes) || (o = gossip_output(out, GOSSIP_SEND)) == NULL)
		return;
	o->to = *to;
	o->at = out->bytes.len - m->w.len;
	o->len = m->w.len;
}

/* A message with news and nothing else of its own. `about`: first of all what we hold of this one, unless it is alive. */
static void send_plain(struct gossip *g, struct gossip_time now, enum gossip_type type,
		       uint32_t seq, const struct gossip_address *to,
		       const struct gossip_member *about, struct gossip_out *out)
{
	struct message m;

	message_begin(g, &m, type, seq, now);
	if (about != NULL && about->state != GOSSIP_ALIVE)
		news_add_member(&m, about);
	news_add(g, &m);
	message_send(&m, to, out);
}

/* A live member by chance, not `other`; NULL: there is none, or chance had it so. */
static struct gossip_member *random_member(struct gossip *g, const struct gossip_member *other)
{
	for (int tries = 0; tries < 8 && g->members.n > 0; tries++) {
		struct gossip_member *m = g->members.list[gossip_below(g, g->members.n)];

		if (m->state != GOSSIP_DEAD && m != other)
			return m;
	}
	return NULL;
}

/* The number of a ping that leaves now. */
static uint32_t ping_seq(struct gossip *g, struct gossip_time now)
{
	g->seq++;
	g->pings[g->seq % PINGS].seq = g->seq;
	g->pings[g->seq % PINGS].sent_ms = now.mono_ms;
	return g->seq;
}

/* ---- Probes ---- */

static uint64_t probe_timeout_ms(const struct gossip *g)
{
	return GOSSIP_PROBE_MS * 2 / 5 * (g->health + 1);
}

static void send_probe(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	send_plain(g, now, GOSSIP_PING, g->probe.seq, &g->probe.target->address, g->probe.target,
		   out);
}

/* No answer in time: others are asked to try, and we try again. */
static void ask_others(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	struct gossip_member *last = NULL;

	g->probe.asked = true;
	send_probe(g, now, out);
	for (int i = 0; i < INDIRECT && GOSSIP_RULE(INDIRECT_PROBES); i++) {
		struct gossip_member *helper = random_member(g, g->probe.target);
		struct message m;

		if (helper == NULL || helper == last)
			continue;
		last = helper;
		message_begin(g, &m, GOSSIP_PING_REQ, g->probe.seq, now);
		wire_put_address(&m.w, &g->probe.target->address);
		news_add(g, &m);
		message_send(&m, &helper->address, out);
	}
}

static void accuse(struct gossip *g, struct gossip_time now, struct gossip_member *m,
		   enum gossip_state state, struct gossip_out *out)
{
	struct gossip_record record = gossip_member_record(m);

	record.state = GOSSIP_RULE(SUSPICION) ? state : GOSSIP_DEAD;
	record.accuser = (uint32_t)g->name_hash;
	gossip_hear(g, now, &record, out);
}

static void probe_failed(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	struct gossip_member *m = g->probe.target;

	g->probe.target = NULL;
	if (g->health < HEALTH_MAX)
		g->health++;
	if (m->state != GOSSIP_DEAD)
		accuse(g, now, m, GOSSIP_SUSPECT, out);
}

/* Once through the list in an order that is new each time (SWIM, 4.3). */
static struct gossip_member *next_target(struct gossip *g)
{
	struct gossip_members *t = &g->members;

	for (uint32_t tried = 0; tried < t->n; tried++) {
		if (g->probe_at >= t->n) {
			g->probe_at = 0;
			for (uint32_t i = t->n - 1; i > 0; i--) {
				uint32_t j = (uint32_t)gossip_below(g, (uint64_t)i + 1);
				struct gossip_member *m = t->list[i];

				t->list[i] = t->list[j];
				t->list[j] = m;
			}
		}
		struct gossip_member *m = t->list[g->probe_at++];

		if (m->state != GOSSIP_DEAD)
			return m;
	}
	return NULL;
}

/* What of the longest time a suspect still has after so many accusers beside the first, in 1/1000 of the way to the least. */
static uint64_t shortened(unsigned confirmations, unsigned possible)
{
	static const uint16_t part[GOSSIP_ACCUSERS_MAX + 1][GOSSIP_ACCUSERS_MAX + 1] = {
		{1000, 1000, 1000, 1000},
		{0, 1000, 1000, 1000},
		{0, 631, 1000, 1000},
		{0, 500, 792, 1000}, /* log(c + 1) / log(k + 1) */
	};

	return part[possible < GOSSIP_ACCUSERS_MAX ? possible : GOSSIP_ACCUSERS_MAX][confirmations];
}

static uint64_t suspicion_ms(const struct gossip *g, const struct gossip_member *m)
{
	uint64_t least = (uint64_t)GOSSIP_PROBE_MS * 4 * scale(g), most = 6 * least;
	unsigned possible = g->members.n_alive > 1 ? g->members.n_alive - 1 : 0;

	return most - (most - least) * shortened(m->n_accusers - 1U, possible) / 1000;
}

static void suspects_check(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	for (uint32_t i = 0; i < g->members.n && g->members.n_suspect > 0; i++) {
		struct gossip_member *m = g->members.list[i];

		if (m->state == GOSSIP_SUSPECT && now.mono_ms >= m->since_ms + suspicion_ms(g, m))
			accuse(g, now, m, GOSSIP_DEAD, out);
	}
}

static void forget_dead(struct gossip *g, struct gossip_time now)
{
	for (uint32_t i = 0; i < g->members.n; i++) {
		struct gossip_member *m = g->members.list[i];

		if (m->state == GOSSIP_DEAD && m != g->probe.target &&
		    now.mono_ms >= m->since_ms + DEAD_KEPT_MS)
			gossip_members_remove(&g->members, i--);
	}
}

static void probe_turn(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	if (now.mono_ms < g->probe_due_ms) {
		if (g->probe.target != NULL && !g->probe.asked &&
		    now.mono_ms >= g->probe.sent_ms + probe_timeout_ms(g))
			ask_others(g, now, out);
		return;
	}
	if (g->probe.target != NULL)
		probe_failed(g, now, out);
	suspects_check(g, now, out);
	g->probe.target = next_target(g);
	g->probe.asked = false;
	g->probe.sent_ms = now.mono_ms;
	g->probe_due_ms = now.mono_ms + (uint64_t)GOSSIP_PROBE_MS * (g->health + 1);
	if (g->probe.target == NULL)
		return;
	g->probe.seq = ping_seq(g, now);
	send_probe(g, now, out);
}

/* ---- News, seeds ---- */

static bool has_news(const struct gossip *g)
{
	return g->self_sends > 0 || g->members.n_sends > 0 || g->items.n_queue > 0;
}

static void news_turn(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	struct gossip_member *last = NULL;

	if (now.mono_ms < g->news_due_ms)
		return;
	g->news_due_ms = now.mono_ms + GOSSIP_INTERVAL_MS;
	for (int i = 0; i < FANOUT && has_news(g); i++) {
		struct gossip_member *m = random_member(g, last);

		if (m == NULL)
			continue;
		last = m;
		send_plain(g, now, GOSSIP_NEWS, 0, &m->address, m, out);
		if (g->self_sends > 0)
			g->self_sends--;
	}
}

static void ask_seed(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	for (size_t tries = 0; tries < g->n_seeds; tries++) {
		const struct gossip_address *seed = &g->seeds[gossip_below(g, g->n_seeds)];

		if (gossip_address_equal(seed, &g->self.address) ||
		    gossip_members_at(&g->members, seed) != NULL)
			continue;
		send_plain(g, now, GOSSIP_PING, ping_seq(g, now), seed, NULL, out);
		return;
	}
}

/* One who is dead to us may think the same of us, behind a network that was cut: somebody has to try. */
static void ask_dead(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	uint32_t n = g->members.n, from = n > 0 ? (uint32_t)gossip_below(g, n) : 0;

	for (uint32_t i = 0; i < n && g->members.n_alive < n && GOSSIP_RULE(RECONNECT); i++) {
		struct gossip_member *m = g->members.list[(from + i) % n];

		if (m->state == GOSSIP_DEAD) {
			send_plain(g, now, GOSSIP_PING, ping_seq(g, now), &m->address, m, out);
			return;
		}
	}
}

static void seed_turn(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	if (now.mono_ms < g->seed_due_ms)
		return;
	uint64_t pause_ms = g->members.n_alive == 0 ? LONELY_MS : SEED_MS;

	g->seed_due_ms = now.mono_ms + pause_ms / 2 + gossip_below(g, pause_ms);
	forget_dead(g, now);
	ask_seed(g, now, out);
	ask_dead(g, now, out);
}

uint64_t gossip_wake_ms(const struct gossip *g)
{
	uint64_t due = g->probe_due_ms < g->seed_due_ms ? g->probe_due_ms : g->seed_due_ms;

	if (g->leaving)
		return UINT64_MAX;
	if (g->probe.target != NULL && !g->probe.asked &&
	    g->probe.sent_ms + probe_timeout_ms(g) < due)
		due = g->probe.sent_ms + probe_timeout_ms(g);
	if (g->grants.n_sends > 0 && g->grants_due_ms < due)
		due = g->grants_due_ms;
	return has_news(g) && g->members.n_alive > 0 && g->news_due_ms < due ? g->news_due_ms : due;
}

/* ---- What came ---- */

/* For another node: pings its target, and passes the answer on. */
static void relay(struct gossip *g, struct gossip_time now, uint32_t seq,
		  const struct gossip_address *target, const struct gossip_address *origin,
		  struct gossip_out *out)
{
	struct relay *r = &g->relays[g->next_relay++ % RELAYS];

	*r = (struct relay){.seq = ping_seq(g, now), .origin_seq = seq, .origin = *origin};
	send_plain(g, now, GOSSIP_PING, r->seq, target, NULL, out);
}

/*
 * Whoever answers our ping read its clock between the ping's leaving and now: half of that way is the error (RFC 5905, 8).
 */
static void measure_clock(struct gossip *g, struct gossip_time now, const struct gossip_head *head,
			  struct gossip_member *sender)
{
	uint64_t sent_ms = g->pings[head->seq % PINGS].sent_ms;

	if (sender == NULL || head->seq == 0 || g->pings[head->seq % PINGS].seq != head->seq ||
	    now.mono_ms - sent_ms > g->max_skew_ms)
		return;
	sender->clock_ms = (int64_t)head->wall_ms - (int64_t)((sent_ms + now.mono_ms) / 2);
	sender->has_clock = true;
}

static void on_ack(struct gossip *g, struct gossip_time now, const struct gossip_head *head,
		   struct gossip_member *sender, struct gossip_out *out)
{
	struct gossip_member *target = g->probe.target;

	measure_clock(g, now, head, sender);
	if (target != NULL && head->seq == g->probe.seq) {
		g->health -= sender == target && g->health > 0;
		g->probe.target = NULL;
		return;
	}
	for (int i = 0; i < RELAYS; i++) {
		struct relay r = g->relays[i];

		if (r.seq == 0 || r.seq != head->seq)
			continue;
		g->relays[i].seq = 0;
		send_plain(g, now, GOSSIP_ACK, r.origin_seq, &r.origin, NULL, out);
		return;
	}
}

static void take(struct gossip *g, struct gossip_time now, const struct gossip_head *head,
		 const struct gossip_address *from, struct wire_reader r, struct gossip_out *out)
{
	bool was_alone = g->members.n_alive == 0;

	gossip_hear(g, now, &head->sender, out);

	struct gossip_member *sender = gossip_members_find(&g->members, head->sender.name);
	struct gossip_address target = {0};

	if (head->type == GOSSIP_PING_REQ)
		wire_get_address(&r, &target);
	else
		(void)sync_take(g, now, head->type, from, &r, true, out);
	g->teller = sender;
	news_take(g, now, from, r, out);
	g->teller = NULL;
	if (head->sender.state == GOSSIP_DEAD)
		return;
	if (was_alone && g->members.n_alive > 0)
		gossip_want_pull(g, now, from, out);
	if (head->type == GOSSIP_PING)
		send_plain(g, now, GOSSIP_ACK, head->seq, from, sender, out);
	else if (head->type == GOSSIP_PING_REQ && target.family != 0)
		relay(g, now, head->seq, &target, from, out);
	else if (head->type == GOSSIP_ACK)
		on_ack(g, now, head, sender, out);
	if (head->type == GOSSIP_PING || head->type == GOSSIP_ACK)
		sync_compare(g, now, head, from, out);
}

/* All of it is read before anything of it counts. */
static bool is_valid(struct gossip *g, struct gossip_time now, const struct gossip_head *head,
		     struct wire_reader r)
{
	struct gossip_address address;

	if (head->type == GOSSIP_PING_REQ)
		wire_get_address(&r, &address);
	else if (!sync_take(g, now, head->type, NULL, &r, false, NULL))
		return false;
	return !r.failed && news_are_valid(r);
}

static void receive(struct gossip *g, struct gossip_time now, const struct gossip_input *input,
		    struct gossip_out *out)
{
	struct wire_reader r = wire_reader(input->body);
	struct gossip_head head;

	wire_get_head(&r, &head);
	if (r.failed || !is_valid(g, now, &head, r)) {
		g->counts.malformed++;
		return;
	}
	/* Our own, by a seed's address that is ours; or somebody else has our name. */
	if (slice_equal(head.sender.name, g->self.name)) {
		g->counts.conflicts += g->self.address.family != 0 &&
				       !gossip_address_equal(&input->from, &g->self.address);
		return;
	}
	if (head.sender.address.family == 0)
		head.sender.address = input->from;
	take(g, now, &head, &input->from, r, out);
}

/* A wall clock that was set: what it judged before, it judged wrongly. */
static void watch_clock(struct gossip *g, struct gossip_time now)
{
	int64_t clock_ms = clock_of(now);

	if (clock_ms > g->clock_ms + (int64_t)g->max_skew_ms / 2)
		g->items.n_refusals = 0;
	g->clock_ms = clock_ms;
}

void gossip_step(struct gossip *g, struct gossip_time now, const struct gossip_input *input,
		 struct gossip_out *out)
{
	if (g->leaving)
		return;
	watch_clock(g, now);
	if (input != NULL)
		receive(g, now, input, out);
	probe_turn(g, now, out);
	news_turn(g, now, out);
	seed_turn(g, now, out);
	grants_turn(g, now, out);
}

void gossip_leave(struct gossip *g, struct gossip_time now, struct gossip_out *out)
{
	g->self.state = GOSSIP_DEAD;
	for (int i = 0; i < 2 * FANOUT; i++) {
		struct gossip_member *m = random_member(g, NULL);

		if (m != NULL)
			send_plain(g, now, GOSSIP_NEWS, 0, &m->address, NULL, out);
	}
	g->leaving = true;
}

/* ---- Items and members ---- */

kova_status gossip_put(struct gossip *g, const void *item, bool spread, const void **ret_replaced)
{
	return gossip_items_put(&g->items, item, spread ? gossip_sends(g) : 0, ret_replaced);
}

const void *gossip_forget(struct gossip *g, struct slice id)
{
	return gossip_items_forget(&g->items, id);
}

uint64_t gossip_digest(const struct gossip *g)
{
	return g->items.digest;
}

size_t gossip_n_items(const struct gossip *g)
{
	return g->items.n;
}

const struct gossip_refusal *gossip_refusals(const struct gossip *g, size_t *ret_n)
{
	*ret_n = g->items.n_refusals;
	return g->items.refusals;
}

bool gossip_stamps_refused(const struct gossip *g, struct gossip_time now, int64_t *ret_ms)
{
	for (uint32_t i = 0; i < g->items.n_refusals; i++) {
		const struct gossip_refusal *r = &g->items.refusals[i];

		if (r->writer != g->name_hash || now.wall_ms < hlc_ms(r->from) ||
		    now.wall_ms > hlc_ms(r->to))
			continue;
		*ret_ms = (int64_t)r->ahead_ms;
		return true;
	}
	return false;
}

void gossip_set_refusals(struct gossip *g, const struct gossip_refusal *list, size_t n)
{
	assert(n <= GOSSIP_REFUSALS_MAX);
	for (size_t i = 0; i < n; i++)
		g->items.refusals[i] = list[i];
	g->items.n_refusals = (uint32_t)n;
}

const struct gossip_members *gossip_members(const struct gossip *g)
{
	return &g->members;
}

struct gossip_record gossip_self(const struct gossip *g)
{
	return g->self;
}

bool gossip_skew(const struct gossip *g, struct gossip_time now, int64_t *ret_ms)
{
	return gossip_members_skew(&g->members, clock_of(now), ret_ms);
}

bool gossip_member_skew(const struct gossip_member *m, struct gossip_time now, int64_t *ret_ms)
{
	if (m->has_clock)
		*ret_ms = m->clock_ms - clock_of(now);
	return m->has_clock;
}

const struct gossip_counts *gossip_counts(const struct gossip *g)
{
	return &g->counts;
}
