#include "gossip_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/gossip_bulk.h"
#include "core/hash.h"

#define START_WALL_MS UINT64_C(1700000000000)

enum gossip_mutation gossip_broken;

/* ---- Nodes ---- */

static struct gossip_address address_of(unsigned i)
{
	return (struct gossip_address){
		.family = 4,
		.port = 7414,
		.host = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};
}

static unsigned number_of(const struct gossip_address *a)
{
	return (unsigned)a->host[1] << 16 | (unsigned)a->host[2] << 8 | a->host[3];
}

static struct gossip_time now_of(const struct net_node *node)
{
	uint64_t ms = node->net->world.now_us / 1000;

	return (struct gossip_time){
		.mono_ms = ms + 1000000 + 7777 * node->number,
		.wall_ms = (uint64_t)((int64_t)(START_WALL_MS + ms) + node->ahead_ms)};
}

static void read_item(const void *item, struct gossip_item *ret_item)
{
	const struct net_item *i = item;

	*ret_item = (struct gossip_item){.id = slice_of(i->id),
					 .value = slice_of(i->value),
					 .who = slice_of(i->who),
					 .writer = slice_of(i->writer),
					 .stamp = i->stamp};
}

static void trace(struct net *net, uint64_t what)
{
	net->trace = hash_mix(net->trace ^ what ^ net->world.now_us << 20);
}

void net_init(struct net *net, unsigned n, uint64_t seed, bool logging)
{
	*net = (struct net){.n = n, .delay_us = 5000, .nodes = calloc(n, sizeof *net->nodes)};
	world_init(&net->world, seed, SIM_NOTHING, logging);
	for (unsigned i = 0; i < n; i++) {
		net->nodes[i].net = net;
		net->nodes[i].number = i;
		snprintf(net->nodes[i].name, sizeof net->nodes[i].name, "node-%u", i);
	}
}

static void wipe(struct net_node *node)
{
	for (int i = 0; i < NET_IDS_MAX; i++) {
		free(node->items[i]);
		node->items[i] = NULL;
	}
}

void net_release(struct net *net)
{
	/* Events that are left hold datagrams: let them arrive nowhere. */
	for (unsigned i = 0; i < net->n; i++) {
		gossip_free(net->nodes[i].g);
		net->nodes[i].g = NULL;
	}
	net->world.violation[0] = '\0';
	world_run(&net->world, UINT64_MAX >> 27);
	for (unsigned i = 0; i < net->n; i++)
		wipe(&net->nodes[i]);
	for (int i = 0; i < NET_IDS_MAX; i++)
		free(net->newest[i]);
	free(net->nodes);
	gossip_out_release(&net->out);
	world_release(&net->world);
}

/* ---- Items ---- */

static unsigned id_of(struct slice id)
{
	unsigned n = 0;

	for (size_t i = 1; i < id.len; i++)
		n = n * 10 + (unsigned)(id.ptr[i] - '0');
	return n;
}

static void copy(char *to, struct slice s)
{
	if (s.len > 0)
		memcpy(to, s.ptr, s.len);
	to[s.len] = '\0';
}

static struct net_item *item_new(const struct gossip_item *said)
{
	struct net_item *item = calloc(1, sizeof *item);

	if (item == NULL)
		abort();
	copy(item->id, said->id);
	copy(item->value, said->value);
	copy(item->who, said->who);
	copy(item->writer, said->writer);
	item->stamp = said->stamp;
	return item;
}

/* Keeps it, and has gossip know it. */
static void keep(struct net_node *node, const struct gossip_item *said, bool spread)
{
	unsigned id = id_of(said->id);
	const void *was;

	if (said->value.len == 0 && !GOSSIP_RULE(TOMBSTONES)) {
		(void)gossip_forget(node->g, said->id);
		free(node->items[id]);
		node->items[id] = NULL;
		return;
	}
	struct net_item *item = item_new(said);

	if (gossip_put(node->g, item, spread, &was) != KOVA_OK)
		abort();
	free(node->items[id]);
	node->items[id] = item;
}

