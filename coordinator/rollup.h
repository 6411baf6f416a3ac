/* kova.rollup.v1: a row a policy of what the partitions of one coordinator have used in an interval (proto/rollup.schema.json). */
#pragma once

#include "book.h"
#include "coord_conf.h"
#include "core/buf.h"

/* The interval, ms since 1970, and whose limits are said. */
struct rollup_interval {
	int64_t from_ms, to_ms;
	const struct coord_conf *conf;
};

typedef bool rollup_row(struct slice policy, struct slice json, void *data);

/*
 * Gives a row for each policy that any of the `n` books knows, with what was used since it was published. False: memory
 * is out, or `row` said so.
 */
KOVA_MUST_CHECK bool rollup_each(const struct book *const *books, size_t n,
				 const struct rollup_interval *interval, rollup_row *row,
				 void *data);
