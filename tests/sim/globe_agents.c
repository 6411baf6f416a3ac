/*
 * Agents of a region while floors change: those of the version before live beside those of the next for a while, and either may be
 * the first to ask for a share that Redis has forgotten. Each says in Redis that it lives, as lua/heartbeat.lua does, and hears from it
 * which version the earliest that lives has; the region's reports say no later one.
 */
#include "globe.h"

#define BEAT_US (2 * GLOBE_SECOND)
#define SILENT_US (10 * GLOBE_SECOND)

static bool is_there(const struct globe_region *r, uint32_t version)
{
	const struct globe_agent *a = &r->agents[version];
	uint64_t now_us = r->globe->world.now_us;

	return now_us >= a->from_us && now_us < a->until_us &&
	       (now_us < a->away_us || now_us >= a->back_us);
}

uint32_t agents_any(const struct globe_region *r)
{
	if (!is_there(r, 1))
		return 0;
	return !is_there(r, 0) || world_one_in(&r->globe->world, r->later_calls);
}

/* By Redis's clock, which may have been set. */
static void hear(struct globe_region *r, uint32_t version)
{
	const struct world *w = &r->globe->world;
	uint64_t *heard_us = r->heard_us, now_us = sim_clock_read(&r->clock, w->now_us);
	uint64_t newest_us = heard_us[0] > heard_us[1] ? heard_us[0] : heard_us[1];

	if (now_us > newest_us + SILENT_US / 2 && !world_has(w, SIM_HEARD_ALL))
		heard_us[0] = now_us;
	heard_us[version] = now_us;
	for (uint32_t v = 0; v < GLOBE_VERSIONS; v++)
		if (heard_us[v] + SILENT_US <= now_us)
			heard_us[v] = 0;
	r->agents[version].says = heard_us[0] > 0 ? 0 : version;
}

static void on_beat(void *owner, void *what)
{
	struct globe_region *r = owner;
	struct world *w = &r->globe->world;
	uint32_t version = (uint32_t)((struct globe_agent *)what - r->agents);

	if (is_there(r, version))
		hear(r, version);
	if (w->now_us < r->agents[version].until_us)
		world_at(w, w->now_us + BEAT_US, on_beat, r, what);
}

void agents_init(struct globe_region *r)
{
	r->agents[0] = (struct globe_agent){
		.until_us = UINT64_MAX, .away_us = UINT64_MAX, .back_us = UINT64_MAX};
	r->agents[1] = (struct globe_agent){.from_us = UINT64_MAX,
					    .until_us = UINT64_MAX,
					    .away_us = UINT64_MAX,
					    .back_us = UINT64_MAX};
	if (r->globe->scenario.floors_change)
		world_at(&r->globe->world, world_below(&r->globe->world, BEAT_US), on_beat, r,
			 &r->agents[0]);
}

void agents_change(struct globe_region *r)
{
	struct globe *g = r->globe;
	struct world *w = &g->world;

	r->agents[1].from_us = w->now_us;
	r->later_calls = 2;
	if (g->scenario.strays) {
		r->agents[0].away_us = w->now_us + world_any_size(w, 10 * GLOBE_SECOND);
		r->agents[0].back_us = r->agents[0].away_us + world_below(w, 50 * GLOBE_SECOND);
	} else {
		r->agents[0].until_us = w->now_us + world_below(w, 60 * GLOBE_SECOND);
	}
	on_beat(r, &r->agents[1]);
}

uint32_t agents_say(const struct globe_region *r, uint32_t version, uint32_t floors)
{
	uint32_t says = r->agents[version].says;

	if (world_has(&r->globe->world, SIM_EARLIER_AGENTS))
		return floors;
	return floors < says ? floors : says;
}
