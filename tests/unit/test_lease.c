#include <criterion/criterion.h>

#include "core/lease.h"
#include "lease_heat.h"

Test(lease, a_steady_demand_is_seen_as_its_rate)
{
	struct lease_demand d = {0};
	uint64_t now_us = 1000000;

	for (int i = 0; i < 2000; i++, now_us += 1000) /* 5 each ms: 5000/s */
		lease_demand_add(&d, now_us, 5);
	cr_assert_geq(lease_demand_rate(&d, now_us), 4900);
	cr_assert_leq(lease_demand_rate(&d, now_us), 5100);
}

Test(lease, a_demand_that_ended_is_forgotten)
{
	struct lease_demand d = {0};

	for (uint64_t t = 0; t < 1000000; t += 100)
		lease_demand_add(&d, t, 1);
	cr_assert_eq(lease_demand_rate(&d, 1000000 + 3 * LEASE_WINDOW_US), 0);
	lease_demand_add(&d, 3000000, 1);
	cr_assert_lt(lease_demand_rate(&d, 3000000), 100);
}

Test(lease, a_peak_is_seen_in_its_own_window)
{
	struct lease_demand d = {0};

	lease_demand_add(&d, 1000000, 1);
	for (int i = 0; i < 1000; i++)
		lease_demand_add(&d, 1000500, 1);
	cr_assert_geq(lease_demand_rate(&d, 1001000), 10000);
}

Test(lease, small_limits_and_small_demands_get_none)
{
	cr_assert_eq(lease_size(10, 500000, 0, 1000000, 1), 0); /* 6 in its time */
	cr_assert_eq(lease_size(1000000, 500000, 0, 20, 1), 0); /* limit 10/s, burst 20 */
	cr_assert_eq(lease_size(1000000, 500000, 19, 1000000, 1), 0);
}

Test(lease, never_more_than_a_fair_part_or_the_bound)
{
	cr_assert_eq(lease_size(1000000, 500000, 0, 1000, 1), 500);
	cr_assert_eq(lease_size(1000000, 500000, 0, 1000, 4), 200);
	cr_assert_eq(lease_size(1000000, 500000, 100, 1000, 1), 100);
	cr_assert_eq(lease_size(1000, 500000, 0, 1000000, 1), 625);
	cr_assert_gt(lease_size(UINT64_MAX, 10000000, 0, LIMIT_MAX, 1), 0);
}

Test(lease, renews_before_it_runs_dry)
{
	cr_assert(lease_renews(24, 100, 400000, 500000, 99));
	cr_assert(lease_renews(90, 100, 100000, 500000, 99));
	cr_assert_not(lease_renews(90, 100, 400000, 500000, 0));
	cr_assert(lease_renews(40, 100, 400000, 500000, 0), "by chance");
	cr_assert_not(lease_renews(40, 100, 400000, 500000, 50));
}

Test(lease, on_a_long_way_it_renews_while_there_is_enough_for_it)
{
	cr_assert_not(lease_renews_ahead(31, 100, 400000, 30, 150000));
	cr_assert(lease_renews_ahead(30, 100, 400000, 30, 150000));
	cr_assert(lease_renews_ahead(90, 100, 150000, 30, 150000));
	cr_assert_not(lease_renews_ahead(51, 100, 400000, 1000, 150000), "not before half of it");
	cr_assert(lease_renews_ahead(50, 100, 400000, 1000, 150000));
}

Test(lease, jitter_only_shortens)
{
	for (uint32_t r = 0; r < 5000; r++) {
		cr_assert_leq(lease_jitter(500000, r), 500000);
		cr_assert_gt(lease_jitter(500000, r), 449999);
	}
}

/* `cost` each ms for so long. */
static uint64_t ask(struct lease_demand *d, uint64_t from_us, uint64_t us, uint64_t cost)
{
	for (uint64_t t = from_us; t < from_us + us; t += 1000)
		lease_demand_add(d, t, cost);
	return from_us + us;
}

Test(lease, busy_is_who_is_asked_for_often_in_three_windows_in_a_row)
{
	struct lease_demand d = {0};
	uint64_t t = ask(&d, 1000000, 3 * LEASE_WINDOW_US, 1);

	cr_assert_not(lease_demand_is_busy(&d, t));
	t = ask(&d, t, 2000, 1);
	cr_assert(lease_demand_is_busy(&d, t));
	cr_assert_not(lease_demand_is_busy(&d, t + LEASE_WINDOW_US),
		      "nobody asked in this one yet");
}

Test(lease, a_burst_is_not_busy_nor_are_few_requests_for_much)
{
	struct lease_demand d = {0};

	for (int i = 0; i < 100000; i++)
		lease_demand_add(&d, 1000000, 1);
	for (uint64_t i = 1; i < 10; i++)
		lease_demand_add(&d, 1000000 + i * LEASE_WINDOW_US, 1000);
	cr_assert_not(lease_demand_is_busy(&d, 1000000 + 9 * LEASE_WINDOW_US));
}

