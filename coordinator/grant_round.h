/* What a coordinator grants in one transaction, by its partitions: into the transaction, and, once it is committed, to gossip. */
#pragma once

#include "granter.h"
#include "share.h"
#include "txn.h"

struct grant_round {
	struct txn *txn;
	struct coord_share *share;
	uint64_t n;                   /* grants */
	struct buf key, value, given; /* given: length and bytes of each */
	int32_t partition;
};

void grant_round_begin(struct grant_round *r, struct txn *txn, struct coord_share *share);
/* What is decided counts, whatever becomes of the transaction, which is begun if need be. False: it can't be committed; the log says why. */
KOVA_MUST_CHECK bool grant_round_partition(struct grant_round *r, struct granter *g,
					   int32_t partition, uint64_t now_us);
/* The transaction was committed: to the regions that can't read the topic. */
void grant_round_tell(struct grant_round *r);
void grant_round_end(struct grant_round *r);
