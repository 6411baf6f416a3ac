#include "core/limit.h"

#include <assert.h>

#include "core/divide.h"

#define GCRA_HORIZON_MAX_US (UINT64_C(36525) * 86400 * 1000000) /* 100 years */
#define COUNTER_TICKS_MAX UINT64_C(4000000) /* times LIMIT_MAX stays below 2^53 */

/* The largest unit in which every level of this bucket is whole: costs are whole tokens, refills
 * whole quanta. A bucket of some thousand tokens then fits Redis's integer encoding. */
static void bucket_choose_scale(struct limit *l)
{
	static const uint64_t scales[] = {1, 10, 1000, 1000000};

	l->scale_code = 0;
	for (uint64_t code = 1; code < 4; code++)
		if (l->quantum_ut % scales[code] == 0)
			l->scale_code = code;
	l->scale_ut = scales[l->scale_code];
}

static void bucket_derive(struct limit *l)
{
	uint64_t divisor = greatest_common_divisor(l->limit * LIMIT_UT, l->per_us);

	l->cap_ut = l->limit == 0 ? 0 : l->burst * LIMIT_UT;
	l->quantum_ut = l->limit * LIMIT_UT / divisor;
	l->quantum_us = l->per_us / divisor;
	if (l->quantum_ut / l->quantum_us >= LIMIT_RATE_MAX_UT_PER_US) {
		l->quantum_ut = LIMIT_RATE_MAX_UT_PER_US;
		l->quantum_us = 1;
	}
	bucket_choose_scale(l);
}

static kova_status gcra_derive(struct limit *l)
{
	uint64_t rest;

	l->interval_us = 0;
	l->interval_millionths = 0;
	if (l->limit == 0)
		return KOVA_OK;
	l->interval_us = l->per_us / l->limit;
	rest = l->per_us % l->limit;
	l->interval_millionths = divide_up(rest * 1000000, l->limit);
	if (l->interval_millionths == 1000000) {
		l->interval_us++;
		l->interval_millionths = 0;
	}
	return l->interval_us >= GCRA_HORIZON_MAX_US / l->burst ? KOVA_ERANGE : KOVA_OK;
}

static void counter_derive(struct limit *l)
{
	l->tick_us = divide_up(l->per_us, COUNTER_TICKS_MAX);
	l->window_ticks = divide_up(l->per_us, l->tick_us);
}

static bool within(uint64_t value, uint64_t min, uint64_t max)
{
	return value >= min && value <= max;
}

static bool has_period(enum algorithm a)
{
	return a != ALGORITHM_CALENDAR && a != ALGORITHM_CONCURRENCY;
}

static bool in_range(const struct limit *l)
{
	bool bursts = l->algorithm == ALGORITHM_TOKEN_BUCKET || l->algorithm == ALGORITHM_GCRA;

	if ((unsigned)l->algorithm >= ALGORITHM_N || l->limit > LIMIT_MAX)
		return false;
	if (has_period(l->algorithm) && !within(l->per_us, LIMIT_PER_MIN_US, LIMIT_PER_MAX_US))
		return false;
	if (bursts && !within(l->burst, 1, LIMIT_MAX))
		return false;
	return l->algorithm != ALGORITHM_CONCURRENCY ||
	       within(l->hold_us, LIMIT_PER_MIN_US, LIMIT_PER_MAX_US);
}

kova_status limit_init(struct limit *l)
{
	if (!in_range(l))
		return KOVA_ERANGE;
	switch (l->algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
		bucket_derive(l);
		break;
	case ALGORITHM_GCRA:
		return gcra_derive(l);
	case ALGORITHM_SLIDING_COUNTER:
		counter_derive(l);
		break;
	default:
		break;
	}
	return KOVA_OK;
}

uint64_t limit_default_burst(uint64_t limit, uint64_t per_us)
{
	uint64_t burst = limit * 2000000 / per_us;

	if (burst > LIMIT_MAX)
		return LIMIT_MAX;
	return burst < 1 ? 1 : burst;
}

uint64_t limit_capacity(const struct limit *l)
{
	if (l->limit == 0)
		return 0;
	if (l->algorithm == ALGORITHM_TOKEN_BUCKET || l->algorithm == ALGORITHM_GCRA)
		return l->burst;
	return l->limit;
}

static uint64_t bucket_horizon_us(const struct limit *l)
{
	uint64_t quanta = divide_up(l->cap_ut, l->quantum_ut);

	if (quanta > LIMIT_FOREVER_US / l->quantum_us)
		return LIMIT_FOREVER_US;
	return quanta * l->quantum_us;
}

static uint64_t gcra_horizon_us(const struct limit *l)
{
	return l->burst * l->interval_us + divide_up(l->burst * l->interval_millionths, 1000000);
}

uint64_t limit_horizon_us(const struct limit *l)
{
	if (l->limit == 0)
		return 0;
	switch (l->algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
		return bucket_horizon_us(l);
	case ALGORITHM_GCRA:
		return gcra_horizon_us(l);
	case ALGORITHM_CALENDAR:
		return l->edges.n < 2 ? 0 : l->edges.edge_us[1] - l->edges.edge_us[0];
	case ALGORITHM_CONCURRENCY:
		return l->hold_us;
	default:
		return l->per_us;
	}
}
