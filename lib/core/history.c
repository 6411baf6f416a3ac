#include "core/history.h"

#include <assert.h>

#include "core/shares.h"

enum { STEPS_LOG2 = 16 };

/* 2^-(2^(i - 16)) in 1 / 2^32: what is left after 2^i of the 2^16 steps of a half-life. */
static const uint32_t left_after[STEPS_LOG2] = {
	4294921870u, 4294876444u, 4294785595u, 4294603902u, 4294240539u, 4293513906u,
	4292061009u, 4289156690u, 4283353945u, 4271771996u, 4248701964u, 4202935003u,
	4112874773u, 3938502375u, 3611622602u, 3037000499u,
};

/* a * f / 2^32 */
static uint64_t scale(uint64_t a, uint32_t f)
{
	return (a >> 32) * f + ((a & UINT32_MAX) * f >> 32);
}

static uint64_t decayed(uint64_t amount, uint64_t ms, uint64_t half_life_ms)
{
	uint64_t halves = ms / half_life_ms, steps;

	assert(half_life_ms >= HISTORY_HALF_LIFE_MS_MIN &&
	       half_life_ms <= HISTORY_HALF_LIFE_MS_MAX);
	if (halves >= 64)
		return 0;
	amount >>= halves;
	steps = (ms % half_life_ms << STEPS_LOG2) / half_life_ms;
	for (unsigned i = 0; i < STEPS_LOG2; i++)
		if ((steps >> i & 1) != 0)
			amount = scale(amount, left_after[i]);
	return amount;
}

static uint64_t sum_of(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void history_add(struct history *h, uint64_t tokens, uint64_t at_ms, uint64_t half_life_ms)
{
	uint64_t amount = tokens > UINT64_MAX / HISTORY_UNIT ? UINT64_MAX : tokens * HISTORY_UNIT;

	if (at_ms >= h->at_ms) {
		h->amount = decayed(h->amount, at_ms - h->at_ms, half_life_ms);
		h->at_ms = at_ms;
	} else {
		amount = decayed(amount, h->at_ms - at_ms, half_life_ms);
	}
	h->amount = sum_of(h->amount, amount);
}

uint64_t history_amount(const struct history *h, uint64_t now_ms, uint64_t half_life_ms)
{
	return decayed(h->amount, now_ms > h->at_ms ? now_ms - h->at_ms : 0, half_life_ms);
}

void history_weigh(const uint64_t *amount, size_t n, uint32_t average, uint32_t *ret_weight)
{
	uint32_t least = average / HISTORY_LEAST_PART;
	unsigned shift = 0;
	uint64_t most = 0, sum = 0;

	for (size_t i = 0; i < n; i++)
		most = amount[i] > most ? amount[i] : most;
	while (most >> shift >= UINT64_C(1) << 43) /* times a weight: below 2^63 */
		shift++;
	for (size_t i = 0; i < n; i++)
		sum += amount[i] >> shift;
	assert(n > 0 && n < 1 << 20 && sum > 0 && average >= 1 && average <= SHARE_WEIGHT_MAX);
	for (size_t i = 0; i < n; i++) {
		/* times n at last, so that it does not overflow: sum / n is less than 2^43 */
		uint64_t weight = (amount[i] >> shift) * average / (sum / n > 0 ? sum / n : 1);

		if (weight < least)
			weight = least;
		ret_weight[i] = weight < 1                  ? 1
				: weight > SHARE_WEIGHT_MAX ? SHARE_WEIGHT_MAX
							    : (uint32_t)weight;
	}
}