static void came(struct net_node *node, const struct gossip_item *item)
{
	struct gossip_time now = now_of(node);

	trace(node->net, item->stamp ^ node->number);
	if (hlc_ms(item->stamp) > now.wall_ms + NET_SKEW_MS)
		world_violated(&node->net->world, "%s takes %.*s of %.*s, %llu ms ahead",
			       node->name, (int)item->id.len, item->id.ptr, (int)item->writer.len,
			       item->writer.ptr,
			       (unsigned long long)(hlc_ms(item->stamp) - now.wall_ms));
	if (!node->net->late && item->stamp > 0 && item->who.len == 5 &&
	    memcmp(item->who.ptr, "ahead", 5) == 0)
		world_violated(&node->net->world, "%s takes %.*s, which was stamped ahead",
			       node->name, (int)item->id.len, item->id.ptr);
	(void)hlc_hear(&node->clock, item->stamp, now.wall_ms, NET_SKEW_MS);
	keep(node, item, true);
}

/* A write was stamped ahead: any other takes its place. */
static void withdrawn(struct net_node *node, const struct gossip_item *said)
{
	struct gossip_item item = *said;
	unsigned id = id_of(item.id);
	struct net_item *was = node->items[id];

	world_log(&node->net->world, "%s withdraws %s = '%s'", node->name, was->id, was->value);
	if (strcmp(was->who, "ahead") != 0)
		world_violated(&node->net->world, "%s withdraws %s, which was stamped rightly",
			       node->name, was->id);
	item.stamp = 0;
	item.writer = (struct slice){0};
	if (item.value.len > 0) {
		keep(node, &item, true);
		return;
	}
	(void)gossip_forget(node->g, item.id);
	free(was);
	node->items[id] = NULL;
}

/* ---- The network ---- */

static void carry_out(struct net_node *node);

static void arm(struct net_node *node);

struct datagram {
	unsigned from, to;
	size_t len;
	char body[];
};

static bool is_cut(const struct net *net, unsigned a, unsigned b)
{
	if (net->nodes[a].part != net->nodes[b].part)
		return true;
	return net->cut_a != net->cut_b &&
	       ((a == net->cut_a && b == net->cut_b) || (a == net->cut_b && b == net->cut_a));
}

static void on_datagram(void *owner, void *what)
{
	struct net *net = owner;
	struct datagram *d = what;
	struct net_node *node = &net->nodes[d->to];

	if (node->g != NULL && node->paused) {
		/* It waits in the socket. */
		world_at(&net->world, net->world.now_us + 50000, on_datagram, net, d);
		return;
	}
	if (node->g != NULL && !is_cut(net, d->from, d->to)) {
		struct gossip_input input = {.from = address_of(d->from),
					     .body = {d->body, d->len}};

		node->bytes_in += d->len + GOSSIP_SEAL_BYTES + NET_HEADERS;
		gossip_step(node->g, now_of(node), &input, &net->out);
		carry_out(node);
	}
	free(d);
}

static void send(struct net_node *node, const struct gossip_output *o)
{
	struct net *net = node->net;
	struct datagram *d = malloc(sizeof *d + o->len);

	if (d == NULL)
		abort();
	*d = (struct datagram){.from = node->number, .to = number_of(&o->to), .len = o->len};
	memcpy(d->body, net->out.bytes.ptr + o->at, o->len);
	trace(net, hash_bytes((struct slice){d->body, d->len}, d->to));
	node->bytes_out += o->len + GOSSIP_SEAL_BYTES + NET_HEADERS;
	node->datagrams_out++;
	net->n_datagrams++;
	if (o->len > GOSSIP_BODY_MAX)
		world_violated(&net->world, "a datagram of %zu bytes", o->len);
	if (d->to >= net->n || is_cut(net, d->from, d->to) ||
	    world_one_in(&net->world, net->lose_one_in)) {
		free(d);
		return;
	}
	if (world_one_in(&net->world, net->double_one_in)) {
		struct datagram *twin = malloc(sizeof *d + o->len);

		if (twin == NULL)
			abort();
		memcpy(twin, d, sizeof *d + o->len);
		world_at(&net->world, net->world.now_us + world_below(&net->world, 1000000),
			 on_datagram, net, twin);
	}
	world_at(&net->world,
		 net->world.now_us + net->delay_us / 10 + world_below(&net->world, net->delay_us),
		 on_datagram, net, d);
}

struct pull {
	unsigned from, to;
};

