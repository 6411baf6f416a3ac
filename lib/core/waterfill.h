/*
 * Weighted max-min fairness: a whole is shared out like water poured into vessels, each as wide as its claim's weight, with
 * a bottom (what it has in any case) and a brim (what it can use). What no one can use is added by weight. (Bertsekas and
 * Gallager, Data Networks, 1992, 6.5.2: max-min flow control.)
 */
#pragma once

#include <stdint.h>

enum {
	WATERFILL_MAX = 32,          /* claims */
	WATERFILL_WEIGHT_MAX = 1000, /* 0: has its floor and no more */
	WATERFILL_WHOLE_MAX = 1000000000,
};

struct waterfill_claim {
	uint32_t floor;  /* the floors of all: at most the whole */
	uint32_t demand; /* any number */
	uint32_t weight; /* 0..WATERFILL_WEIGHT_MAX */
};

/*
 * Shares `whole` (0..WATERFILL_WHOLE_MAX) out to n claims (1..WATERFILL_MAX). Of ret_share[0..n-1] the sum is the whole (if
 * a weight is not 0), each at least its floor. As long as a claim has less than its demand, none is above its floor with more
 * for its weight, but for the rounding of one unit; and none has more than its demand and its floor.
 */
void waterfill(uint32_t whole, const struct waterfill_claim *claims, unsigned n,
	       uint32_t *ret_share);
