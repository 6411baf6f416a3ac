#include <stdlib.h>

#include "core/pool_rules.h"
#include "core/pool_state.h"

static void resume(struct pool_policy *p)
{
	if (p->pause_us > 0)
		pool_tell(p, POOL_EVENT_RESUMED, POOL_NO_ENDPOINT, 0, POOL_OK, &p->target[0]);
	p->pause_us = 0;
}

void pool_floor_check(struct pool_policy *p)
{
	size_t active = 0, there = 0;

	for (size_t i = 0; i < p->n; i++) {
		const struct pool_cooldown *c = &p->member_of[i]->cooldown;

		if (pool_is_off(p, i))
			continue;
		active += !c->cooling;
		there +=
			!c->cooling || (c->stop_us <= p->now_us && (!p->rule->health || c->probed));
	}
	if (active < p->numbers.active_min)
		p->numbers.active_min = active;
	if (!POOL_RULE(DUE_COUNTS))
		there = active;
	if (there >= p->rule->floor_active) {
		if (p->below)
			resume(p);
		p->below = false;
	} else if (p->pause_us > 0 && p->pause_us <= p->now_us) {
		resume(p);
		p->mark = there;
	} else if (!p->below || (p->pause_us == 0 && there < p->mark && POOL_RULE(NEXT_FALL))) {
		p->below = true;
		p->mark = there;
		p->pause_us = p->now_us + p->rule->floor_pause;
		pool_tell(p, POOL_EVENT_PAUSED, there, p->rule->floor_pause, POOL_OK,
			  &p->target[0]);
	} else if (there > p->mark) {
		p->mark = there;
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

uint64_t pool_floor_wait_us(const struct pool_policy *p)
{
	uint64_t waits_us[POOL_POLICY_ENDPOINTS], wait_us;
	size_t n = 0, there = 0, lacks;

	if (!p->below || p->pause_us <= p->now_us)
		return 0;
	wait_us = p->pause_us - p->now_us;
	for (size_t i = 0; i < p->n; i++) {
		const struct pool_cooldown *c = &p->member_of[i]->cooldown;

		if (pool_is_off(p, i))
			continue;
		if (c->cooling && c->stop_us > p->now_us)
			waits_us[n++] = c->stop_us - p->now_us;
		else
			there++;
	}
	lacks = p->rule->floor_active > there ? (size_t)p->rule->floor_active - there : 0;
	if (lacks == 0 || n < lacks || p->rule->health)
		return wait_us;
	qsort(waits_us, n, sizeof *waits_us, compare);
	return waits_us[lacks - 1] < wait_us ? waits_us[lacks - 1] : wait_us;
}
