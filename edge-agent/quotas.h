/*
 * The global quotas that this agent takes part in: what it says of them to the coordinators, and what these grant to its region. On the
 * owner's loop.
 *
 * A quota is reported for as long as it was asked for here, or another region was granted something of it, within
 * QUOTAS_LATELY_MS: so regions that are idle answer, and lend, while somebody somewhere has a use for it. Of QUOTAS_MAX quotas
 * at most; the one that was of use longest ago makes room. A region decides within its share whether it is reported or not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/hlc.h"
#include "edge_conf.h"
#include "io/kafka_producer.h"
#include "io/share_codec.h"

struct agent;
struct quotas;

enum {
	QUOTAS_MAX = 16384,
	QUOTAS_LATELY_MS = 60000,
	QUOTAS_POLICIES_MAX = 256, /* that have numbers of their own in metrics */
};

/* `producer`, `hlc` and `conf` are borrowed; `conf` has regions. NULL: out of memory. */
struct quotas *quotas_new(uv_loop_t *loop, struct kafka_producer *producer, struct hlc *hlc,
			  const struct edge_conf *conf);
/* The owner runs. */
void quotas_start(struct quotas *s, struct agent *owner);
/* The agent ends: nothing is asked or reported any more. */
void quotas_stop(struct quotas *s);
/* After that, when the engine is closed and the producer has told of all records. NULL is nothing. Its handles are closed when the loop has run once more. */
void quotas_free(struct quotas *s);

/* `cost` was asked for at some loop; quotas_round(): all of up to now was told. */
void quotas_asked(struct quotas *s, struct slice policy, struct slice root, uint64_t cost);
void quotas_round(struct quotas *s);

/*
 * `cost` was refused at some loop by a share of which no agent of the region tells Redis that it is asked for it: that is told, and
 * reported, at once, so that a region which has lent its floor has it back as soon as that can be.
 */
void quotas_untold(struct quotas *s, struct slice policy, struct slice root, uint64_t cost);

/* Another region was granted something of it. */
void quotas_follow(struct quotas *s, struct slice policy, struct slice root);
/* A committed grant of this region; from wherever, and however often. False: it came before, or no such quota is asked for. */
bool quotas_grant(struct quotas *s, const struct share_quota *of, const struct share_grant *g);

/* Whether a record of the producer's is ours; then it is told of here. */
bool quotas_delivered(struct quotas *s, void *opaque);

/* Which share of a quota is in force in this region. */
enum quota_state {
	QUOTA_GRANTED, /* that of a grant, or more */
	QUOTA_FLOOR,   /* the floor; nobody asks for more */
	QUOTA_LENT,    /* the floor less what is lent of it */
	QUOTA_CLIPPED, /* no grant's, and it is asked for here, for some seconds */
	QUOTA_STATES
};

/* Of one policy, over its quotas that were asked for here or elsewhere lately. */
struct quotas_policy {
	const char *name; /* for ever */
	uint64_t roots[QUOTA_STATES];
	double share;  /* the mean part of the whole that is in force here */
	double demand; /* the mean part that this agent is asked for */
	double excess; /* loose: the greatest part that goes on here without news; else 0 */
	bool loose;
};

struct quotas_numbers {
	bool on;
	uint64_t quotas, overflows; /* now; how often there was no room for one */
	uint64_t reports;           /* produced */
	uint64_t applied;           /* grants that this agent put into Redis first */
	uint64_t clipped;           /* quotas that are asked for here and have no grant in force */
	unsigned n_policies;
	struct quotas_policy policies[QUOTAS_POLICIES_MAX];
};

void quotas_numbers(const struct quotas *s, struct quotas_numbers *ret_numbers);
