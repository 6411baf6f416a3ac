/*
 * A coordinator: each cycle it reads what reports there are, and what its allocator grants goes into one transaction in
 * three steps, of which each takes its time: the records, then the offsets (refused to a generation that is over), then
 * the commit. It may be stopped, cut off or killed between any two of them. Who takes over waits until every transaction
 * that may still be committed is decided, then reads the newest committed grants, then counts these from its own time.
 */
#include <stdlib.h>
#include <string.h>

#include "globe.h"

#define CYCLE_US (GLOBE_SECOND / 10)

bool coordinator_reaches_broker(const struct globe_coordinator *c)
{
	return c->alive && c->globe->world.now_us >= c->cut_until_us;
}

struct allocator_terms coordinator_terms(const struct globe *g, uint32_t floors, uint32_t limit)
{
	struct allocator_terms t = {
		.kind = g->scenario.kind,
		.n_regions = g->scenario.n_regions,
		.whole = share_whole(&g->limits[limit]),
		.duration_us = GLOBE_DURATION_US,
		.margin_us = allocator_least_margin_us(GLOBE_DURATION_US, GLOBE_MAX_SKEW_US),
		.window_us = g->window_us,
		.lend_us = g->region_terms.lend_us,
		.max_skew_us = GLOBE_MAX_SKEW_US,
		.loose = g->scenario.loose,
		.floors = floors,
	};

	for (unsigned i = 0; i < t.n_regions; i++) {
		t.region[i].floor =
			share_scale_down(g->scenario.floors[floors][i], g->whole, t.whole);
		t.region[i].before = share_scale_up(g->scenario.floors[0][i], g->whole, t.whole);
		t.region[i].weight = 1;
	}
	return t;
}

/* ---- Taking over ---- */

static void restore(struct globe_coordinator *c, const struct allocator_terms *t)
{
	struct globe *g = c->globe;
	const struct globe_broker *b = &g->broker;
	const struct share_grant *newest[GLOBE_REGIONS] = {NULL};

	for (uint64_t i = 0; i < c->high_watermark; i++)
		if (b->txns[b->grants[i].txn].state == TXN_COMMITTED)
			newest[b->grants[i].region] = &b->grants[i].grant;
	allocator_init(c->allocator, t);
	c->epoch = 1 + dice_next(&g->world.dice) / 2;
	for (unsigned i = 0; i < t->n_regions; i++) {
		struct share_grant grant;

		if (newest[i] == NULL)
			continue;
		grant = *newest[i];
		if (world_has(&g->world, SIM_TAKE_OVER_BLIND))
			grant.parts = grant.before = 0;
		if (world_has(&g->world, SIM_TAKE_OVER_NEWEST))
			grant.before = 0;
		allocator_restore(c->allocator, t, i, coordinator_now_us(c), &grant);
	}
	c->position = b->committed;
	c->phase = RUNNING;
	g->n_takeovers++;
	world_log(&g->world, "coordinator %u takes over", c->number);
}

static void follow_group(struct globe_coordinator *c)
{
	const struct globe_broker *b = &c->globe->broker;

	c->heard_us = c->globe->world.now_us;
	/* That it owns the partition no more it hears with a heartbeat, some time. */
	if (b->owner != c->number && c->phase != IN_TXN && world_one_in(&c->globe->world, 20)) {
		c->phase = IDLE;
		c->generation = 0;
	} else if (b->owner == c->number && c->generation != b->generation && c->phase != IN_TXN) {
		c->generation = b->generation;
		c->phase = RESTORING;
		c->high_watermark = UINT64_MAX;
	}
}

static void try_to_restore(struct globe_coordinator *c, const struct allocator_terms *t)
{
	const struct globe_broker *b = &c->globe->broker;

	if (!broker_has_stable_offsets(b) && !world_has(&c->globe->world, SIM_TAKE_OVER_EARLY))
		return;
	if (c->high_watermark == UINT64_MAX)
		c->high_watermark = b->n_grants;
	if (world_has(&c->globe->world, SIM_TAKE_OVER_EARLY))
		c->high_watermark = broker_last_stable(b);
	if (broker_last_stable(b) >= c->high_watermark)
		restore(c, t);
}

/* ---- A transaction ---- */

struct step {
	struct globe_coordinator *coordinator;
	uint64_t life;
	event_handler *next;
};

/* The next step of what it is doing, unless it is killed before. */
static void step_later(struct globe_coordinator *c, event_handler *next)
{
	struct step *s = globe_alloc(c->globe, sizeof *s);

	*s = (struct step){c, c->life, next};
	world_at(&c->globe->world, c->globe->world.now_us + globe_delay_us(c->globe), next,
		 c->globe, s);
}

/* Whether the step is taken now; if not, it is put off, or was of another life. */
static struct globe_coordinator *step_due(void *what)
{
	struct step *s = what;
	struct globe_coordinator *c = s->coordinator;
	struct world *w = &c->globe->world;
	uint64_t until_us =
		c->paused_until_us > c->cut_until_us ? c->paused_until_us : c->cut_until_us;

	if (c->alive && c->life == s->life && w->now_us < until_us) {
		world_at(w, until_us, s->next, c->globe, s);
		return NULL;
	}
	return c->alive && c->life == s->life ? c : NULL;
}

static void give_up(struct globe_coordinator *c)
{
	world_log(&c->globe->world, "coordinator %u is fenced", c->number);
	broker_abort(&c->globe->broker, c->txn);
	c->phase = IDLE;
	c->generation = 0;
}

