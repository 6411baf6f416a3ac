/* Without the keys' names, which are the callers' own. */
#include "top_metrics.h"

#include <stdio.h>

#include "top_keys.h"

enum { TOP_RANKS = 10 };

static void write_policy(struct metrics_writer *w, const struct top_keys *t, const char *policy)
{
	struct top_key keys[TOP_RANKS];
	unsigned n = top_keys_list(t, TOP_REFUSED, slice_of(policy), keys, TOP_RANKS);

	for (unsigned i = 0; i < n; i++) {
		char rank[12];
		const struct metric_label labels[] = {{"policy", policy}, {"rank", rank}};

		snprintf(rank, sizeof rank, "%u", i + 1);
		metrics_sample(w, labels, 2, (double)keys[i].of.count);
	}
}

void top_metrics_write(struct metrics_writer *w, const struct top_keys *t)
{
	const char *policy;

	metrics_family(w, "kova_top_refused", METRIC_GAUGE, NULL,
		       "What was refused lately of the key of which most was (rank 1), of the next "
		       "one, and so on: costs, which count half every five minutes.");
	for (unsigned i = 0; (policy = top_keys_policy(t, i)) != NULL; i++)
		write_policy(w, t, policy);
	metrics_number(w, "kova_top_overflows", METRIC_COUNTER, NULL,
		       "Decisions that are not among those, since 256 other policies were.",
		       (double)top_keys_overflows(t));
}
