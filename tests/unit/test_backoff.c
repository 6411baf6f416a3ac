#include <criterion/criterion.h>

#include "core/backoff.h"

Test(backoff, grows_to_its_bound_and_starts_over)
{
	struct backoff b;
	uint32_t ceiling = 50;

	backoff_init(&b, 50, 2000, 1);
	for (int i = 0; i < 100; i++) {
		uint32_t wait = backoff_next(&b);

		cr_assert_geq(wait, ceiling / 4);
		cr_assert_leq(wait, ceiling);
		ceiling = ceiling * 2 > 2000 ? 2000 : ceiling * 2;
	}
	backoff_reset(&b);
	cr_assert_leq(backoff_next(&b), 50);
}

Test(backoff, fifty_nodes_come_back_one_by_one)
{
	unsigned in_bin[10] = {0};

	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct backoff b;

		backoff_init(&b, 50, 2000, seed * UINT64_C(0x9E3779B97F4A7C15));
		for (int i = 0; i < 6; i++)
			backoff_next(&b);
		in_bin[(backoff_next(&b) - 500) * 9 / 1500]++;
	}
	for (int i = 0; i < 9; i++)
		cr_assert_leq(in_bin[i], 15, "%u of 50 in one ninth of the time", in_bin[i]);
}

Test(backoff, the_shortest_wait_is_one)
{
	struct backoff b;

	backoff_init(&b, 1, 1, 0);
	for (int i = 0; i < 10; i++)
		cr_assert_eq(backoff_next(&b), 1);
}
