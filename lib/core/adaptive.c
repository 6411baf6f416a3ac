#include "core/adaptive.h"

#include <assert.h>

enum { RATIO_WHOLE = 1000, RATIO_LEAST = 500, SERVED_LEAST = 850 };

uint32_t adaptive_limit(const struct adaptive *a, const struct adaptive_rule *rule)
{
	if (a->limit == 0 || a->limit > rule->max)
		return rule->max;
	return a->limit < rule->min ? rule->min : a->limit;
}

/* Every path to a new limit. */
static enum adaptive_change set(struct adaptive *a, const struct adaptive_rule *rule, uint64_t n)
{
	uint32_t before = a->limit;

	if (n < rule->min)
		n = rule->min;
	a->limit = n < rule->max ? (uint32_t)n : rule->max;
	if (a->limit == before)
		return ADAPTIVE_SAME;
	return a->limit > before ? ADAPTIVE_RAISED : ADAPTIVE_LOWERED;
}

static void begin_window(struct adaptive *a, uint64_t now_us)
{
	a->since_us = now_us;
	a->sum_us = a->samples = 0;
	a->served = 0;
}

static enum adaptive_change fall(struct adaptive *a, const struct adaptive_rule *rule,
				 uint64_t now_us, uint64_t n)
{
	a->cut_us = now_us;
	begin_window(a, now_us);
	return set(a, rule, n);
}

static enum adaptive_change rise(struct adaptive *a, const struct adaptive_rule *rule, bool used)
{
	return used ? set(a, rule, (uint64_t)a->limit + rule->increase) : ADAPTIVE_SAME;
}

static void no_later_than(uint64_t *at_us, uint64_t now_us)
{
	if (*at_us > now_us)
		*at_us = now_us;
}

/* As the rule and the clock are now. */
static void begin(struct adaptive *a, const struct adaptive_rule *rule, uint64_t now_us)
{
	if (a->limit == 0)
		a->since_us = a->era_us = now_us;
	a->limit = adaptive_limit(a, rule);
	no_later_than(&a->cut_us, now_us);
	no_later_than(&a->since_us, now_us);
	no_later_than(&a->era_us, now_us);
}

/* Sent before the limit last fell, or of the same moment: that fall was the answer to it. */
static bool is_answered(const struct adaptive *a, const struct adaptive_rule *rule, uint64_t now_us,
			uint64_t latency_us)
{
	return a->cut_us > 0 &&
	       (now_us < a->cut_us + rule->window_us || now_us < a->cut_us + latency_us);
}

/* The lowest that latency has been lately, `mean_us` included. */
static uint64_t lowest(struct adaptive *a, const struct adaptive_rule *rule, uint64_t now_us,
		       uint64_t mean_us)
{
	if (now_us - a->era_us >= rule->window_us * ADAPTIVE_ERA_WINDOWS) {
		a->lowest_before_us = a->lowest_us;
		a->lowest_us = 0;
		a->era_us = now_us;
	}
	if (a->lowest_us == 0 || mean_us < a->lowest_us)
		a->lowest_us = mean_us;
	if (a->lowest_before_us > 0 && a->lowest_before_us < a->lowest_us)
		return a->lowest_before_us;
	return a->lowest_us;
}

/* As many as were served in this window would be in `per_us`. In doubles as Lua's: the same in both, rounding included. */
static uint64_t served_rate(const struct adaptive *a, uint64_t per_us, uint64_t now_us)
{
	return (uint64_t)((double)a->served * (double)per_us / (double)(now_us - a->since_us));
}

/* Most of what the limit allows at once is spent, or three quarters of what it allows in this window were served. */
static bool is_used(const struct adaptive *a, uint64_t per_us, uint64_t now_us,
		    const struct adaptive_outcome *outcome)
{
	return outcome->spent || (double)a->served * 4 * (double)per_us >=
					 (double)a->limit * 3 * (double)(now_us - a->since_us);
}

/* By the ratio, at most by half, and not far below what the server does: its queue drains then, in time. */
static uint64_t fallen(const struct adaptive *a, uint64_t ratio, uint64_t served)
{
	uint64_t by_ratio = a->limit * (ratio > RATIO_LEAST ? ratio : RATIO_LEAST) / RATIO_WHOLE;
	uint64_t by_served = (served < a->limit ? served : a->limit) * SERVED_LEAST / RATIO_WHOLE;

	return by_ratio > by_served ? by_ratio : by_served;
}

