/* A bucket under a share that changes: it follows the plan as a bucket would that somebody watched all the time. */
#include <criterion/criterion.h>

#include "core/shared_bucket.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START (UINT64_C(1800000000) * SECOND)

static struct limit limit_of(uint64_t limit, uint64_t burst)
{
	struct limit l = {.limit = limit, .per_us = SECOND, .burst = burst};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

struct fixture {
	struct limit limit;
	struct share_plan plan;
	struct shared_bucket bucket;
};

static struct fixture fixture(uint32_t parts)
{
	struct fixture f = {.limit = limit_of(1000, 1000)};

	share_plan_init(&f.plan, 1, START, parts);
	return f;
}

static uint64_t tokens(struct fixture *f, uint64_t now_us)
{
	const struct shared_bucket_terms t = {&f->limit, &f->plan, SECOND};

	return shared_bucket_tokens_ut(&f->bucket, &t, now_us) / LIMIT_UT;
}

static bool take(struct fixture *f, uint64_t now_us, uint64_t cost)
{
	const struct shared_bucket_terms t = {&f->limit, &f->plan, SECOND};

	return shared_bucket_take(&f->bucket, &t, now_us, cost);
}

Test(shared_bucket, a_share_is_a_part_of_rate_and_burst)
{
	struct fixture f = fixture(100);

	cr_expect_eq(tokens(&f, START), 100);
	cr_expect(take(&f, START, 100));
	cr_expect_eq(tokens(&f, START + SECOND / 2), 50);
}

Test(shared_bucket, a_share_that_grows_adds_room_and_no_tokens)
{
	struct fixture f = fixture(100);

	cr_expect(take(&f, START, 60));
	share_plan_set(&f.plan, START, 800);
	cr_expect_eq(tokens(&f, START), 40);
	cr_expect_eq(tokens(&f, START + SECOND / 2), 440);
	cr_expect_eq(tokens(&f, START + SECOND), 800);
}

Test(shared_bucket, what_was_over_meanwhile_is_seen_later)
{
	struct fixture f = fixture(800);

	/* Full; nothing for two seconds in between; then for a tenth of a second at the old rate. */
	share_plan_set(&f.plan, START + SECOND, 0);
	share_plan_set(&f.plan, START + 3 * SECOND, 800);
	cr_expect_eq(tokens(&f, START + 3 * SECOND + SECOND / 10), 80);
}

Test(shared_bucket, an_absent_key_starts_with_what_the_plan_began_with)
{
	struct fixture f = fixture(100);

	share_plan_set(&f.plan, START + SECOND, 900);
	cr_expect_eq(tokens(&f, START + SECOND), 100);
}

Test(shared_bucket, pieces_that_are_forgotten_are_the_least_of_them)
{
	struct fixture f = fixture(500);

	for (uint64_t i = 1; i <= 40; i++)
		share_plan_set(&f.plan, START + i * SECOND, i == 2 ? 10 : 500 + (uint32_t)i);
	cr_expect_leq(f.plan.n, SHARE_PIECES_MAX);
	cr_expect_eq(share_plan_at(&f.plan, START), 10);
	cr_expect_eq(share_plan_at(&f.plan, START + 40 * SECOND), 540);
}

Test(shared_bucket, tokens_and_leases_stay_within_the_share)
{
	struct fixture f = fixture(800);
	const struct shared_bucket_terms t = {&f.limit, &f.plan, SECOND};

	cr_expect(shared_bucket_lease(&f.bucket, &t, START, 7, 600, START + SECOND));
	cr_expect_eq(tokens(&f, START + SECOND / 2), 200);
	share_plan_set(&f.plan, START + SECOND / 2, 700);
	cr_expect_eq(tokens(&f, START + SECOND / 2), 100);
	cr_expect(shared_bucket_unlease(&f.bucket, &t, START + SECOND / 2, 7, 600));
	cr_expect_eq(tokens(&f, START + SECOND / 2), 700);
	cr_expect_not(shared_bucket_unlease(&f.bucket, &t, START + SECOND / 2, 7, 600));
}

Test(shared_bucket, a_clock_that_was_set_refills_nothing)
{
	struct fixture f = fixture(800);
	const struct shared_bucket_terms t = {&f.limit, &f.plan, SECOND};

	cr_expect(shared_bucket_lease(&f.bucket, &t, START, 7, 500, START + SECOND));
	share_plan_restart(&f.plan, 2, START + 3600 * SECOND, 600);
	cr_expect_eq(tokens(&f, START + 3600 * SECOND), 100);
	/* The lease may be spent until it has ended by the new clock as well. */
	cr_expect_eq(tokens(&f, START + 3601 * SECOND - 1), 100);
	cr_expect_eq(tokens(&f, START + 3601 * SECOND), 100);
	cr_expect_eq(tokens(&f, START + 3601 * SECOND + SECOND / 2), 400);
}

/* ---- Random plans: however seldom it is asked, no more comes out than from one that is asked at every change ---- */

enum { STEPS = 60 };

struct history {
	struct limit limit;
	struct share_plan plan;
	struct shared_bucket often, seldom;
	double level; /* what was taken from `seldom`, less what the share refilled: at most the burst */
};

static uint64_t random_cost(struct dice *d, uint64_t tokens_ut)
{
	uint64_t tokens = tokens_ut / LIMIT_UT;

	return tokens > 0 && dice_below(d, 2) == 0 ? tokens : 1 + dice_below(d, 100);
}

static void step(struct history *h, struct dice *d, uint64_t now_us, uint64_t seed)
{
	const struct shared_bucket_terms t = {&h->limit, &h->plan, SECOND};
	uint64_t often_ut = shared_bucket_tokens_ut(&h->often, &t, now_us), seldom_ut, cost;

	if (dice_below(d, 4) > 0)
		return;
	seldom_ut = shared_bucket_tokens_ut(&h->seldom, &t, now_us);
	cr_assert(seldom_ut <= often_ut, "seed %lu: %lu > %lu", seed, seldom_ut, often_ut);
	cost = random_cost(d, seldom_ut);
	if (!shared_bucket_take(&h->seldom, &t, now_us, cost))
		return;
	cr_assert(shared_bucket_take(&h->often, &t, now_us, cost));
	h->level += (double)cost * 1e6;
	cr_assert(h->level <= (double)h->limit.cap_ut + 1, "seed %lu", seed);
}

Test(shared_bucket, random_plans)
{
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct dice d = {seed};
		struct history h = {
			.limit = limit_of(1 + dice_below(&d, 2000), 1 + dice_below(&d, 3000))};
		uint64_t now_us = START + dice_below(&d, SECOND);

		share_plan_init(&h.plan, 1, now_us, (uint32_t)dice_below(&d, 400));
		for (int i = 0; i < STEPS; i++) {
			uint64_t passed_us = dice_below(&d, SECOND);
			double rate_ut =
				(double)(h.limit.limit * share_plan_at(&h.plan, now_us)) / 1000;

			now_us += passed_us;
			h.level -= rate_ut * (double)passed_us;
			h.level = h.level > 0 ? h.level : 0;
			step(&h, &d, now_us, seed);
			if (dice_below(&d, 2) == 0)
				share_plan_set(&h.plan, now_us, (uint32_t)dice_below(&d, 1001));
		}
	}
}
