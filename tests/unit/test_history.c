/* Consumption that fades by half-lives, and the weights it makes. */
#include <criterion/criterion.h>

#include "core/history.h"
#include "core/shares.h"
#include "dice.h"

#define DAY UINT64_C(86400000)

/* 2^-x, for x from 0 to 5, by its series. */
static double halved(double x)
{
	double term = 1, sum = 1;

	for (int k = 1; k < 60; k++) {
		term *= -x * 0.69314718055994531 / k;
		sum += term;
	}
	return sum;
}

Test(history, it_halves)
{
	struct history h = {0};

	history_add(&h, 1000, 5 * DAY, DAY);
	cr_expect_eq(history_amount(&h, 5 * DAY, DAY), 1000 * HISTORY_UNIT);
	cr_expect_eq(history_amount(&h, 6 * DAY, DAY), 500 * HISTORY_UNIT);
	cr_expect_eq(history_amount(&h, 15 * DAY, DAY), 1000);
	cr_expect_eq(history_amount(&h, 100 * DAY, DAY), 0);
	cr_expect_eq(history_amount(&h, 4 * DAY, DAY), 1000 * HISTORY_UNIT);
	cr_expect_float_eq((double)history_amount(&h, 5 * DAY + DAY / 3, DAY),
			   1000 * HISTORY_UNIT * halved(1.0 / 3), 100);
}

/* Against the same in floating point; in an order of chance. */
Test(history, any_order_comes_to_the_same)
{
	struct dice dice = {1};

	for (int round = 0; round < 200; round++) {
		uint64_t half_life = HISTORY_HALF_LIFE_MS_MIN + dice_below(&dice, 30 * DAY);
		uint64_t last = 0;
		struct history h = {0};
		double expected = 0;

		uint64_t tokens[50], at[50];

		for (int i = 0; i < 50; i++) {
			tokens[i] = dice_below(&dice, 1000000000);
			at[i] = 20000 * DAY + dice_below(&dice, 4 * half_life);
			last = at[i] > last ? at[i] : last;
			history_add(&h, tokens[i], at[i], half_life);
		}
		for (int i = 0; i < 50; i++)
			expected += (double)tokens[i] * HISTORY_UNIT *
				    halved((double)(last - at[i]) / (double)half_life);
		cr_assert_float_eq((double)history_amount(&h, last, half_life), expected,
				   expected * 0.001 + 100, "round %d", round);
	}
}

Test(history, it_stays_at_the_greatest)
{
	struct history h = {0};

	history_add(&h, UINT64_MAX, 1, DAY);
	cr_expect_eq(h.amount, UINT64_MAX);
	history_add(&h, UINT64_MAX / 2, 1, DAY);
	cr_expect_eq(h.amount, UINT64_MAX);
}

Test(history, weights_are_in_proportion_and_nobody_has_none)
{
	const uint64_t amount[] = {3000, 1000, 2000, 0, 1, 5994};
	uint32_t weight[6];

	history_weigh(amount, 6, 1000, weight); /* the average is 1999 */
	cr_expect_eq(weight[0], 1500);
	cr_expect_eq(weight[1], 500);
	cr_expect_eq(weight[2], 1000);
	cr_expect_eq(weight[3], 100);
	cr_expect_eq(weight[4], 100);
	cr_expect_eq(weight[5], 2998);
}

Test(history, weights_of_any_amounts)
{
	struct dice dice = {2};

	for (int round = 0; round < 5000; round++) {
		uint64_t amount[SHARES_MAX], most = 1;
		uint32_t weight[SHARES_MAX];
		uint32_t average = 1 + (uint32_t)dice_below(&dice, SHARE_WEIGHT_MAX);
		size_t n = 1 + dice_below(&dice, SHARES_MAX), greatest = 0;
		double sum = 0;

		for (size_t i = 0; i < n; i++) {
			amount[i] = UINT64_MAX >> dice_below(&dice, 64);
			most = amount[i] > most ? amount[i] : most;
			greatest = amount[i] == most ? i : greatest;
			sum += (double)amount[i];
		}
		history_weigh(amount, n, average, weight);
		for (size_t i = 0; i < n; i++) {
			double exact = (double)amount[i] * average * (double)n / sum;

			cr_assert(weight[i] >= 1 && weight[i] <= SHARE_WEIGHT_MAX);
			cr_assert_geq(weight[i], average / HISTORY_LEAST_PART);
			cr_assert_leq(weight[i], weight[greatest]);
			if (exact > average / HISTORY_LEAST_PART + 1 && exact < SHARE_WEIGHT_MAX &&
			    sum > 1000000)
				cr_assert_float_eq(weight[i], exact, exact * 0.001 + 1);
		}
	}
}

Test(history, small_differences_are_none)
{
	cr_expect_not(history_differs(100, 125));
	cr_expect(history_differs(100, 126));
	cr_expect_not(history_differs(100, 75));
	cr_expect(history_differs(100, 74));
	cr_expect(history_differs(1, 2));
}
