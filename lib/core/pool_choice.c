#include "core/pool_choice.h"

#include <assert.h>

#include "core/pool_rules.h"

double pool_weight_now(const struct pool_rule *rule, double weight, double rate,
		       uint64_t returned_us, uint64_t now_us)
{
	double w = POOL_RULE(SUCCESS_RATE) ? weight * rate : weight;

	if (rule->ramp > 0 && returned_us > 0 && now_us < returned_us + rule->ramp &&
	    POOL_RULE(RAMP)) {
		double us = now_us > returned_us ? (double)(now_us - returned_us) : 0;

		w *= 0.1 + 0.9 * (us / (double)rule->ramp);
	}
	return w;
}

static bool is_before(const struct pool_candidate *a, const struct pool_candidate *b)
{
	return a->last < b->last || (a->last == b->last && a->index < b->index);
}

static double later(double a, double b)
{
	return a > b ? a : b;
}

static const struct pool_candidate *round_robin(const struct pool_candidate *all, size_t n,
						double *virtual, double *ret_tag)
{
	const struct pool_candidate *best = NULL;
	double best_tag = 0;

	for (size_t i = 0; i < n; i++) {
		double tag = POOL_RULE(NO_CATCHING_UP) ? later(all[i].tag, *virtual) : all[i].tag;

		if (best == NULL || tag < best_tag ||
		    (tag == best_tag && is_before(&all[i], best))) {
			best = &all[i];
			best_tag = tag;
		}
	}
	*virtual = best_tag;
	*ret_tag = best_tag + 1;
	return best;
}

/* One that was away, or whose weight was less, is at most two of its turns behind. */
static double start_of(const struct pool_candidate *c, double virtual)
{
	return later(c->tag, virtual - 2 / c->now);
}

static const struct pool_candidate *weighted(const struct pool_candidate *all, size_t n,
					     double *virtual, double *ret_tag)
{
	const struct pool_candidate *best = NULL;
	double v = *virtual, sum = 0, least = 0, best_stop = 0;

	for (size_t i = 0; i < n; i++) {
		double start = start_of(&all[i], v);

		sum += all[i].now;
		least = i == 0 || start < least ? start : least;
	}
	v = later(v, least);
	for (size_t i = 0; i < n; i++) {
		double start = start_of(&all[i], *virtual), stop = start + 1 / all[i].now;

		if (start > v + 1e-9 && POOL_RULE(SMOOTH))
			continue;
		if (best == NULL || stop < best_stop ||
		    (stop == best_stop && is_before(&all[i], best))) {
			best = &all[i];
			best_stop = stop;
		}
	}
	*virtual = v + 1 / sum;
	*ret_tag = best_stop;
	return best;
}

static const struct pool_candidate *least_loaded(const struct pool_candidate *all, size_t n)
{
	const struct pool_candidate *best = &all[0];

	for (size_t i = 1; i < n; i++) {
		double a = (double)all[i].in_flight, b = (double)best->in_flight;

		if (POOL_RULE(LOAD_BY_WEIGHT)) {
			a *= best->weight;
			b *= all[i].weight;
		}
		if (a < b || (a == b && is_before(&all[i], best)))
			best = &all[i];
	}
	return best;
}

const struct pool_candidate *pool_choose(enum pool_select select, const struct pool_candidate *all,
					 size_t n, double *virtual, double *ret_tag)
{
	const struct pool_candidate *best;

	assert(n > 0);
	switch (select) {
	case POOL_ROUND_ROBIN:
		return round_robin(all, n, virtual, ret_tag);
	case POOL_WEIGHTED:
		return weighted(all, n, virtual, ret_tag);
	case POOL_LEAST_LOADED:
		break;
	}
	best = least_loaded(all, n);
	*ret_tag = best->tag;
	return best;
}
