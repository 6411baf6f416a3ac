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
