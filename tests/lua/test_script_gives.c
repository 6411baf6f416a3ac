/* What comes back: gives, refunds by receipt, permits released and renewed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

#include "script_fixture.h"

TestSuite(script_gives, .init = start, .fini = stop);

/* ---- Giving back, receipts ---- */

Test(script_gives, a_give_restores_exactly_what_a_take_took)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[4];
		struct limit l = of_each((enum algorithm)a, 9, edge);
		char key[32];
		struct script_check c = {.limit = &l, .cost = 4};
		struct script_op give = {.kind = SCRIPT_GIVE, .checks = &c, .n_checks = 1};

		snprintf(key, sizeof key, "k:x{t}%d", a);
		c.key = slice_of(key);
		take(&l, key, 2);
		give.stamp_us = take(&l, key, 4).now_us;
		take(&l, key, 1);
		cr_assert_eq(run(&give).amount, 4, "algorithm %d", a);
		cr_assert_eq(peek(&l, key).remaining, 6);
		cr_assert_neq(redis_client_integer(&rig.client, "PTTL %s", key), -1);
	}
}

Test(script_gives, a_give_never_lifts_above_full)
{
	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[4];
		struct limit l = of_each((enum algorithm)a, 9, edge);
		char key[32];

		snprintf(key, sizeof key, "k:x{t}%d", a);
		take(&l, key, 1);
		for (int i = 0; i < 3; i++)
			script_rig_one(&rig, SCRIPT_GIVE, &l, key, 9);
		cr_assert_leq(peek(&l, key).remaining, 9);
	}
}

static struct script_answer refund(const struct script_check *c, uint16_t n, const char *receipt,
				   uint64_t amount)
{
	return run(&(struct script_op){.kind = SCRIPT_REFUND,
				       .checks = c,
				       .n_checks = n,
				       .receipt_key = slice_of(receipt),
				       .amount = amount});
}

static void take_with_receipt(const struct script_check *c, uint16_t n, const char *receipt)
{
	struct script_op op = {
		.kind = SCRIPT_TAKE, .checks = c, .n_checks = n, .receipt_key = slice_of(receipt)};

	cr_assert_eq(run(&op).status, SCRIPT_ALLOWED);
}

Test(script_gives, a_receipt_gives_back_once_in_total)
{
	for (int a = 0; a < ALGORITHM_N - 1; a++) {
		uint64_t edge[4];
		struct limit l = of_each((enum algorithm)a, 100, edge);
		char key[32], receipt[32];
		struct script_check c = {.limit = &l, .cost = 10};

		snprintf(key, sizeof key, "k:x{t}%d", a);
		snprintf(receipt, sizeof receipt, "k:r{t}%d", a);
		c.key = slice_of(key);
		take(&l, key, 20);
		take_with_receipt(&c, 1, receipt);
		cr_assert_eq(refund(&c, 1, receipt, 4).amount, 4, "algorithm %d", a);
		cr_assert_eq(refund(&c, 1, receipt, 4).amount, 0);
		cr_assert_eq(refund(&c, 1, receipt, 3).amount, 0);
		cr_assert_eq(refund(&c, 1, receipt, UINT64_MAX).amount, 6);
		cr_assert_eq(refund(&c, 1, receipt, UINT64_MAX).amount, 0);
		cr_assert_eq(peek(&l, key).remaining, 80);
	}
}

Test(script_gives, a_receipt_is_only_for_what_it_was_given_for)
{
	struct limit l = bucket(100, 3600 * SECOND, 100);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 10}, other = c,
			    more = c;

	other.key = SLICE("k:b{t}y");
	more.cost = 11;
	take(&l, "k:b{t}y", 50);
	take_with_receipt(&c, 1, "k:r{t}1");
	cr_assert_eq(refund(&other, 1, "k:r{t}1", 1).status, SCRIPT_UNKNOWN);
	cr_assert_eq(refund(&more, 1, "k:r{t}1", 1).status, SCRIPT_UNKNOWN);
	cr_assert_eq(refund(&c, 1, "k:r{t}2", 1).status, SCRIPT_UNKNOWN);
	cr_assert_eq(refund(&c, 1, "k:r{t}1", 1).status, SCRIPT_ALLOWED);
}

