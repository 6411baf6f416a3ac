/*
 * The safety rules of docs/leases.md and of the region, each with a switch that breaks it in the simulator: a simulator
 * that does not find what is broken proves nothing.
 */
#pragma once

/* X(NAME, what is done instead of the rule) */
#define SIM_MUTATIONS(X)                                                                           \
	X(LAZY_REFILL,                                                                             \
	  "a lease that has ended is dropped before the refill, not after the part up to its end") \
	X(NO_MARGIN, "Redis frees a lease after its ttl, without the margin")                      \
	X(CLOCK_BEFORE_REQUESTS, "the holder reads its clock before the requests that it judges")  \
	X(END_FROM_REPLY, "a lease's end is counted from the reply")                               \
	X(CLOCK_SLEEPS, "the holder's clock stands still while its machine sleeps")                \
	X(SPENT_AFTER_RETURN, "the holder goes on spending a lease that it has returned")          \
	X(RETURN_TWICE, "a return of a lease that is unknown gives back all the same")             \
	X(REFUND_ABOVE, "a refund lifts tokens above burst - outstanding")                         \
	X(WINDOW_AT_BEGIN, "a window's entry of a lease has the time of its grant")                \
	X(CALENDAR_OUTLIVES, "a calendar's lease may outlive its window")                          \
	X(CLOCK_BACK_REFILLS, "a bucket's time follows Redis's clock back")                        \
	X(ID_IGNORED, "a repeat with the same id is a new request")                                \
	X(GIVE_IN_DOUBT, "a take whose reply never came is given back")                            \
	X(SOME_LEVELS, "what the levels before the refusing one took stays taken")                 \
	X(REDIS_FORGETS, "a crash of Redis loses what it acknowledged lately")

/* Those of docs/global.md. */
#define GLOBE_MUTATIONS(X)                                                                         \
	X(GRANT_FROM_READING, "a grant's time runs from when it was read, not from its t0")        \
	X(NO_GRANT_MARGIN, "the coordinator counts a grant for D, without the margin")             \
	X(LESS_COUNTS_AT_ONCE, "a smaller grant counts before the region reports that it read it") \
	X(GRANT_OF_OTHER_CLOCK, "a grant that echoes a clock from before a jump is used")          \
	X(JUMP_KEEPS_GRANT, "a clock that jumped leaves the grant in force")                       \
	X(OLD_GRANT_AGAIN, "an older grant that comes again is used")                              \
	X(TOKENS_WITH_SHARE, "a share that grows brings tokens")                                   \
	X(LAZY_SHARE, "a bucket refills its past by the share of now")                             \
	X(ABSENT_FULL, "an absent key is full under the share of now")                             \
	X(LESS_BEFORE_LEASES_END,                                                                  \
	  "a smaller grant is reported while leases of the larger are out")                        \
	X(JUMP_ENDS_PROMISE, "a clock that jumped ahead ends a promise")                           \
	X(GRANT_GIVES_FLOOR, "a grant is the floor at least, though that may be lent")             \
	X(TAKE_OVER_EARLY, "a new owner does not wait for transactions that are open")             \
	X(LEASE_OUTLIVES_GRANT, "a lease may end after the grant that it rests on")                \
	X(LENDER_RESUMES_FULL, "who lent its floor resumes with its burst")                        \
	X(ANY_EPOCH_LENDS, "a promise to another coordinator is used, from its arrival")           \
	X(LENT_FOR_LONGER, "what is lent counts for longer than it is promised")                   \
	X(FLOOR_AT_ONCE, "a raised floor applies before it is confirmed")                          \
	X(EARLIER_AGENTS,                                                                          \
	  "a region says a version of floors while agents of an earlier one are left")             \
	X(HEARD_ALL, "after a Redis was emptied, who was heard since is taken for all agents")     \
	X(FLOORS_EXPIRE, "a share that knows later floors is forgotten as any other")              \
	X(NO_QUARANTINE, "a window's grant that expired is free at once")                          \
	X(RELEASE_UNCHECKED, "what a window used is not counted when its share goes")              \
	X(CALENDAR_FREED, "a calendar's grant that expired is free within its window")             \
	X(GRANT_OUTLIVES_WINDOW, "a grant for one calendar window is used in the next")            \
	X(GRANT_OF_OTHER_LIMIT,                                                                    \
	  "a grant from another limit of a window is so many permits of this one")                 \
	X(TAKE_OVER_BLIND, "a new owner counts no grant of before")                                \
	X(TAKE_OVER_NEWEST, "a new owner counts the newest grant only")                            \
	X(NO_FENCE, "the broker takes offsets of a generation that is over")                       \
	X(GOSSIP_UNCOMMITTED, "a grant is gossiped before it is committed")

enum mutation {
	SIM_NOTHING,
#define X(name, text) SIM_##name,
	SIM_MUTATIONS(X)
#undef X
		SIM_MUTATIONS_END,
#define X(name, text) SIM_##name,
	GLOBE_MUTATIONS(X)
#undef X
};
