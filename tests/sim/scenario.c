#include <stdlib.h>

#include "core/script.h"
#include "region.h"

#define SECOND UINT64_C(1000000)
#define REDIS_START_US UINT64_C(1796000000123457)

/* ---- What a seed makes of it ---- */

/* Often never. */
static uint64_t some_interval(struct world *w, uint64_t shortest_us)
{
	return world_one_in(w, 2) ? 0 : shortest_us * (1 + world_below(w, 8));
}

static void draw_limit(struct region *r, unsigned i, enum algorithm a, uint64_t limit)
{
	struct world *w = &r->world;
	struct limit *l = &r->limits[i];

	*l = (struct limit){.algorithm = a, .limit = limit};
	l->per_us = SECOND / 5 * (1 + world_below(w, 10));
	l->limit = 1 + limit * l->per_us / SECOND;
	l->burst = r->scenario.calm ? 100 + limit : 20 + world_below(w, 2 * limit);
	l->edges = (struct calendar_edges){.edge_us = r->edges, .n = EDGES_MAX};
	if (limit_init(l) != KOVA_OK)
		abort();
}

static void draw_limits(struct region *r, bool quiet)
{
	static const enum algorithm any[] = {ALGORITHM_TOKEN_BUCKET, ALGORITHM_TOKEN_BUCKET,
					     ALGORITHM_SLIDING_WINDOW, ALGORITHM_CALENDAR,
					     ALGORITHM_GCRA};
	struct scenario *s = &r->scenario;
	struct world *w = &r->world;
	uint64_t at_us = REDIS_START_US - 500 * SECOND;

	for (int i = 0; i < EDGES_MAX; i++, at_us += SECOND / 2 + world_below(w, 3 * SECOND))
		r->edges[i] = at_us;
	for (unsigned i = 0; i < QUOTAS_MAX; i++) {
		bool root = s->n_levels > 1 && i == 0;
		/* With GCRA there are no leases; half of the seeds want some. */
		enum algorithm a = any[world_below(w, s->leases ? 4 : 5)];

		draw_limit(r, i, quiet ? ALGORITHM_TOKEN_BUCKET : a,
			   (quiet ? 200 : 40) + world_below(w, s->calm ? 100
							       : root  ? 500
								       : 300));
	}
}

void scenario_draw(struct region *r, bool quiet)
{
	struct scenario *s = &r->scenario;
	struct world *w = &r->world;

	*s = (struct scenario){.quiet = quiet,
			       .n_agents = 2 + (unsigned)world_below(w, AGENTS_MAX - 1),
			       .n_children = 1 + (unsigned)world_below(w, CHILDREN_MAX),
			       .n_levels = quiet ? 1 : 1 + (unsigned)world_below(w, LEVELS_MAX),
			       .leases = !world_one_in(w, 4),
			       .returns = true,
			       .ttl_us = 100000 * (1 + world_below(w, 10)),
			       .duration_us = 15 * SECOND,
			       .flood_us = 50000 + world_below(w, 2 * SECOND),
			       .rest_us = 50000 + world_below(w, 3 * SECOND),
			       .calm = !quiet && world_one_in(w, 2)};
	draw_limits(r, quiet);
	r->weather = (struct sim_weather){.delay_us = 100 + world_below(w, 1000)};
	if (quiet)
		return;
	s->returns = !world_one_in(w, s->calm ? 1 : 3);
	if (world_one_in(w, 3))
		s->ttl_us *= 10;
	s->id_one_in = some_interval(w, 3);
	s->refund_one_in = some_interval(w, 3);
	s->drift_ppm = (int64_t)world_below(w, 2) * 7000;
	s->pause_us = some_interval(w, SECOND / 4);
	s->kill_us = some_interval(w, SECOND);
	s->cut_us = some_interval(w, SECOND);
	s->weather_us = some_interval(w, SECOND / 2);
	s->redis_pause_us = some_interval(w, SECOND);
	s->redis_crash_us = some_interval(w, SECOND);
	s->step_us = some_interval(w, SECOND);
}

/* ---- Clients ---- */

/* Those of one key that ask one agent: they flood and rest. */
struct client {
	struct region *region;
	struct agent *agent;
	unsigned child;
	uint64_t until_us; /* of this mood */
	uint64_t rate;     /* of the demand; 0: rests */
};

