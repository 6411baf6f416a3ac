/* kova.rollup.v1: a row a policy of what was used in an interval (proto/rollup.schema.json). */
#pragma once

#include "coord_conf.h"
#include "core/buf.h"
#include "sums.h"

/* The interval, ms since 1970, and whose limits are said. */
struct rollup_interval {
	int64_t from_ms, to_ms;
	const struct coord_conf *conf;
};

typedef bool rollup_row(struct slice policy, struct slice json, void *data);

/* Gives a row for each policy of `sums`, with what was used since it was published. False: memory is out, or `row` said so. */
KOVA_MUST_CHECK bool rollup_each(const struct sums *sums, const struct rollup_interval *interval,
				 rollup_row *row, void *data);
