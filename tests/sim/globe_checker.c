#include <stdlib.h>

#include "globe.h"

/* Two clocks run apart by less than 1 %: each by less than this. */
#define DRIFT 1.0045

void globe_checkers_init(struct globe *g)
{
	for (unsigned k = 0; k < GLOBE_KEYS; k++) {
		g->checkers[k] = (struct globe_checker){0};
		g->checkers[k].calendar = calloc(GLOBE_WINDOWS, sizeof(uint64_t));
		if (g->checkers[k].calendar == NULL)
			abort();
	}
	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		g->regions[i].checked_us = sim_clock_read(&g->regions[i].clock, g->world.now_us);
}

void globe_checkers_release(struct globe *g)
{
	for (unsigned k = 0; k < GLOBE_KEYS; k++) {
		free(g->checkers[k].log);
		free(g->checkers[k].calendar);
	}
}

void globe_checkers_begin(struct globe *g, const struct limit *l)
{
	g->calendar_most = g->limit.limit;
	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		if (g->regions[i].window >= g->calendar_from)
			g->calendar_from = g->regions[i].window + 1;
	g->limit = *l;
	for (unsigned k = 0; k < GLOBE_KEYS; k++) {
		g->checkers[k].level = 0;
		g->checkers[k].first = g->checkers[k].n;
		g->checkers[k].inside = 0;
	}
}

/* How far the clock went that went furthest, since this was asked last. */
static uint64_t fastest_us(struct globe *g)
{
	uint64_t most = 0;

	for (unsigned i = 0; i < g->scenario.n_regions; i++) {
		struct globe_region *r = &g->regions[i];
		uint64_t now_us = sim_clock_read(&r->clock, g->world.now_us);

		if (now_us > r->checked_us && now_us - r->checked_us > most)
			most = now_us - r->checked_us;
		r->checked_us = now_us;
	}
	return most;
}

/* Refill comes in steps: each region may be one ahead. */
static double quanta(const struct globe *g)
{
	double a_us = (double)g->limit.limit / (double)g->limit.per_us;

	return a_us * SHARE_QUANTUM_US +
	       g->scenario.n_regions * SHARE_QUANTUM_UT / (double)LIMIT_UT;
}

/* What is allowed, of the limit: loose quotas may exceed it by what the allocators said. */
static double most_parts(const struct globe *g)
{
	return g->scenario.loose ? 1 + (double)g->excess / g->whole : 1;
}

static bool is_within(struct globe *g, double admitted, double most)
{
	g->exceeded = g->exceeded || admitted > most;
	return admitted <= most * most_parts(g) + 1e-6;
}

void globe_observe(struct globe *g)
{
	double refilled = (double)fastest_us(g) * (double)g->limit.limit / (double)g->limit.per_us;

	for (unsigned k = 0; k < GLOBE_KEYS; k++) {
		g->checkers[k].level -= refilled * most_parts(g);
		if (g->checkers[k].level < 0)
			g->checkers[k].level = 0;
	}
}

static bool fits_rate(struct globe *g, unsigned key, uint64_t cost)
{
	struct globe_checker *c = &g->checkers[key];

	globe_observe(g);
	c->level += (double)cost;
	return is_within(g, c->level, (double)g->limit.burst + quanta(g));
}

static void window_add(struct globe_checker *c, uint64_t at_us, uint64_t cost)
{
	if (c->n == c->room) {
		c->room = c->room > 0 ? 2 * c->room : 1024;
		c->log = realloc(c->log, c->room * sizeof *c->log);
		if (c->log == NULL)
			abort();
	}
	c->log[c->n++] = (struct globe_admission){at_us, cost};
	c->inside += cost;
}

/* A window is as long as it is by the clock that is fastest. */
static bool fits_window(struct globe *g, unsigned key, uint64_t cost)
{
	struct globe_checker *c = &g->checkers[key];
	uint64_t span_us = g->window_us;

	if (g->scenario.drifts)
		span_us = (uint64_t)((double)span_us / DRIFT) - 1;
	if (g->scenario.steps)
		span_us -= 2 * GLOBE_MAX_SKEW_US;
	window_add(c, g->world.now_us, cost);
	while (c->first < c->n && c->log[c->first].at_us + span_us <= g->world.now_us)
		c->inside -= c->log[c->first++].cost;
	return is_within(g, (double)c->inside, (double)g->limit.limit);
}

static bool fits_calendar(struct globe *g, unsigned key, uint64_t cost, uint32_t window)
{
	uint64_t *total = &g->checkers[key].calendar[window % GLOBE_WINDOWS];

	*total += cost;
	return is_within(g, (double)*total,
			 (double)(window < g->calendar_from ? g->calendar_most : g->limit.limit));
}

void globe_admitted(struct globe *g, unsigned key, uint64_t cost, uint32_t window)
{
	bool fits;

	if (g->scenario.kind == SHARE_RATE)
		fits = fits_rate(g, key, cost);
	else if (g->scenario.kind == SHARE_WINDOW)
		fits = fits_window(g, key, cost);
	else
		fits = fits_calendar(g, key, cost, window);
	g->checkers[key].admitted += cost;
	g->trace = (g->trace ^ (g->world.now_us * 8 + key) ^ cost << 40) * UINT64_C(0x100000001b3);
	if (!fits)
		world_violated(&g->world, "key %u: %llu more than the limit allows", key,
			       (unsigned long long)cost);
}
