/* What /metrics says of connections, on agents and coordinators. */
#pragma once

#include "io/conn.h"
#include "io/metrics.h"

/* `now` there are; `most` there may be. */
void conn_metrics_write(struct metrics_writer *w, uint64_t now, uint64_t most,
			const struct conn_counters *n);
