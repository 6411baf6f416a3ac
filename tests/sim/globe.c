#include "globe.h"

#include <stdlib.h>

uint64_t globe_delay_us(struct globe *g)
{
	uint64_t delay_us = 1000 + world_below(&g->world, g->scenario.delay_us);

	if (!g->scenario.quiet && world_one_in(&g->world, 30))
		delay_us += world_below(&g->world, 4 * GLOBE_SECOND);
	return delay_us;
}

/* ---- What a seed makes of it ---- */

static uint64_t some_interval(struct world *w, uint64_t shortest_us)
{
	return world_one_in(w, 2) ? 0 : shortest_us * (1 + world_below(w, 8));
}

static void draw_floors(struct globe *g)
{
	struct globe_scenario *s = &g->scenario;
	struct world *w = &g->world;

	for (unsigned version = 0; version < 2; version++) {
		uint32_t left = g->whole;

		for (unsigned i = 0; i < s->n_regions; i++) {
			uint32_t floor = (uint32_t)world_below(w, left / 2 + 1);

			if (s->quiet)
				floor = g->whole / 10 / s->n_regions;
			else if (world_one_in(w, 4))
				floor = 0;
			/* The last ones have more, the next time. */
			s->floors[version][version == 0 ? i : s->n_regions - 1 - i] = floor;
			left -= floor;
		}
	}
}

static void draw_limit(struct globe *g)
{
	struct world *w = &g->world;
	struct limit *l = &g->limits[0];

	g->window_us = GLOBE_SECOND;
	if (g->scenario.kind == SHARE_WINDOW)
		g->window_us *= 1 + world_below(w, g->scenario.quiet ? 2 : 8);
	if (g->scenario.kind == SHARE_CALENDAR)
		g->window_us *= 8 + world_below(w, 25);
	*l = (struct limit){.per_us = g->window_us, .limit = 50 + world_below(w, 2000)};
	l->burst = l->limit / 10 + 1 + world_below(w, 3 * l->limit);
	if (world_one_in(w, 2))
		l->burst *= 5;
	if (g->scenario.quiet) {
		l->limit = 1000 * (g->window_us / GLOBE_SECOND);
		l->burst = 500;
	}
	l->algorithm =
		g->scenario.kind == SHARE_RATE ? ALGORITHM_TOKEN_BUCKET : ALGORITHM_SLIDING_WINDOW;
	if (limit_init(l) != KOVA_OK)
		abort();
	g->limits[1] = *l;
	g->limits[1].limit = 1 + world_below(w, 2 * l->limit);
	g->limits[1].burst = 1 + world_below(w, 2 * l->burst);
	if (limit_init(&g->limits[1]) != KOVA_OK)
		abort();
	g->limit = *l;
	g->whole = share_whole(l);
	g->region_terms = (struct region_share_terms){
		.lend_us = 20 * GLOBE_SECOND +
			   (g->scenario.kind == SHARE_WINDOW ? 5 * g->window_us / 2 : 0),
		.lease_max_us = g->scenario.lease_us,
		.loose = g->scenario.loose,
	};
}

static void draw_faults(struct globe *g)
{
	struct globe_scenario *s = &g->scenario;
	struct world *w = &g->world;

	s->leases = world_one_in(w, 2);
	/* A step ahead that nobody notices lets Redis forget a lease too early: docs/leases.md. */
	s->steps = !s->leases && !world_one_in(w, 4);
	s->drifts = world_one_in(w, 2);
	s->cut_us = some_interval(w, 2 * GLOBE_SECOND);
	s->jump_us = some_interval(w, 3 * GLOBE_SECOND);
	s->coordinator_us = some_interval(w, 2 * GLOBE_SECOND);
	s->rebalance_us = some_interval(w, 3 * GLOBE_SECOND);
	s->calm = world_one_in(w, 2);
	s->gulp_us = GLOBE_SECOND / 4 * (1 + world_below(w, 8)) * (s->calm ? 10 : 1);
	s->floors_change = world_one_in(w, 2);
	s->limit_changes = !s->floors_change && !s->loose && world_one_in(w, 2);
	s->delay_us = 1000 + world_any_size(w, GLOBE_SECOND / 4);
	if (!s->floors_change)
		return;
	s->strays = world_one_in(w, 3);
	s->forget_us = GLOBE_SECOND / 4 * (1 + world_below(w, 8));
}

