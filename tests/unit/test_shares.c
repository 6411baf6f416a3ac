/* Shares of a parent: guaranteed by weight, borrowed where nothing is kept, never more than the parent has. */
#include <criterion/criterion.h>

#include "core/shares.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START (UINT64_C(1800000000) * SECOND)

struct parent {
	struct limit limit;
	struct bucket bucket;
	struct shares shares;
	uint64_t now_us;
};

static struct parent parent(uint64_t limit, uint64_t burst)
{
	struct parent p = {.limit = {.limit = limit, .per_us = SECOND, .burst = burst},
			   .now_us = START};

	cr_assert_eq(limit_init(&p.limit), KOVA_OK);
	return p;
}

static struct limiter_verdict take_as(struct parent *p, uint64_t id, uint32_t weight, uint64_t cost)
{
	const struct share_claim claim = {id, weight, LIMIT_MAX};
	struct limiter_verdict v;

	shares_take(&p->shares, &p->bucket, &p->limit, p->now_us, &claim, cost, &v);
	return v;
}

static struct limiter_verdict take(struct parent *p, uint64_t id, uint64_t cost)
{
	return take_as(p, id, 1, cost);
}

Test(shares, one_that_is_alone_has_all)
{
	struct parent p = parent(10, 20);

	cr_expect(take(&p, 1, 20).allowed);
	cr_expect_eq(take(&p, 1, 1).wait_us, SECOND / 10);
	p.now_us += 2 * SECOND;
	cr_expect(take(&p, 1, 20).allowed);
	cr_expect_eq(take(&p, 1, 21).wait_us, VERDICT_NEVER);
}

Test(shares, a_newcomer_gets_its_part_of_what_is_there)
{
	struct parent p = parent(10, 20);

	take(&p, 1, 4);
	cr_expect_eq(take(&p, 2, 1).remaining, 7);
	cr_expect_not(take(&p, 1, 9).allowed);
	cr_expect(take(&p, 1, 8).allowed);
	cr_expect(take(&p, 2, 7).allowed);
}

Test(shares, no_more_is_reserved_than_can_be_used)
{
	struct parent p = parent(10, 20);
	const struct share_claim small = {2, 1, 3};
	struct limiter_verdict v;

	shares_take(&p.shares, &p.bucket, &p.limit, p.now_us, &small, 1, &v);
	p.now_us += 2 * SECOND;
	cr_expect(take(&p, 1, 17).allowed);
	cr_expect_not(take(&p, 1, 1).allowed);
	shares_take(&p.shares, &p.bucket, &p.limit, p.now_us, &small, 3, &v);
	cr_expect(v.allowed);
}

/* The quiet one asks for nearly its share, at once each time; the noisy one for all there is, all the time. */
Test(shares, a_noisy_one_costs_a_quiet_one_nothing)
{
	struct parent p = parent(100, 100);
	unsigned noisy = 0, refused = 0;

	for (unsigned ms = 0; ms < 20000; ms++, p.now_us += 1000) {
		noisy += take(&p, 1, 1).allowed;
		if (ms >= 1000 && ms % 25 == 0)
			refused += !take(&p, 2, 1).allowed;
	}
	cr_expect_leq(refused, 1, "%u refused", refused);
	cr_expect_geq(noisy, 100 + 2000 - 860, "%u: what the quiet one leaves", noisy);
}

Test(shares, weights_under_saturation)
{
	struct parent p = parent(100, 50);
	unsigned one = 0, three = 0;

	for (unsigned ms = 0; ms < 20000; ms++, p.now_us += 1000) {
		three += ms >= 1000 && take_as(&p, 3, 3, 1).allowed;
		one += take(&p, 1, 1).allowed && ms >= 1000;
	}
	cr_expect_float_eq((double)three / one, 3, 0.05, "%u to %u", three, one);
	cr_expect_geq(one + three, 1895);
}

