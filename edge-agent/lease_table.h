/*
 * The keys that are asked for often: an entry each, found by policy and key in a hash table with open addressing. What
 * only few entries have at a time, and what many share, is elsewhere, so that an entry is one or two cache lines.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/lease.h"
#include "lease_refusal.h"
#include "lease_terms.h"

/* What a key has while a lease is asked for, requests stand by, or a refusal is remembered. */
struct lease_rare {
	struct leases *leases;
	struct lease_entry *entry;
	struct lease_rare *next_spare;      /* while nobody has it */
	struct request_state *first, *last; /* pending */
	uint64_t sent_us, ttl_us;           /* while `asking`: of that lease, ... */
	uint64_t cost;                      /* ... which is good for this cost at least, ... */
	bool asking;
	bool warm; /* ... if it is one of lease_warm(), with this span */
	uint8_t span;
	bool dropped;     /* what is granted goes back */
	uint32_t sharers; /* agents' loops that ask that Redis */
	struct lease_refusal refusal;
	uint64_t refused; /* costs that usage does not know yet */
};

struct lease_entry {
	struct lease_terms *terms;    /* referenced */
	struct lease_rare *rare;      /* owned; NULL: nothing of that */
	struct lease_entry *next_due; /* in its slot of the wheel */
	uint64_t ends_us;             /* of the lease, which is spent only before */
	uint32_t left, granted;       /* permits of the lease; granted 0: there is none */
	uint32_t beyond;   /* remaining in Redis beside it, as far as it is this agent's to take */
	uint32_t admitted; /* costs that usage does not know yet */
	struct lease_demand demand;
	uint16_t key_len;
	uint8_t shown;   /* the check which remaining and limit are those of */
	bool scarce : 1; /* Redis had less than is left: no other lease before this one is spent */
	bool gone : 1;   /* no more in the table: freed when it is due */
	bool warm : 1;   /* the lease is one of lease_warm(), and lasts for */
	uint8_t span : 3;
	bool uncounted : 1; /* in the ring of those that usage does not know all of: not freed */
	char key[];
};
static_assert(offsetof(struct lease_entry, key) <= 96, "docs/leases.md says what a key takes");

/* All zeros: empty. */
struct lease_table {
	struct lease_entry **entries; /* `cap` places, NULL: free */
	uint8_t *tags;                /* of each place some bits of the hash, 0: free */
	size_t cap, n;                /* a power of two, or 0 */
};

void lease_table_release(struct lease_table *t); /* not the entries */

uint64_t lease_hash(struct slice policy, struct slice key);

static inline struct slice lease_entry_key(const struct lease_entry *e)
{
	return (struct slice){e->key, e->key_len};
}

static inline struct slice lease_entry_policy(const struct lease_entry *e)
{
	return slice_of(e->terms->policy->name);
}

/* NULL: there is none. */
struct lease_entry *lease_table_find(const struct lease_table *t, uint64_t hash,
				     struct slice policy, struct slice key);
/* `hash` is lease_hash() of its policy and key. False: out of memory. */
bool lease_table_add(struct lease_table *t, uint64_t hash, struct lease_entry *e);
/* It is in the table. */
void lease_table_remove(struct lease_table *t, const struct lease_entry *e);
