/* The hybrid logical clock, and the bounds of the paper (Kulkarni et al. 2014), by messages among clocks that differ. */
#include <criterion/criterion.h>

#include "core/hlc.h"
#include "dice.h"

Test(hlc, follows_the_wall_clock_and_never_repeats)
{
	struct hlc h = {0};
	uint64_t first = hlc_now(&h, 1000);

	cr_expect_eq(hlc_ms(first), 1000);
	cr_expect_eq(hlc_now(&h, 1000), first + 1);
	cr_expect_eq(hlc_now(&h, 400), first + 2, "a clock that went back");
	cr_expect_eq(hlc_now(&h, 1001), UINT64_C(1001) << HLC_COUNTER_BITS);
}

Test(hlc, a_double_holds_every_stamp)
{
	struct hlc h = {0};
	const uint64_t in_2109_ms = UINT64_C(4386528000000);

	cr_expect_lt(hlc_now(&h, in_2109_ms), UINT64_C(1) << 53);
}

Test(hlc, a_used_up_counter_carries)
{
	struct hlc h = {.last = (UINT64_C(5) << HLC_COUNTER_BITS) | 0x7ff};

	cr_expect_eq(hlc_now(&h, 5), UINT64_C(6) << HLC_COUNTER_BITS);
}

Test(hlc, a_stamp_too_far_ahead_is_refused)
{
	struct hlc h = {0};

	cr_expect(hlc_hear(&h, UINT64_C(1250) << HLC_COUNTER_BITS, 1000, 250));
	cr_expect_eq(hlc_now(&h, 1000), (UINT64_C(1250) << HLC_COUNTER_BITS) + 1);
	cr_expect_not(hlc_hear(&h, UINT64_C(1251) << HLC_COUNTER_BITS, 1000, 250));
	cr_expect_eq(hlc_now(&h, 1000), (UINT64_C(1250) << HLC_COUNTER_BITS) + 2, "unchanged");
}

enum { NODES = 5, EVENTS = 200000, SKEW_MS = 200 };

/*
 * Nodes whose clocks are up to SKEW_MS apart and send each other what they know. What happened before has the smaller
 * stamp; a stamp's ms are never behind the node's clock, nor further ahead of it than the clocks are apart; and the counter
 * stays small.
 */
Test(hlc, the_bounds_of_the_paper)
{
	struct dice d = {7};
	struct hlc h[NODES] = {{0}};
	int64_t off_ms[NODES];
	uint64_t true_ms = 1796000000000, in_flight = 0;

	for (int i = 0; i < NODES; i++)
		off_ms[i] = (int64_t)dice_below(&d, SKEW_MS + 1);
	for (int i = 0; i < EVENTS; i++) {
		unsigned node = (unsigned)dice_below(&d, NODES);
		uint64_t now_ms, before = h[node].last, stamp;

		if (dice_below(&d, 20) == 0)
			true_ms += dice_below(&d, 30);
		now_ms = true_ms + (uint64_t)off_ms[node];
		if (dice_below(&d, 2) == 0) {
			cr_assert(hlc_hear(&h[node], in_flight, now_ms, SKEW_MS), "within skew");
			before = in_flight > before ? in_flight : before;
		}
		stamp = hlc_now(&h[node], now_ms);
		cr_assert_gt(stamp, before);
		cr_assert_geq(hlc_ms(stamp), now_ms, "never behind the node's clock");
		cr_assert_leq(hlc_ms(stamp), true_ms + SKEW_MS, "no further ahead than any clock");
		cr_assert_lt(stamp % (UINT64_C(1) << HLC_COUNTER_BITS), 1000,
			     "some hundred events in so many ms");
		if (dice_below(&d, 3) == 0)
			in_flight = stamp;
	}
}
