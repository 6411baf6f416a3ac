/* What the loop and the thread that talks to Kafka tell each other. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "coord_conf.h"
#include "coord_events.h"
#include "granter.h"
#include "io/mailbox.h"

struct coord_numbers {
	uint64_t records, malformed, transactions, failures, rows, ledger_records;
	uint64_t foreign, reports, unshared, floors_differ, grants, refused;
	uint64_t keys, partitions, quotas;
	uint64_t taking_over;  /* partitions that are being rebuilt */
	uint64_t take_over_us; /* what that took, the last time */
	bool joined;           /* it is in the group, and what it owns is rebuilt */
};

/* What regions have of a global policy's quotas in the partitions of this coordinator. */
struct coord_shares {
	char policy[NAME_BYTES_MAX + 1];
	size_t n_regions;
	struct {
		char name[NAME_BYTES_MAX + 1];
	} region[ALLOCATOR_REGIONS_MAX];
	struct granter_sum sum;
};

struct coord_share {
	pthread_mutex_t lock;
	const struct coord_conf *first; /* of the start: node, Kafka, interval */
	const struct coord_conf *conf;  /* under the lock: the policies in force; the loop's */
	uint64_t conf_number;           /* under the lock: grows when other policies are in force */
	struct coord_numbers numbers;   /* under the lock; the thread's */
	struct coord_shares *shares;    /* under the lock; owned */
	size_t n_shares;
	struct coord_gossip *gossip; /* the loop's, set before the thread begins; NULL: none */
	struct coord_events events;
	struct drift_watch *drift; /* NULL: nothing is compared */
	atomic_bool stop;
	struct mailbox box; /* the loop's */
	struct message ended;
};

/* From any thread. */
struct coord_numbers coord_share_numbers(struct coord_share *s);
/* Appends what /readyz says, a JSON object. True: it is ready. */
bool coord_share_write_health(struct coord_share *s, struct buf *out);
