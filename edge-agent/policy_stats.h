/* Counters of a policy that outlive reloads. One registry a process; entries are never freed. */
#pragma once

#include <stdint.h>

#include "core/name.h"

struct policy_stats {
	char name[NAME_BYTES_MAX + 1];
	uint64_t allowed, refused, outage, shadow; /* decisions by outcome */
	uint64_t waited;                           /* admitted after waiting */
	uint64_t waiters;                          /* now in a queue */
	uint64_t queue_full, wait_timeouts, abandoned;
	uint64_t feedback_ok, feedback_error;
	uint64_t feedback_holds;                 /* feedback that held its key */
	uint64_t breaker_opened, breaker_closed; /* by feedback through this agent */
};

/* The entry for `name` (1–64 bytes), made if there is none; NULL: out of memory. Lives for ever. */
struct policy_stats *policy_stats_get(struct slice name);

/* Calls `each` for every entry, in the order in which they were made. */
void policy_stats_each(void (*each)(const struct policy_stats *s, void *data), void *data);