Test(script_gives, refunds_of_a_key_are_bounded_in_any_period)
{
	struct limit l = bucket(5, 3600 * SECOND, 20);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 1};
	uint64_t back = 0;
	char receipt[32];

	take(&l, "k:b{t}x", 10);
	for (int i = 0; i < 9; i++) {
		snprintf(receipt, sizeof receipt, "k:r{t}%d", i);
		take_with_receipt(&c, 1, receipt);
		back += refund(&c, 1, receipt, UINT64_MAX).amount;
		cr_assert_eq(refund(&c, 1, receipt, UINT64_MAX).amount, 0);
	}
	cr_assert_eq(back, 5);
	cr_assert_eq(redis_client_integer(&rig.client, "EXISTS k:fb{t}x"), 1);
	cr_assert_gt(redis_client_integer(&rig.client, "PTTL k:fb{t}x"), 0);
}

Test(script_gives, a_full_bucket_takes_no_refund)
{
	struct limit l = bucket(1000, SECOND, 20);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 5};

	take_with_receipt(&c, 1, "k:r{t}1");
	sleep_us(10000);
	cr_assert_eq(refund(&c, 1, "k:r{t}1", UINT64_MAX).amount, 0);
	take(&l, "k:b{t}x", 20);
	cr_assert_eq(refund(&c, 1, "k:r{t}1", UINT64_MAX).amount, 0, "not later either");
}

Test(script_gives, a_bucket_that_refills_takes_the_rest_of_a_refund)
{
	for (int a = ALGORITHM_TOKEN_BUCKET; a <= ALGORITHM_GCRA; a++) {
		struct limit l = make((enum algorithm)a, 10, 100 * SECOND, 20);
		char key[32], receipt[32];
		struct script_check c = {.limit = &l, .cost = 5};

		snprintf(key, sizeof key, "k:x{t}%d", a);
		snprintf(receipt, sizeof receipt, "k:r{t}%d", a);
		c.key = slice_of(key);
		take_with_receipt(&c, 1, receipt);
		sleep_us(3000);
		cr_assert_eq(refund(&c, 1, receipt, 2).amount, 2, "algorithm %d", a);
		cr_assert_eq(refund(&c, 1, receipt, UINT64_MAX).amount, 3, "algorithm %d", a);
		cr_assert_eq(peek(&l, key).remaining, 20);
	}
}

Test(script_gives, a_refund_keeps_levels_in_step)
{
	struct limit tenant = bucket(3, 3600 * SECOND, 100), user = bucket(100, 3600 * SECOND, 100);
	struct script_check c[2] = {{.limit = &tenant, .key = SLICE("k:b{t}p:0"), .cost = 10},
				    {.limit = &user, .key = SLICE("k:b{t}p:1/u"), .cost = 10}};

	take_with_receipt(c, 2, "k:r{t}1");
	cr_assert_eq(refund(c, 2, "k:r{t}1", UINT64_MAX).amount, 3, "the tenant's budget");
	cr_assert_eq(peek(&tenant, "k:b{t}p:0").remaining, 93);
	cr_assert_eq(peek(&user, "k:b{t}p:1/u").remaining, 93);
}

Test(script_gives, a_receipt_lives_as_long_as_what_was_taken)
{
	struct limit l = bucket(10, 100 * SECOND, 20);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 1};
	int64_t ttl;

	take_with_receipt(&c, 1, "k:r{t}1");
	ttl = redis_client_integer(&rig.client, "PTTL k:r{t}1");
	cr_assert(ttl > 255000 && ttl <= 261000, "200 s to full and a minute, not %ld ms",
		  (long)ttl);
	refund(&c, 1, "k:r{t}1", 1);
	cr_assert_gt(redis_client_integer(&rig.client, "PTTL k:r{t}1"), 250000);
}

/* ---- Permits ---- */

static struct script_answer permit_op(enum script_op_kind kind, const struct limit *l,
				      const char *permit)
{
	struct script_check c = {.limit = l, .key = SLICE("k:c{t}x"), .cost = 1};

	return run(&(struct script_op){
		.kind = kind, .checks = &c, .n_checks = 1, .permit = slice_of(permit)});
}

