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

#include "core/bucket.h"
#include "core/limit.h"
#include "core/verdict.h"

enum {
	TURN_TICKETS_MAX = 64,  /* loops with a ticket in one line; the others ask without */
	TURN_QUEUES_MAX = 64,   /* loops' queues that are counted at one limit */
	TURN_LATE_US = 100000,  /* others go before, where permits would be lost */
	TURN_GRACE_US = 250000, /* a ticket lapses so much after its holder should have asked */
	TURN_DUE_MAX_US = 1000000,
	TURN_QUEUE_KEPT_US =
		3500000, /* queues count for so long since their loop said so last; it does each second */
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

struct turn_ticket {
	uint64_t loop, flow, arrival_us;
	uint64_t due_us; /* its holder asks again then */
	double start;    /* virtual, of the flow */
	double size, cost;
	double finish; /* virtual, while tickets are in order */
};

struct turn_queue {
	uint64_t loop, flow;
	uint32_t n;       /* callers */
	uint64_t stop_us; /* they count until then, unless their loop says so again */
};

/* All zeros: nobody waits. */
struct turns {
	struct turn_ticket ticket[TURN_TICKETS_MAX];
	struct turn_queue queue[TURN_QUEUES_MAX];
	unsigned n_tickets, n_queues;
	double now; /* virtual */
	struct turn_passed {
		uint64_t loop;
		double by; /* tokens that others were granted before it, beyond its own */
	} passed[TURN_TICKETS_MAX];
	unsigned n_passed;
	bool is_kept; /* it was there before the call */
	bool changed; /* in it */
};

/* A call begins: what has lapsed goes. */
void turns_begin(struct turns *t, uint64_t now_us);
/* It ends: without tickets and queues nothing is kept. */
void turns_end(struct turns *t);

enum turn_outcome { TURN_TAKEN, TURN_REFUSED, TURN_QUEUE_FULL };

/*
 * A caller takes `cost` (1..LIMIT_MAX) from the bucket if it is there and his turn, or nothing; `claim` NULL: a newcomer.
 * Refused, *ret_verdict's wait is until it can be both, and *ret_place says where he is in the line.
 */
enum turn_outcome turns_take(struct turns *t, struct bucket *b, const struct limit *l,
			     uint64_t now_us, const struct turn_claim *claim, uint64_t cost,
			     struct limiter_verdict *ret_verdict, struct turn_place *ret_place);
/* The caller of the claim waits no more; claim->n are left. */
void turns_leave(struct turns *t, uint64_t now_us, const struct turn_claim *claim);