static void draw(struct globe *g, enum globe_mode mode)
{
	static const enum share_kind kinds[] = {SHARE_RATE, SHARE_RATE, SHARE_WINDOW,
						SHARE_CALENDAR};
	struct world *w = &g->world;
	bool quiet = mode == GLOBE_QUIET;

	g->scenario = (struct globe_scenario){
		.quiet = quiet,
		.loose = mode == GLOBE_LOOSE,
		.n_regions = quiet ? 3 : 2 + (unsigned)world_below(w, 3),
		.kind = kinds[world_below(w, quiet ? 3 : 4)],
		.duration_us = 90 * GLOBE_SECOND,
		.delay_us = 50000,
		.lease_us = GLOBE_SECOND * (world_one_in(w, 2) ? 1 : 4),
		.second_key = !quiet && world_one_in(w, 2),
	};
	draw_limit(g);
	draw_floors(g);
	if (!quiet)
		draw_faults(g);
}

/* ---- Faults ---- */

static void again(struct globe *g, event_handler *on_fault, uint64_t interval_us)
{
	if (interval_us > 0)
		world_at(&g->world, g->world.now_us + 1 + world_below(&g->world, 2 * interval_us),
			 on_fault, g, NULL);
}

static struct globe_region *any_region(struct globe *g)
{
	return &g->regions[world_below(&g->world, g->scenario.n_regions)];
}

static struct globe_coordinator *any_coordinator(struct globe *g)
{
	return &g->coordinators[world_below(&g->world, GLOBE_COORDINATORS)];
}

/* One way, the other, or both. */
static void on_cut(void *owner, void *what)
{
	struct globe *g = owner;
	struct globe_region *r = any_region(g);
	bool is_long = world_one_in(&g->world, 2); /* a grant ends meanwhile */
	uint64_t for_us = is_long ? 5 * GLOBE_SECOND + world_below(&g->world, 10 * GLOBE_SECOND)
				  : world_any_size(&g->world, 5 * GLOBE_SECOND);
	uint64_t until_us = g->world.now_us + for_us, ways = 1 + world_below(&g->world, 3);

	(void)what;
	g->n_faults++;
	world_log(&g->world, "region %u is cut off, ways %llu", r->number,
		  (unsigned long long)ways);
	if (ways & 1)
		r->cannot_write_until_us = until_us;
	if (ways & 1 && g->scenario.steps) {
		region_step(r, -(int64_t)GLOBE_MAX_SKEW_US - r->off_us, false);
		r->off_us = -(int64_t)GLOBE_MAX_SKEW_US;
	}
	if (ways & 2)
		r->cannot_read_until_us = until_us;
	again(g, on_cut, g->scenario.cut_us);
}

static void on_jump(void *owner, void *what)
{
	struct globe *g = owner;
	struct world *w = &g->world;
	bool back = world_one_in(w, 2);
	uint64_t most_us =
		g->scenario.kind == SHARE_CALENDAR ? 20 * GLOBE_SECOND : 400 * GLOBE_SECOND;
	int64_t step_us = (int64_t)(GLOBE_MAX_SKEW_US + world_any_size(w, most_us));

	(void)what;
	g->n_faults++;
	region_step(any_region(g), back ? -step_us : step_us, true);
	again(g, on_jump, g->scenario.jump_us);
}

/* Within what the guard lets pass, to either side. */
static void on_step(void *owner, void *what)
{
	struct globe *g = owner;
	struct globe_region *r = any_region(g);
	int64_t off_us = (int64_t)world_below(&g->world, 2 * GLOBE_MAX_SKEW_US + 1) -
			 (int64_t)GLOBE_MAX_SKEW_US;

	(void)what;
	again(g, on_step, 2 * GLOBE_SECOND);
	if (g->world.now_us < r->cannot_write_until_us)
		return;
	g->n_faults++;
	region_step(r, off_us - r->off_us, false);
	r->off_us = off_us;
}

