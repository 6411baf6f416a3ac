/*
 * As edge-agent/leases.c: a request is decided from a lease, or a lease is asked for and the request waits for it, or Redis is
 * asked. A turn of the loop reads requests, then the clock, then judges. What is left of a lease goes back shortly before its end.
 */
#include <stdlib.h>
#include <string.h>

#include "region.h"

enum {
	RETURN_BEFORE_US = 10000,
	REFUSAL_MIN_US = 5000,
	REFUSAL_MAX_US = 1000000,
	TIMEOUT_US = 100000, /* of a call */
	PENDING_MAX = 256,
};

/* ---- Clocks ---- */

static uint64_t boot_us(const struct agent *a)
{
	return sim_clock_read(&a->boot, a->region->world.now_us);
}

/* The clock by which it ends its leases. */
static uint64_t clock_us(const struct agent *a)
{
	return boot_us(a) - (world_has(&a->region->world, SIM_CLOCK_SLEEPS) ? a->slept_us : 0);
}

/* Does the event later, when the process is stopped now. */
static bool put_off(struct agent *a, event_handler *on_event, void *what)
{
	if (a->paused_until_us <= a->region->world.now_us)
		return false;
	world_at(&a->region->world, a->paused_until_us, on_event, a, what);
	return true;
}

/* ---- Lists ---- */

static void asks_add(struct asks *l, struct ask ask)
{
	if (l->n == l->room) {
		l->room = l->room > 0 ? 2 * l->room : 16;
		l->ask = realloc(l->ask, l->room * sizeof *l->ask);
		if (l->ask == NULL)
			abort();
	}
	l->ask[l->n++] = ask;
}

/* ---- Calls ---- */

void call_unref(struct call *c)
{
	if (--c->refs == 0)
		free(c);
}

static void calls_add(struct agent *a, struct call *c)
{
	if (a->n_calls == a->calls_room) {
		a->calls_room = a->calls_room > 0 ? 2 * a->calls_room : 16;
		a->calls = realloc(a->calls, a->calls_room * sizeof(struct call *));
		if (a->calls == NULL)
			abort();
	}
	a->calls[a->n_calls++] = c;
}

static void calls_remove(struct agent *a, const struct call *c)
{
	for (unsigned i = 0; i < a->n_calls; i++)
		if (a->calls[i] == c)
			a->calls[i] = a->calls[--a->n_calls];
}

static void on_timeout(void *owner, void *call);

static bool is_up(const struct agent *a)
{
	return a->down_until_us <= a->region->world.now_us;
}

/* Sends a copy of `call`. */
static void call_send(struct agent *a, const struct call *call)
{
	struct world *w = &a->region->world;
	struct call *c = calloc(1, sizeof *c);
	uint64_t at_us;

	if (c == NULL)
		abort();
	*c = *call;
	c->agent = a;
	c->epoch = a->epoch;
	c->generation = a->link.generation;
	c->sent_us = clock_us(a);
	c->sent_boot_us = boot_us(a);
	c->refs = 2; /* its time-out, and the way there and back */
	calls_add(a, c);
	at_us = sim_link_arrival(w, &a->region->weather, &a->link.there_us);
	if (at_us == UINT64_MAX)
		c->refs--;
	else
		world_at(w, at_us, store_on_call, &a->region->store, c);
	world_at(w, w->now_us + TIMEOUT_US, on_timeout, a, c);
}

/* ---- Leases ---- */

/* What is left goes back; nothing is spent afterwards. */
static void held_return(struct agent *a, unsigned child, struct held *h)
{
	struct call c = {.kind = CALL_UNLEASE,
			 .ask = {.child = (uint8_t)child},
			 .amount = h->left,
			 .lease = h->id};
	bool runs = h->granted > 0 && h->ends_us > clock_us(a);

	if (!world_has(&a->region->world, SIM_SPENT_AFTER_RETURN))
		*h = (struct held){0};
	if (!runs || !is_up(a))
		return;
	call_send(a, &c);
	if (world_one_in(&a->region->world, 10)) /* sent again, for whatever reason */
		call_send(a, &c);
}

struct lease_end {
	uint64_t epoch, id;
	unsigned child;
};

static void on_lease_ends(void *owner, void *what)
{
	struct agent *a = owner;
	struct lease_end *end = what;
	struct entry *e = &a->entries[end->child];

	if (a->alive && a->epoch == end->epoch && put_off(a, on_lease_ends, end))
		return;
	if (a->alive && a->epoch == end->epoch && e->spent.id == end->id && e->spent.left > 0) {
		held_return(a, end->child, &e->spent);
		if (e->spent.granted == 0) {
			e->spent = e->next;
			e->next = (struct held){0};
		}
	}
	free(end);
}