static void gossip(struct globe_coordinator *c)
{
	struct globe *g = c->globe;

	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		if (c->given >> i & 1 && world_one_in(&g->world, 2))
			region_tell(&g->regions[i], &c->grants[i], globe_delay_us(g));
}

static void on_commit(void *owner, void *what)
{
	struct globe_coordinator *c = step_due(what);

	(void)owner;
	if (c == NULL)
		return;
	if (!broker_commit(&c->globe->broker, c->txn)) {
		give_up(c);
		return;
	}
	c->phase = RUNNING;
	gossip(c);
}

static void on_offsets(void *owner, void *what)
{
	struct globe_coordinator *c = step_due(what);

	(void)owner;
	if (c == NULL)
		return;
	if (broker_offsets(c->globe, c->txn, c->generation, c->position))
		step_later(c, on_commit);
	else
		give_up(c);
}

static void on_produce(void *owner, void *what)
{
	struct globe_coordinator *c = step_due(what);

	(void)owner;
	if (c == NULL)
		return;
	c->txn = broker_begin(&c->globe->broker, c->globe->world.now_us);
	for (unsigned i = 0; i < c->globe->scenario.n_regions; i++)
		if (c->given >> i & 1 &&
		    !broker_produce(&c->globe->broker, c->txn, i, &c->grants[i]))
			abort();
	step_later(c, on_offsets);
}

/* ---- A cycle ---- */

/* What broken rules make of a report. */
static struct share_report heard(const struct globe_coordinator *c, unsigned region,
				 const struct share_report *report)
{
	const struct world *w = &c->globe->world;
	struct share_report r = *report;

	if (world_has(w, SIM_LESS_COUNTS_AT_ONCE))
		r.seq = c->allocator->region[region].seq;
	if (world_has(w, SIM_RELEASE_UNCHECKED))
		r.used = 0;
	if (world_has(w, SIM_ANY_EPOCH_LENDS) && r.lent > 0) {
		r.lent_epoch = c->epoch;
		r.lent_c0_us = coordinator_now_us(c);
	}
	return r;
}

static void read_reports(struct globe_coordinator *c, const struct allocator_terms *t)
{
	const struct globe_broker *b = &c->globe->broker;

	for (; c->position < b->n_usage; c->position++) {
		const struct globe_usage *u = &b->usage[c->position];
		struct share_report r = heard(c, u->region, &u->report);

		allocator_report(c->allocator, t, c->epoch, u->region, coordinator_now_us(c), &r);
	}
}

static void break_terms(const struct globe *g, struct allocator_terms *t)
{
	if (world_has(&g->world, SIM_NO_GRANT_MARGIN))
		t->max_skew_us = t->margin_us = 0;
	if (world_has(&g->world, SIM_LENT_FOR_LONGER))
		t->lend_us *= 2;
	if (world_has(&g->world, SIM_NO_QUARANTINE) && t->kind == SHARE_WINDOW)
		t->window_us = 0;
	if (world_has(&g->world, SIM_CALENDAR_FREED) && t->kind == SHARE_CALENDAR)
		t->kind = SHARE_RATE;
}

static void run(struct globe_coordinator *c, const struct allocator_terms *t)
{
	struct globe *g = c->globe;
	uint32_t excess;

	read_reports(c, t);
	c->given = allocator_grant(c->allocator, t, c->epoch, coordinator_now_us(c), c->grants);
	excess = allocator_excess(c->allocator, t, coordinator_now_us(c));
	g->excess = excess > g->excess ? excess : g->excess;
	if (c->given == 0)
		return;
	for (unsigned i = 0; i < t->n_regions; i++)
		if (c->given >> i & 1) {
			if (world_has(&g->world, SIM_GRANT_GIVES_FLOOR) &&
			    c->grants[i].parts < c->allocator->region[i].floor)
				c->grants[i].parts = c->allocator->region[i].floor;
			g->n_grants++;
			world_log(&g->world, "coordinator %u: grant %llu to region %u: %u of %u",
				  c->number, (unsigned long long)c->grants[i].seq, i,
				  c->grants[i].parts, t->whole);
		}
	if (world_has(&g->world, SIM_GOSSIP_UNCOMMITTED))
		gossip(c);
	c->phase = IN_TXN;
	step_later(c, on_produce);
}

static void on_cycle(void *owner, void *what)
{
	struct globe_coordinator *c = owner;
	struct world *w = &c->globe->world;
	struct allocator_terms t = coordinator_terms(c->globe, c->floors, c->limit);

	break_terms(c->globe, &t);
	if (coordinator_reaches_broker(c) && w->now_us >= c->paused_until_us) {
		follow_group(c);
		if (c->phase == RESTORING)
			try_to_restore(c, &t);
		if (c->phase == RUNNING)
			run(c, &t);
	}
	world_at(w, w->now_us + CYCLE_US, on_cycle, c, what);
}

void coordinator_kill(struct globe_coordinator *c)
{
	world_log(&c->globe->world, "coordinator %u is killed", c->number);
	c->alive = false;
	c->life++;
	c->phase = IDLE;
	c->generation = 0;
}

void coordinator_init(struct globe_coordinator *c, struct globe *g, unsigned number)
{
	*c = (struct globe_coordinator){
		.globe = g,
		.number = number,
		.alive = true,
		.allocator = globe_alloc(g, ALLOCATOR_BYTES(g->scenario.n_regions)),
	};
	memset(c->allocator, 0, ALLOCATOR_BYTES(g->scenario.n_regions));
	sim_clock_set(&c->clock, 0, 0, (int64_t)(1 + world_below(&g->world, 1000 * GLOBE_SECOND)));
	world_at(&g->world, world_below(&g->world, CYCLE_US), on_cycle, c, NULL);
}
