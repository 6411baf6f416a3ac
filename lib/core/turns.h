/*
 * Whose turn it is among those who wait for a limit at several agents' loops. A loop has one ticket in the line of a limit: of
 * the caller whom it would serve next. Callers of one flow (a key that waits) are served as they came, at whichever loop, and
 * flows by self-clocked fair queueing (Golestani 1994; see core/fair_queue.h) with one virtual time for all loops. A
 * ticket lapses a while after its holder should have asked again. Beside that, how many callers of a flow wait at each loop.
 *
 * The scripts serve the agents (lua/turns.lua, whose twin this is); this one is what the properties are tested on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	TURN_TICKETS_MAX = 64,  /* loops with a ticket in one line; the others ask without */
	TURN_QUEUES_MAX = 64,   /* loops' queues that are counted at one limit */
	TURN_LATE_US = 50000,   /* others go before, where permits would be lost */
	TURN_GRACE_US = 250000, /* a ticket lapses so much after its holder should have asked */
	TURN_DUE_MAX_US = 1000000,
	TURN_SOON_US =
		2000, /* somebody else's turn is looked at again after so much, at the earliest */
};
#define TURN_ID_MAX ((UINT64_C(1) << 53) - 1)
#define TURN_SIZE_MAX (UINT64_C(1) << 40)
#define TURN_TIME_MAX (UINT64_C(1) << 52) /* virtual */

/* Who asks, as his loop knows him. */
struct turn_claim {
	uint64_t loop;       /* 1..TURN_ID_MAX; 0: there is no claim */
	uint64_t flow;       /* of the key that he waits for */
	uint64_t arrival_us; /* when he came, by Redis's clock */
	uint64_t start;      /* virtual start of his flow, as last heard of this line */
	uint64_t size;       /* of what he asks for, in virtual time: 1..TURN_SIZE_MAX */
	uint32_t n;          /* callers in his queue at this loop, he among them */
	uint32_t most;       /* callers in it at all loops; 0: they are not counted by this check */
	uint64_t left_us;    /* until he gives up */
	uint64_t retry_us;   /* he asks again after that at the latest; at most TURN_DUE_MAX_US */
	bool is_new;         /* the line's virtual time is not known to the loop */
	bool joins;          /* and is refused if the queue is full */
	bool behind;         /* others of his loop are before him: he is refused */
};

/* Where a refused caller is in the line. */
struct turn_place {
	bool known;
	bool behind_others; /* it is the turn of others, or will be */
	uint64_t start;     /* virtual, of his flow, behind its callers before him at other loops */
	uint64_t now;       /* virtual, of the line */
};