static void on_hear(void *owner, void *ask)
{
	struct region *r = owner;

	if (!r->over)
		agent_hear(&r->agents[world_below(&r->world, r->scenario.n_agents)],
			   *(struct ask *)ask);
	free(ask);
}

void region_in_doubt(struct region *r, struct ask ask)
{
	struct ask *again;

	if (!ask.has_id || ask.tries == 0 || r->over)
		return;
	again = malloc(sizeof *again);
	if (again == NULL)
		abort();
	*again = ask;
	again->tries--;
	world_at(&r->world, r->world.now_us + world_any_size(&r->world, 200000), on_hear, r, again);
}

static void change_mood(struct client *c)
{
	struct world *w = &c->region->world;
	const struct scenario *s = &c->region->scenario;
	unsigned path[LEVELS_MAX], n = store_path(&c->region->store, c->child, path);
	const struct limit *l = &c->region->limits[path[n - 1]];
	uint64_t rate =
		l->algorithm == ALGORITHM_CALENDAR ? l->limit : l->limit * SECOND / l->per_us;

	if (s->quiet)
		c->rate = 3 * rate / s->n_agents;
	else
		c->rate = rate * (s->calm ? 2 + world_below(w, 9) : world_any_size(w, 40)) / 10;
	if (!s->quiet && world_one_in(w, 2))
		c->rate = 0;
	c->until_us = w->now_us + world_any_size(w, c->rate > 0 ? s->flood_us : s->rest_us);
}

static void on_client(void *owner, void *what)
{
	struct client *c = owner;
	struct region *r = c->region;
	struct world *w = &r->world;
	uint64_t n = 1 + world_below(w, 4);

	if (r->over) {
		free(c);
		return;
	}
	if (r->rest_until_us > w->now_us) {
		world_at(w, r->rest_until_us, on_client, c, what);
		return;
	}
	if (c->until_us <= w->now_us)
		change_mood(c);
	for (uint64_t i = 0; i < n && c->rate > 0 && r->n_asks < REQUESTS_MAX; i++)
		agent_hear(
			c->agent,
			(struct ask){
				.serial = r->n_asks++,
				.cost = (uint16_t)(world_one_in(w, 8) ? 1 + world_below(w, 5) : 1),
				.child = (uint8_t)c->child,
				.tries = 3,
				.has_id = world_one_in(w, r->scenario.id_one_in)});
	world_at(w,
		 c->rate > 0 ? w->now_us + 1 + world_below(w, 2 * n * SECOND / c->rate)
			     : c->until_us,
		 on_client, c, what);
}

/* A client that asks for much at one instant. */
struct gulp {
	struct agent *agent;
	unsigned child;
	uint64_t amount;
};

static void on_gulp(void *owner, void *what)
{
	struct region *r = owner;
	struct gulp *g = what;

	for (uint64_t cost; g->amount > 0 && r->n_asks < REQUESTS_MAX && !r->over;
	     g->amount -= cost) {
		cost = 1 + world_below(&r->world, g->amount < 5 ? g->amount : 5);
		agent_hear(g->agent, (struct ask){.serial = r->n_asks++,
						  .cost = (uint16_t)cost,
						  .child = (uint8_t)g->child});
	}
	free(g);
}

static void gulp_at(struct region *r, uint64_t at_us, struct gulp gulp)
{
	struct gulp *g = malloc(sizeof *g);

	if (g == NULL)
		abort();
	*g = gulp;
	world_at(&r->world, at_us, on_gulp, r, g);
}

static struct agent *any_agent(struct region *r)
{
	return &r->agents[world_below(&r->world, r->scenario.n_agents)];
}

