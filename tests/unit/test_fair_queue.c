/* Weighted fair queueing: turns, weights, and the bound on what two flows' service may differ by. */
#include <criterion/criterion.h>

#include "core/fair_queue.h"
#include "dice.h"

static void add(struct fair_queue *q, struct fair_flow *f, uint32_t weight, uint64_t cost)
{
	cr_assert_eq(fair_queue_add(q, f, weight, cost), KOVA_OK);
}

Test(fair_queue, flows_take_turns_in_the_order_in_which_they_came)
{
	struct fair_queue q = {0};
	struct fair_flow flow[5] = {0};

	cr_expect_null(fair_queue_first(&q));
	for (int i = 0; i < 5; i++)
		add(&q, &flow[i], 1, 1);
	for (int i = 0; i < 50; i++) {
		cr_expect_eq(fair_queue_first(&q), &flow[i % 5], "%d", i);
		fair_queue_serve(&q, fair_queue_first(&q), 1);
	}
	fair_queue_release(&q);
}

Test(fair_queue, a_late_one_has_its_turn_next_but_no_credit_for_its_absence)
{
	struct fair_queue q = {0};
	struct fair_flow busy = {0}, late = {0};
	unsigned served = 0;

	add(&q, &busy, 1, 1);
	for (int i = 0; i < 100; i++)
		fair_queue_serve(&q, &busy, 1);
	add(&q, &late, 1, 1);
	for (int i = 0; i < 20; i++) {
		served += fair_queue_first(&q) == &late;
		cr_expect(i > 1 || served == (unsigned)i);
		fair_queue_serve(&q, fair_queue_first(&q), 1);
	}
	cr_expect_eq(served, 10);
	fair_queue_release(&q);
}

Test(fair_queue, a_flow_that_is_empty_or_gone_is_not_served)
{
	struct fair_queue q = {0};
	struct fair_flow a = {0}, b = {0};

	add(&q, &a, 1, 1);
	add(&q, &b, 1, 1);
	fair_queue_serve(&q, &a, 0);
	cr_expect(fair_queue_first(&q) == &b && a.place == 0);
	fair_queue_remove(&q, &b);
	fair_queue_remove(&q, &b);
	cr_expect_null(fair_queue_first(&q));
	fair_queue_release(&q);
}

Test(fair_queue, another_head_has_its_own_finish)
{
	struct fair_queue q = {0};
	struct fair_flow large = {0}, small = {0};

	add(&q, &large, 1, 1000000000);
	add(&q, &small, 1, 5);
	cr_expect_eq(fair_queue_first(&q), &small);
	fair_queue_replace(&q, &large, 4);
	cr_expect_eq(fair_queue_first(&q), &large);
	fair_queue_release(&q);
}

/* Golestani's bound: service ÷ weight of two flows that both wait all the time, over any interval. */
Test(fair_queue, service_by_weight)
{
	enum { FLOWS = 20, SERVED = 4000 };

	for (unsigned seed = 1; seed <= 50; seed++) {
		struct dice dice = {seed};
		struct fair_queue q = {.now = UINT64_MAX - dice_below(&dice, 1000000000)};
		struct fair_flow flow[FLOWS] = {0};
		double got[FLOWS] = {0};
		uint64_t head[FLOWS], most = 1 + dice_below(&dice, 50);

		for (int i = 0; i < FLOWS; i++) {
			head[i] = 1 + dice_below(&dice, most);
			add(&q, &flow[i], 1 + (uint32_t)dice_below(&dice, 9), head[i]);
		}
		for (int n = 0; n < SERVED; n++) {
			size_t i = (size_t)(fair_queue_first(&q) - flow);

			got[i] += (double)head[i] / flow[i].weight;
			head[i] = 1 + dice_below(&dice, most);
			fair_queue_serve(&q, &flow[i], head[i]);
			for (int j = 0; j < FLOWS; j++)
				cr_assert_leq(got[i] - got[j],
					      (double)most / flow[i].weight +
						      (double)most / flow[j].weight + 1e-3,
					      "seed %u", seed);
		}
		fair_queue_release(&q);
	}
}

/* The first is the least of all, whatever was added, served, replaced and removed. */
Test(fair_queue, the_first_is_the_least)
{
	enum { FLOWS = 64 };

	for (unsigned seed = 1; seed <= 20; seed++) {
		struct dice dice = {seed};
		struct fair_queue q = {0};
		struct fair_flow flow[FLOWS] = {0};

		for (int n = 0; n < 5000; n++) {
			struct fair_flow *f = &flow[dice_below(&dice, FLOWS)];
			uint64_t cost = 1 + dice_below(&dice, 9);

			if (f->place == 0)
				add(&q, f, 1 + (uint32_t)dice_below(&dice, 9), cost);
			else if (dice_below(&dice, 3) == 0)
				fair_queue_remove(&q, f);
			else if (dice_below(&dice, 2) == 0)
				fair_queue_replace(&q, f, cost);
			else
				fair_queue_serve(&q, fair_queue_first(&q), dice_below(&dice, 4));
			for (size_t i = 0; i < q.n; i++) {
				cr_assert_eq(q.flows[i]->place, i + 1);
				cr_assert_leq(q.flows[0]->finish, q.flows[i]->finish);
			}
		}
		fair_queue_release(&q);
	}
}
