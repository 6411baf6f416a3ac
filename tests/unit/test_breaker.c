#include <criterion/criterion.h>

#include "core/breaker.h"

#define SECOND UINT64_C(1000000)

static const struct breaker_rule rule = {
	.failures = 3, .of = 5, .open_us = 30 * SECOND, .trials = 2};

static void feed(struct breaker *b, const char *outcomes, enum breaker_change last)
{
	for (; *outcomes != '\0'; outcomes++)
		cr_assert_eq(breaker_feed(b, &rule, SECOND, *outcomes == 'o'),
			     outcomes[1] == '\0' ? last : BREAKER_SAME);
}

static struct breaker opened(void)
{
	struct breaker b = {0};

	feed(&b, "xxx", BREAKER_OPENED);
	return b;
}

Test(breaker, opens_at_failures_among_the_last_outcomes)
{
	struct breaker b = {0};

	feed(&b, "xxooox", BREAKER_SAME); /* of the last five two */
	feed(&b, "oox", BREAKER_SAME);
	feed(&b, "x", BREAKER_OPENED); /* x o o x x */
	cr_assert_eq(breaker_wait_us(&b, &rule, SECOND), 30 * SECOND);
	cr_assert_eq(breaker_wait_us(&b, &rule, 31 * SECOND - 1), 1);
	cr_assert_eq(breaker_wait_us(&b, &rule, 31 * SECOND), 0);
}

Test(breaker, successes_alone_leave_nothing)
{
	struct breaker b = {0};

	feed(&b, "oooooooooooo", BREAKER_SAME);
	cr_assert_eq(b.n_outcomes, 0);
	feed(&b, "xooooo", BREAKER_SAME);
	cr_assert_eq(b.n_outcomes, 0);
}

Test(breaker, outcomes_of_before_say_nothing_while_it_is_open)
{
	struct breaker b = opened();

	cr_assert_eq(breaker_feed(&b, &rule, 2 * SECOND, true), BREAKER_SAME);
	cr_assert_eq(breaker_feed(&b, &rule, 32 * SECOND, true), BREAKER_SAME,
		     "no trial is under way");
	cr_assert_eq(b.open_until_us, 31 * SECOND);
}

Test(breaker, so_many_trials_pass)
{
	struct breaker b = opened();

	breaker_take(&b, &rule, 31 * SECOND);
	cr_assert_eq(breaker_wait_us(&b, &rule, 32 * SECOND), 0);
	breaker_take(&b, &rule, 32 * SECOND);
	cr_assert_eq(breaker_wait_us(&b, &rule, 33 * SECOND), 28 * SECOND);
	breaker_give(&b, &rule, 32 * SECOND);
	breaker_give(&b, &rule, 32 * SECOND);
	cr_assert_eq(breaker_wait_us(&b, &rule, 33 * SECOND), 0);
	breaker_take(&b, &rule, 33 * SECOND);
	cr_assert_eq(breaker_wait_us(&b, &rule, 61 * SECOND - 1), 1);
	cr_assert_eq(breaker_wait_us(&b, &rule, 61 * SECOND), 0,
		     "the first had no outcome: it is free");
	breaker_take(&b, &rule, 61 * SECOND);
	cr_assert_eq(breaker_wait_us(&b, &rule, 61 * SECOND), 2 * SECOND);
}

Test(breaker, a_trial_closes_it_with_nothing_remembered)
{
	struct breaker b = opened();

	breaker_take(&b, &rule, 31 * SECOND);
	cr_assert_eq(breaker_feed(&b, &rule, 32 * SECOND, true), BREAKER_CLOSED);
	cr_assert_eq(breaker_wait_us(&b, &rule, 32 * SECOND), 0);
	feed(&b, "xx", BREAKER_SAME);
	feed(&b, "x", BREAKER_OPENED);
}

Test(breaker, a_trial_opens_it_again)
{
	struct breaker b = opened();

	breaker_take(&b, &rule, 31 * SECOND);
	cr_assert_eq(breaker_feed(&b, &rule, 32 * SECOND, false), BREAKER_OPENED);
	cr_assert_eq(breaker_wait_us(&b, &rule, 32 * SECOND), 30 * SECOND);
	cr_assert_eq(b.n_trials, 0);
}

Test(breaker, a_rule_that_became_smaller)
{
	struct breaker b = {0};
	struct breaker_rule wide = {.failures = 100, .of = 100, .open_us = SECOND, .trials = 1},
			    narrow = rule;

	for (int i = 0; i < 99; i++)
		cr_assert_eq(breaker_feed(&b, &wide, SECOND, i % 2 == 1), BREAKER_SAME);
	narrow.of = 4;
	cr_assert_eq(breaker_feed(&b, &narrow, SECOND, true), BREAKER_SAME); /* x o x o */
	cr_assert_leq(b.n_outcomes, 4);
}