/* The worst: all of it at the end of the lease, and all that Redis has around then, or when Redis frees it. */
void region_leased(struct region *r, struct agent *holder, unsigned child, uint64_t amount,
		   uint64_t left_us)
{
	struct world *w = &r->world;
	uint64_t end_us = w->now_us + left_us * 1000000 / (uint64_t)(1000000 + holder->boot.ppm);
	uint64_t at_us = end_us - world_any_size(w, left_us / 32 + 1), free_us;
	unsigned path[LEVELS_MAX], n = store_path(&r->store, child, path);
	const struct limit *l = &r->limits[path[n - 1]];

	if (r->scenario.quiet || r->over || w->now_us < r->plans_from_us ||
	    (r->scenario.calm && amount < limit_capacity(l) / 6))
		return;
	if (r->scenario.calm)
		r->rest_until_us = at_us;
	/* Where it is calm, what was taken at once comes back before the next time. */
	r->plans_from_us = r->scenario.calm ? end_us + limit_horizon_us(l) + SECOND / 2
					    : w->now_us + world_any_size(w, 2 * SECOND);
	gulp_at(r, at_us, (struct gulp){holder, child, amount});
	free_us = world_one_in(w, 2) ? at_us : end_us + left_us / 64 + SCRIPT_LEASE_MARGIN_US;
	gulp_at(r, free_us + world_any_size(w, 20000) - world_any_size(w, 1000),
		(struct gulp){any_agent(r), child, limit_capacity(l)});
}

static void start_clients(struct region *r)
{
	unsigned n_agents = r->scenario.calm ? 1 : r->scenario.n_agents;
	unsigned n_children = r->scenario.calm ? 1 : r->scenario.n_children;

	for (unsigned a = 0; a < n_agents; a++)
		for (unsigned child = 0; child < n_children; child++) {
			struct client *c = calloc(1, sizeof *c);

			if (c == NULL)
				abort();
			*c = (struct client){.region = r, .agent = &r->agents[a], .child = child};
			world_at(&r->world, world_below(&r->world, SECOND / 10), on_client, c,
				 NULL);
		}
}

/* ---- Faults ---- */

/* The next of a kind of fault. */
static void again(struct region *r, event_handler *on_fault, uint64_t interval_us)
{
	if (interval_us == 0 || r->over)
		return;
	world_at(&r->world, r->world.now_us + 1 + world_below(&r->world, 2 * interval_us), on_fault,
		 r, NULL);
}

static void on_pause(void *owner, void *what)
{
	struct region *r = owner;
	struct agent *a = any_agent(r);

	(void)what;
	if (r->over)
		return;
	r->n_faults++;
	if (world_one_in(&r->world, 2))
		a->pause_in_turn_us = world_any_size(&r->world, 3 * SECOND);
	else
		agent_pause(a, world_any_size(&r->world, 3 * SECOND), world_one_in(&r->world, 2));
	again(r, on_pause, r->scenario.pause_us);
}

static void on_start(void *owner, void *what)
{
	(void)what;
	agent_start(owner);
}

static void on_kill(void *owner, void *what)
{
	struct region *r = owner;
	struct agent *a = any_agent(r);

	(void)what;
	if (r->over)
		return;
	r->n_faults++;
	if (a->alive) {
		agent_kill(a);
		world_at(&r->world, r->world.now_us + world_any_size(&r->world, SECOND), on_start,
			 a, NULL);
	}
	again(r, on_kill, r->scenario.kill_us);
}

static void on_cut(void *owner, void *what)
{
	struct region *r = owner;

	(void)what;
	if (r->over)
		return;
	r->n_faults++;
	agent_cut(any_agent(r));
	again(r, on_cut, r->scenario.cut_us);
}

static void on_weather(void *owner, void *what)
{
	struct region *r = owner;
	struct world *w = &r->world;

	(void)what;
	if (r->over)
		return;
	r->n_faults++;
	r->weather = (struct sim_weather){.delay_us = 100 + world_any_size(w, 5000),
					  .slow_one_in = world_below(w, 6),
					  .slow_us = 90000,
					  .lose_one_in = world_below(w, 3) * 50};
	again(r, on_weather, r->scenario.weather_us);
}

static void on_redis_pause(void *owner, void *what)
{
	struct region *r = owner;

	(void)what;
	if (r->over)
		return;
	r->n_faults++;
	r->store.paused_until_us = r->world.now_us + world_any_size(&r->world, SECOND);
	world_log(&r->world, "redis is stopped for %llu us",
		  (unsigned long long)(r->store.paused_until_us - r->world.now_us));
	again(r, on_redis_pause, r->scenario.redis_pause_us);
}

static void on_save(void *owner, void *what)
{
	struct region *r = owner;

	(void)what;
	if (r->over)
		return;
	for (unsigned i = 0; i < r->store.n_quotas; i++)
		quota_copy(&r->store.saved[i], &r->store.quotas[i]);
	again(r, on_save, SECOND / 2);
}

