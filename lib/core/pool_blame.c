#include "core/pool_blame.h"

#include <string.h>

#include "core/pool_rules.h"

#define MS_MASK UINT32_C(0x7fffffff)

static uint32_t ms_of(uint64_t us)
{
	return (uint32_t)(us / 1000) & MS_MASK;
}

void pool_recent_add(struct pool_recent *r, uint64_t now_us, bool turned_away)
{
	if (r->n == POOL_RECENT_MAX)
		memmove(r->outcome, r->outcome + 1, --r->n * sizeof *r->outcome);
	r->outcome[r->n].ms = ms_of(now_us);
	r->outcome[r->n++].turned_away = turned_away;
}

void pool_blame_add(struct pool_blame *b, const struct pool_recent *r, const struct pool_rule *rule,
		    uint64_t now_us)
{
	unsigned all = 0, turned_away = 0;

	for (unsigned i = 0; i < r->n; i++) {
		uint64_t ago_ms = (ms_of(now_us) - r->outcome[i].ms) & MS_MASK;

		if (ago_ms * 1000 >= rule->blame_within && POOL_RULE(BLAME_WITHIN))
			continue;
		all++;
		turned_away += r->outcome[i].turned_away;
	}
	b->there += all > 0;
	b->turned_away += POOL_RULE(BLAME_MOST) ? turned_away * 2 > all : turned_away > 0;
}

bool pool_blame_is_targets(const struct pool_blame *b, const struct pool_rule *rule)
{
	if (b->there == 0 || (b->there < rule->blame_min && POOL_RULE(BLAME_MIN)))
		return false;
	return b->turned_away >= rule->blame_share * b->there || !POOL_RULE(BLAME_SHARE);
}
