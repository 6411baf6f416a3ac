/* Leases by the script: what is granted, what comes back and when, beside takes, under every algorithm that has them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/limit.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define TTL (SECOND / 2)

static struct script_rig rig;

/* By a clock of the test's, which stands at a whole second. */
static void start(void)
{
	script_rig_start(&rig);
	rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) * SECOND;
}

static void stop(void)
{
	script_rig_stop(&rig);
}

TestSuite(leases, .init = start, .fini = stop);

static void pass(uint64_t us)
{
	rig.virtual_us += us;
	rig.clock_us = rig.virtual_us;
}

static struct limit make(enum algorithm a, uint64_t limit, uint64_t per_us, uint64_t burst)
{
	struct limit l = {.algorithm = a,
			  .limit = limit,
			  .per_us = per_us,
			  .burst = burst,
			  .hold_us = per_us};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct limit bucket(uint64_t limit, uint64_t per_us, uint64_t burst)
{
	return make(ALGORITHM_TOKEN_BUCKET, limit, per_us, burst);
}

static struct limit window(uint64_t limit, uint64_t per_us)
{
	return make(ALGORITHM_SLIDING_WINDOW, limit, per_us, 0);
}

/* Four windows of a day; we are 1000 s into the second. */
static struct limit calendar(uint64_t limit, uint64_t edge[4])
{
	struct limit l = make(ALGORITHM_CALENDAR, limit, 0, 0);

	for (unsigned i = 0; i < 4; i++)
		edge[i] = rig.clock_us + i * 86400 * SECOND - 87400 * SECOND;
	l.edges = (struct calendar_edges){.edge_us = edge, .n = 4};
	return l;
}

static struct script_answer run(const struct script_op *op)
{
	struct script_answer a;

	script_rig_run(&rig, op, 1, &a);
	return a;
}

static struct script_op lease_op(const struct script_check *check, uint16_t n, char id,
				 uint64_t amount)
{
	return (struct script_op){.kind = SCRIPT_LEASE,
				  .checks = check,
				  .n_checks = n,
				  .amount = amount,
				  .lease = {(unsigned char)id, 0, '\r', ':'},
				  .ttl_us = TTL,
				  .sharers = 1};
}

static struct script_answer lease(const struct limit *l, const char *key, char id, uint64_t amount)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1};
	struct script_op op = lease_op(&check, 1, id, amount);

	return run(&op);
}

static struct script_answer unlease(const struct limit *l, const char *key, char id,
				    uint64_t unspent)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1};
	struct script_op op = lease_op(&check, 1, id, unspent);

	op.kind = SCRIPT_UNLEASE;
	return run(&op);
}

static struct script_answer take(const struct limit *l, const char *key, uint64_t cost)
{
	return script_rig_one(&rig, SCRIPT_TAKE, l, key, cost);
}

static uint64_t remaining(const struct limit *l, const char *key)
{
	return script_rig_one(&rig, SCRIPT_PEEK, l, key, 1).remaining;
}

static void check_grant(struct script_answer a, uint64_t amount, uint64_t lease_us)
{
	cr_assert_eq(a.status, SCRIPT_ALLOWED);
	cr_assert_eq(a.amount, amount, "%lu of %lu", (unsigned long)a.amount,
		     (unsigned long)amount);
	cr_assert_eq(a.lease_us, lease_us);
}

Test(leases, up_to_the_amount_is_granted_and_at_least_the_cost)
{
	struct limit l = bucket(10, SECOND, 100);
	struct script_check check = {.limit = &l, .key = SLICE("k:b{a}"), .cost = 3};
	struct script_op op = lease_op(&check, 1, 1, 40);

	check_grant(run(&op), 40, TTL);
	op = lease_op(&check, 1, 2, 40);
	op.sharers = 7;
	check_grant(run(&op), 8, TTL); /* 60 / 7 */
	op = lease_op(&check, 1, 3, 40);
	op.sharers = 100;
	check_grant(run(&op), 3, TTL);
	op = lease_op(&check, 1, 4, 1000);
	check_grant(run(&op), 49, TTL);
	op = lease_op(&check, 1, 5, 1000);
	cr_assert_eq(run(&op).status, SCRIPT_REFUSED);
}

/* 100 at most, 10 a second: refilled at once over the lease's life and what came after, it would hold 100 again while
 * the 100 of the lease may have been spent right before its end. */
