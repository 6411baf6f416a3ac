#include "io/metrics.h"
#include "rlqs.h"

static void sample(struct metrics_writer *w, const char *label, const char *value, uint64_t number)
{
	struct metric_label labels[] = {{label, value}};

	metrics_sample(w, labels, 1, (double)number);
}

void rlqs_metrics_write(struct metrics_writer *w, const struct rlqs_counters *n)
{
	metrics_family(w, "kova_rlqs_streams", METRIC_GAUGE, NULL,
		       "Open streams of Envoy's rate limit quota service.");
	metrics_sample(w, NULL, 0, (double)n->streams);
	metrics_family(w, "kova_rlqs_buckets", METRIC_GAUGE, NULL,
		       "Buckets that these streams report on, each stream's counted.");
	metrics_sample(w, NULL, 0, (double)n->buckets);
	metrics_family(w, "kova_rlqs_reports", METRIC_COUNTER, NULL, "Reports of a bucket.");
	metrics_sample(w, NULL, 0, (double)n->reports);
	metrics_family(w, "kova_rlqs_assignments", METRIC_COUNTER, NULL,
		       "What clients were told of a bucket.");
	sample(w, "kind", "allowance", n->allowances);
	sample(w, "kind", "allow", n->allows);
	sample(w, "kind", "deny", n->denies);
	sample(w, "kind", "abandon", n->abandons);
	metrics_family(w, "kova_rlqs_granted", METRIC_COUNTER, NULL,
		       "Requests that clients were allowed by allowances.");
	metrics_sample(w, NULL, 0, (double)n->granted);
	metrics_family(w, "kova_rlqs_unassigned", METRIC_COUNTER, NULL,
		       "Requests that clients admitted without an allowance.");
	metrics_sample(w, NULL, 0, (double)n->unassigned);
	metrics_family(
		w, "kova_rlqs_cut", METRIC_COUNTER, NULL,
		"Buckets and streams denied by a bound, and messages not sent to clients that "
		"don't read.");
	sample(w, "reason", "too_many", n->too_many);
	sample(w, "reason", "unusable", n->unusable);
	sample(w, "reason", "unleasable", n->unleasable);
	sample(w, "reason", "flood", n->flooded);
	sample(w, "reason", "stalled", n->stalled);
}
