/*
 * A global quota as the engine asks Redis about it: the terms of a region's share, the demand as a part of the whole, and the two
 * operations that keep the share going (docs/global.md).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "control/catalogue.h"
#include "core/script.h"
#include "region.h"

struct agent;
struct edge_regions;
struct engine;

/* What the region may do by its configuration. `p` has scope global. */
struct script_quota quota_of(const struct edge_regions *regions, const struct policy *p);

/*
 * `rate` costs a second, or (calendars) `asked` costs since the last report, as parts of the whole of `p`, of which the root has `limit`:
 * what could be used. At most LIMIT_MAX.
 */
uint32_t quota_demand(const struct policy *p, const struct limit *limit, double rate,
		      uint64_t asked);
/*
 * The demand of a region of which nobody has known that it has any, when `cost` was asked for: that, or its floor, of which it may
 * have lent all.
 */
uint32_t quota_first_demand(const struct edge_regions *regions, const struct policy *p,
			    const struct limit *limit, uint64_t cost);
/* The limit of the root of a key by `p` at `now_ms`: that of an override, or its own. Borrowed as `c`. */
const struct limit *quota_limit(const struct catalogue *c, const struct policy *p,
				struct slice root, int64_t now_ms);

/*
 * Asks the own region for a SCRIPT_SHARE_READ or SCRIPT_SHARE_REPORT: `op` (copied) lacks its check. The answer comes once, as of
 * region_submit(); where the policy is durable, when it is safe.
 */
void quota_ask(struct engine *e, const struct policy *p, struct slice root, struct script_op *op,
	       region_answer *on_answer, void *data);

/* On any loop: the script answered that it refused `cost` of the key, and that the demand for its quota is untold (is_untold). */
void quota_untold(struct agent *a, struct slice policy, struct slice key, uint64_t cost);