static void look_at_end(struct agent *a, unsigned child, const struct held *h)
{
	struct lease_end *end = calloc(1, sizeof *end);
	uint64_t left_us = h->ends_us > clock_us(a) ? h->ends_us - clock_us(a) : 0;
	uint64_t in_us = left_us > RETURN_BEFORE_US ? left_us - RETURN_BEFORE_US : 0;

	if (end == NULL)
		abort();
	*end = (struct lease_end){a->epoch, h->id, child};
	world_at(&a->region->world, a->region->world.now_us + in_us, on_lease_ends, a, end);
}

static uint64_t lease_wanted(const struct agent *a, unsigned child, uint64_t ttl_us)
{
	const struct region *r = a->region;
	unsigned path[LEVELS_MAX], n = store_path(&r->store, child, path);
	uint64_t rate = lease_demand_rate(&a->entries[child].demand, boot_us(a)),
		 wanted = UINT64_MAX;

	for (unsigned i = 0; i < n; i++) {
		uint64_t size;

		if (r->limits[path[i]].algorithm == ALGORITHM_GCRA)
			return 0;
		size = lease_size(rate, ttl_us, 0, limit_capacity(&r->limits[path[i]]),
				  r->scenario.n_agents);
		wanted = size < wanted ? size : wanted;
	}
	return wanted;
}

static bool ask_lease(struct agent *a, unsigned child, uint16_t cost)
{
	struct region *r = a->region;
	struct call c = {
		.kind = CALL_LEASE,
		.ask = {.child = (uint8_t)child, .cost = cost},
		.ttl_us = lease_jitter(r->scenario.ttl_us, (uint32_t)dice_next(&r->world.dice)),
		.sharers = r->scenario.n_agents};

	if (!r->scenario.leases || !is_up(a))
		return false;
	c.amount = lease_wanted(a, child, c.ttl_us);
	if (c.amount == 0)
		return false;
	c.lease = ++r->last_lease;
	a->entries[child].asking = true;
	call_send(a, &c);
	return true;
}

/* `judged_us`: the holder's clock, as it was read for this. */
static bool spend(struct agent *a, unsigned child, uint64_t cost, uint64_t judged_us)
{
	struct entry *e = &a->entries[child];

	if ((e->spent.left < cost || e->spent.ends_us <= judged_us) && e->next.granted > 0) {
		held_return(a, child, &e->spent);
		e->spent = e->next;
		e->next = (struct held){0};
	}
	if (e->spent.left < cost || e->spent.ends_us <= judged_us)
		return false;
	e->spent.left -= cost;
	a->region->n_by_lease += cost;
	world_log(&a->region->world, "agent %u spends %llu of lease %llu of key %u, %llu left",
		  a->number, (unsigned long long)cost, (unsigned long long)e->spent.id, child,
		  (unsigned long long)e->spent.left);
	if (store_now_us(&a->region->store) >= e->spent.freed_us) /* lemma 1 of docs/leases.md */
		world_violated(&a->region->world,
			       "agent %u spends a lease that Redis has freed (key %u)", a->number,
			       child);
	store_admitted(&a->region->store, child, cost, e->spent.granted_us);
	if (e->spent.left == 0)
		held_return(a, child, &e->spent);
	return true;
}

uint64_t agent_spendable(const struct agent *a, unsigned child)
{
	const struct entry *e = &a->entries[child];
	uint64_t now_us = boot_us(a), sum = 0;

	if (!a->alive)
		return 0;
	if (e->spent.truly_ends_us > now_us)
		sum += e->spent.left;
	if (e->next.truly_ends_us > now_us)
		sum += e->next.left;
	for (unsigned i = 0; i < a->n_calls; i++) {
		const struct call *c = a->calls[i];

		if (c->kind == CALL_LEASE && c->executed && c->leased && c->ask.child == child &&
		    c->sent_boot_us + c->ttl_us > now_us)
			sum += c->granted;
	}
	return sum;
}

/* ---- Requests ---- */

static void take(struct agent *a, struct ask ask)
{
	struct call c = {.kind = CALL_TAKE, .ask = ask};

	if (is_up(a))
		call_send(a, &c);
	else
		region_in_doubt(a->region, ask); /* on_outage: deny */
}

static void renew_early(struct agent *a, unsigned child, uint64_t judged_us)
{
	struct entry *e = &a->entries[child];
	const struct held *h = &e->spent;

	if (e->asking || e->next.granted > 0 || e->refused_until_us > judged_us ||
	    (h->granted > 0 && !lease_renews(h->left, h->granted, h->ends_us - judged_us, h->ttl_us,
					     (uint32_t)dice_next(&a->region->world.dice))))
		return;
	ask_lease(a, child, 1);
}

