/*
 * What one partition of kova.usage.v1 adds up to: a ledger for each quota (policy, region, key root), and their sums by policy
 * and region. Remembers which ledgers have changed since they were last kept, and which part of the sums was told to who publishes rows.
 */
#pragma once

#include "core/bytes.h"
#include "core/name.h"
#include "core/usage_ledger.h"
#include "keys.h"
#include "sums.h"

enum { BOOK_ROOT_MAX = KEYS_ROOT_MAX };

struct book_key {
	struct slice policy, region; /* names: core/name.h */
	struct slice root;           /* up to BOOK_ROOT_MAX bytes */
	bool other;                  /* the roots for which an agent had no room */
};

struct book_series {
	char policy[NAME_BYTES_MAX + 1], region[NAME_BYTES_MAX + 1];
	struct usage_counts total;
	struct usage_counts told;             /* of that: to who publishes the rows (rows.h) */
	struct share_sum shares, shares_told; /* the latter: no such sum, before the first time */
};

/* A ledger that has changed. */
struct book_change {
	uint32_t key, series;
};

struct book {
	struct keys *keys;       /* borrowed: a part of a key is its ledger in a region */
	struct intern processes; /* of the ledgers */
	size_t n_ledgers;
	struct book_series *series;
	size_t n_series, series_room;
	uint32_t *series_slots; /* by hash: index + 1; 0: free */
	size_t n_series_slots;
	struct book_change *changed;
	size_t n_changed, changed_room;
	uint32_t swept;             /* the key at which book_retire() goes on */
	struct usage_ledger ledger; /* the one that is worked upon, ... */
	struct buf packed;          /* ... and its bytes */
};

/* The first part of a key is not a ledger's. */
enum { BOOK_FIRST_PART = 1 };

/* Nothing was used. `keys` outlives it. */
void book_init(struct book *b, struct keys *keys);
/* The ledgers stay with the keys, and are of no use any more. */
void book_release(struct book *b);

/* A record of usage. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status book_read(struct book *b, const struct book_key *key,
				      const struct usage_record *r);

/* What was kept of a ledger. Borrowed. */
struct book_kept {
	struct usage_counts final;
	const struct usage_record *counters;
	size_t n;
};

/*
 * Takes over what was kept of a quota, in place of what is known of it. It counts as unchanged, its sum as not told. KOVA_ENOMEM: the book is
 * of no use any more.
 */
KOVA_MUST_CHECK kova_status book_restore(struct book *b, const struct book_key *key,
					 const struct book_kept *kept);

/* What was used of a root by all regions, or, with `region`, by that one. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status book_used(struct book *b, struct slice policy, struct slice root,
				      const char *region, struct usage_counts *ret_used);

/*
 * The i-th (< n_changed) ledger that has changed: it is b->ledger, and *ret_key, which is borrowed, until the book is asked for or told something else.
 * KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status book_changed(struct book *b, size_t i, struct book_key *ret_key);

/* What a region has of a global policy's quotas, and is to be told. KOVA_ENOMEM: nothing is changed. */
KOVA_MUST_CHECK kova_status book_set_shares(struct book *b, struct slice policy,
					    struct slice region, struct share_sum shares);

/* The changed ledgers were kept and the sums told. */
void book_settle(struct book *b);

/*
 * Looks at `n` more keys for processes that are over (usage_ledger_forget()); what loses some has changed. KOVA_ENOMEM: the book is of no
 * use any more.
 */
KOVA_MUST_CHECK kova_status book_retire(struct book *b, uint32_t n, uint64_t before_hlc);