Test(leases, refill_is_capped_by_what_was_outstanding_then)
{
	struct limit l = bucket(1000, SECOND, 100);
	struct script_answer a = lease(&l, "k:b{a}", 1, 100);
	uint64_t hold_us = script_lease_hold_us(TTL);

	check_grant(a, 100, TTL);
	cr_assert_eq(a.remaining, 0);
	cr_assert_eq(a.reset_us, hold_us + 100000);
	pass(hold_us - 1);
	cr_assert_eq(remaining(&l, "k:b{a}"), 0);
	pass(10001);
	cr_assert_eq(remaining(&l, "k:b{a}"), 10);
	cr_assert(take(&l, "k:b{a}", 10).status == SCRIPT_ALLOWED);
	pass(90000);
	cr_assert_eq(remaining(&l, "k:b{a}"), 90);
}

Test(leases, what_was_not_spent_goes_back_once)
{
	struct limit l = bucket(10, SECOND, 100);
	struct script_answer a;

	check_grant(lease(&l, "k:b{a}", 1, 60), 60, TTL);
	a = unlease(&l, "k:b{a}", 1, 45);
	cr_assert(a.status == SCRIPT_ALLOWED && a.amount == 45 && a.remaining == 85);
	for (int i = 0; i < 2; i++) {
		a = unlease(&l, "k:b{a}", 1, 45);
		cr_assert(a.status == SCRIPT_UNKNOWN && a.amount == 0 && a.remaining == 85);
	}
	check_grant(lease(&l, "k:b{a}", 2, 10), 10, TTL);
	a = unlease(&l, "k:b{a}", 2, 1000);
	cr_assert(a.amount == 10 && a.remaining == 85, "no more than it was");
	check_grant(lease(&l, "k:b{a}", 3, 10), 10, TTL);
	pass(script_lease_hold_us(TTL));
	a = unlease(&l, "k:b{a}", 3, 10);
	cr_assert(a.status == SCRIPT_UNKNOWN && a.amount == 0 && a.remaining == 80, "it has ended");
}

Test(leases, a_plain_batch_finds_keys_with_leases)
{
	struct limit l = bucket(10, SECOND, 100);
	struct script_check check[3] = {{.limit = &l, .key = SLICE("k:b{a}1"), .cost = 30},
					{.limit = &l, .key = SLICE("k:b{a}2"), .cost = 30},
					{.limit = &l, .key = SLICE("k:b{a}1"), .cost = 71}};
	struct script_op op[3];
	struct script_answer answer[3];

	check_grant(lease(&l, "k:b{a}2", 1, 40), 40, TTL);
	for (int i = 0; i < 3; i++)
		op[i] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &check[i], .n_checks = 1};
	script_rig_run(&rig, op, 3, answer);
	cr_assert(answer[0].status == SCRIPT_ALLOWED && answer[0].remaining == 70);
	cr_assert(answer[1].status == SCRIPT_ALLOWED && answer[1].remaining == 30);
	cr_assert(answer[2].status == SCRIPT_REFUSED && answer[2].wait_us == (int64_t)SECOND / 10);
}

static char text_starts_with(const char *key)
{
	struct redis_answer a = redis_client_command(&rig.client, "GET %s", key);
	char first = a.text.len > 0 ? a.text.ptr[0] : '\0';

	redis_answer_release(&a);
	return first;
}

Test(leases, without_a_lease_left_a_key_is_an_integer_again)
{
	struct limit l = bucket(10, SECOND, 100);

	check_grant(lease(&l, "k:b{a}", 1, 90), 90, TTL);
	cr_assert_eq(text_starts_with("k:b{a}"), 'L');
	unlease(&l, "k:b{a}", 1, 10);
	cr_assert_neq(text_starts_with("k:b{a}"), 'L');
	check_grant(lease(&l, "k:b{a}", 2, 15), 15, TTL);
	pass(script_lease_hold_us(TTL));
	cr_assert_eq(take(&l, "k:b{a}", 99).status, SCRIPT_REFUSED);
	cr_assert_neq(text_starts_with("k:b{a}"), 'L',
		      "by a refusal, so that a flood of them finds a plain key");
}

