/*
 * The global quotas (policy and root of the key) that an agent reports: a bounded number of them, of which those that nobody asked for
 * the longest make room. Each has its turn once an interval; its demand is measured over whole rounds, in which all that was asked
 * for anywhere in the agent has been added up.
 *
 * Pure: times are ms or µs of one steady clock of the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/share_record.h"

struct quota_table;

/* What Redis said of a share last. */
struct quota_share {
	uint64_t said_ms; /* 0: nothing yet */
	uint32_t whole, parts, floor;
	bool granted; /* a grant is in force */
	bool lent;    /* of the floor, by a promise that binds */
};

struct quota {
	struct quota *chain;             /* the table's from here on */
	struct quota *older, *newer;     /* by use */
	struct quota *earlier, *later;   /* by turn */
	uint64_t hash, asked, unrounded; /* costs: of whole rounds; of the one that goes on */
	uint64_t round;
	uint16_t policy_len, root_len;

	/* The caller's, and in the beginning all zeros: */
	uint64_t since_ms;   /* when it was added */
	uint64_t asked_ms;   /* when it was asked for last; 0: never */
	uint64_t follows_ms; /* when another region was granted something last; 0: never */
	uint64_t turn_ms;    /* when it had its turn last; 0: never */
	uint64_t measured_us;
	double rate;      /* costs a second, as measured last */
	uint32_t demand;  /* parts, by that */
	uint16_t held;    /* by how many */
	bool busy;        /* somebody holds it: it can't go */
	bool is_reported; /* a record of it waits for a broker */
	bool is_reporter; /* of the agents of the region, as of the last turn */
	bool hurries;     /* it is to be reported at once */
	struct quota_share share;
	struct share_grant grant;          /* to be put into Redis; seq 0: none is */
	uint64_t newest_clock, newest_seq; /* of the grants that were read */
	uint64_t granted_ms;               /* when that was */
	uint64_t duration_us;              /* its D */
	char name[];                       /* policy, root */
};

/* For `max` quotas, at least 1. NULL: out of memory. */
struct quota_table *quota_table_new(size_t max);
void quota_table_free(struct quota_table *t); /* NULL is nothing */
size_t quota_table_count(const struct quota_table *t);

struct slice quota_policy(const struct quota *q);
struct slice quota_root(const struct quota *q);

/* NULL: there is none. */
struct quota *quota_table_find(const struct quota_table *t, struct slice policy, struct slice root);
/* That one, or a new one whose turn comes first. NULL: memory is out, or all that there is room for is busy. */
struct quota *quota_table_get(struct quota_table *t, struct slice policy, struct slice root);
/* It is of use: others go before it. */
void quota_table_use(struct quota_table *t, struct quota *q);
/* It goes; not while it is busy. */
void quota_table_remove(struct quota_table *t, struct quota *q);

/* The one that had its turn longest ago; NULL: there is none. */
struct quota *quota_table_next(const struct quota_table *t);
/* It has its turn now: it is the last from here on. */
void quota_table_turn(struct quota_table *t, struct quota *q, uint64_t now_ms);

/* `cost` was asked for in the round that goes on. */
void quota_table_asked(struct quota_table *t, struct quota *q, uint64_t cost);
/* The round is over: all that was asked for up to `now_us` has been told. */
void quota_table_round(struct quota_table *t, uint64_t now_us);
/*
 * What was asked for in the rounds that are over, since the last call that returned true: sets rate and *ret_asked. False: no round has
 * ended since.
 */
bool quota_table_measure(const struct quota_table *t, struct quota *q, uint64_t *ret_asked);
