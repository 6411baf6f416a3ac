/* What viewers are told (live.h): the numbers of all loops, and the events that they become. docs/dashboard.md says what each means. */
#pragma once

#include "agent.h"
#include "core/buf.h"
#include "core/recent.h"
#include "live_pools.h"
#include "ops.h"
#include "top_keys.h"

/* All zeros: nothing was added. */
struct live_numbers {
	struct ops_totals totals; /* with its policies */
	struct top_keys *top;
	uint64_t config; /* grows with each change of policies, overrides and pools */
	unsigned viewers;
};

/* False: out of memory, nothing is there to be released. */
bool live_numbers_init(struct live_numbers *n);
void live_numbers_release(struct live_numbers *n);
/* On the loop of `a`. */
void live_numbers_add(struct live_numbers *n, struct agent *a);

/* The events, each whole. On the owner's loop. */
void live_text_stats(const struct live_numbers *n, const struct agent *owner, struct buf *out);
/* For those only who may see keys. */
void live_text_top(const struct live_numbers *n, struct buf *out);
void live_text_pools(struct live_pools *pools, struct buf *out);
void live_text_members(const struct agent *owner, struct buf *out);
/* Each of `events` is JSON. */
void live_text_events(const struct recent *events, struct buf *out);