Test(leases, a_wait_is_exact_while_leases_are_outstanding)
{
	struct limit l = bucket(1000, SECOND, 100);
	int64_t hold_us = (int64_t)script_lease_hold_us(TTL);
	struct script_answer a;

	check_grant(lease(&l, "k:b{a}", 1, 50), 50, TTL);
	cr_assert_eq(take(&l, "k:b{a}", 50).status, SCRIPT_ALLOWED);
	a = take(&l, "k:b{a}", 50);
	cr_assert(a.status == SCRIPT_REFUSED && a.wait_us == 50000);
	a = take(&l, "k:b{a}", 51); /* 50 come back, but one more only once the lease has ended */
	cr_assert(a.wait_us == hold_us + 1000);
	pass((uint64_t)a.wait_us - 1);
	cr_assert_eq(take(&l, "k:b{a}", 51).wait_us, 1);
	pass(1);
	cr_assert_eq(take(&l, "k:b{a}", 51).status, SCRIPT_ALLOWED);
}

Test(leases, a_give_does_not_fill_what_is_outstanding)
{
	struct limit l = bucket(10, SECOND, 100);
	struct script_check check = {.limit = &l, .key = SLICE("k:b{a}"), .cost = 30};
	struct script_op op = {.kind = SCRIPT_GIVE, .checks = &check, .n_checks = 1};
	struct script_answer a;

	cr_assert_eq(take(&l, "k:b{a}", 30).status, SCRIPT_ALLOWED);
	check_grant(lease(&l, "k:b{a}", 1, 60), 60, TTL);
	pass(SECOND / 10);
	op.stamp_us = rig.clock_us;
	a = run(&op);
	cr_assert(a.amount == 29 && a.remaining == 40, "%lu", (unsigned long)a.amount);
	cr_assert_eq(run(&op).amount, 0);
}

Test(leases, a_limit_lowered_below_what_is_outstanding)
{
	struct limit l = bucket(10, SECOND, 100), low = bucket(10, SECOND, 20),
		     none = bucket(0, SECOND, 20);
	struct script_answer a;

	check_grant(lease(&l, "k:b{a}", 1, 60), 60, TTL);
	a = take(&low, "k:b{a}", 1);
	cr_assert(a.status == SCRIPT_REFUSED && a.remaining == 0);
	cr_assert_eq(unlease(&none, "k:b{a}", 1, 60).status, SCRIPT_UNKNOWN);
	a = unlease(&low, "k:b{a}", 1, 55);
	cr_assert(a.amount == 55 && a.remaining == 15, "5 of 20 are missing, %lu",
		  (unsigned long)a.remaining);
}

Test(leases, more_than_a_key_remembers_are_ordinary_takes)
{
	struct limit l[2] = {bucket(10, SECOND, 1000), window(1000, SECOND)};

	for (int k = 0; k < 2; k++) {
		const char *key = k == 0 ? "k:b{a}" : "k:w{a}";

		for (char id = 0; id < SCRIPT_LEASES_MAX; id++)
			check_grant(lease(&l[k], key, id, 10), 10, TTL);
		check_grant(lease(&l[k], key, SCRIPT_LEASES_MAX, 10), 1, 0);
		unlease(&l[k], key, 5, 10);
		check_grant(lease(&l[k], key, 6, 10), 1, 0); /* this id is taken */
		check_grant(lease(&l[k], key, 5, 10), 10, TTL);
		cr_assert_eq(remaining(&l[k], key), 1000 - 10 * SCRIPT_LEASES_MAX - 2);
	}
}

Test(leases, a_lease_counts_in_every_window_it_may_be_spent_in)
{
	struct limit l = window(100, SECOND);
	uint64_t hold_us = script_lease_hold_us(TTL);
	struct script_answer a = lease(&l, "k:w{a}", 1, 100);

	check_grant(a, 100, TTL);
	cr_assert(a.remaining == 0 && a.wait_us == (int64_t)(hold_us + SECOND) &&
		  a.reset_us == hold_us + SECOND);
	pass(hold_us + SECOND - 1);
	cr_assert_eq(take(&l, "k:w{a}", 1).status, SCRIPT_REFUSED);
	pass(1);
	cr_assert_eq(take(&l, "k:w{a}", 100).status, SCRIPT_ALLOWED);
}

