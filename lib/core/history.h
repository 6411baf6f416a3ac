/*
 * What was consumed lately, as a sum in which everything counts half as much after each half-life (an exponentially weighted average
 * but for a factor), and the weights that children of a limit get by it. Whole numbers; records may come in any order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HISTORY_HALF_LIFE_MS_MIN UINT64_C(1000)
#define HISTORY_HALF_LIFE_MS_MAX UINT64_C(34560000000) /* 400 days */

enum {
	HISTORY_UNIT = 1024,     /* a token */
	HISTORY_LEAST_PART = 10, /* no weight is less than this part of the average */
};

/* All zeros: nothing was consumed. */
struct history {
	uint64_t
		amount; /* as of `at_ms`, in 1 / HISTORY_UNIT tokens; it stays at the greatest there is */
	uint64_t at_ms; /* ms since 1970 */
};

/* `tokens` were consumed at `at_ms`, which may be before what was added last. half_life_ms: within the bounds above. */
void history_add(struct history *h, uint64_t tokens, uint64_t at_ms, uint64_t half_life_ms);

/* The amount as of `now_ms`, not before what was added last. */
uint64_t history_amount(const struct history *h, uint64_t now_ms, uint64_t half_life_ms);

/*
 * The weights of `n` children that consumed `amount`, some of them more than nothing: in proportion, so that one who consumed the
 * average has `average` (1..SHARE_WEIGHT_MAX), and none less than a HISTORY_LEAST_PART of it. 1..SHARE_WEIGHT_MAX each.
 */
void history_weigh(const uint64_t *amount, size_t n, uint32_t average, uint32_t *ret_weight);

/* Whether a weight is so far from another that it is worth a change: by more than a quarter. */
static inline int history_differs(uint32_t was, uint32_t is)
{
	uint32_t by = was > is ? was - is : is - was;

	return (uint64_t)4 * by > was;
}
