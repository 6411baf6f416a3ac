#include "io/conn_metrics.h"

static void sample(struct metrics_writer *w, const char *name, const char *value, uint64_t number)
{
	const struct metric_label label = {name, value};

	metrics_sample(w, &label, 1, (double)number);
}

void conn_metrics_write(struct metrics_writer *w, uint64_t now, uint64_t most,
			const struct conn_counters *n)
{
	metrics_number(w, "kova_connections", METRIC_GAUGE, NULL, "Client connections now.",
		       (double)now);
	metrics_number(w, "kova_connections_max", METRIC_GAUGE, NULL,
		       "Most client connections at once.", (double)most);
	metrics_number(w, "kova_connections_accepted", METRIC_COUNTER, NULL,
		       "Client connections served.", (double)n->accepted);
	metrics_family(w, "kova_connections_refused", METRIC_COUNTER, NULL,
		       "Client connections turned away.");
	sample(w, "reason", "max_clients", n->refused_full);
	sample(w, "reason", "accept_error", n->accept_errors);
	metrics_family(w, "kova_connections_cut", METRIC_COUNTER, NULL,
		       "Client connections closed by this end.");
	sample(w, "reason", "slow_reader", n->closed_slow);
	sample(w, "reason", "timeout", n->closed_timeout);
	sample(w, "reason", "memory", n->closed_memory);
	metrics_number(w, "kova_reads_paused", METRIC_COUNTER, NULL,
		       "How often reading from a client stopped for backpressure.",
		       (double)n->paused);
	metrics_family(w, "kova_client_bytes", METRIC_COUNTER, "bytes",
		       "Bytes from and to clients.");
	sample(w, "direction", "in", n->bytes_in);
	sample(w, "direction", "out", n->bytes_out);
}