Test(leases, what_was_spent_of_a_window_counts_from_the_return)
{
	struct limit l = window(100, SECOND);
	struct script_answer a;

	check_grant(lease(&l, "k:w{a}", 1, 60), 60, TTL);
	cr_assert_eq(take(&l, "k:w{a}", 10).status, SCRIPT_ALLOWED);
	pass(1000);
	a = unlease(&l, "k:w{a}", 1, 25);
	cr_assert(a.amount == 25 && a.remaining == 55 && a.wait_us == SECOND - 1000 &&
		  a.reset_us == SECOND);
	cr_assert_eq(unlease(&l, "k:w{a}", 1, 25).status, SCRIPT_UNKNOWN);
	pass(SECOND - 1000);
	cr_assert_eq(remaining(&l, "k:w{a}"), 65);
	pass(1000);
	cr_assert_eq(remaining(&l, "k:w{a}"), 100);
	check_grant(lease(&l, "k:w{a}", 2, 60), 60, TTL);
	a = unlease(&l, "k:w{a}", 2, 60);
	cr_assert(a.amount == 60 && a.remaining == 100 && a.reset_us == 0);
}

Test(leases, a_calendar_lease_does_not_outlive_its_window)
{
	uint64_t edge[4];
	struct limit l = calendar(100, edge);
	struct script_answer a;

	check_grant(lease(&l, "k:d{a}", 1, 60), 60, TTL);
	cr_assert_eq(remaining(&l, "k:d{a}"), 40);
	a = unlease(&l, "k:d{a}", 1, 50);
	cr_assert(a.amount == 50 && a.remaining == 90);
	cr_assert_eq(unlease(&l, "k:d{a}", 1, 50).status, SCRIPT_UNKNOWN);
	check_grant(lease(&l, "k:d{a}", 2, 60), 60, TTL);
	pass(script_lease_hold_us(TTL));
	cr_assert_eq(unlease(&l, "k:d{a}", 2, 50).status, SCRIPT_UNKNOWN);
	cr_assert_eq(remaining(&l, "k:d{a}"), 30);
	pass(edge[2] - rig.clock_us - script_lease_hold_us(TTL));
	check_grant(lease(&l, "k:d{a}", 3, 5), 5, TTL);
	pass(1);
	check_grant(lease(&l, "k:d{a}", 4, 5), 1, 0);
	cr_assert_eq(remaining(&l, "k:d{a}"), 24);
	pass(script_lease_hold_us(TTL));
	cr_assert_eq(remaining(&l, "k:d{a}"), 100);
}

Test(leases, all_levels_or_none)
{
	uint64_t edge[4];
	struct limit l[3] = {bucket(10, SECOND, 100), window(50, SECOND), calendar(70, edge)};
	struct script_check check[3] = {{.limit = &l[0], .key = SLICE("k:b{a}"), .cost = 2},
					{.limit = &l[1], .key = SLICE("k:w{a}"), .cost = 2},
					{.limit = &l[2], .key = SLICE("k:d{a}"), .cost = 2}};
	struct script_op op = lease_op(check, 3, 1, 1000);
	struct script_answer a;

	op.sharers = 2;
	a = run(&op);
	check_grant(a, 25, TTL);
	cr_assert(a.check == 1 && a.remaining == 25);
	cr_assert_eq(remaining(&l[0], "k:b{a}"), 75);
	cr_assert_eq(remaining(&l[2], "k:d{a}"), 45);
	cr_assert_eq(take(&l[1], "k:w{a}", 24).status, SCRIPT_ALLOWED);
	op = lease_op(check, 3, 2, 1000);
	a = run(&op);
	cr_assert(a.status == SCRIPT_REFUSED && a.check == 1 && a.amount == 0);
	cr_assert_eq(remaining(&l[0], "k:b{a}"), 75);
	op = lease_op(check, 3, 1, 20);
	op.kind = SCRIPT_UNLEASE;
	a = run(&op);
	cr_assert(a.amount == 20 && a.check == 1 && a.remaining == 21);
	cr_assert_eq(remaining(&l[0], "k:b{a}"), 95);
	cr_assert_eq(remaining(&l[2], "k:d{a}"), 65);
}

