/*
 * The rules of a pool, each with a switch that breaks it in the twin. The files of lib/core that obey them are compiled once more
 * with this header before them (core/pool_rules.h).
 */
#pragma once

/* X(NAME, what is done instead of the rule) */
#define POOL_MUTATIONS(X)                                                               \
	X(PROBES, "a cooldown ends by time alone where probes are configured")          \
	X(ONE_TRIAL, "trials are given to everybody")                                   \
	X(ONLY_THE_TRIAL, "whatever is reported of an endpoint in cooldown is a trial") \
	X(A_WINDOW_OF_SUCCESSES, "every further cooldown is a relapse")                 \
	X(DOUBLING, "a relapse is as long as the first")                                \
	X(HINT_AT_MOST, "a Retry-After is not bounded")                                 \
	X(RELAPSE_THE_LONGER, "on a relapse a shorter Retry-After counts, too")         \
	X(LATE, "what is late counts")                                                  \
	X(LATE_NEVER_SHORTENS, "a late Retry-After moves the end earlier")              \
	X(NEUTRAL, "the target's own errors are successes")                             \
	X(BLAME_WITHIN, "outcomes of long ago are blamed, too")                         \
	X(BLAME_MOST, "an endpoint that was turned away once counts for blame")         \
	X(BLAME_MIN, "a few endpoints are enough for blame")                            \
	X(BLAME_SHARE, "one endpoint is enough for blame")                              \
	X(CONCENTRATION, "it is never the target's fault")                              \
	X(AT_A_TARGET, "who is recognised at a target cools as a whole")                \
	X(MAX_OUT, "all of a tier may be out")                                          \
	X(HOLDS, "a target that is held is asked")                                      \
	X(HOLDS_NEVER_SHORTEN, "a later hold ends one earlier")                         \
	X(ESCALATED, "a target never starts higher")                                    \
	X(SIGNS_OF_THE_TIER, "signs count in whatever tier they were met")              \
	X(SUCCESS_RATE, "failures do not make a weight less")                           \
	X(RAMP, "who comes back has its weight at once")                                \
	X(NO_CATCHING_UP, "who was away makes up for it")                               \
	X(SMOOTH, "of unequal weights the larger come in a row")                        \
	X(LOAD_BY_WEIGHT, "load is not divided by weight")                              \
	X(ENDPOINT_SLOTS, "slots are no bound")                                         \
	X(EXCLUSIVE, "an endpoint that has a session is given to others")               \
	X(SESSIONS_STAY, "a session gets whatever is next")                             \
	X(ORDER_OF_ARRIVAL, "newcomers overtake those who wait")                        \
	X(THE_FLOOR, "nothing is spared below the floor")                               \
	X(DUE_COUNTS, "who is due for a trial does not count for the floor")            \
	X(NEXT_FALL, "a further fall pauses nothing")                                   \
	X(LEASES_END, "a lease that ends leaves its ticket in flight")                  \
	X(ONCE, "a ticket that is reported again counts again")                         \
	X(GROUPS, "every key has an account of its own")                                \
	X(LEFT_NEVER_GROWS, "what is left of a quota grows in its window")              \
	X(EACH_NEXT_TAKES_ONE, "requests on their way are not taken off a quota")       \
	X(THE_PROVIDERS, "the provider's failures are the key's")                       \
	X(THIRD_UNKNOWN_KEY, "a key that is unknown is never disabled")                 \
	X(PROBES_OF_ITS_COOLDOWN, "a probe of an earlier cooldown counts")              \
	X(A_PROBE_HAS_TO_PASS, "a probe that failed makes an endpoint due")             \
	X(ENDS_FIRST, "of several reasons the first that is found is told")             \
	X(PASSED_OVER, "who lacks a permit of its own is not passed over")

enum pool_mutation {
	POOL_NOTHING_BROKEN,
#define X(name, text) POOL_BREAK_##name,
	POOL_MUTATIONS(X)
#undef X
		POOL_MUTATIONS_END
};

extern enum pool_mutation pool_broken;

#define POOL_RULE(name) (pool_broken != POOL_BREAK_##name)
