#include "core/pool_cooldown.h"

#include "core/pool_rules.h"

enum { LEVEL_MAX = 60, GOOD_MAX = 255 };

static uint64_t at_most(uint64_t us, uint64_t most_us)
{
	return us < most_us ? us : most_us;
}

double pool_luck_next(double *luck)
{
	*luck += 0.6180339887498949;
	if (*luck >= 1)
		*luck -= 1;
	return *luck;
}

uint64_t pool_cooldown_wait_us(const struct pool_cooldown *c, const struct pool_rule *rule,
			       uint64_t now_us, bool probes)
{
	uint64_t stop_us = c->stop_us;

	if (!c->cooling)
		return 0;
	if (probes && !c->probed && POOL_RULE(PROBES))
		return stop_us > now_us + rule->every ? stop_us - now_us : rule->every;
	if (stop_us <= now_us && c->trial > 0 && POOL_RULE(ONE_TRIAL))
		stop_us = c->trial_stop_us;
	return stop_us > now_us ? stop_us - now_us : 0;
}

uint64_t pool_cooldown_begin(struct pool_cooldown *c, const struct pool_rule *rule, uint64_t now_us,
			     uint64_t serial, uint64_t hint_us, double *luck)
{
	bool relapse =
		c->level > 0 && (c->good < rule->window || !POOL_RULE(A_WINDOW_OF_SUCCESSES));
	unsigned level = relapse ? c->level : 0;
	uint64_t us = rule->base;

	for (unsigned i = 0; i < level && us < rule->max && POOL_RULE(DOUBLING); i++)
		us *= 2;
	us = at_most(us, rule->max);
	us += (uint64_t)((double)us * rule->jitter * pool_luck_next(luck));
	hint_us = POOL_RULE(HINT_AT_MOST) ? at_most(hint_us, rule->max) : hint_us;
	if (hint_us > 0 && (hint_us > us || !relapse || !POOL_RULE(RELAPSE_THE_LONGER)))
		us = hint_us;
	*c = (struct pool_cooldown){.cooling = true,
				    .judged = c->judged,
				    .warned = c->warned,
				    .level = (uint8_t)(level < LEVEL_MAX ? level + 1 : LEVEL_MAX),
				    .stop_us = now_us + us,
				    .began = serial,
				    .since_us = c->since_us};
	return us;
}

void pool_cooldown_end(struct pool_cooldown *c)
{
	c->window = (struct pool_window){0};
	c->good = 0;
	c->trial = c->trial_stop_us = 0;
	c->cooling = c->judged = c->warned = false;
}

bool pool_cooldown_late(struct pool_cooldown *c, const struct pool_rule *rule, uint64_t now_us,
			uint64_t hint_us)
{
	uint64_t stop_us = now_us + at_most(hint_us, rule->max);

	if (!c->cooling || hint_us == 0 ||
	    (stop_us <= c->stop_us && POOL_RULE(LATE_NEVER_SHORTENS)))
		return false;
	c->stop_us = stop_us;
	return true;
}

enum pool_effect pool_cooldown_take(struct pool_cooldown *c, const struct pool_rule *rule,
				    uint64_t serial, enum pool_mark mark)
{
	if (serial <= c->began && POOL_RULE(LATE))
		return POOL_IGNORED;
	if (c->cooling && c->trial != serial && POOL_RULE(ONLY_THE_TRIAL))
		return POOL_IGNORED;
	if (c->cooling)
		return mark == POOL_BAD ? POOL_FAILED : POOL_PASSED;
	if (mark == POOL_NEUTRAL && POOL_RULE(NEUTRAL))
		return POOL_KEPT;
	pool_window_push(&c->window, rule->window, mark == POOL_BAD);
	if (mark == POOL_BAD)
		return pool_window_count(&c->window) >= rule->threshold ? POOL_FAILED : POOL_KEPT;
	c->good = c->good < GOOD_MAX ? (uint8_t)(c->good + 1) : GOOD_MAX;
	return POOL_KEPT;
}

void pool_cooldown_try(struct pool_cooldown *c, const struct pool_rule *rule, uint64_t now_us,
		       uint64_t serial)
{
	c->trial = serial;
	c->trial_stop_us = now_us + rule->trial;
}

bool pool_cooldown_free(struct pool_cooldown *c, uint64_t serial)
{
	if (!c->cooling || c->trial != serial)
		return false;
	c->trial = c->trial_stop_us = 0;
	return true;
}
