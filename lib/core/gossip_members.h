/*
 * The members that a node knows, by the rules of SWIM (Das, Gupta, Motivala, "SWIM: Scalable Weakly-consistent
 * Infection-style Process Group Membership Protocol", 2002): a member is alive, suspect or dead; what is said of a later
 * incarnation counts more, and only the member itself makes a new one. How long a suspect has to defend itself follows
 * from how many accuse it (Dadgar, Phillips, Currey, "Lifeguard", 2018). The node itself is not among them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/gossip_wire.h"
#include "core/status.h"

enum {
	GOSSIP_MEMBERS_MAX = 16384,
	GOSSIP_ACCUSERS_MAX = 3, /* with so many beside the first a suspect has the least time */
};

struct gossip_member {
	struct slice name, region; /* in `text` */
	enum gossip_role role;
	enum gossip_state state;
	uint32_t incarnation;
	struct gossip_address address;
	uint64_t since_ms; /* CLOCK_BOOTTIME or the like, of the state */
	uint32_t accusers[GOSSIP_ACCUSERS_MAX + 1];
	uint8_t n_accusers; /* of a suspect: >= 1 */
	uint8_t sends;      /* messages that still carry it */
	bool has_clock;
	int64_t clock_ms; /* its wall clock minus our monotonic one, when it was last measured */
	uint64_t name_hash;
	char text[]; /* the name, then NAME_BYTES_MAX for the region */
};

struct gossip_members {
	struct gossip_member **list; /* in the order in which they are probed */
	uint32_t n, room;
	struct gossip_member **index; /* open addressing by name_hash; `mask` + 1 places */
	uint32_t mask;
	uint32_t n_alive, n_suspect; /* suspects are counted in both */
	uint32_t n_sends;            /* members with sends > 0 */
	uint64_t digest;             /* of who is not dead, by name and incarnation */
};

void gossip_members_release(struct gossip_members *t);

struct gossip_member *gossip_members_find(const struct gossip_members *t, struct slice name);
/* The live member of this address, or NULL. */
struct gossip_member *gossip_members_at(const struct gossip_members *t,
					const struct gossip_address *address);

/* What a record came to. */
struct gossip_change {
	struct gossip_member *member; /* NULL: nothing is known of it, and nothing was added */
	bool is_new;                  /* it was not known, and is */
	bool changed;                 /* another state, incarnation or accuser: worth spreading */
	enum gossip_state was;        /* its state before; of a new one: dead */
	bool conflict;                /* another node has the name of a live member */
};

/*
 * Applies what is said of a member. `may_add`: one that is not known is added, at place `at` (0..n) of the list. KOVA_ENOMEM:
 * nothing changed; KOVA_ETOOBIG: there are GOSSIP_MEMBERS_MAX.
 */
KOVA_MUST_CHECK kova_status gossip_members_apply(struct gossip_members *t,
						 const struct gossip_record *record,
						 uint64_t now_ms, uint32_t at,
						 struct gossip_change *ret_change);

/* Sets how many messages are to carry it. */
void gossip_member_spread(struct gossip_members *t, struct gossip_member *m, uint8_t sends);

/* Removes the member at place `at` of the list. */
void gossip_members_remove(struct gossip_members *t, uint32_t at);

struct gossip_record gossip_member_record(const struct gossip_member *m);

/* The part of one member in the digest. */
uint64_t gossip_member_digest(uint64_t name_hash, uint32_t incarnation);

/*
 * The median of what live members' clocks are ahead of ours, in ms; with two in the middle the one nearer to 0. False: none
 * was measured.
 */
bool gossip_members_skew(const struct gossip_members *t, int64_t own_clock_ms, int64_t *ret_ms);
