/*
 * The global quotas whose reports are in one partition of kova.usage.v1: an allocator for each policy and key root (docs/global.md).
 * Whoever owns the partition rebuilds them from kova.grants.v1, feeds them what regions report, and asks what to grant.
 *
 * Times are µs of one steady clock, from 1 (core/allocator.h).
 */
#pragma once

#include "global_terms.h"
#include "io/share_codec.h"

struct grants_quota {
	struct grants_quota *next_news;
	const struct global_policy *policy; /* borrowed */
	uint16_t root_len;
	bool is_news; /* a report came since it was last decided upon */
	struct allocator allocator;
	char root[];
};

struct grants {
	const struct global_terms *terms; /* borrowed */
	uint64_t epoch;
	struct grants_quota **quotas; /* by hash, open addressing */
	size_t n_quotas, n_slots;
	struct grants_quota *news; /* a list */
	uint64_t waits_until_us; /* a region that is none any more may have something until then */
};

/* `epoch`: of this ownership and no other (core/allocator.h); `terms` outlive it. */
void grants_init(struct grants *g, const struct global_terms *terms, uint64_t epoch);
void grants_release(struct grants *g);

/*
 * The grant was committed by an owner before; of each region and quota the newest comes last. All of them before the first report. KOVA_ENOTFOUND: it is of
 * no global policy. KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status grants_restore(struct grants *g, const struct share_quota *quota,
					   const struct share_grant *grant, uint64_t now_us);

/* KOVA_ENOTFOUND: no global policy, or no region, is called so. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status grants_report(struct grants *g, const struct share_quota *quota,
					  const struct share_report *report, uint64_t now_us);

/* False: that is enough. */
typedef bool grants_give(const struct share_quota *quota, const struct share_grant *grant,
			 void *data);

/* Decides upon the quotas of which something was reported since the last time. False: `give` said so. */
KOVA_MUST_CHECK bool grants_decide(struct grants *g, uint64_t now_us, grants_give *give,
				   void *data);