static void on_redis_start(void *owner, void *what)
{
	struct region *r = owner;

	(void)what;
	world_log(&r->world, "redis starts");
	r->store.up = !r->over;
	for (unsigned i = 0; i < r->store.n_quotas && world_has(&r->world, SIM_REDIS_FORGETS); i++)
		quota_copy(&r->store.quotas[i], &r->store.saved[i]);
}

static void on_redis_crash(void *owner, void *what)
{
	struct region *r = owner;

	(void)what;
	if (r->over)
		return;
	r->n_faults++;
	world_log(&r->world, "redis crashes");
	r->store.up = false;
	r->store.paused_until_us = 0;
	for (unsigned i = 0; i < r->scenario.n_agents; i++)
		agent_cut(&r->agents[i]);
	world_at(&r->world, r->world.now_us + world_any_size(&r->world, SECOND / 2), on_redis_start,
		 r, NULL);
	again(r, on_redis_crash, r->scenario.redis_crash_us);
}

/*
 * Redis's clock is set: back as far as you like; ahead by less than a lease's margin while there are leases
 * (docs/leases.md, "a leap of Redis's clock").
 */
static void on_step(void *owner, void *what)
{
	struct region *r = owner;
	struct world *w = &r->world;
	bool back = world_one_in(w, 2);
	int64_t step_us =
		(int64_t)world_any_size(w, back || !r->scenario.leases ? 10 * SECOND : 5000);

	(void)what;
	if (r->over)
		return;
	r->n_faults++;
	world_log(w, "redis's clock is set by %s%lld us", back ? "-" : "", (long long)step_us);
	sim_clock_set(&r->store.clock, w->now_us, r->store.clock.ppm, back ? -step_us : step_us);
	again(r, on_step, r->scenario.step_us);
}

static int64_t any_drift(struct region *r)
{
	int64_t most = r->scenario.drift_ppm;

	return world_one_in(&r->world, 2) ? most : -most;
}

/* Time daemons at work, as fast as they may. */
static void on_drift(void *owner, void *what)
{
	struct region *r = owner;
	struct world *w = &r->world;

	(void)what;
	if (r->over)
		return;
	for (unsigned i = 0; i < r->scenario.n_agents; i++)
		sim_clock_set(&r->agents[i].boot, w->now_us, any_drift(r), 0);
	sim_clock_set(&r->store.clock, w->now_us, any_drift(r), 0);
	again(r, on_drift, 10 * SECOND);
}

static void log_scenario(struct region *r)
{
	const struct scenario *s = &r->scenario;

	world_log(&r->world,
		  "%u agents, %u keys, %u levels, leases %d of %llu us, calm %d, drift %lld",
		  s->n_agents, s->n_children, s->n_levels, s->leases, (unsigned long long)s->ttl_us,
		  s->calm, (long long)s->drift_ppm);
	for (unsigned i = 0; i < QUOTAS_MAX; i++)
		world_log(&r->world, "limit %u: algorithm %d, %llu in %llu us, burst %llu", i,
			  (int)r->limits[i].algorithm, (unsigned long long)r->limits[i].limit,
			  (unsigned long long)r->limits[i].per_us,
			  (unsigned long long)r->limits[i].burst);
}

void scenario_start(struct region *r)
{
	const struct scenario *s = &r->scenario;

	sim_clock_set(&r->store.clock, 0, 0,
		      (int64_t)(REDIS_START_US + world_below(&r->world, SECOND)));
	for (unsigned i = 0; i < s->n_agents; i++)
		sim_clock_set(&r->agents[i].boot, 0, 0,
			      (int64_t)(1000 * SECOND + world_below(&r->world, 1000 * SECOND)));
	log_scenario(r);
	start_clients(r);
	again(r, on_pause, s->pause_us);
	again(r, on_kill, s->kill_us);
	again(r, on_cut, s->cut_us);
	again(r, on_weather, s->weather_us);
	again(r, on_redis_pause, s->redis_pause_us);
	again(r, on_redis_crash, s->redis_crash_us);
	again(r, on_step, s->step_us);
	if (s->drift_ppm > 0)
		again(r, on_drift, 1);
	if (world_has(&r->world, SIM_REDIS_FORGETS))
		again(r, on_save, 1);
}
