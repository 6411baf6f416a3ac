/*
 * The global quotas whose reports are in one partition of kova.usage.v1: an allocator for each policy and key root (docs/global.md).
 * Whoever owns the partition rebuilds them from kova.grants.v1, feeds them what regions report, and asks what to grant.
 *
 * Times are µs of one steady clock, from 1 (core/allocator.h).
 */
#pragma once

#include "global_terms.h"
#include "io/share_codec.h"
#include "keys.h"

#define GRANTER_IDLE_US (UINT64_C(600) * 1000000)

/* Longer than between two reports of a quota that arrive, by the longest `kafka.report`. */
#define GRANTER_FLOORS_US (UINT64_C(150) * 1000000)

/* By then an ownership begins anew, for times are few bits (core/allocator.h). */
#define GRANTER_OLD_US (UINT64_C(60) * 86400 * 1000000)

/* Of the quotas of a policy of which some region reported lately, by region: millionths of the limit, added up. */
struct granter_stat {
	uint64_t share_ppm, floor_ppm; /* what it has now; the part of that which is its floor */
};

/* Of a policy. */
struct granter_sum {
	uint64_t n_active;
	uint64_t excess_ppm; /* of a loose one: the greatest of any quota */
	struct granter_stat region[ALLOCATOR_REGIONS_MAX];
};

void granter_sum_add(struct granter_sum *to, const struct granter_sum *sum);

struct granter {
	const struct global_terms *terms; /* borrowed */
	struct keys *keys;                /* borrowed: a part of a key is its allocator */
	uint64_t epoch, base_us;          /* of the ownership: its number, and when it began */
	uint32_t *key_policy;             /* by policy: its number in `keys` */
	size_t n_quotas;
	uint32_t *
		news; /* keys of which something was reported, and that are not decided upon; marked */
	size_t n_news, news_room;
	uint32_t swept;                /* the key at which granter_sweep() goes on */
	struct allocator *allocator;   /* the one that is worked upon */
	struct granter_sum *sums;      /* by policy: of the last sweep through all, ... */
	struct granter_sum *next_sums; /* ... and of the one that is under way */
	uint64_t
		waits_until_us; /* a region that is none any more may have something until then, or one has another floor */
};

/* The part of a key that is its allocator. */
enum { GRANTER_PART = 0 };

/* `epoch`: of this ownership and no other (core/allocator.h); `terms` and `keys` outlive it. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status granter_init(struct granter *g, const struct global_terms *terms,
					 struct keys *keys, uint64_t epoch, uint64_t now_us);
/* Nothing of it is left with the keys. All zeros are nothing. */
void granter_release(struct granter *g);

/*
 * From now on it works with `keys`, which has no allocators; those that it has move there. Before the first report. KOVA_ENOMEM: it can
 * only be released.
 */
KOVA_MUST_CHECK kova_status granter_move(struct granter *g, struct keys *keys);

/*
 * The grant was committed by an owner before; of each region and quota the newest comes last. All of them before the first report. KOVA_ENOTFOUND: it is of
 * no global policy. KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status granter_restore(struct granter *g, const struct share_quota *quota,
					    const struct share_grant *grant, uint64_t now_us);

/*
 * KOVA_ENOTFOUND: no global policy, or no region, is called so. KOVA_ECONFIG: by its configuration the region has another floor than is counted
 * here, so nothing is known of what floors come to, and nothing is granted for GRANTER_FLOORS_US. KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status granter_report(struct granter *g, const struct share_quota *quota,
					   const struct share_report *report, uint64_t now_us);

/* False: that is enough. */
typedef bool granter_give(const struct share_quota *quota, const struct share_grant *grant,
			  void *data);

/* Decides upon the quotas of which something was reported since the last time. False: `give` said so, or memory is out. */
KOVA_MUST_CHECK bool granter_decide(struct granter *g, uint64_t now_us, granter_give *give,
				    void *data);

/* Of a quota that is given up, one of its regions has a record. False: that is enough. */
typedef bool granter_forget(const struct share_quota *quota, void *data);

/*
 * Looks at `n` more keys: adds up what regions have, and gives up quotas of which nothing counts and nothing was heard for
 * GRANTER_IDLE_US. False: `forget` said so.
 */
KOVA_MUST_CHECK bool granter_sweep(struct granter *g, uint64_t now_us, size_t n,
				   granter_forget *forget, void *data);