/* Children that asked and are quiet keep a part of the burst, not of the rate: it goes to the others, by weight. */
Test(shares, what_the_quiet_leave_is_divided_by_weight)
{
	struct parent p = parent(100, 200);
	unsigned taken[2] = {0};

	for (uint64_t id = 10; id < 20; id++)
		take(&p, id, 1);
	p.now_us += 4 * SECOND;
	for (unsigned ms = 0; ms < 5000; ms++, p.now_us += 1000) {
		for (unsigned i = 0; i < 20; i++)
			taken[0] += take(&p, 1, 1).allowed && ms >= 1000;
		taken[1] += take(&p, 2, 1).allowed && ms >= 1000;
	}
	cr_expect_float_eq((double)taken[0] / taken[1], 1, 0.05, "%u, %u", taken[0], taken[1]);
	cr_expect_geq(taken[0] + taken[1], 390);
}

Test(shares, who_lapsed_keeps_nothing)
{
	struct parent p = parent(10, 20);

	take(&p, 1, 1);
	take(&p, 2, 1);
	p.now_us += SECOND / 20;
	cr_expect_not(take(&p, 1, 10).allowed);
	p.now_us += shares_idle_us(&p.limit) + 2 * SECOND;
	cr_expect(take(&p, 1, 20).allowed);
}

/* Of more children than are remembered each gets something, and a full parent lets any take pass. */
Test(shares, more_children_than_are_remembered)
{
	struct parent p = parent(1000, 1000);
	unsigned taken[3 * SHARES_MAX] = {0}, all = 0;

	for (unsigned ms = 0; ms < 20000; ms++, p.now_us += 1000)
		for (unsigned i = 0; i < 3 * SHARES_MAX; i += 1 + ms % 7) {
			bool allowed = take(&p, i, 1).allowed;

			taken[i] += allowed;
			all += allowed;
		}
	for (unsigned i = 0; i < 3 * SHARES_MAX; i++)
		cr_expect_gt(taken[i], 0, "%u", i);
	cr_expect_geq(all, 20000);
	p.now_us += SECOND;
	cr_expect(take(&p, 1000, 1000).allowed);
}

struct walk {
	struct dice dice;
	struct parent p;
	uint64_t admitted_ut, begun_us;
};

static void random_take(struct walk *w, unsigned seed)
{
	uint64_t id = dice_below(&w->dice, seed % 5 == 0 ? 90 : 6);
	uint64_t cost =
		dice_below(&w->dice, 8) == 0 ? 1 + dice_below(&w->dice, w->p.limit.burst) : 1;
	struct limiter_verdict v = take_as(&w->p, id, 1 + (uint32_t)id % 7, cost);
	uint64_t most_ut = w->p.limit.cap_ut +
			   bucket_credit_ut(&w->p.limit, w->begun_us, w->p.now_us, UINT64_MAX / 2);
	double sum_ut = 0;

	w->admitted_ut += v.allowed ? cost * LIMIT_UT : 0;
	cr_assert_leq(w->admitted_ut, most_ut, "seed %u: more than the parent has", seed);
	for (unsigned i = 0; i < w->p.shares.n; i++) {
		cr_assert_geq(w->p.shares.child[i].reserve_ut, 0, "seed %u", seed);
		sum_ut += w->p.shares.child[i].reserve_ut;
	}
	cr_assert_leq(sum_ut, (double)w->p.limit.cap_ut, "seed %u", seed);
	if (v.allowed)
		return;

	struct parent later = w->p;

	later.now_us += (uint64_t)v.wait_us;
	cr_assert(take_as(&later, id, 1 + (uint32_t)id % 7, cost).allowed,
		  "seed %u: waiting %ld µs for %lu was not enough", seed, (long)v.wait_us,
		  (unsigned long)cost);
}

Test(shares, waits_are_enough_and_the_parent_is_exact)
{
	for (unsigned seed = 1; seed <= 300; seed++) {
		struct walk w = {.dice = {seed}, .begun_us = START};

		w.p = parent(1 + dice_below(&w.dice, 300), 1 + dice_below(&w.dice, 100));
		for (unsigned i = 0; i < 400; i++) {
			w.p.now_us += dice_below(&w.dice, UINT64_C(1) << dice_below(&w.dice, 20));
			random_take(&w, seed);
		}
	}
}