static void decide(struct agent *a, struct ask ask, uint64_t judged_us)
{
	struct entry *e = &a->entries[ask.child];

	if (ask.has_id) {
		take(a, ask);
		return;
	}
	lease_demand_add(&e->demand, boot_us(a), ask.cost);
	if (spend(a, ask.child, ask.cost, judged_us)) {
		renew_early(a, ask.child, judged_us);
		return;
	}
	if (e->refused_until_us > judged_us && ask.cost >= e->refused_cost)
		return;
	if (!e->asking && !ask_lease(a, ask.child, ask.cost))
		take(a, ask);
	else if (e->pending.n < PENDING_MAX)
		asks_add(&e->pending, ask);
}

static void serve_pending(struct agent *a, unsigned child)
{
	struct entry *e = &a->entries[child];
	struct asks pending = e->pending;

	e->pending = (struct asks){0};
	for (uint32_t i = 0; i < pending.n; i++)
		decide(a, pending.ask[i], clock_us(a));
	free(pending.ask);
}

/* ---- Turns of the loop ---- */

static void on_turn_read(void *owner, void *epoch);

static void on_turn_judge(void *owner, void *epoch)
{
	struct agent *a = owner;
	uint64_t judged_us;

	if (!a->alive || a->epoch != (uint64_t)(uintptr_t)epoch || put_off(a, on_turn_judge, epoch))
		return;
	judged_us =
		world_has(&a->region->world, SIM_CLOCK_BEFORE_REQUESTS) ? a->read_us : clock_us(a);
	for (uint32_t i = 0; i < a->turn.n; i++)
		decide(a, a->turn.ask[i], judged_us);
	a->turn.n = 0;
	a->turning = a->inbox.n > 0;
	if (a->turning)
		world_at(&a->region->world, a->region->world.now_us + 5, on_turn_read, a, epoch);
}

static void on_turn_read(void *owner, void *epoch)
{
	struct agent *a = owner;
	struct world *w = &a->region->world;
	struct asks read;

	if (!a->alive || a->epoch != (uint64_t)(uintptr_t)epoch || put_off(a, on_turn_read, epoch))
		return;
	read = a->inbox;
	a->inbox = a->turn;
	a->turn = read;
	a->read_us = clock_us(a);
	world_at(w, w->now_us + 1 + world_below(w, 50), on_turn_judge, a, epoch);
	if (a->pause_in_turn_us > 0)
		agent_pause(a, a->pause_in_turn_us, false);
	a->pause_in_turn_us = 0;
}

void agent_hear(struct agent *a, struct ask ask)
{
	struct world *w = &a->region->world;

	if (!a->alive) {
		region_in_doubt(a->region, ask);
		return;
	}
	asks_add(&a->inbox, ask);
	if (a->turning)
		return;
	a->turning = true;
	world_at(w, w->now_us + world_below(w, 100), on_turn_read, a, (void *)(uintptr_t)a->epoch);
}

/* ---- Answers ---- */

static void hold(struct agent *a, const struct call *c)
{
	struct entry *e = &a->entries[c->ask.child];
	struct held h = {.id = c->lease,
			 .left = c->granted,
			 .granted = c->granted,
			 .ttl_us = c->ttl_us,
			 .granted_us = c->redis_us,
			 .freed_us = c->freed_us,
			 .ends_us = c->sent_us + c->ttl_us,
			 .truly_ends_us = c->sent_boot_us + c->ttl_us};

	if (world_has(&a->region->world, SIM_END_FROM_REPLY))
		h.ends_us = clock_us(a) + c->ttl_us;
	if (e->spent.left > 0 && e->spent.ends_us > clock_us(a)) {
		e->next = h;
	} else {
		held_return(a, c->ask.child, &e->spent);
		e->spent = h;
	}
	if (h.ends_us > clock_us(a))
		region_leased(a->region, a, c->ask.child, h.left, h.ends_us - clock_us(a));
	if (a->region->scenario.returns)
		look_at_end(a, c->ask.child, &h);
}

static void on_lease(struct agent *a, const struct call *c)
{
	struct entry *e = &a->entries[c->ask.child];
	uint64_t wait_us = c->wait_us < REFUSAL_MAX_US ? c->wait_us : REFUSAL_MAX_US;

	e->asking = false;
	if (c->leased)
		hold(a, c);
	else if (c->allowed && e->pending.n > 0) /* an ordinary take, for who asked first */
		memmove(e->pending.ask, e->pending.ask + 1,
			--e->pending.n * sizeof *e->pending.ask);
	if (!c->allowed && wait_us >= REFUSAL_MIN_US) {
		e->refused_until_us = clock_us(a) + wait_us;
		e->refused_cost = c->ask.cost;
	}
	serve_pending(a, c->ask.child);
}

