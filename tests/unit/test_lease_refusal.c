#include <criterion/criterion.h>

#include "core/lease.h"
#include "lease_refusal.h"

#define NOW UINT64_C(5000000)
#define WALL UINT64_C(1796000000000000) /* when the other is 0 */

static struct lease_instant at(uint64_t us)
{
	return (struct lease_instant){us, WALL + us};
}

/* Asked 300 µs before it is heard. */
static void hear(struct lease_refusal *r, uint64_t now_us, int64_t wait_us)
{
	struct script_answer said = {.status = SCRIPT_REFUSED, .wait_us = wait_us, .remaining = 3};

	lease_refusal_hear(r, now_us - 300, at(now_us), 5, &said);
}

static void hear_four(struct lease_refusal *r, int64_t wait_us)
{
	for (uint64_t i = 4; i > 0; i--)
		hear(r, NOW - (i - 1) * 1000, wait_us);
}

Test(lease_refusal, a_single_one_is_for_those_who_are_served_with_it)
{
	struct lease_refusal r = {0};

	hear(&r, NOW, 100000);
	cr_assert(lease_refusal_is_believed(&r, at(NOW), 5));
	cr_assert_not(lease_refusal_is_believed(&r, at(NOW + 1), 5));
}

Test(lease_refusal, several_in_a_row_are_believed_until_there_may_be_room)
{
	struct lease_refusal r = {0};

	hear_four(&r, 100000);
	cr_assert(lease_refusal_is_believed(&r, at(NOW - 300 + 100000 - 1), 5));
	cr_assert_not(lease_refusal_is_believed(&r, at(NOW - 300 + 100000), 5),
		      "the script may have run right after it was asked");
	cr_assert_eq(lease_refusal_wait_us(&r, at(NOW)), 100000, "or right before it was heard");
}

Test(lease_refusal, holds_for_as_much_or_more)
{
	struct lease_refusal r = {0};

	hear_four(&r, 100000);
	cr_assert(lease_refusal_is_believed(&r, at(NOW), 6));
	cr_assert_not(lease_refusal_is_believed(&r, at(NOW), 4));
}

Test(lease_refusal, is_never_believed_for_long)
{
	struct lease_refusal r = {0};

	hear_four(&r, 60000000);
	cr_assert_not(lease_refusal_is_believed(&r, at(NOW + LEASE_REFUSAL_MAX_US), 5));
	cr_assert_eq(lease_refusal_wait_us(&r, at(NOW + 1000)), 60000000 - 1000);
	r = (struct lease_refusal){0};
	hear_four(&r, -1);
	cr_assert(lease_refusal_is_believed(&r, at(NOW + LEASE_REFUSAL_MAX_US - 1), 5));
	cr_assert_not(lease_refusal_is_believed(&r, at(NOW + LEASE_REFUSAL_MAX_US), 5));
	cr_assert_eq(lease_refusal_wait_us(&r, at(NOW)), -1);
}

Test(lease_refusal, the_row_goes_on_when_it_was_over)
{
	struct lease_refusal r = {0};
	uint64_t over_us = NOW + LEASE_REFUSAL_MAX_US;

	hear_four(&r, 60000000);
	hear(&r, over_us + 1000, 60000000);
	cr_assert(lease_refusal_is_believed(&r, at(over_us + 2000), 5));
	hear(&r, over_us + LEASE_REFUSAL_MAX_US + LEASE_WINDOW_US + 2000, 60000000);
	over_us += LEASE_REFUSAL_MAX_US + LEASE_WINDOW_US + 3000;
	cr_assert_not(lease_refusal_is_believed(&r, at(over_us), 5));
}

Test(lease_refusal, is_over_when_the_wall_clock_says_so)
{
	struct lease_refusal r = {0};

	hear_four(&r, 100000);
	cr_assert(
		lease_refusal_is_believed(&r, (struct lease_instant){NOW, WALL + NOW + 99000}, 5));
	cr_assert_not(
		lease_refusal_is_believed(&r, (struct lease_instant){NOW, WALL + NOW + 100000}, 5),
		"it was set forwards");
	cr_assert_not(lease_refusal_is_believed(&r, (struct lease_instant){NOW + 100000, WALL}, 5),
		      "it was set back");
}
