#include <criterion/criterion.h>

#include "core/pool_choice.h"

#define SECOND UINT64_C(1000000)

/* The turns of endpoints of these weights, as letters. */
static void turns(enum pool_select select, const double *weight, size_t n, char *ret, size_t many)
{
	struct pool_candidate all[8];
	double virtual = 0;

	for (size_t i = 0; i < n; i++)
		all[i] = (struct pool_candidate){
			.index = (uint32_t)i, .weight = weight[i], .now = weight[i]};
	for (size_t i = 0; i < many; i++) {
		double tag;
		size_t at = pool_choose(select, all, n, &virtual, &tag)->index;

		all[at].tag = tag;
		all[at].last = i + 1;
		all[at].in_flight++;
		ret[i] = (char)('a' + at);
	}
	ret[many] = '\0';
}

Test(pool_choice, in_turn_whatever_the_weights)
{
	char order[10];

	turns(POOL_ROUND_ROBIN, (double[]){1, 5, 2}, 3, order, 9);
	cr_assert_str_eq(order, "abcabcabc");
}

Test(pool_choice, weights_are_smooth)
{
	char order[15];

	turns(POOL_WEIGHTED, (double[]){5, 1, 1}, 3, order, 14);
	cr_assert_str_eq(order, "abaacaaabaacaa");
}

Test(pool_choice, the_least_loaded_by_weight)
{
	char order[9];

	turns(POOL_LEAST_LOADED, (double[]){2, 1, 1}, 3, order, 8);
	cr_assert_str_eq(order, "abcabcaa");
}

/* One that comes back has neither lost its turn nor saved some up. */
Test(pool_choice, who_was_away_catches_nothing_up)
{
	struct pool_candidate all[2] = {{.index = 0, .weight = 1, .now = 1, .tag = 100},
					{.index = 1, .weight = 1, .now = 1, .tag = 3}};
	double virtual = 100, tag;

	for (int select = POOL_ROUND_ROBIN; select <= POOL_WEIGHTED; select++) {
		struct pool_candidate both[2] = {all[0], all[1]};
		unsigned n = 0;

		for (uint64_t i = 1; i <= 20; i++) {
			size_t at = pool_choose((enum pool_select)select, both, 2, &virtual, &tag)
					    ->index;

			both[at].tag = tag;
			both[at].last = i;
			n += at == 1;
		}
		cr_assert(n >= 10 && n <= 12, "%d: %u", select, n);
	}
}

Test(pool_choice, a_weight_grows_after_the_return)
{
	struct pool_rule rule = {.ramp = 100 * SECOND};

	cr_assert_float_eq(pool_weight_now(&rule, 10, 0.5, 0, 5 * SECOND), 5, 1e-9);
	cr_assert_float_eq(pool_weight_now(&rule, 10, 1, 5 * SECOND, 5 * SECOND), 1, 1e-9);
	cr_assert_float_eq(pool_weight_now(&rule, 10, 1, 5 * SECOND, 55 * SECOND), 5.5, 1e-9);
	cr_assert_float_eq(pool_weight_now(&rule, 10, 1, 5 * SECOND, 105 * SECOND), 10, 1e-9);
	cr_assert_float_eq(pool_weight_now(&rule, 10, 1, 5 * SECOND, SECOND), 1, 1e-9,
			   "the clock went back");
}