static void on_pull(void *owner, void *what)
{
	struct net *net = owner;
	struct pull *p = what;
	struct net_node *node = &net->nodes[p->to], *peer = &net->nodes[p->from];
	struct buf question = {0}, part = {0};
	uint32_t at = 0;
	bool more = node->g != NULL && peer->g != NULL && !node->paused && !peer->paused &&
		    !is_cut(net, p->from, p->to);

	if (more)
		gossip_pull_write(node->g, &question);
	while (more) {
		buf_clear(&part);
		more = gossip_bulk_write(peer->g, buf_slice(&question), &at, &part);
		if (gossip_bulk_read(node->g, now_of(node), buf_slice(&part), &net->out) != KOVA_OK)
			world_violated(&net->world, "a stream that can't be read");
		carry_out(node);
	}
	buf_release(&question);
	buf_release(&part);
	free(p);
}

static void pull(struct net_node *node, const struct gossip_output *o)
{
	struct pull *p = malloc(sizeof *p);

	if (p == NULL)
		abort();
	*p = (struct pull){.from = number_of(&o->to), .to = node->number};
	world_at(&node->net->world, node->net->world.now_us + 10000, on_pull, node->net, p);
}

static void member(struct net_node *node, const struct gossip_output *o)
{
	struct net *net = node->net;
	unsigned i = 0;

	while (i < net->n && !slice_equal(slice_of(net->nodes[i].name), o->member->name))
		i++;
	trace(net, (uint64_t)o->member->state << 40 ^ (uint64_t)i << 20 ^ node->number);
	world_log(&net->world, "%s: %.*s is %d, incarnation %u", node->name,
		  (int)o->member->name.len, o->member->name.ptr, (int)o->member->state,
		  o->member->incarnation);
	if (net->nodes[i].g == NULL)
		return;
	net->deaths += o->member->state == GOSSIP_DEAD;
	net->suspicions += o->member->state == GOSSIP_SUSPECT;
}

/* ---- Grants ---- */

struct grant_text {
	uint32_t q, seq, committed;
};

static unsigned region_number(unsigned node)
{
	return node % NET_REGIONS;
}

static const char *const region_names[NET_REGIONS] = {"r0", "r1", "r2"};

void net_grant(struct net *net, unsigned q, bool committed)
{
	struct net_grant *grant = &net->grants[q];
	struct grant_text text = {q, grant->seq + 1, committed};
	const struct gossip_grant said = {.quota = q,
					  .seq = text.seq,
					  .keep_ms = (uint32_t)net->keep_ms,
					  .region = slice_of(region_names[q % NET_REGIONS]),
					  .bytes = {(const char *)&text, sizeof text}};

	if (committed) {
		grant->seq = text.seq;
		grant->decided_us[text.seq % 2] = net->world.now_us;
	}
	if (!committed && GOSSIP_RULE(UNCOMMITTED))
		return;
	if (gossip_grant(net->nodes[0].g, now_of(&net->nodes[0]), &said) != KOVA_OK)
		abort();
	arm(&net->nodes[0]);
}

unsigned net_without_grant(const struct net *net, unsigned q)
{
	unsigned n = 0;

	for (unsigned i = 1; i < net->n; i++)
		n += net->nodes[i].g != NULL && region_number(i) == q % NET_REGIONS &&
		     net->nodes[i].granted[q] != net->grants[q].seq;
	return n;
}

static void granted(struct net_node *node, const struct gossip_grant *grant)
{
	struct net *net = node->net;
	struct grant_text text;

	memcpy(&text, grant->bytes.ptr, sizeof text);
	trace(net, (uint64_t)text.q << 32 ^ text.seq ^ node->number);
	const struct net_grant *known = &net->grants[text.q];
	uint64_t age_ms = (net->world.now_us - known->decided_us[text.seq % 2]) / 1000;

	if (!text.committed)
		world_violated(&net->world, "%s takes a grant that was not committed", node->name);
	else if (region_number(node->number) != text.q % NET_REGIONS)
		world_violated(&net->world, "%s takes a grant of another region", node->name);
	else if (text.seq <= node->granted[text.q] && !net->overrun)
		world_violated(&net->world, "%s takes grant %u after %u", node->name, text.seq,
			       node->granted[text.q]);
	else if (text.seq + 1 >= known->seq && age_ms > net->keep_ms + net->late_ms)
		world_violated(&net->world, "%s takes a grant that is %llu ms old", node->name,
			       (unsigned long long)age_ms);
	node->granted[text.q] = text.seq;
}

