#include <criterion/criterion.h>

#include "core/pool_cooldown.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

static const struct pool_rule rule = {.window = 4,
				      .threshold = 2,
				      .base = 30 * SECOND,
				      .max = 100 * SECOND,
				      .trial = 5 * SECOND,
				      .every = 10 * SECOND};

static uint64_t begin(struct pool_cooldown *c, uint64_t hint_us)
{
	double luck = 0;

	return pool_cooldown_begin(c, &rule, START, 7, hint_us, &luck);
}

Test(pool_window, remembers_the_last_ones)
{
	struct pool_window w = {0};

	cr_assert_eq(pool_window_rate(&w, 4), 1);
	for (int i = 0; i < 4; i++)
		pool_window_push(&w, 4, true);
	cr_assert_eq(pool_window_rate(&w, 4), 0.25);
	for (int i = 0; i < 3; i++)
		pool_window_push(&w, 4, false);
	cr_assert_eq(pool_window_count(&w), 1);
	cr_assert_eq(w.n, 4);
	pool_window_push(&w, 4, false);
	cr_assert_eq(pool_window_count(&w), 0);
	for (int i = 0; i < 40; i++)
		pool_window_push(&w, POOL_WINDOW_MAX, true);
	cr_assert_eq(pool_window_count(&w), POOL_WINDOW_MAX);
	pool_window_push(&w, 2, false);
	cr_assert_eq(pool_window_count(&w), 1);
	cr_assert_eq(w.n, 2);
}

Test(pool_cooldown, doubles_until_it_does_well)
{
	struct pool_cooldown c = {0};
	static const uint64_t lengths[] = {30, 60, 100, 100};

	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		cr_assert_eq(begin(&c, 0), lengths[i] * SECOND);
		cr_assert_eq(c.level, i + 1);
	}
	pool_cooldown_end(&c);
	for (uint64_t i = 8; i < 8 + 4; i++)
		cr_assert_eq(pool_cooldown_take(&c, &rule, i, POOL_GOOD), POOL_KEPT);
	cr_assert_eq(begin(&c, 0), 30 * SECOND);
	cr_assert_eq(c.level, 1);
}

Test(pool_cooldown, a_hint_is_the_first_length_and_later_the_least)
{
	struct pool_cooldown c = {0};

	cr_assert_eq(begin(&c, 2 * SECOND), 2 * SECOND);
	cr_assert_eq(begin(&c, 2 * SECOND), 60 * SECOND);
	cr_assert_eq(begin(&c, 1000 * SECOND), 100 * SECOND);
}

Test(pool_cooldown, jitter_is_added)
{
	struct pool_rule with = rule;
	double luck = 0.3;

	with.jitter = 1;
	for (int i = 0; i < 1000; i++) {
		struct pool_cooldown c = {0};
		uint64_t us = pool_cooldown_begin(&c, &with, START, 1, 0, &luck);

		cr_assert(us >= with.base && us < 2 * with.base);
		cr_assert(luck >= 0 && luck < 1);
	}
}

Test(pool_cooldown, what_is_late_ends_and_shortens_nothing)
{
	struct pool_cooldown c = {0};

	begin(&c, 0);
	cr_assert_eq(pool_cooldown_take(&c, &rule, 7, POOL_GOOD), POOL_IGNORED);
	cr_assert_eq(pool_cooldown_take(&c, &rule, 8, POOL_GOOD), POOL_IGNORED, "it is no trial");
	cr_assert_not(pool_cooldown_late(&c, &rule, START + SECOND, 29 * SECOND));
	cr_assert_not(pool_cooldown_late(&c, &rule, START + 50 * SECOND, 0));
	cr_assert(pool_cooldown_late(&c, &rule, START + SECOND, 30 * SECOND));
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, START, false), 31 * SECOND);
	cr_assert(pool_cooldown_late(&c, &rule, START, 1000 * SECOND));
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, START, false), rule.max);
	pool_cooldown_end(&c);
	cr_assert_not(pool_cooldown_late(&c, &rule, START, 1000 * SECOND));
}

Test(pool_cooldown, one_trial_and_what_it_tells)
{
	struct pool_cooldown c = {0};
	uint64_t due_us = START + 30 * SECOND;

	begin(&c, 0);
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, due_us - 1, false), 1);
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, due_us, false), 0);
	pool_cooldown_try(&c, &rule, due_us, 9);
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, due_us, false), rule.trial);
	cr_assert_not(pool_cooldown_free(&c, 8));
	cr_assert(pool_cooldown_free(&c, 9));
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, due_us, false), 0);
	pool_cooldown_try(&c, &rule, due_us, 10);
	cr_assert_eq(pool_cooldown_take(&c, &rule, 9, POOL_BAD), POOL_IGNORED);
	cr_assert_eq(pool_cooldown_take(&c, &rule, 10, POOL_BAD), POOL_FAILED);
	cr_assert_eq(pool_cooldown_take(&c, &rule, 10, POOL_NEUTRAL), POOL_PASSED);
}

Test(pool_cooldown, a_probe_makes_it_due_where_there_are_probes)
{
	struct pool_cooldown c = {0};

	begin(&c, 0);
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, START, true), 30 * SECOND);
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, START + 30 * SECOND, true), rule.every);
	c.probed = true;
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, START + 30 * SECOND, true), 0);
	cr_assert_eq(pool_cooldown_wait_us(&c, &rule, START, true), 30 * SECOND);
}
