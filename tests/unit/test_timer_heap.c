#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/timer_heap.h"

Test(timer_heap, empty_has_no_first)
{
	struct timer_heap h = {0};

	cr_assert_null(timer_heap_first(&h));
	timer_heap_release(&h);
}

Test(timer_heap, comes_out_in_order_whatever_is_moved_and_removed)
{
	enum { N = 500 };
	static struct timer_entry e[N];
	struct timer_heap h = {0};
	unsigned seed = 7;

	for (int round = 0; round < 4; round++)
		for (int i = 0; i < N; i++)
			cr_assert_eq(timer_heap_set(&h, &e[i], (uint64_t)rand_r(&seed) % 1000),
				     KOVA_OK);
	for (int i = 0; i < N; i += 3)
		timer_heap_remove(&h, &e[i]);

	size_t left = 0;
	uint64_t last = 0;
	for (struct timer_entry *first; (first = timer_heap_first(&h)) != NULL; left++) {
		cr_assert_geq(first->at, last);
		last = first->at;
		timer_heap_remove(&h, first);
		cr_assert_eq(first->place, 0);
	}
	cr_assert_eq(left, N - (N + 2) / 3);
	timer_heap_release(&h);
}

Test(timer_heap, removing_what_is_not_in_is_nothing)
{
	struct timer_heap h = {0};
	struct timer_entry in = {0}, out = {0};

	cr_assert_eq(timer_heap_set(&h, &in, 1), KOVA_OK);
	timer_heap_remove(&h, &out);
	cr_assert_eq(timer_heap_first(&h), &in);
	timer_heap_release(&h);
}