Test(script_gives, permits_are_released_once_and_by_name)
{
	struct limit l = make(ALGORITHM_CONCURRENCY, 2, 10 * SECOND, 0);

	cr_assert_eq(permit_op(SCRIPT_TAKE, &l, "one").status, SCRIPT_ALLOWED);
	cr_assert_eq(permit_op(SCRIPT_TAKE, &l, "two").status, SCRIPT_ALLOWED);
	cr_assert_eq(permit_op(SCRIPT_TAKE, &l, "three").status, SCRIPT_REFUSED);
	cr_assert_eq(permit_op(SCRIPT_RELEASE, &l, "three").status, SCRIPT_UNKNOWN);
	cr_assert_eq(permit_op(SCRIPT_RELEASE, &l, "n").status, SCRIPT_UNKNOWN,
		     "the bookkeeping is no permit");
	cr_assert_eq(permit_op(SCRIPT_RELEASE, &l, "one").amount, 1);
	cr_assert_eq(permit_op(SCRIPT_RELEASE, &l, "one").amount, 0);
	cr_assert_eq(permit_op(SCRIPT_TAKE, &l, "three").status, SCRIPT_ALLOWED);
	cr_assert_eq(permit_op(SCRIPT_TAKE, &l, "four").status, SCRIPT_REFUSED);
}

Test(script_gives, a_permit_ends_by_itself_unless_it_is_renewed)
{
	struct limit l = make(ALGORITHM_CONCURRENCY, 2, 50000, 0);

	rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) * SECOND;
	permit_op(SCRIPT_TAKE, &l, "kept");
	permit_op(SCRIPT_TAKE, &l, "left");
	rig.virtual_us += 30000;
	cr_assert_eq(permit_op(SCRIPT_RENEW, &l, "kept").amount, 1);
	rig.virtual_us += 30000;
	cr_assert_eq(permit_op(SCRIPT_RENEW, &l, "left").amount, 0);
	cr_assert_eq(permit_op(SCRIPT_RELEASE, &l, "left").amount, 0);
	cr_assert_eq(peek(&l, "k:c{t}x").remaining, 1);
	cr_assert_eq(permit_op(SCRIPT_RELEASE, &l, "kept").amount, 1);
}

Test(script_gives, a_permit_without_a_name_can_be_given_back_by_its_time)
{
	struct limit l = make(ALGORITHM_CONCURRENCY, 9, 10 * SECOND, 0);
	struct script_check c = {.limit = &l, .key = SLICE("k:c{t}x"), .cost = 3};
	struct script_op op = {.kind = SCRIPT_GIVE, .checks = &c, .n_checks = 1};

	op.stamp_us = take(&l, "k:c{t}x", 3).now_us;
	take(&l, "k:c{t}x", 3);
	cr_assert_eq(run(&op).amount, 3);
	cr_assert_eq(run(&op).amount, 0);
	cr_assert_eq(peek(&l, "k:c{t}x").remaining, 6);
}

/* Agents' clocks stamp their calls, and may show the same. */
Test(script_gives, permits_without_names_that_have_the_same_stamp_are_two)
{
	struct limit l = make(ALGORITHM_CONCURRENCY, 9, 10 * SECOND, 0);
	struct script_check c = {.limit = &l, .key = SLICE("k:c{t}x"), .cost = 3};
	struct script_op op = {.kind = SCRIPT_GIVE, .checks = &c, .n_checks = 1};

	take(&l, "k:c{t}x", 3);
	rig.stamp--;
	op.stamp_us = take(&l, "k:c{t}x", 3).now_us;
	cr_assert_eq(peek(&l, "k:c{t}x").remaining, 3);
	cr_assert_eq(run(&op).amount, 3);
	cr_assert_eq(peek(&l, "k:c{t}x").remaining, 6);
}

Test(script_gives, a_plan_is_a_bucket_and_slots_in_one_step)
{
	struct limit rate = bucket(5, SECOND, 10),
		     slots = make(ALGORITHM_CONCURRENCY, 4, 10 * SECOND, 0);
	struct script_check c[2] = {{.limit = &rate, .key = SLICE("k:b{t}p:0"), .cost = 3},
				    {.limit = &slots, .key = SLICE("k:c{t}p:0"), .cost = 3}};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = c, .n_checks = 2};
	struct script_answer a;

	cr_assert_eq(run(&op).status, SCRIPT_ALLOWED);
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_REFUSED);
	cr_assert_eq(a.check, 1);
	cr_assert_geq(peek(&rate, "k:b{t}p:0").remaining, 7);
	cr_assert_eq(peek(&slots, "k:c{t}p:0").remaining, 1);
}
