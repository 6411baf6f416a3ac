/* What /metrics says of TLS, on agents and coordinators. */
#pragma once

#include "io/metrics.h"
#include "io/tls_section.h"
#include "io/tls_session.h"

struct tls_numbers {
	unsigned fronts;   /* of enum tls_front, those that speak TLS; 0: nothing is written */
	int64_t expires_s; /* of their certificate, since the epoch */
	struct tls_counters counters;
};

void tls_metrics_write(struct metrics_writer *w, const struct tls_numbers *n);
