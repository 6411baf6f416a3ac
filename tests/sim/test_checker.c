/* The simulator's checker finds what trying every interval finds, and nothing else. */
#include <stdio.h>
#include <stdlib.h>

#include "checker.h"
#include "dice.h"

enum { N = 60, CASES = 4000 };
#define START UINT64_C(1796000000000000)

struct history {
	struct limit limit;
	uint64_t at_us[N], cost[N];
};

static void draw(struct history *h, struct dice *d, enum algorithm a)
{
	uint64_t at_us = START;

	h->limit = (struct limit){.algorithm = a,
				  .limit = 1 + dice_below(d, 20),
				  .per_us = 1000 * (1 + dice_below(d, 50)),
				  .burst = 1 + dice_below(d, 30)};
	if (limit_init(&h->limit) != KOVA_OK)
		abort();
	for (int i = 0; i < N; i++) {
		at_us += dice_below(d, 3 * h->limit.per_us / h->limit.limit);
		if (dice_below(d, 20) == 0)
			at_us -= dice_below(d, 2 * h->limit.per_us);
		h->at_us[i] = at_us;
		h->cost[i] = 1 + dice_below(d, 2);
	}
}

/* How far the clock moved on from `first` to `last`. */
static uint64_t length_us(const struct history *h, int first, int last)
{
	uint64_t seen_us = h->at_us[first];

	for (int i = first; i <= last; i++)
		seen_us = h->at_us[i] > seen_us ? h->at_us[i] : seen_us;
	return seen_us - h->at_us[first];
}

static bool exceeds_rate(const struct history *h, int first, int last)
{
	const struct limit *l = &h->limit;
	uint64_t from_us = h->at_us[first], to_us = from_us + length_us(h, first, last), sum = 0;

	for (int i = first; i <= last; i++)
		sum += h->cost[i];
	if (l->algorithm == ALGORITHM_TOKEN_BUCKET)
		return sum * LIMIT_UT >
		       l->cap_ut +
			       (to_us / l->quantum_us - from_us / l->quantum_us) * l->quantum_ut;
	return sum * l->per_us > l->burst * l->per_us + (to_us - from_us) * l->limit;
}

static bool exceeds_window(const struct history *h, int last)
{
	uint64_t sum = 0;

	for (int i = 0; i <= last; i++)
		sum += length_us(h, i, last) < h->limit.per_us ? h->cost[i] : 0;
	return sum > h->limit.limit;
}

/* Whether an interval that ends with admission `last` exceeds the limit. */
static bool exceeded(const struct history *h, int last)
{
	if (h->limit.algorithm == ALGORITHM_SLIDING_WINDOW)
		return exceeds_window(h, last);
	for (int first = 0; first <= last; first++)
		if (exceeds_rate(h, first, last))
			return true;
	return false;
}

static bool agrees(const struct history *h, unsigned *ret_found)
{
	struct checker c;
	bool same = true;

	checker_init(&c, &h->limit, false, START);
	for (int i = 0; i < N && same; i++) {
		bool found = !checker_admit(&c, h->at_us[i], h->cost[i]);

		same = found == exceeded(h, i);
		if (!found)
			continue;
		(*ret_found)++;
		break;
	}
	checker_release(&c);
	return same;
}

int main(void)
{
	static const enum algorithm any[] = {ALGORITHM_TOKEN_BUCKET, ALGORITHM_GCRA,
					     ALGORITHM_SLIDING_WINDOW};
	unsigned found = 0;

	for (unsigned seed = 1; seed <= CASES; seed++) {
		struct dice d = {seed};
		struct history h;

		draw(&h, &d, any[seed % 3]);
		if (!agrees(&h, &found)) {
			printf("FAILED: seed %u\n", seed);
			return EXIT_FAILURE;
		}
	}
	printf("%u of %u histories exceed their limit\n", found, CASES);
	return found > CASES / 4 && found < CASES ? EXIT_SUCCESS : EXIT_FAILURE;
}
