#include <criterion/criterion.h>

#include "core/limit.h"

#define SECOND UINT64_C(1000000)
#define DAY (86400 * SECOND)

static struct limit bucket(uint64_t limit, uint64_t per_us, uint64_t burst)
{
	struct limit l = {.limit = limit, .per_us = per_us, .burst = burst};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

Test(limit, a_rate_is_a_fraction_in_lowest_terms)
{
	const uint64_t cases[][4] = {
		{10, SECOND, 10, 1},
		{1, 60 * SECOND, 1, 60},
		{3, 7 * SECOND, 3, 7},
		{100, 60 * SECOND, 5, 3},
		{7, DAY, 7, 86400},
		{1000000, SECOND, 1000000, 1},
		{3, 7000, 3000, 7},
		{0, SECOND, 0, 1},
		{LIMIT_MAX, 100000, 10000000000, 1},
		{1, LIMIT_PER_MAX_US, 1, 34560000},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct limit l = bucket(cases[i][0], cases[i][1], 1);

		cr_assert_eq(l.quantum_ut, cases[i][2], "case %zu", i);
		cr_assert_eq(l.quantum_us, cases[i][3], "case %zu", i);
	}
}

Test(limit, a_rate_beyond_all_bursts_is_cut)
{
	struct limit l = bucket(LIMIT_MAX, 1000, LIMIT_MAX);

	cr_assert_eq(l.quantum_ut, LIMIT_RATE_MAX_UT_PER_US);
	cr_assert_eq(l.quantum_us, 1);
	cr_assert_eq(limit_horizon_us(&l), 100000);
}

Test(limit, the_scale_divides_every_debt)
{
	for (uint64_t limit = 1; limit < 3000; limit++) {
		struct limit l = bucket(limit, SECOND, 5);

		cr_assert_eq(l.quantum_ut % l.scale_ut, 0);
		cr_assert_eq(l.cap_ut % l.scale_ut, 0);
		cr_assert_eq(LIMIT_UT % l.scale_ut, 0);
	}
	cr_assert_eq(bucket(10, SECOND, 1).scale_ut, 10);
	cr_assert_eq(bucket(1000, SECOND, 1).scale_ut, 1000);
	cr_assert_eq(bucket(7, SECOND, 1).scale_ut, 1);
}

Test(limit, what_is_out_of_range_is_refused)
{
	const struct limit bad[] = {
		{.limit = LIMIT_MAX + 1ULL, .per_us = SECOND, .burst = 1},
		{.limit = 1, .per_us = 999, .burst = 1},
		{.limit = 1, .per_us = LIMIT_PER_MAX_US + 1, .burst = 1},
		{.limit = 1, .per_us = SECOND, .burst = 0},
		{.limit = 1, .per_us = SECOND, .burst = LIMIT_MAX + 1ULL},
		{.algorithm = ALGORITHM_N, .limit = 1, .per_us = SECOND, .burst = 1},
		{.algorithm = ALGORITHM_SLIDING_WINDOW, .limit = 1, .per_us = 0},
		{.algorithm = ALGORITHM_CONCURRENCY, .limit = 1, .hold_us = 999},
		{.algorithm = ALGORITHM_CONCURRENCY, .limit = 1, .hold_us = LIMIT_PER_MAX_US + 1},
		{.algorithm = ALGORITHM_GCRA, .limit = 1, .per_us = LIMIT_PER_MAX_US, .burst = 92},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct limit l = bad[i];

		cr_assert_eq(limit_init(&l), KOVA_ERANGE, "case %zu", i);
	}
}

Test(limit, an_emission_interval_is_rounded_up)
{
	struct limit l = {
		.algorithm = ALGORITHM_GCRA, .limit = 3, .per_us = 7 * SECOND, .burst = 3};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	cr_assert_eq(l.interval_us, 2333333);
	cr_assert_eq(l.interval_millionths, 333334);
	l.limit = LIMIT_MAX - 1;
	l.per_us = LIMIT_PER_MAX_US;
	cr_assert_eq(limit_init(&l), KOVA_OK);
	cr_assert_lt(l.interval_millionths, 1000000);
	cr_assert_geq((double)l.interval_us + (double)l.interval_millionths / 1e6,
		      (double)l.per_us / (double)l.limit);
}

Test(limit, a_counter_s_window_in_ticks_keeps_products_exact)
{
	const uint64_t per_us[] = {1000, 7777, SECOND, 4000001, 60 * SECOND, LIMIT_PER_MAX_US};

	for (size_t i = 0; i < sizeof per_us / sizeof *per_us; i++) {
		struct limit l = {
			.algorithm = ALGORITHM_SLIDING_COUNTER, .limit = 1, .per_us = per_us[i]};

		cr_assert_eq(limit_init(&l), KOVA_OK);
		cr_assert_lt(l.window_ticks * LIMIT_MAX, UINT64_C(1) << 53);
		cr_assert_geq(l.window_ticks * l.tick_us, l.per_us);
		cr_assert_lt((l.window_ticks - 1) * l.tick_us, l.per_us);
	}
}

Test(limit, the_default_burst_is_what_comes_in_two_seconds)
{
	cr_assert_eq(limit_default_burst(10, 1000000), 20);
	cr_assert_eq(limit_default_burst(3, 7000000), 1, "at least one");
	cr_assert_eq(limit_default_burst(0, 1000000), 1);
	cr_assert_eq(limit_default_burst(50, 10000000), 10);
	cr_assert_eq(limit_default_burst(LIMIT_MAX, LIMIT_PER_MIN_US), LIMIT_MAX,
		     "at most what a burst may be");
}

Test(limit, capacity_and_horizon)
{
	const uint64_t edge[] = {5, 105, 300};
	struct limit l = bucket(10, SECOND, 25);

	cr_assert_eq(limit_capacity(&l), 25);
	cr_assert_eq(limit_horizon_us(&l), 2500000);
	l = bucket(0, SECOND, 25);
	cr_assert_eq(limit_capacity(&l), 0);
	cr_assert_eq(limit_horizon_us(&l), 0);
	l = bucket(1, LIMIT_PER_MAX_US, LIMIT_MAX);
	cr_assert_eq(limit_horizon_us(&l), LIMIT_FOREVER_US);
	l = (struct limit){
		.algorithm = ALGORITHM_GCRA, .limit = 3, .per_us = 7 * SECOND, .burst = 3};
	cr_assert_eq(limit_init(&l), KOVA_OK);
	cr_assert_eq(limit_horizon_us(&l), 7 * SECOND + 1, "the interval is rounded up");
	l = (struct limit){
		.algorithm = ALGORITHM_CALENDAR, .limit = 3, .edges = {.edge_us = edge, .n = 3}};
	cr_assert_eq(limit_init(&l), KOVA_OK);
	cr_assert_eq(limit_capacity(&l), 3);
	cr_assert_eq(limit_horizon_us(&l), 100);
	l = (struct limit){.algorithm = ALGORITHM_CONCURRENCY, .limit = 8, .hold_us = 5000};
	cr_assert_eq(limit_init(&l), KOVA_OK);
	cr_assert_eq(limit_horizon_us(&l), 5000);
}
