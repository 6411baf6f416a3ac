/* The last outcomes of an endpoint, or whatever else either happened or did not: at most POOL_WINDOW_MAX of them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* All zeros: nothing happened. */
struct pool_window {
	uint32_t bits; /* the latest is bit 0; 1: it happened */
	uint8_t n;     /* how many are known */
};

/* `size`: how many are remembered, 1..POOL_WINDOW_MAX; it may differ from call to call. */
void pool_window_push(struct pool_window *w, unsigned size, bool happened);
/* How often it happened. */
unsigned pool_window_count(const struct pool_window *w);
/* The part in which it did not; 1 of an empty window, else 1 / size at least. */
double pool_window_rate(const struct pool_window *w, unsigned size);
