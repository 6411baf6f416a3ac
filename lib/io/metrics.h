/*
 * Writing OpenMetrics 1.0 (and the older Prometheus text, 0.0.4) from numbers that their owners
 * keep: a collector is a function that writes its families each time somebody asks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM, METRIC_INFO };

#define METRICS_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define METRICS_TEXT "text/plain; version=0.0.4; charset=utf-8"

struct metrics_writer {
	struct buf *out;
	bool openmetrics; /* else text/plain; version=0.0.4 */

	const char *family; /* started last; borrowed */
	enum metric_type type;
};

struct metric_label {
	const char *name;
	const char *value; /* escaped by the writer */
};

/*
 * Starts a family: `name` without `_total` or `_info`, and ending in `_<unit>` when `unit` is not
 * NULL. The strings must outlive the family's samples. A family is started once, and all its
 * samples follow.
 */
void metrics_family(struct metrics_writer *w, const char *name, enum metric_type type,
		    const char *unit, const char *help);
/* A sample of the family started last; a counter's gets `_total`, an info's `_info` (value 1). */
void metrics_sample(struct metrics_writer *w, const struct metric_label *labels, unsigned n_labels,
		    double value);

/* A family of one sample without labels. */
void metrics_number(struct metrics_writer *w, const char *name, enum metric_type type,
		    const char *unit, const char *help, double value);

/* The same of several, from a table. */
struct metric_number {
	const char *name;
	enum metric_type type;
	const char *help;
	uint64_t value;
};
void metrics_numbers(struct metrics_writer *w, const struct metric_number *numbers, unsigned n);

/* Latency histogram with fixed bounds in seconds (50 µs to 10 s), filled by its owner. */
enum { METRICS_BUCKETS = 14 };
struct metrics_histogram {
	uint64_t bucket[METRICS_BUCKETS + 1]; /* last: +Inf; not cumulative */
	double sum_s;
};
/* The greatest value of bucket `i` < METRICS_BUCKETS, seconds. */
double metrics_bound_s(unsigned i);
void metrics_observe(struct metrics_histogram *h, double seconds);
void metrics_histogram(struct metrics_writer *w, const struct metric_label *labels,
		       unsigned n_labels, const struct metrics_histogram *h);

typedef void metrics_collector(struct metrics_writer *w, const void *data);
/* What the `n` collectors write of `data`, in their order, with the closing `# EOF` for OpenMetrics. */
void metrics_write(struct buf *out, bool openmetrics, metrics_collector *const *collectors,
		   unsigned n, const void *data);
