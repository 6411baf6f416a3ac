/*
 * The roots whose ledgers were found in the regions' Redis, round by round, and what they come to by policy and region. One whose
 * ledger is in several regions (its home has moved) counts with the sum of them, for the region that has most of it.
 */
#pragma once

#include "core/bytes.h"
#include "core/drift.h"
#include "core/name.h"
#include "core/status.h"

enum { DRIFT_ROOTS_MAX = 1 << 20, DRIFT_REGIONS_MAX = 64 };

struct drift_found {
	struct slice policy, root;
	unsigned region; /* < DRIFT_REGIONS_MAX: in whose Redis it is */
	bool apart;      /* that region's usage is counted by itself */
	int64_t ledger, kafka;
};

struct drift_series {
	char policy[NAME_BYTES_MAX + 1];
	unsigned region;
	/* Of the last round: */
	int64_t ledger, kafka,
		drift; /* of roots that are known; kafka: less what ledgers have forgotten */
	uint64_t roots, moving; /* of which so many were not at rest */
	struct drift_alarm alarm;
};

struct drift_entry;

/* All zeros: nothing was found. */
struct drift_table {
	struct drift_entry *entries; /* by hash, open addressing */
	size_t n, n_slots;
	struct drift_series *series;
	size_t n_series;
	uint64_t overflows; /* roots that had no room */
};

void drift_table_release(struct drift_table *t);

/* A ledger of this round; of another region, too: it adds up. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status drift_table_found(struct drift_table *t, const struct drift_found *f);

/*
 * The round is over. `whole`: the regions, 1 << number, of which all ledgers were seen. Roots whose ledgers are gone are forgotten; those
 * of which a region was not seen stay as they were.
 */
void drift_table_end_round(struct drift_table *t, uint64_t whole, uint64_t now_us,
			   uint64_t rest_us);
/* It is given up: what was found in it is not looked at. */
void drift_table_drop_round(struct drift_table *t);