Test(leases, checks_that_do_not_take_alike_are_ordinary_takes)
{
	struct limit l = bucket(10, SECOND, 100);
	struct script_check twice[2] = {{.limit = &l, .key = SLICE("k:b{a}1"), .cost = 2},
					{.limit = &l, .key = SLICE("k:b{a}1"), .cost = 2}};
	struct script_check differ[2] = {{.limit = &l, .key = SLICE("k:b{a}2"), .cost = 2},
					 {.limit = &l, .key = SLICE("k:b{a}3"), .cost = 3}};
	struct script_check shadow = {
		.limit = &l, .key = SLICE("k:b{a}4"), .cost = 2, .shadow = true};
	struct script_op op = lease_op(twice, 2, 1, 10);

	check_grant(run(&op), 4, 0);
	cr_assert_eq(remaining(&l, "k:b{a}1"), 96);
	op = lease_op(differ, 2, 1, 10);
	check_grant(run(&op), 2, 0);
	cr_assert_eq(remaining(&l, "k:b{a}3"), 97);
	op = lease_op(&shadow, 1, 1, 10);
	check_grant(run(&op), 2, 0);
}

Test(leases, a_chained_lease_does_not_overtake)
{
	struct limit l = bucket(10, SECOND, 100);
	struct script_check check[2] = {{.limit = &l, .key = SLICE("k:b{a}1"), .cost = 101},
					{.limit = &l, .key = SLICE("k:b{a}2"), .cost = 1}};
	struct script_op op[2] = {{.kind = SCRIPT_TAKE, .checks = &check[0], .n_checks = 1},
				  lease_op(&check[1], 1, 1, 10)};
	struct script_answer answer[2];

	op[1].chained = true;
	script_rig_run(&rig, op, 2, answer);
	cr_assert_eq(answer[1].status, SCRIPT_REFUSED);
	cr_assert_eq(text_starts_with("k:b{a}2"), '\0', "nothing was written");
}

Test(leases, algorithms_without_leases_say_so)
{
	static const enum algorithm without[] = {ALGORITHM_GCRA, ALGORITHM_SLIDING_COUNTER,
						 ALGORITHM_CONCURRENCY};
	struct limit has = bucket(10, SECOND, 100);

	for (int i = 0; i < 3; i++) {
		struct limit l = make(without[i], 10, SECOND, 10);
		struct script_check check[2] = {{.limit = &has, .key = SLICE("k:x{a}1"), .cost = 1},
						{.limit = &l, .key = SLICE("k:x{a}2"), .cost = 1}};
		struct script_op op = lease_op(check, 2, 1, 10);

		script_batch_clear(rig.batch);
		cr_assert_eq(script_batch_add(rig.batch, &op, rig.clock_us), KOVA_ERANGE);
		op.n_checks = 1;
		cr_assert_eq(script_batch_add(rig.batch, &op, rig.clock_us), KOVA_OK);
	}
}

static uint64_t expires_us(const char *key)
{
	return 1000 * (uint64_t)redis_client_integer(&rig.client, "PEXPIRETIME %s", key);
}

Test(leases, a_key_outlives_its_leases_and_the_refill_after_them)
{
	uint64_t edge[4], hold_us = script_lease_hold_us(TTL);
	struct limit l[3] = {bucket(10, SECOND, 100), window(100, 7 * SECOND), calendar(100, edge)};
	uint64_t full_us[3] = {rig.clock_us + hold_us + 10 * SECOND,
			       rig.clock_us + hold_us + 7 * SECOND, edge[2]};
	static const char *const key[] = {"k:b{a}", "k:w{a}", "k:d{a}"};

	for (int i = 0; i < 3; i++) {
		check_grant(lease(&l[i], key[i], 1, 100), 100, TTL);
		cr_assert_geq(expires_us(key[i]), full_us[i] + 60 * SECOND - 100000, "%s", key[i]);
		cr_assert_leq(expires_us(key[i]), full_us[i] + 63 * SECOND, "%s", key[i]);
	}
}

Test(leases, a_state_that_is_none_counts_as_absent)
{
	static const char *const text[] = {"L", "Lxxxxxxxxxxxxx", "Lxxxxxxxxxxxxxxyyyyyyyyy",
					   "Lxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};
	struct limit l = bucket(10, SECOND, 100);

	for (int i = 0; i < 4; i++) {
		struct redis_answer a = redis_client_command(&rig.client, "SET k:b{a} %s", text[i]);

		redis_answer_release(&a);
		cr_assert_eq(take(&l, "k:b{a}", 1).remaining, 99);
	}
}
