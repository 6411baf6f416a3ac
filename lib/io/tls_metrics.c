#include "io/tls_metrics.h"

static void sample(struct metrics_writer *w, const char *name, const char *value, double number)
{
	const struct metric_label label = {name, value};

	metrics_sample(w, &label, 1, number);
}

void tls_metrics_write(struct metrics_writer *w, const struct tls_numbers *n)
{
	if (n->fronts == 0)
		return;
	metrics_family(w, "kova_tls_certificate_expiry_seconds", METRIC_GAUGE, "seconds",
		       "When the certificate that a front shows ends, in seconds since the epoch.");
	for (unsigned i = 0; i < TLS_FRONTS; i++)
		if ((n->fronts & 1U << i) != 0)
			sample(w, "front", tls_front_names[i], (double)n->expires_s);
	metrics_family(w, "kova_tls_handshakes", METRIC_COUNTER, NULL,
		       "TLS connections that were opened, with a full handshake or by a ticket.");
	sample(w, "kind", "full", (double)(n->counters.opened - n->counters.resumed));
	sample(w, "kind", "resumed", (double)n->counters.resumed);
	metrics_family(w, "kova_tls_failures", METRIC_COUNTER, NULL,
		       "TLS connections that were not opened, or broke, by reason.");
	for (unsigned i = 0; i < TLS_FAILURE_KINDS; i++)
		sample(w, "reason", tls_failure_label((enum tls_failure)i),
		       (double)n->counters.failed[i]);
}
