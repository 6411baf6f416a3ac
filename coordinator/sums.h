/*
 * What all partitions of kova.usage.v1 together have used, by policy and region, and which part of that rows have said
 * (proto/kova_sums.proto). Counts of a partition only grow: what is read again, or late, changes nothing.
 */
#pragma once

#include "core/bytes.h"
#include "core/name.h"
#include "core/status.h"
#include "core/usage_ledger.h"

enum { SUMS_PARTITIONS_MAX = 65536 };

/* What a region has of the quotas of a global policy that are in use: how many these are, and millionths of the limit, added up. */
struct share_sum {
	uint64_t n, share_ppm;
	uint64_t floor_ppm; /* of that: what it may always use */
};

struct sums_series {
	char policy[NAME_BYTES_MAX + 1], region[NAME_BYTES_MAX + 1];
	struct usage_counts total, published;
	struct usage_counts *
		part; /* owned: of each partition, `n_parts` of them; further ones have used nothing */
	struct share_sum *shares; /* owned: likewise */
	uint32_t n_parts;
};

/* All zeros: nothing was used, and no row said so. */
struct sums {
	struct sums_series **series; /* by policy, then region */
	size_t n, room;
	int64_t to_ms; /* where the last rows ended; 0: there are none */
};

void sums_release(struct sums *s);

/* What a partition (< SUMS_PARTITIONS_MAX) has used in all. Names as in core/name.h. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status sums_put(struct sums *s, uint32_t partition, struct slice policy,
				     struct slice region, struct usage_counts counts);
/* What a region has there of a global policy. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status sums_put_shares(struct sums *s, uint32_t partition, struct slice policy,
					    struct slice region, struct share_sum shares);
/* The same of all partitions. */
struct share_sum sums_shares(const struct sums_series *s);

/* What rows have said in all. */
KOVA_MUST_CHECK kova_status sums_put_published(struct sums *s, struct slice policy,
					       struct slice region, struct usage_counts counts);

/* Rows have said all of it, up to `to_ms`. */
void sums_settle(struct sums *s, int64_t to_ms);