static enum adaptive_change judge_window(struct adaptive *a, const struct adaptive_rule *rule,
					 uint64_t per_us, uint64_t now_us,
					 const struct adaptive_outcome *outcome)
{
	uint64_t mean_us = a->sum_us / a->samples;
	uint64_t base_us = lowest(a, rule, now_us, mean_us);
	bool used = is_used(a, per_us, now_us, outcome);
	uint64_t ratio = base_us * (100 + rule->tolerance) * (RATIO_WHOLE / 100) / mean_us;

	if (ratio < RATIO_WHOLE)
		return fall(a, rule, now_us, fallen(a, ratio, served_rate(a, per_us, now_us)));
	begin_window(a, now_us);
	if (mean_us * 200 > base_us * (200 + rule->tolerance))
		return ADAPTIVE_SAME;
	return rise(a, rule, used);
}

/* Latencies of requests that were sent after the limit last fell: the others say how it was before. */
static void add_latency(struct adaptive *a, uint64_t now_us, uint64_t latency_us)
{
	if (latency_us == 0 || a->samples == ADAPTIVE_SAMPLES_MAX ||
	    (a->cut_us > 0 && now_us < a->cut_us + latency_us))
		return;
	a->sum_us += latency_us;
	a->samples++;
}

static enum adaptive_change react(struct adaptive *a, const struct adaptive_rule *rule,
				  uint64_t per_us, uint64_t now_us,
				  const struct adaptive_outcome *outcome)
{
	bool used;

	if (outcome->congested) {
		if (is_answered(a, rule, now_us, outcome->latency_us))
			return ADAPTIVE_SAME;
		return fall(a, rule, now_us, (uint64_t)a->limit * (100U - rule->decrease) / 100);
	}
	if (a->served < UINT32_MAX)
		a->served++;
	if (rule->mode == ADAPTIVE_GRADIENT)
		add_latency(a, now_us, outcome->latency_us);
	if (now_us < a->since_us + rule->window_us)
		return ADAPTIVE_SAME;
	if (rule->mode == ADAPTIVE_GRADIENT)
		return a->samples >= ADAPTIVE_SAMPLES_MIN
			       ? judge_window(a, rule, per_us, now_us, outcome)
			       : ADAPTIVE_SAME;
	used = is_used(a, per_us, now_us, outcome);
	begin_window(a, now_us);
	return rise(a, rule, used);
}

enum adaptive_change adaptive_feed(struct adaptive *a, const struct adaptive_rule *rule,
				   uint64_t per_us, uint64_t now_us,
				   const struct adaptive_outcome *outcome)
{
	enum adaptive_change change;

	assert(outcome->latency_us <= ADAPTIVE_LATENCY_MAX_US);
	begin(a, rule, now_us);
	change = react(a, rule, per_us, now_us, outcome);
	if (rule->mode == ADAPTIVE_AIMD && a->limit == rule->max &&
	    now_us >= a->cut_us + rule->window_us)
		*a = (struct adaptive){0}; /* no trouble any more */
	return change;
}

/* In doubles as Lua's: the same in both, rounding included. */
static uint64_t part_of_burst(const struct limit *whole, uint32_t n)
{
	double part = (double)whole->burst * (double)n / (double)whole->limit;

	return part < 1 ? 1 : (uint64_t)part;
}

void adaptive_bucket_limit(const struct limit *whole, uint32_t n, struct limit *ret_limit)
{
	kova_status status;

	assert(whole->algorithm == ALGORITHM_TOKEN_BUCKET && n >= 1 && n <= whole->limit);
	*ret_limit = *whole;
	if (n == whole->limit)
		return;
	ret_limit->limit = n;
	ret_limit->burst = part_of_burst(whole, n);
	status = limit_init(ret_limit);
	assert(status == KOVA_OK); /* its fields are within those of `whole` */
	(void)status;
}

void adaptive_bucket_move(struct bucket *b, const struct limit *from, const struct limit *to,
			  uint64_t now_us)
{
	uint64_t debt_ut = bucket_debt_ut(b, from, now_us);

	if (debt_ut > from->cap_ut)
		debt_ut = from->cap_ut;
	if (to->cap_ut >= from->cap_ut)
		debt_ut += to->cap_ut - from->cap_ut;
	else if (debt_ut > from->cap_ut - to->cap_ut)
		debt_ut -= from->cap_ut - to->cap_ut;
	else
		debt_ut = 0;
	bucket_set_debt(b, to, now_us, debt_ut);
}
