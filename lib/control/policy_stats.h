/*
 * Counters of a policy that outlive reloads. One registry a process; entries are never freed. Each loop has counters of its
 * own, alone on their cache lines, which only it touches.
 */
#pragma once

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/name.h"

enum { CACHE_LINE_BYTES = 64 };

/* What one loop has counted. Nothing but uint64_t. */
struct policy_counts {
	alignas(CACHE_LINE_BYTES) uint64_t allowed; /* decisions by outcome: */
	uint64_t refused, outage, shadow;
	uint64_t banned, held, breaker_open; /* of the refused, beside those below; else limited */
	uint64_t waited;                     /* admitted after waiting */
	uint64_t waiters;                    /* now in a queue */
	uint64_t queue_full, wait_timeouts, abandoned;
	uint64_t feedback_ok, feedback_error;
	uint64_t feedback_holds;                 /* feedback that held its key */
	uint64_t breaker_opened, breaker_closed; /* by feedback through this agent */
	uint64_t adaptive_raised, adaptive_lowered;
};

/* Adds `counts` to `sum`. */
void policy_counts_add(struct policy_counts *sum, const struct policy_counts *counts);

struct policy_stats {
	char name[NAME_BYTES_MAX + 1];
	struct policy_counts *of_loops;
	/* For it feedback has come, at whichever agent; and here since the others were told last. From any thread. */
	atomic_bool has_feedback, has_news;
};

/* There will be so many loops (1 unless said). Before they run; what was counted is forgotten. False: out of memory. */
bool policy_stats_set_loops(unsigned loops);

/* The counters of loop `loop`, from 0 on; for that loop only. */
static inline struct policy_counts *policy_counts_of(const struct policy_stats *s, unsigned loop)
{
	return &s->of_loops[loop];
}

static inline bool policy_stats_has_feedback(const struct policy_stats *s)
{
	return atomic_load_explicit(&s->has_feedback, memory_order_relaxed);
}

/* Feedback came; `here`: the other agents are to hear of it. From any thread. */
void policy_stats_feedback(struct policy_stats *s, bool here);
/* Calls `each` for every policy with news, which are none then. */
void policy_stats_take_news(void (*each)(struct slice name, void *data), void *data);
/* For how many policies it has come: whether it is another one than before. From any thread. */
unsigned policy_stats_with_feedback(void);

/* The entry for `name`; NULL: there is none. */
struct policy_stats *policy_stats_find(struct slice name);
/* The entry for `name` (1–64 bytes), made if there is none; NULL: out of memory. Lives for ever. */
struct policy_stats *policy_stats_get(struct slice name);

/* Calls `each` for every entry, in the order in which they were made; `i` counts from 0. */
void policy_stats_each(void (*each)(const struct policy_stats *s, unsigned i, void *data),
		       void *data);