static bool is_busy_after_a_pause(uint64_t pause_us)
{
	struct lease_demand d = {0};
	uint64_t t = ask(&d, 1000000, 20 * LEASE_WINDOW_US, 5);

	t = ask(&d, t + pause_us, 1000, 5);
	return lease_demand_is_busy(&d, t);
}

Test(lease, a_short_pause_is_forgiven_to_who_was_busy_for_long)
{
	cr_assert(is_busy_after_a_pause(2 * LEASE_WINDOW_US));
	cr_assert_not(is_busy_after_a_pause(4 * LEASE_WINDOW_US));
	cr_assert_not(is_busy_after_a_pause(4000 * LEASE_WINDOW_US));
}

Test(lease, no_demand_is_too_large)
{
	struct lease_demand d = {0};

	for (uint64_t i = 0; i < 20; i++)
		for (uint64_t t = 0; t < 10; t++)
			lease_demand_add(&d, 1000000 + i * LEASE_WINDOW_US, LIMIT_MAX);
	cr_assert_geq(lease_demand_rate(&d, 1000000 + 20 * LEASE_WINDOW_US), 200000000);
}

Test(lease, a_warm_key_of_which_nothing_is_known_gets_the_least_for_the_longest)
{
	struct lease_warm lease = lease_warm(0, 0, LIMIT_MAX, 1);

	cr_assert_eq(lease.amount, LEASE_WORTH);
	cr_assert_eq(lease_warm_ttl_us(lease.span), 16000000);
}

/* How long a lease lasts for what it is spent in. */
static double slack(uint64_t rate)
{
	struct lease_warm lease = lease_warm(rate, 1000000, LIMIT_MAX, 1);

	cr_assert_leq(lease.amount, LEASE_WARM_MAX);
	cr_assert_geq(lease.amount, LEASE_WORTH);
	return (double)lease_warm_ttl_us(lease.span) * 1e-6 * (double)rate / lease.amount;
}

Test(lease, a_warm_keys_lease_is_spent_before_its_end_and_lasts_not_much_longer)
{
	for (uint64_t rate = 2; rate <= 300; rate++) {
		cr_assert_geq(slack(rate), 1.3, "%d a second", (int)rate);
		cr_assert_leq(slack(rate), 2.8, "%d a second", (int)rate);
	}
	cr_assert_eq(lease_warm(1, 1000000, LIMIT_MAX, 1).amount, 0, "12 in its time");
	cr_assert_eq(lease_warm(LIMIT_MAX, 0, LIMIT_MAX, 1).amount, LEASE_WARM_MAX);
}

Test(lease, warm_keys_have_a_small_part_of_a_limit_together)
{
	cr_assert_eq(lease_warm(100, 1000000, 1000, 1).amount, 62);
	cr_assert_eq(lease_warm(100, 1000000, 1000, 3).amount, 20);
	cr_assert_eq(lease_warm(100, 1000000, 1000, 4).amount, 0);
	cr_assert_eq(lease_warm(0, 0, 319, 1).amount, 0);
}

static struct lease_warmth warmth;

/* Whether the key is warm after so many requests, so far apart. */
static bool is_warm(uint64_t hash, unsigned n, uint64_t apart_us)
{
	bool is = false;

	for (unsigned i = 0; i < n; i++)
		is = lease_warmth_add(&warmth, hash, 1000000000 + i * apart_us);
	return is;
}

Test(lease, warm_is_who_asks_again_and_again)
{
	const uint64_t hash = UINT64_C(0x123456789abcdef0);

	cr_assert(is_warm(hash, 4, 1000000));
	cr_assert_not(is_warm(hash, 3, 1000000), "it begins anew");
	memset(&warmth, 0, sizeof warmth);
	cr_assert_not(is_warm(hash, 1000, 100), "a burst");
	memset(&warmth, 0, sizeof warmth);
	cr_assert_not(is_warm(hash, 1000, 2500000));
}

Test(lease, warm_keys_are_told_apart_as_far_as_there_is_room)
{
	unsigned warm = 0;

	memset(&warmth, 0, sizeof warmth);
	for (unsigned round = 0; round < 4; round++)
		for (uint64_t key = 0; key < LEASE_WARMTH_WAYS; key++)
			warm += lease_warmth_add(&warmth, (key + 1) << 50,
						 1000000000 + round * UINT64_C(1000000));
	cr_assert_eq(warm, LEASE_WARMTH_WAYS);
	for (unsigned round = 0; round < 40; round++)
		cr_assert_not(lease_warmth_add(&warmth, (round + UINT64_C(1)) << 50,
					       1000000000 + round * UINT64_C(1000000)),
			      "each is another one");
}