static int64_t any_drift(struct world *w)
{
	return world_one_in(w, 2) ? 4400 : -4400;
}

static void on_drift(void *owner, void *what)
{
	struct globe *g = owner;
	struct world *w = &g->world;

	(void)what;
	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		sim_clock_set(&g->regions[i].clock, w->now_us, any_drift(w), 0);
	for (unsigned i = 0; i < GLOBE_COORDINATORS; i++)
		sim_clock_set(&g->coordinators[i].clock, w->now_us, any_drift(w), 0);
	again(g, on_drift, 10 * GLOBE_SECOND);
}

static void on_coordinator_start(void *owner, void *what)
{
	struct globe_coordinator *c = what;

	(void)owner;
	c->alive = true;
}

static void on_coordinator(void *owner, void *what)
{
	struct globe *g = owner;
	struct world *w = &g->world;
	struct globe_coordinator *c = any_coordinator(g);
	uint64_t for_us = world_any_size(w, 8 * GLOBE_SECOND);

	(void)what;
	g->n_faults++;
	again(g, on_coordinator, g->scenario.coordinator_us);
	if (!c->alive)
		return;
	switch (world_below(w, 3)) {
	case 0:
		coordinator_kill(c);
		world_at(w, w->now_us + for_us, on_coordinator_start, g, c);
		break;
	case 1:
		c->cut_until_us = w->now_us + for_us;
		break;
	default:
		c->paused_until_us = w->now_us + for_us;
	}
}

static void on_gulp(void *owner, void *what)
{
	struct globe *g = owner;
	const unsigned *key = what;

	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		region_ask(&g->regions[i], *key, 0);
}

void globe_gulp(struct globe *g, unsigned key, uint64_t delay_us)
{
	unsigned *k = globe_alloc(g, sizeof *k);

	*k = key;
	world_at(&g->world, g->world.now_us + delay_us, on_gulp, g, k);
}

static void on_gulps(void *owner, void *what)
{
	struct globe *g = owner;

	(void)what;
	globe_gulp(g, (unsigned)world_below(&g->world, GLOBE_KEYS), 0);
	again(g, on_gulps, g->scenario.gulp_us);
}

/* ---- Floors change ---- */

static void on_region_learns(void *owner, void *what)
{
	struct globe_region *r = owner;

	(void)what;
	world_log(&r->globe->world, "region %u learns of other floors", r->number);
	agents_change(r);
}

static void on_forget(void *owner, void *what)
{
	struct globe *g = owner;
	struct globe_region *r = any_region(g);

	(void)what;
	g->n_faults++;
	r->later_calls = world_one_in(&g->world, 2) ? 2 : 100;
	region_forget(r, !g->scenario.strays && world_one_in(&g->world, 2));
	again(g, on_forget, g->scenario.forget_us);
}

static void on_coordinator_learns(void *owner, void *what)
{
	struct globe_coordinator *c = owner;
	struct allocator_terms t = coordinator_terms(c->globe, 1, c->limit);

	(void)what;
	world_log(&c->globe->world, "coordinator %u learns of other floors", c->number);
	c->floors = 1;
	allocator_set_floors(c->allocator, &t);
}

static void change_floors(struct globe *g)
{
	struct world *w = &g->world;
	uint64_t at_us = world_below(w, 60 * GLOBE_SECOND);

	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		world_at(w, at_us + world_any_size(w, 20 * GLOBE_SECOND), on_region_learns,
			 &g->regions[i], NULL);
	for (unsigned i = 0; i < GLOBE_COORDINATORS; i++)
		world_at(w, at_us + world_any_size(w, 20 * GLOBE_SECOND), on_coordinator_learns,
			 &g->coordinators[i], NULL);
}

/* ---- The limit changes ---- */

