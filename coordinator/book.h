/*
 * What one partition of kova.usage.v1 adds up to: a ledger for each quota (policy, region, key root), and their sums by policy
 * and region. Remembers which ledgers have changed since they were last kept, and which part of the sums was told to who publishes rows.
 */
#pragma once

#include "core/bytes.h"
#include "core/name.h"
#include "core/usage_ledger.h"
#include "sums.h"

enum { BOOK_ROOT_MAX = 1024 };

struct book_key {
	struct slice policy, region; /* names: core/name.h */
	struct slice root;           /* up to BOOK_ROOT_MAX bytes */
	bool other;                  /* the roots for which an agent had no room */
};

struct book_series {
	char policy[NAME_BYTES_MAX + 1], region[NAME_BYTES_MAX + 1];
	struct usage_counts total;
	struct usage_counts told; /* of that: to who publishes the rows (rows.h) */
	struct share_sum shares, shares_told;
};

struct book_quota {
	struct usage_ledger ledger;
	struct book_quota *next_changed;
	uint32_t series; /* index of its policy and region */
	uint16_t root_len;
	bool other, changed;
	char root[];
};

struct book {
	struct book_quota **quotas; /* by hash, open addressing */
	size_t n_quotas, n_slots;
	struct book_series *series;
	size_t n_series, series_room;
	uint32_t *series_slots; /* by hash: index + 1; 0: free */
	size_t n_series_slots;
	struct book_quota *changed; /* a list */
	size_t swept;               /* the slot at which book_retire() goes on */
};

/* All zeros: nothing was used. */
void book_release(struct book *b);

/* A record of usage. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status book_read(struct book *b, const struct book_key *key,
				      const struct usage_record *r);

/*
 * Takes over what was kept of a quota, in place of what is known of it. Takes the contents of `kept`, and leaves it empty. It counts as
 * unchanged, its sum as not told. KOVA_ENOMEM: nothing is changed.
 */
KOVA_MUST_CHECK kova_status book_restore(struct book *b, const struct book_key *key,
					 struct usage_ledger *kept);

/* What was used of a root by all regions, or, with `region`, by that one. */
struct usage_counts book_used(const struct book *b, struct slice policy, struct slice root,
			      const char *region);

struct book_key book_key_of(const struct book *b, const struct book_quota *q);

/* What a region has of a global policy's quotas, and is to be told. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status book_set_shares(struct book *b, struct slice policy,
					    struct slice region, struct share_sum shares);

/* The changed ledgers were kept and the sums told. */
void book_settle(struct book *b);

/* Looks at `n` more slots for processes that are over (usage_ledger_forget()); what loses some has changed. */
void book_retire(struct book *b, size_t n, uint64_t before_hlc);