/* The outputs of a step of this node. */
static void carry_out(struct net_node *node)
{
	struct net *net = node->net;

	for (size_t i = 0; i < net->out.n; i++) {
		struct gossip_output o = net->out.list[i];

		switch (o.kind) {
		case GOSSIP_SEND:
			send(node, &o);
			break;
		case GOSSIP_CAME:
			came(node, &o.item);
			break;
		case GOSSIP_WITHDRAWN:
			withdrawn(node, &o.item);
			break;
		case GOSSIP_GRANTED:
			granted(node, &o.grant);
			break;
		case GOSSIP_MEMBER:
			member(node, &o);
			break;
		case GOSSIP_PULL:
			pull(node, &o);
			break;
		}
	}
	gossip_out_clear(&net->out);
	arm(node);
}

/* ---- Time ---- */

struct timer {
	struct net_node *node;
	uint64_t number;
};

static void on_timer(void *owner, void *what)
{
	struct net *net = owner;
	struct timer *t = what;
	struct net_node *node = t->node;

	if (node->g != NULL && t->number == node->timer) {
		if (!node->paused)
			gossip_step(node->g, now_of(node), NULL, &net->out);
		carry_out(node);
	}
	free(t);
}

static void arm(struct net_node *node)
{
	struct net *net = node->net;
	struct timer *t = malloc(sizeof *t);

	if (t == NULL)
		abort();
	*t = (struct timer){node, ++node->timer};
	uint64_t now_ms = now_of(node).mono_ms, due_ms = gossip_wake_ms(node->g);
	uint64_t wait_ms = node->paused ? 50 : due_ms > now_ms ? due_ms - now_ms : 1;

	world_at(&net->world, net->world.now_us + wait_ms * 1000, on_timer, net, t);
}

void net_run(struct net *net, uint64_t ms)
{
	world_run(&net->world, net->world.now_us + ms * 1000);
}

/* ---- What happens to nodes ---- */

void net_start(struct net *net, unsigned i, bool seeded)
{
	struct net_node *node = &net->nodes[i];
	struct gossip_address seed = address_of(0);
	struct gossip_conf conf = {.name = slice_of(node->name),
				   .region = SLICE("sim"),
				   .address = address_of(i),
				   .max_skew_ms = NET_SKEW_MS,
				   .seed = world_below(&net->world, UINT64_MAX),
				   .read = read_item};
	const void *was;

	if (net->regional && i == 0)
		conf.role = GOSSIP_COORDINATOR;
	if (net->regional)
		conf.region = i == 0 ? SLICE("") : slice_of(region_names[region_number(i)]);
	memset(node->granted, 0, sizeof node->granted);
	node->g = gossip_new(&conf, now_of(node));
	if (node->g == NULL)
		abort();
	node->paused = false;
	gossip_set_seeds(node->g, &seed, seeded);
	for (int id = 0; id < NET_IDS_MAX; id++)
		if (node->items[id] != NULL &&
		    gossip_put(node->g, node->items[id], false, &was) != KOVA_OK)
			abort();
	gossip_set_refusals(node->g, node->refusals, node->n_refusals);
	world_log(&net->world, "%s starts", node->name);
	arm(node);
}

void net_crash(struct net *net, unsigned i, bool wiped)
{
	struct net_node *node = &net->nodes[i];
	const struct gossip_refusal *refusals = gossip_refusals(node->g, &node->n_refusals);

	memcpy(node->refusals, refusals, node->n_refusals * sizeof *refusals);
	gossip_free(node->g);
	node->g = NULL;
	if (wiped) {
		wipe(node);
		node->n_refusals = 0;
		node->clock = (struct hlc){0};
	}
	world_log(&net->world, "%s crashes%s", node->name, wiped ? ", wiped" : "");
}

void net_pause(struct net *net, unsigned i, bool paused)
{
	net->nodes[i].paused = paused;
	world_log(&net->world, "%s %s", net->nodes[i].name, paused ? "pauses" : "goes on");
}

