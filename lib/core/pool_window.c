#include "core/pool_window.h"

void pool_window_push(struct pool_window *w, unsigned size, bool happened)
{
	uint64_t bits = (uint64_t)w->bits << 1 | happened;

	w->bits = (uint32_t)(bits & ((UINT64_C(1) << size) - 1));
	w->n = (uint8_t)(w->n < size ? w->n + 1U : size);
}

unsigned pool_window_count(const struct pool_window *w)
{
	unsigned n = 0;

	for (uint32_t bits = w->bits; bits > 0; bits &= bits - 1)
		n++;
	return n;
}

double pool_window_rate(const struct pool_window *w, unsigned size)
{
	double least = 1 / (double)size, rate;

	if (w->n == 0)
		return 1;
	rate = ((double)w->n - pool_window_count(w)) / w->n;
	return rate > least ? rate : least;
}
