#include "quota.h"

#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "core/keyspace.h"
#include "edge_regions.h"
#include "engine.h"
#include "publisher.h"
#include "quotas.h"

enum { PPM = 1000000, CALENDAR_AHEAD = 4 };

/* To the owner's loop. */
struct untold {
	struct message message; /* first */
	struct agent *owner;
	uint64_t cost;
	size_t policy_len, root_len;
	char name[]; /* policy, root */
};

struct script_quota quota_of(const struct edge_regions *regions, const struct policy *p)
{
	uint64_t floor = (uint64_t)regions->of[regions->own].floor_ppm * p->global.whole / PPM;

	return (struct script_quota){.whole = p->global.whole,
				     .floor = (uint32_t)floor,
				     .floors = (uint32_t)regions->version,
				     .loose = p->global.loose,
				     .lend_us = SHARE_LEND_US,
				     .grant_us = regions->grant_us};
}

uint32_t quota_demand(const struct policy *p, const struct limit *limit, double rate,
		      uint64_t asked)
{
	double costs = rate * (double)limit->per_us / 1e6;

	if (limit->limit == 0)
		return 0;
	if (limit->algorithm == ALGORITHM_CALENDAR)
		costs = CALENDAR_AHEAD * (double)asked;
	costs = costs * p->global.whole / (double)limit->limit;
	/* Who asks at all has some. */
	if (costs > 0 && costs < 1)
		costs = 1;
	return costs < LIMIT_MAX ? (uint32_t)costs : LIMIT_MAX;
}

uint32_t quota_first_demand(const struct edge_regions *regions, const struct policy *p,
			    const struct limit *limit, uint64_t cost)
{
	uint32_t demand = quota_demand(p, limit, (double)cost * 1e6 / (double)limit->per_us, cost);
	uint32_t floor = quota_of(regions, p).floor;

	if (demand < floor)
		demand = floor;
	return demand > 0 ? demand : 1;
}

const struct limit *quota_limit(const struct catalogue *c, const struct policy *p,
				struct slice root, int64_t now_ms)
{
	const struct override *o =
		p->has_overrides ? catalogue_override(c, p, 0, root, now_ms) : NULL;

	return o != NULL && !o->banned && !o->unlimited ? &o->level.limit : &p->levels[0].limit;
}

void quota_ask(struct engine *e, const struct policy *p, struct slice root, struct script_op *op,
	       region_answer *on_answer, void *data)
{
	const struct script_quota quota = quota_of(e->regions, p);
	const struct limit *limit = &p->levels[0].limit;
	char name[KEYSPACE_NAME_MAX];
	size_t len = keyspace_check(limit->algorithm, slice_of(p->name), 0, root, name);
	const struct script_check check = {
		.limit = limit, .key = {name, len}, .cost = 1, .quota = &quota};
	uint16_t slot = region_by_slot(e->own->region) ? keyspace_slot(check.key) : 0;
	struct durable *durable = NULL;

	op->checks = &check;
	op->n_checks = 1;
	if (durability_is_wanted(p->durability))
		durable = durables_get(e->own->durables, p->durability);
	if (durable != NULL)
		durable_submit(durable, slot, op, 0, on_answer, data);
	else
		region_submit(e->own->region, slot, op, 0, on_answer, data);
	op->checks = NULL;
}

static void run_untold(struct message *m)
{
	struct untold *u = (struct untold *)m;
	struct quotas *quotas =
		u->owner->publisher != NULL ? publisher_quotas(u->owner->publisher) : NULL;

	if (quotas != NULL)
		quotas_untold(quotas, (struct slice){u->name, u->policy_len},
			      (struct slice){u->name + u->policy_len, u->root_len}, u->cost);
	free(u);
}

void quota_untold(struct agent *a, struct slice policy, struct slice key, uint64_t cost)
{
	const struct slice root = slice_cut(&key, '/');
	struct untold *u =
		a != NULL && a->feed != NULL ? malloc(sizeof *u + policy.len + root.len) : NULL;

	if (u == NULL)
		return; /* its turn comes */
	u->message.run = run_untold;
	u->owner = agent_owner(a);
	u->cost = cost;
	u->policy_len = policy.len;
	u->root_len = root.len;
	memcpy(u->name, policy.ptr, policy.len);
	memcpy(u->name + policy.len, root.ptr, root.len);
	if (u->owner == a)
		run_untold(&u->message);
	else
		mailbox_post(u->owner->mailbox, &u->message);
}
