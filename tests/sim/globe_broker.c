#include <stdlib.h>

#include "globe.h"

#define TXN_TIMEOUT_US (5 * GLOBE_SECOND)
#define SESSION_TIMEOUT_US (2 * GLOBE_SECOND)
#define LOOKS_US (GLOBE_SECOND / 5)

void broker_release(struct globe_broker *b)
{
	free(b->usage);
	free(b->grants);
	free(b->txns);
}

/* Room for one more of `size` bytes. */
static void *grow(void *array, uint64_t n, uint64_t *room, size_t size)
{
	if (n < *room)
		return array;
	*room = *room > 0 ? 2 * *room : 64;
	array = realloc(array, *room * size);
	if (array == NULL)
		abort();
	return array;
}

void broker_report(struct globe_broker *b, unsigned region, const struct share_report *r)
{
	b->usage = grow(b->usage, b->n_usage, &b->usage_room, sizeof *b->usage);
	b->usage[b->n_usage++] = (struct globe_usage){region, *r};
}

uint32_t broker_begin(struct globe_broker *b, uint64_t now_us)
{
	uint64_t room = b->txns_room;

	b->txns = grow(b->txns, b->n_txns, &room, sizeof *b->txns);
	b->txns_room = (uint32_t)room;
	b->txns[b->n_txns] = (struct globe_txn){.begun_us = now_us};
	return b->n_txns++;
}

bool broker_produce(struct globe_broker *b, uint32_t txn, unsigned region,
		    const struct share_grant *g)
{
	if (b->txns[txn].state != TXN_OPEN)
		return false;
	b->grants = grow(b->grants, b->n_grants, &b->grants_room, sizeof *b->grants);
	b->grants[b->n_grants++] = (struct globe_record){region, *g, txn};
	return true;
}

bool broker_offsets(struct globe *g, uint32_t txn, uint64_t generation, uint64_t offset)
{
	struct globe_txn *t = &g->broker.txns[txn];

	if (t->state != TXN_OPEN)
		return false;
	if (generation != g->broker.generation && !world_has(&g->world, SIM_NO_FENCE))
		return false;
	t->has_offsets = true;
	t->offset = offset;
	return true;
}

bool broker_commit(struct globe_broker *b, uint32_t txn)
{
	struct globe_txn *t = &b->txns[txn];

	if (t->state != TXN_OPEN)
		return false;
	t->state = TXN_COMMITTED;
	b->committed = t->offset;
	return true;
}

void broker_abort(struct globe_broker *b, uint32_t txn)
{
	if (b->txns[txn].state == TXN_OPEN)
		b->txns[txn].state = TXN_ABORTED;
}

uint64_t broker_last_stable(const struct globe_broker *b)
{
	uint64_t i = b->n_grants;

	/* The newest few are all that can be open. */
	for (uint64_t look = i > 64 ? i - 64 : 0; look < i; look++)
		if (b->txns[b->grants[look].txn].state == TXN_OPEN)
			return look;
	return i;
}

bool broker_has_stable_offsets(const struct globe_broker *b)
{
	for (uint32_t i = b->n_txns > 64 ? b->n_txns - 64 : 0; i < b->n_txns; i++)
		if (b->txns[i].state == TXN_OPEN && b->txns[i].has_offsets)
			return false;
	return true;
}

static bool is_heard(const struct globe *g, const struct globe_coordinator *c)
{
	return c->alive && g->world.now_us < c->heard_us + SESSION_TIMEOUT_US;
}

static void rebalance(struct globe *g)
{
	struct globe_broker *b = &g->broker;
	unsigned other = (b->owner + 1) % GLOBE_COORDINATORS;

	if (!is_heard(g, &g->coordinators[other]))
		return;
	if (is_heard(g, &g->coordinators[b->owner]) &&
	    !world_one_in(&g->world, g->scenario.rebalance_us / LOOKS_US))
		return;
	b->generation++;
	b->owner = other;
	world_log(&g->world, "generation %llu: coordinator %u owns the partition",
		  (unsigned long long)b->generation, other);
}

static void on_look(void *owner, void *what)
{
	struct globe *g = owner;
	struct globe_broker *b = &g->broker;

	for (uint32_t i = b->n_txns > 64 ? b->n_txns - 64 : 0; i < b->n_txns; i++)
		if (g->world.now_us >= b->txns[i].begun_us + TXN_TIMEOUT_US)
			broker_abort(b, i);
	rebalance(g);
	world_at(&g->world, g->world.now_us + LOOKS_US, on_look, g, what);
}

void broker_start(struct globe *g)
{
	g->broker.generation = 1;
	world_at(&g->world, g->world.now_us, on_look, g, NULL);
}
