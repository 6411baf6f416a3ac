/* The ledger of a policy and root: what was taken in all, whatever way it was taken, and however it came back. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/keyspace.h"
#include "script_fixture.h"

TestSuite(ledger, .init = start, .fini = stop);

static const char *const check_key = "k:b{t}p:0/x";

static long long ledger(void)
{
	return redis_client_integer(&rig.client, "INCRBY k:u{t}p 0");
}

static struct script_check check_of(const struct limit *l, uint64_t cost)
{
	return (struct script_check){
		.limit = l, .key = slice_of(check_key), .cost = cost, .ledger = true};
}

static struct script_answer of(enum script_op_kind kind, const struct script_check *c)
{
	return run(&(struct script_op){.kind = kind, .checks = c, .n_checks = 1});
}

Test(ledger, what_is_taken_is_added_up)
{
	uint64_t edge[4];
	struct limit l = of_each(ALGORITHM_TOKEN_BUCKET, 9, edge);
	struct script_check c = check_of(&l, 4);

	of(SCRIPT_PEEK, &c);
	cr_expect_eq(redis_client_integer(&rig.client, "EXISTS k:u{t}p"), 0);
	of(SCRIPT_TAKE, &c);
	cr_expect_eq(ledger(), 4);
	of(SCRIPT_TAKE, &c);
	of(SCRIPT_TAKE, &c); /* refused */
	cr_expect_eq(ledger(), 8);
	cr_expect_gt(redis_client_integer(&rig.client, "PTTL k:u{t}p"), 691190000);
}

Test(ledger, a_give_is_taken_off)
{
	uint64_t edge[4];
	struct limit l = of_each(ALGORITHM_TOKEN_BUCKET, 9, edge);
	struct script_check c = check_of(&l, 3);
	struct script_op give = {.kind = SCRIPT_GIVE, .checks = &c, .n_checks = 1};

	of(SCRIPT_TAKE, &c);
	give.stamp_us = of(SCRIPT_TAKE, &c).now_us;
	run(&give);
	cr_expect_eq(ledger(), 3);
}

Test(ledger, a_lease_counts_whole_until_it_comes_back)
{
	uint64_t edge[4];
	struct limit l = of_each(ALGORITHM_TOKEN_BUCKET, 1000, edge);
	struct script_check c = check_of(&l, 1);
	struct script_op op = {.kind = SCRIPT_LEASE,
			       .checks = &c,
			       .n_checks = 1,
			       .amount = 100,
			       .ttl_us = 500000,
			       .sharers = 1,
			       .lease = "lease-1"};

	cr_assert_eq(run(&op).amount, 100);
	cr_expect_eq(ledger(), 100);
	op.kind = SCRIPT_UNLEASE;
	op.amount = 30;
	run(&op);
	cr_expect_eq(ledger(), 70);
}

Test(ledger, an_outage_is_charged)
{
	uint64_t edge[4];
	struct limit l = of_each(ALGORITHM_TOKEN_BUCKET, 9, edge);
	struct script_check c = check_of(&l, 25);

	of(SCRIPT_CHARGE, &c);
	cr_expect_eq(ledger(), 25);
}

Test(ledger, a_repeat_adds_nothing)
{
	uint64_t edge[4];
	struct limit l = of_each(ALGORITHM_TOKEN_BUCKET, 9, edge);
	struct script_check c = check_of(&l, 2);
	const struct script_op op = {.kind = SCRIPT_TAKE,
				     .checks = &c,
				     .n_checks = 1,
				     .id_key = SLICE("k:i{t}2:id"),
				     .echo = SLICE("e")};

	run(&op);
	run(&op);
	cr_expect_eq(ledger(), 2);
}

Test(ledger, one_of_several_levels_has_it)
{
	uint64_t edge[4];
	struct limit l = of_each(ALGORITHM_TOKEN_BUCKET, 9, edge);
	const struct script_check checks[] = {
		{.limit = &l, .key = SLICE("k:b{t}p:0"), .cost = 2, .ledger = true},
		{.limit = &l, .key = SLICE("k:b{t}p:1/x"), .cost = 2},
	};

	run(&(struct script_op){.kind = SCRIPT_TAKE, .checks = checks, .n_checks = 2});
	cr_expect_eq(ledger(), 2);
}

Test(ledger, its_name_is_of_policy_and_root)
{
	static const char *const names[][2] = {
		{"k:b{t}p:0", "k:u{t}p"},
		{"k:w{a%7Db}p.q-r:3/x:y}z", "k:u{a%7Db}p.q-r"},
		{"k:c{%}p:0/", "k:u{%}p"},
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char name[KEYSPACE_NAME_MAX];
		size_t len = keyspace_ledger(slice_of(names[i][0]), name);

		cr_expect(slice_equal((struct slice){name, len}, slice_of(names[i][1])), "%.*s",
			  (int)len, name);
	}
}
