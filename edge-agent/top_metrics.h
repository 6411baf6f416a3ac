/* The keys of which most is refused, in /metrics. */
#pragma once

#include "io/metrics.h"

struct top_keys;

void top_metrics_write(struct metrics_writer *w, const struct top_keys *t);
