/*
 * Whose turn it is among endpoints that can be used. Round-robin is start-time fair queueing with equal weights: each has a tag,
 * the start of its next turn; the least is next, and one that was away begins where the others are. Weighted is WF2Q+ with one
 * unit a request: of those whose start has come the one that would end first (Bennett, Zhang: Hierarchical packet fair queueing
 * algorithms, 1997). Least-loaded: the fewest in flight by weight. Of equals the one whose turn is longest ago.
 *
 * The twin of lua/pool_choice.lua.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/pool.h"

struct pool_candidate {
	uint32_t index; /* unlike any other's: of equals that had no turn the least is next */
	double weight;  /* as configured, > 0 */
	double now;     /* what of it counts: pool_weight_now() */
	double tag;     /* virtual, as the last choice has left it */
	uint64_t last;  /* number of its last turn; 0: it had none */
	uint64_t in_flight;
};

/*
 * The weight by the rate of successes (0..1), and growing for rule->ramp µs after it came back; returned_us 0: it was never away.
 */
double pool_weight_now(const struct pool_rule *rule, double weight, double rate,
		       uint64_t returned_us, uint64_t now_us);

/* One of n > 0. *virtual: the time of all of them, kept from call to call. *ret_tag: its tag from now on. */
const struct pool_candidate *pool_choose(enum pool_select select, const struct pool_candidate *all,
					 size_t n, double *virtual, double *ret_tag);
