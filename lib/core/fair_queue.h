/*
 * Weighted fair queueing among flows: whose head has the smallest virtual finish time is next. Self-clocked (Golestani, "A
 * self-clocked fair queueing scheme for broadband applications", INFOCOM 1994): the virtual time is the finish time of what
 * was served last, so no clock is needed. A flow that waits is served after at most one request of each other one, when all
 * weights and costs are the same; in general, of two flows that both wait all the time, what they got divided by their
 * weights never differs by more than one request's cost ÷ weight of each.
 *
 * O(log n) an operation. Flows are embedded in their owners, who keep what waits in them in order.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { FAIR_QUEUE_WEIGHT_MAX = 1000000 };

/* Zero-initialise. Virtual times wrap: they are compared by their difference. */
struct fair_flow {
	uint64_t start, finish; /* of its head */
	uint64_t arrival;       /* equal finish times are served in this order */
	uint32_t weight;
	size_t place; /* 1-based place in the heap; 0: in no queue */
};

struct fair_queue {
	struct fair_flow **flows; /* owned array of borrowed flows */
	size_t n, cap;
	uint64_t now; /* virtual */
	uint64_t arrivals;
};

void fair_queue_release(struct fair_queue *q);

/*
 * A flow that is in no queue comes with a head of `cost` (1..10⁹) and `weight` (1..FAIR_QUEUE_WEIGHT_MAX). KOVA_ENOMEM:
 * nothing changed.
 */
KOVA_MUST_CHECK kova_status fair_queue_add(struct fair_queue *q, struct fair_flow *f,
					   uint32_t weight, uint64_t cost);

/* Takes the flow out; nothing if it is not in. */
void fair_queue_remove(struct fair_queue *q, struct fair_flow *f);

/* Undoes the removal of a flow since which none was added. */
void fair_queue_put_back(struct fair_queue *q, struct fair_flow *f);

/* The flow to serve next, or NULL. */
struct fair_flow *fair_queue_first(const struct fair_queue *q);

/* The flow's head was served; `cost` is that of the next one, 0: the flow is empty and leaves. */
void fair_queue_serve(struct fair_queue *q, struct fair_flow *f, uint64_t cost);

/* The flow has another head, of `cost`, though the one before was not served. */
void fair_queue_replace(struct fair_queue *q, struct fair_flow *f, uint64_t cost);

/* The flow, which is in, has another `start` and a head of `cost`, and the virtual time is `now`: another keeper of it said so. */
void fair_queue_set(struct fair_queue *q, struct fair_flow *f, uint64_t now, uint64_t start,
		    uint64_t cost);
