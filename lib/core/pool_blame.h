/*
 * Whose fault it is when a target turns endpoints away: of one endpoint, it was recognised; of most that were there lately, the
 * target has set a limit. Times are µs of one clock. The twin of what lua/pool_target.lua says of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/pool.h"

enum { POOL_RECENT_MAX = 16 };

/* The last outcomes of an endpoint on a target, the oldest first. All zeros: there was none. */
struct pool_recent {
	struct {
		uint32_t ms; /* modulo 2^31 */
		bool turned_away;
	} outcome[POOL_RECENT_MAX];
	unsigned n;
};

void pool_recent_add(struct pool_recent *r, uint64_t now_us, bool turned_away);

/* All zeros: nothing is known yet. */
struct pool_blame {
	unsigned there;       /* endpoints that had outcomes lately */
	unsigned turned_away; /* those of which most were that */
};

/* What one more endpoint met. */
void pool_blame_add(struct pool_blame *b, const struct pool_recent *r, const struct pool_rule *rule,
		    uint64_t now_us);
/* Whether the target is at fault. */
bool pool_blame_is_targets(const struct pool_blame *b, const struct pool_rule *rule);
