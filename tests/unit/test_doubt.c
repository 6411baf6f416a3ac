/*
 * I1 where the clock is doubted now and then, of every algorithm: random takes, in doubt and not, by a clock that goes on;
 * afterwards every interval is checked. And in doubt nothing is refilled, but what is there can be taken.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/leased_bucket.h"
#include "core/limiter.h"
#include "lease_schedule.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

enum { STEPS = 400, EDGES = 4000 };

struct world {
	struct limit limit;
	struct limiter_state state; /* of all but token buckets */
	struct leased_bucket bucket;
	struct dice dice;
	uint64_t now_us;
	uint64_t edge[EDGES];
	struct spent spent[STEPS];
	size_t n_spent;
};

static struct world *world_new(enum algorithm a, unsigned seed)
{
	struct world *w = calloc(1, sizeof *w);
	struct limit *l = &w->limit;

	w->dice.state = seed;
	w->now_us = START;
	*l = (struct limit){.algorithm = a, .limit = 1 + dice_below(&w->dice, 40)};
	l->per_us = 1000 * (1 + dice_below(&w->dice, 3000));
	l->hold_us = l->per_us;
	l->burst = 1 + dice_below(&w->dice, 30);
	for (unsigned i = 0; i < EDGES; i++)
		w->edge[i] = START + (i - 1) * l->per_us;
	l->edges = (struct calendar_edges){.edge_us = w->edge, .n = EDGES};
	cr_assert_eq(limit_init(l), KOVA_OK);
	cr_assert(limiter_init(&w->state, l, w->now_us, false));
	return w;
}

static void world_free(struct world *w)
{
	limiter_release(&w->state);
	free(w);
}

static struct limiter_verdict take(struct world *w, bool doubted, uint64_t cost)
{
	struct limiter_verdict v;

	if (w->limit.algorithm == ALGORITHM_TOKEN_BUCKET)
		leased_bucket_take(&w->bucket, &w->limit, w->now_us, doubted, cost, &v);
	else
		(doubted ? limiter_admit_doubted : limiter_admit)(&w->limit, &w->state, w->now_us,
								  cost, &v);
	if (v.allowed)
		w->spent[w->n_spent++] = (struct spent){w->now_us, cost};
	return v;
}

static void pass(struct world *w)
{
	w->now_us += dice_below(&w->dice, dice_below(&w->dice, 10) == 0 ? 3 * w->limit.per_us
									: w->limit.per_us / 5);
}

/* Burst, and what is refilled at one each interval, rounded up. */
static bool within_gcra(const struct world *w)
{
	const struct limit *l = &w->limit;

	for (size_t i = 0; i < w->n_spent; i++) {
		uint64_t sum = 0;

		for (size_t j = i; j < w->n_spent; j++) {
			sum += w->spent[j].cost;
			if (sum > l->burst && (sum - l->burst) * l->interval_us >
						      w->spent[j].at_us - w->spent[i].at_us)
				return false;
		}
	}
	return true;
}

/* Windows that are aligned: of any others it is an estimate. */
static bool within_counter(const struct world *w)
{
	size_t i = 0;

	while (i < w->n_spent) {
		uint64_t window = w->spent[i].at_us / w->limit.per_us, sum = 0;

		for (; i < w->n_spent && w->spent[i].at_us / w->limit.per_us == window; i++)
			sum += w->spent[i].cost;
		if (sum > w->limit.limit)
			return false;
	}
	return true;
}

static bool within(const struct world *w)
{
	switch (w->limit.algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
		return spent_within_bucket(w->spent, w->n_spent, &w->limit);
	case ALGORITHM_GCRA:
		return within_gcra(w);
	case ALGORITHM_SLIDING_COUNTER:
		return within_counter(w);
	case ALGORITHM_CALENDAR:
		return spent_within_calendar(w->spent, w->n_spent, &w->limit);
	default: /* each permit is held for `per` */
		return spent_within_windows(w->spent, w->n_spent, &w->limit);
	}
}

Test(doubt, no_interval_admits_more)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		for (unsigned seed = 1; seed <= 400; seed++) {
			struct world *w = world_new((enum algorithm)a, seed);

			for (int i = 0; i < STEPS; i++) {
				pass(w);
				take(w, dice_below(&w->dice, 2 + seed % 4) == 0,
				     1 + dice_below(&w->dice, 3));
			}
			cr_assert(within(w), "algorithm %d seed %u", a, seed);
			world_free(w);
		}
	}
}

/* As long as it lasts; and the first who does not doubt has all of the refill. */
Test(doubt, nothing_is_refilled_and_what_is_there_is_taken)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		for (unsigned seed = 1; seed <= 200; seed++) {
			struct world *w = world_new((enum algorithm)a, seed);
			uint64_t capacity = limit_capacity(&w->limit), left = capacity;

			if (capacity > 1) {
				left = take(w, false, 1).remaining;
				w->now_us += 100000; /* what a bucket refills in doubt, once */
			}
			for (int i = 0; i < 50; i++) {
				struct limiter_verdict v = take(w, true, 1);

				cr_assert(v.allowed == (left > 0) || a == ALGORITHM_TOKEN_BUCKET,
					  "algorithm %d seed %u", a, seed);
				cr_assert(v.allowed || v.wait_us >= 100000 ||
					  a == ALGORITHM_CALENDAR);
				left = v.remaining;
				pass(w);
			}
			w->now_us += 3 * w->limit.per_us * (capacity + 1);
			cr_assert_eq(take(w, false, 1).remaining, capacity - 1,
				     "algorithm %d seed %u", a, seed);
			world_free(w);
		}
	}
}
