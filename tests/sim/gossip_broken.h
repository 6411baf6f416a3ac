/*
 * The rules of gossip, each with a switch that breaks it in the simulator. The files of lib/core that obey them are compiled once
 * more with this header before them (core/gossip_rules.h).
 */
#pragma once

/* X(NAME, what is done instead of the rule) */
#define GOSSIP_MUTATIONS(X)                                                          \
	X(TIES, "of two writes with one stamp, whichever is known stays")            \
	X(LAST_WRITER_WINS, "whatever arrives last is taken")                        \
	X(SKEW_GUARD, "stamps from the future are taken")                            \
	X(REFUSED_LATER, "a stamp from the future is taken when its time has come")  \
	X(MEDIAN, "a node whose clock is off takes changes")                         \
	X(TOMBSTONES, "a deletion leaves no trace")                                  \
	X(NEWS, "messages carry no news")                                            \
	X(ANTI_ENTROPY, "digests are not compared")                                  \
	X(INCARNATIONS, "what is said of a member counts, whatever its incarnation") \
	X(REFUTATION, "who is suspected says nothing")                               \
	X(SUSPICION, "who does not answer is dead at once")                          \
	X(INDIRECT_PROBES, "nobody else is asked to probe")                          \
	X(RECONNECT, "nobody asks the dead")                                         \
	X(REFUSALS_TOLD, "nobody says what it has refused")                          \
	X(EVIDENCE, "what others have refused is refused whatever their clocks")     \
	X(NEWEST_GRANT, "an older grant takes the place of a newer one")             \
	X(GRANTS_END, "grants are passed on when they have ended")                   \
	X(GRANTS_BOUNDED, "all grants are sent at once")                             \
	X(UNCOMMITTED, "a grant is gossiped before it is committed")

enum gossip_mutation {
	GOSSIP_NOTHING_BROKEN,
#define X(name, text) GOSSIP_BREAK_##name,
	GOSSIP_MUTATIONS(X)
#undef X
		GOSSIP_MUTATIONS_END
};

extern enum gossip_mutation gossip_broken;

#define GOSSIP_RULE(name) (gossip_broken != GOSSIP_BREAK_##name)
