/* What regions have of global limits, as the last sweeps through partitions found; of one whose grants are away nothing is known. */
#pragma once

#include "partition.h"
#include "share.h"

/* To the book, from where it goes into rows. False: out of memory. */
bool partition_shares_tell(struct partition *p, const struct global_terms *terms);
/* The sums of a list of partitions, to those who ask over HTTP. */
void partition_shares_publish(const struct partition *list, const struct global_terms *terms,
			      struct coord_share *share);
