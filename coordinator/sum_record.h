/* The bytes of kova.sums.v1 (proto/kova_sums.proto). */
#pragma once

#include "core/buf.h"
#include "sums.h"

enum sum_kind { SUM_PARTITION, SUM_PUBLISHED, SUM_END };

struct sum_record {
	enum sum_kind kind;
	struct slice policy, region; /* not of SUM_END */
	uint32_t partition;          /* SUM_PARTITION */
	struct usage_counts counts;
	struct share_sum shares; /* SUM_PARTITION */
	int64_t to_ms;           /* SUM_END */
};

/* Appends the record's key and value. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status sum_record_write(const struct sum_record *r, struct buf *key,
					     struct buf *value);

/* Puts what a record says into `s`. KOVA_EPROTO: it is no such record; KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status sum_record_read(struct slice value, struct sums *s);