static void on_limit_is_known(void *owner, void *what)
{
	struct globe *g = owner;

	(void)what;
	world_log(&g->world, "all know the second limit");
	globe_checkers_begin(g, &g->limits[1]);
}

static void on_region_learns_limit(void *owner, void *what)
{
	struct globe_region *r = owner;
	struct globe *g = r->globe;

	(void)what;
	world_log(&g->world, "region %u learns the second limit", r->number);
	region_limit(r);
	if (g->limits[1].limit > g->limit.limit)
		g->limit.limit = g->limits[1].limit;
	if (g->limits[1].burst > g->limit.burst)
		g->limit.burst = g->limits[1].burst;
	/* Leases of the first are spent by then. */
	if (++g->n_know == g->scenario.n_regions)
		world_at(&g->world, g->world.now_us + g->scenario.lease_us, on_limit_is_known, g,
			 NULL);
}

static void on_coordinator_learns_limit(void *owner, void *what)
{
	struct globe_coordinator *c = owner;
	struct allocator_terms t = coordinator_terms(c->globe, c->floors, 1);

	(void)what;
	world_log(&c->globe->world, "coordinator %u learns the second limit", c->number);
	c->limit = 1;
	allocator_set_whole(c->allocator, &t, c->globe->whole);
}

static void change_limit(struct globe *g)
{
	struct world *w = &g->world;
	uint64_t at_us = world_below(w, 60 * GLOBE_SECOND);

	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		world_at(w, at_us + world_any_size(w, 20 * GLOBE_SECOND), on_region_learns_limit,
			 &g->regions[i], NULL);
	for (unsigned i = 0; i < GLOBE_COORDINATORS; i++)
		world_at(w, at_us + world_any_size(w, 20 * GLOBE_SECOND),
			 on_coordinator_learns_limit, &g->coordinators[i], NULL);
}

/* ---- All together ---- */

static void start(struct globe *g)
{
	const struct globe_scenario *s = &g->scenario;

	world_log(&g->world, "%u regions, kind %d, %llu in %llu us, burst %llu, leases %d",
		  s->n_regions, (int)s->kind, (unsigned long long)g->limit.limit,
		  (unsigned long long)g->window_us, (unsigned long long)g->limit.burst, s->leases);
	for (unsigned i = 0; i < s->n_regions; i++)
		world_log(&g->world, "region %u: floor %u, then %u", i, s->floors[0][i],
			  s->floors[1][i]);
	broker_start(g);
	again(g, on_cut, s->cut_us);
	again(g, on_jump, s->jump_us);
	again(g, on_coordinator, s->coordinator_us);
	again(g, on_gulps, s->gulp_us);
	if (s->drifts)
		again(g, on_drift, 1);
	if (s->steps)
		again(g, on_step, 1);
	again(g, on_forget, s->forget_us);
	if (s->floors_change)
		change_floors(g);
	if (s->limit_changes)
		change_limit(g);
}

struct globe *globe_new(uint64_t seed, enum mutation m, enum globe_mode mode, bool logging)
{
	struct globe *g = calloc(1, sizeof *g);

	if (g == NULL)
		abort();
	world_init(&g->world, seed, m, logging);
	draw(g, mode);
	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		region_init(&g->regions[i], g, i);
	for (unsigned i = 0; i < GLOBE_COORDINATORS; i++)
		coordinator_init(&g->coordinators[i], g, i);
	globe_checkers_init(g);
	start(g);
	return g;
}

void globe_run(struct globe *g)
{
	world_run(&g->world, g->scenario.duration_us);
}

void *globe_alloc(struct globe *g, size_t bytes)
{
	struct globe_message *m = malloc(sizeof *m + bytes);

	if (m == NULL)
		abort();
	m->next = g->messages;
	g->messages = m;
	return m->payload;
}

void globe_free(struct globe *g)
{
	struct globe_message *next;

	for (struct globe_message *m = g->messages; m != NULL; m = next) {
		next = m->next;
		free(m);
	}
	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		region_release(&g->regions[i]);
	globe_checkers_release(g);
	broker_release(&g->broker);
	world_release(&g->world);
	free(g);
}