static void on_refund(void *owner, void *call)
{
	struct agent *a = owner;
	struct call *c = call;

	if (a->alive && c->epoch == a->epoch && is_up(a)) {
		c->kind = CALL_GIVE;
		call_send(a, c);
	}
	free(c);
}

static void refund_later(struct agent *a, const struct call *taken)
{
	struct world *w = &a->region->world;
	struct call *c = calloc(1, sizeof *c);

	if (c == NULL)
		abort();
	*c = (struct call){.epoch = a->epoch, .ask = taken->ask, .stamp_us = taken->redis_us};
	world_at(w, w->now_us + world_any_size(w, 1000000), on_refund, a, c);
}

void agent_on_reply(void *owner, void *call)
{
	struct agent *a = owner;
	struct call *c = call;

	if (!c->done && put_off(a, agent_on_reply, c))
		return;
	if (c->done || c->generation != a->link.generation) {
		call_unref(c);
		return;
	}
	c->done = true;
	calls_remove(a, c);
	if (c->kind == CALL_LEASE)
		on_lease(a, c);
	else if (c->kind == CALL_TAKE && c->allowed && !c->ask.has_id &&
		 world_one_in(&a->region->world, a->region->scenario.refund_one_in))
		refund_later(a, c);
	call_unref(c);
}

/* ---- Doubt ---- */

/* What it may have taken is lost until time refills it. */
static void in_doubt(struct agent *a, const struct call *c)
{
	struct call undo = {.ask = c->ask, .stamp_us = store_now_us(&a->region->store)};

	if (c->kind == CALL_LEASE) {
		a->entries[c->ask.child].asking = false;
		a->entries[c->ask.child].pending.n = 0;
	}
	if (c->kind == CALL_TAKE && world_has(&a->region->world, SIM_GIVE_IN_DOUBT))
		refund_later(a, &undo);
	if (c->kind == CALL_TAKE)
		region_in_doubt(a->region, c->ask);
}

static void drop_calls(struct agent *a, bool tell)
{
	while (a->n_calls > 0) {
		struct call *c = a->calls[--a->n_calls];

		c->done = true;
		if (tell)
			in_doubt(a, c);
	}
	a->link.generation++;
	a->link.there_us = a->link.back_us = 0;
}

void agent_cut(struct agent *a)
{
	struct world *w = &a->region->world;

	a->down_until_us = w->now_us + world_any_size(w, 300000);
	world_log(w, "agent %u loses its connection for %llu us", a->number,
		  (unsigned long long)(a->down_until_us - w->now_us));
	drop_calls(a, a->alive);
}

static void on_timeout(void *owner, void *call)
{
	struct agent *a = owner;
	struct call *c = call;

	if (!c->done && put_off(a, on_timeout, c))
		return;
	if (!c->done)
		agent_cut(a);
	call_unref(c);
}

/* ---- Life ---- */

void agent_pause(struct agent *a, uint64_t us, bool asleep)
{
	struct world *w = &a->region->world;

	if (!a->alive || a->paused_until_us > w->now_us)
		return;
	a->paused_until_us = w->now_us + us;
	a->slept_us += asleep ? us : 0;
	world_log(w, "agent %u is stopped for %llu us%s", a->number, (unsigned long long)us,
		  asleep ? ", its machine asleep" : "");
}

static void forget_all(struct agent *a)
{
	for (unsigned i = 0; i < CHILDREN_MAX; i++) {
		free(a->entries[i].pending.ask);
		a->entries[i] = (struct entry){0};
	}
	a->inbox.n = a->turn.n = 0;
	a->turning = false;
}

void agent_kill(struct agent *a)
{
	world_log(&a->region->world, "agent %u is killed", a->number);
	a->alive = false;
	a->paused_until_us = 0;
	drop_calls(a, false);
	forget_all(a);
}

void agent_start(struct agent *a)
{
	world_log(&a->region->world, "agent %u starts", a->number);
	a->alive = true;
	a->epoch++;
	a->down_until_us = 0;
}

void agent_init(struct agent *a, struct region *r, unsigned number)
{
	*a = (struct agent){.region = r, .number = number, .alive = true, .epoch = 1};
}

void agent_release(struct agent *a)
{
	drop_calls(a, false);
	forget_all(a);
	free(a->inbox.ask);
	free(a->turn.ask);
	free(a->calls);
}
