#include <criterion/criterion.h>

#include "core/hlc.h"

Test(hlc, follows_the_wall_clock_and_never_repeats)
{
	struct hlc h = {0};
	uint64_t first = hlc_now(&h, 1000);

	cr_expect_eq(hlc_ms(first), 1000);
	cr_expect_eq(hlc_now(&h, 1000), first + 1);
	cr_expect_eq(hlc_now(&h, 400), first + 2, "a clock that went back");
	cr_expect_eq(hlc_now(&h, 1001), UINT64_C(1001) << HLC_COUNTER_BITS);
}

Test(hlc, a_used_up_counter_carries)
{
	struct hlc h = {.last = (UINT64_C(5) << HLC_COUNTER_BITS) | 0xffff};

	cr_expect_eq(hlc_now(&h, 5), UINT64_C(6) << HLC_COUNTER_BITS);
}

Test(hlc, what_was_heard_is_before_what_is_stamped_next)
{
	struct hlc h = {0};
	uint64_t heard = (UINT64_C(1200) << HLC_COUNTER_BITS) | 7;

	cr_expect_eq(hlc_heard(&h, heard, 1000, 250), KOVA_OK);
	cr_expect_gt(hlc_now(&h, 1000), heard);
	cr_expect_eq(hlc_heard(&h, 3, 1000, 250), KOVA_OK);
	cr_expect_gt(hlc_now(&h, 1000), heard, "an old stamp does not set it back");
}

Test(hlc, a_clock_too_far_ahead_is_refused)
{
	struct hlc h = {0};

	cr_expect_eq(hlc_heard(&h, UINT64_C(1251) << HLC_COUNTER_BITS, 1000, 250), KOVA_ERANGE);
	cr_expect_eq(h.last, 0);
	cr_expect_eq(hlc_heard(&h, UINT64_C(1250) << HLC_COUNTER_BITS, 1000, 250), KOVA_OK);
}
