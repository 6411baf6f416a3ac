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

enum mutation {
	SIM_NOTHING,
#define X(name, text) SIM_##name,
	SIM_MUTATIONS(X)
#undef X
		SIM_MUTATIONS_END
};