/* The model: which write must win. */
static void remember(struct net *net, unsigned id, const struct gossip_item *said)
{
	struct gossip_item newest;

	if (net->newest[id] != NULL) {
		read_item(net->newest[id], &newest);
		if (newest.stamp > said->stamp ||
		    (newest.stamp == said->stamp &&
		     strcmp(net->newest[id]->value, said->value.ptr) >= 0))
			return;
	}
	free(net->newest[id]);
	net->newest[id] = item_new(said);
}

static void write_item(struct net_node *node, unsigned id, const char *text, const char *who,
		       uint64_t stamp)
{
	char name[16];
	struct gossip_item said = {.id = {name, (size_t)snprintf(name, sizeof name, "p%u", id)},
				   .value = slice_of(text),
				   .who = slice_of(who),
				   .writer = slice_of(stamp > 0 ? node->name : ""),
				   .stamp = stamp};

	world_log(&node->net->world, "%s writes %s = '%s' at %llu", node->name, name, text,
		  (unsigned long long)stamp);
	trace(node->net, stamp);
	keep(node, &said, stamp > 0);
	arm(node);
	if (strcmp(who, "ahead") != 0)
		remember(node->net, id, &said);
}

bool net_write(struct net *net, unsigned i, unsigned id, const char *text, bool forced)
{
	struct net_node *node = &net->nodes[i];
	struct gossip_time now = now_of(node);
	int64_t skew_ms = 0;

	if (!forced && gossip_stamps_refused(node->g, now, &skew_ms))
		return false;
	if (!forced && GOSSIP_RULE(MEDIAN) && gossip_skew(node->g, now, &skew_ms) &&
	    (skew_ms > NET_SKEW_MS || skew_ms < -NET_SKEW_MS))
		return false;
	bool ahead = node->ahead_ms > NET_SKEW_MS;

	if (ahead && !forced)
		world_violated(&net->world, "%s, %lld ms ahead, takes a change", node->name,
			       (long long)node->ahead_ms);
	uint64_t stamp = hlc_now(&node->clock, now.wall_ms);

	ahead = hlc_ms(stamp) > net->world.now_us / 1000 + START_WALL_MS + NET_SKEW_MS;
	write_item(node, id, text, ahead ? "ahead" : "token:a", stamp);
	return true;
}

void net_write_first(struct net *net, unsigned i, unsigned id, const char *text)
{
	write_item(&net->nodes[i], id, text, "file", 0);
}

/* ---- What must be ---- */

unsigned net_up(const struct net *net)
{
	unsigned n = 0;

	for (unsigned i = 0; i < net->n; i++)
		n += net->nodes[i].g != NULL;
	return n;
}

static bool holds(const struct net_node *node, unsigned id)
{
	const struct net_item *newest = node->net->newest[id], *own = node->items[id];

	if (newest == NULL || own == NULL)
		return newest == own || (newest != NULL && newest->value[0] == '\0');
	return own->stamp == newest->stamp && strcmp(own->value, newest->value) == 0 &&
	       strcmp(own->writer, newest->writer) == 0;
}

unsigned net_holders(const struct net *net, unsigned id)
{
	unsigned n = 0;

	for (unsigned i = 0; i < net->n; i++)
		n += net->nodes[i].g != NULL && holds(&net->nodes[i], id);
	return n;
}

void net_check_items(struct net *net)
{
	for (unsigned id = 0; id < NET_IDS_MAX; id++)
		for (unsigned i = 0; i < net->n; i++)
			if (net->nodes[i].g != NULL && !holds(&net->nodes[i], id))
				world_violated(&net->world, "%s has not the newest p%u ('%s')",
					       net->nodes[i].name, id,
					       net->newest[id] != NULL ? net->newest[id]->value
								       : "");
}

void net_check_members(struct net *net)
{
	for (unsigned i = 0; i < net->n; i++) {
		if (net->nodes[i].g == NULL)
			continue;
		const struct gossip_members *t = gossip_members(net->nodes[i].g);

		for (unsigned j = 0; j < net->n; j++) {
			const struct gossip_member *m =
				gossip_members_find(t, slice_of(net->nodes[j].name));
			bool alive = m != NULL && m->state != GOSSIP_DEAD;

			if (j != i && alive != (net->nodes[j].g != NULL))
				world_violated(&net->world, "%s thinks that %s is %s",
					       net->nodes[i].name, net->nodes[j].name,
					       alive ? "alive" : "dead");
		}
	}
}
