#include "region.h"

#include <stdlib.h>

struct region *region_new(uint64_t seed, enum mutation m, bool quiet, bool logging)
{
	struct region *r = calloc(1, sizeof *r);

	if (r == NULL)
		abort();
	world_init(&r->world, seed, m, logging);
	r->store = (struct store){.region = r, .up = true, .n_quotas = QUOTAS_MAX};
	r->store.charged = calloc(1, REQUESTS_MAX);
	if (r->store.charged == NULL)
		abort();
	for (unsigned i = 0; i < AGENTS_MAX; i++)
		agent_init(&r->agents[i], r, i);
	scenario_draw(r, quiet);
	scenario_start(r);
	for (unsigned i = 0; i < QUOTAS_MAX; i++) {
		r->store.quotas[i] = r->store.saved[i] =
			(struct quota){.limit = &r->limits[i], .mutation = m};
		checker_init(&r->store.checkers[i], &r->limits[i], r->scenario.leases,
			     store_now_us(&r->store));
	}
	return r;
}

void region_run(struct region *r)
{
	world_run(&r->world, r->scenario.duration_us);
}

double region_utilisation(const struct region *r)
{
	const struct limit *l = &r->limits[0];
	double burst = (double)l->burst, admitted = (double)r->store.checkers[0].admitted;
	double refilled = (double)l->limit * (double)r->scenario.duration_us / (double)l->per_us;

	return (admitted - burst) / refilled;
}

void region_free(struct region *r)
{
	r->over = true;
	r->store.up = false;
	r->world.violation[0] = '\0';
	for (unsigned i = 0; i < AGENTS_MAX; i++)
		agent_kill(&r->agents[i]);
	world_run(&r->world, UINT64_MAX); /* what is on its way frees itself */
	for (unsigned i = 0; i < AGENTS_MAX; i++)
		agent_release(&r->agents[i]);
	for (unsigned i = 0; i < QUOTAS_MAX; i++) {
		quota_release(&r->store.quotas[i]);
		quota_release(&r->store.saved[i]);
		checker_release(&r->store.checkers[i]);
	}
	free(r->store.charged);
	world_release(&r->world);
	free(r);
}
