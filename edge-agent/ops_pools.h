/* The pools in /metrics: what each loop counts, and what the owner's knows of them. */
#pragma once

#include "agent.h"
#include "io/metrics.h"
#include "pool_service.h"

/* Pools that have labels in metrics: the first so many by name. */
enum { OPS_POOLS_MAX = 200 };

struct ops_pool {
	char name[NAME_BYTES_MAX + 1];
	struct pool_counts counts;
	struct pool_view view;
	bool is_probed;
};

struct ops_pools {
	unsigned n;
	struct ops_pool of[OPS_POOLS_MAX];
};

/* Adds the numbers of one loop. On that loop. */
void ops_pools_add(const struct agent *a, struct ops_pools *p);
/* The pool of this name, added if need be; NULL: there are OPS_POOLS_MAX others. */
struct ops_pool *ops_pools_of(struct ops_pools *p, const char *name);
void ops_pools_write(struct metrics_writer *w, const struct ops_pools *p);
