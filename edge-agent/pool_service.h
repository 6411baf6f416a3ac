/* The pools as one loop of the agent serves them: requests (pool_request.h), and what is known of each pool for those who watch. */
#pragma once

#include <jansson.h>
#include <uv.h>

#include "core/pool_script.h"
#include "pool_request.h"

struct agent;
struct pool_service;

/* `a` (borrowed) has its loop, control and engine. NULL: out of memory. */
struct pool_service *pool_service_new(struct agent *a);
/* Answers everybody who waits; nobody may begin to. */
void pool_service_drain(struct pool_service *s);
/* On its loop, before the engine is closed: no request is in progress any more. It is gone when its last call is. NULL is nothing. */
void pool_service_close(struct pool_service *s);
bool pool_service_is_idle(const struct pool_service *s);

/* What this loop counts of a pool; all zeros at first. */
struct pool_counts {
	uint64_t outcomes[POOL_OUTCOMES];
	uint64_t bad_hints;
	uint64_t probes[POOL_PROBES]; /* by what they found */
	uint64_t probes_put_off;      /* how often more were due than there was room for */
};
/* What the owner's loop knows of a pool as of its last look. */
struct pool_view {
	bool known;
	struct pool_totals totals;
	uint64_t active, cooling, disabled, in_flight;
	struct {
		char id[NAME_BYTES_MAX + 1];
		uint64_t tickets;
	} share[100]; /* n_shares of them; 0 in pools of more */
	size_t n_shares;
};
/* Both NULL where the loop has never met the pool. */
void pool_service_look(const struct pool_service *s, struct slice pool,
		       const struct pool_counts **ret_counts, const struct pool_view **ret_view);
