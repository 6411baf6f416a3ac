/* Feedback by the script: holds, corrections downwards, and breakers beside takes, under every algorithm. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

#include "core/limit.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define NONE UINT64_MAX

static struct script_rig rig;
static uint64_t edges[4];

static const struct {
	enum algorithm algorithm;
	const char *key, *hold_key;
} kinds[] = {
	{ALGORITHM_TOKEN_BUCKET, "k:b{a}", "k:b{a}"},
	{ALGORITHM_GCRA, "k:g{a}", "k:g{a}"},
	{ALGORITHM_SLIDING_WINDOW, "k:w{a}", "k:hw{a}"},
	{ALGORITHM_SLIDING_COUNTER, "k:s{a}", "k:s{a}"},
	{ALGORITHM_CALENDAR, "k:d{a}", "k:d{a}"},
	{ALGORITHM_CONCURRENCY, "k:c{a}", "k:hc{a}"},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* By a clock of the test's, which stands at a whole second. */
static void start(void)
{
	script_rig_start(&rig);
	rig.clock_us = rig.virtual_us =
		((uint64_t)time(NULL) + 100000) * SECOND / (3600 * SECOND) * (3600 * SECOND);
	for (unsigned i = 0; i < 4; i++)
		edges[i] = rig.clock_us + i * 86400 * SECOND - 87400 * SECOND;
}

static void stop(void)
{
	script_rig_stop(&rig);
}

TestSuite(feedback, .init = start, .fini = stop);

static void pass(uint64_t us)
{
	rig.virtual_us += us;
	rig.clock_us = rig.virtual_us;
}

/* Ten an hour, ten at once. */
static struct limit make(enum algorithm a, uint64_t limit)
{
	struct limit l = {.algorithm = a,
			  .limit = limit,
			  .per_us = 3600 * SECOND,
			  .burst = 10,
			  .hold_us = 3600 * SECOND,
			  .edges = {.edge_us = edges, .n = 4}};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static struct script_answer run_check(enum script_op_kind kind, const struct script_check *check,
				      bool ok, uint64_t hold_us, uint64_t most)
{
	struct script_op op = {.kind = kind,
			       .checks = check,
			       .n_checks = 1,
			       .ok = ok,
			       .hold_us = hold_us,
			       .amount = most};
	char permit[24];
	struct script_answer a;

	snprintf(permit, sizeof permit, "p%lu", (unsigned long)rig.stamp);
	if (check->limit->algorithm == ALGORITHM_CONCURRENCY)
		op.permit = slice_of(permit);
	script_rig_run(&rig, &op, 1, &a);
	return a;
}

static struct script_answer take(const struct limit *l, const char *key, uint64_t cost)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = cost};

	return run_check(SCRIPT_TAKE, &check, false, 0, 0);
}

static struct script_answer peek(const struct limit *l, const char *key)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1};

	return run_check(SCRIPT_PEEK, &check, false, 0, 0);
}

static void feed(const struct limit *l, const char *key, uint64_t hold_us, uint64_t most)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1};

	cr_assert_eq(run_check(SCRIPT_FEEDBACK, &check, true, hold_us, most).status,
		     SCRIPT_ALLOWED);
}

static void check_held(struct script_answer a, uint64_t us)
{
	cr_assert_eq(a.status, SCRIPT_REFUSED);
	cr_assert_eq(a.why, SCRIPT_HELD);
	cr_assert_eq(a.wait_us, (int64_t)us, "%ld", (long)a.wait_us);
	cr_assert_eq(a.remaining, 0);
}

Test(feedback, a_hold_refuses_until_its_end_and_leaves_the_state_alone)
{
	for (int k = 0; k < KINDS; k++) {
		struct limit l = make(kinds[k].algorithm, 10);
		const char *key = kinds[k].key;

		cr_assert_eq(take(&l, key, 3).status, SCRIPT_ALLOWED);
		feed(&l, key, 5 * SECOND, NONE);
		check_held(take(&l, key, 1), 5 * SECOND);
		check_held(peek(&l, key), 5 * SECOND);
		cr_assert_eq(take(&l, key, 11).why, SCRIPT_LIMITED, "it can never fit");
		pass(5 * SECOND - 1);
		check_held(take(&l, key, 1), 1);
		pass(1);
		cr_assert_eq(peek(&l, key).remaining, 7, "%d", k);
		cr_assert_eq(take(&l, key, 7).status, SCRIPT_ALLOWED, "%d", k);
		cr_assert_eq(take(&l, key, 1).why, SCRIPT_LIMITED);
		pass(SECOND);
	}
}

Test(feedback, a_longer_hold_replaces_a_shorter_one_only)
{
	for (int k = 0; k < KINDS; k++) {
		struct limit l = make(kinds[k].algorithm, 10);
		const char *key = kinds[k].key;

		feed(&l, key, 5 * SECOND, NONE);
		feed(&l, key, 2 * SECOND, NONE);
		feed(&l, key, 0, NONE);
		check_held(take(&l, key, 1), 5 * SECOND);
		feed(&l, key, 9 * SECOND, NONE);
		check_held(take(&l, key, 1), 9 * SECOND);
	}
}

Test(feedback, only_downwards)
{
	for (int k = 0; k < KINDS; k++) {
		struct limit l = make(kinds[k].algorithm, 10);
		const char *key = kinds[k].key;

		feed(&l, key, 0, 10);
		cr_assert_eq(peek(&l, key).remaining, 10);
		feed(&l, key, 0, 4);
		cr_assert_eq(peek(&l, key).remaining, 4, "%d", k);
		feed(&l, key, 0, 9);
		cr_assert_eq(peek(&l, key).remaining, 4);
		cr_assert_eq(take(&l, key, 4).status, SCRIPT_ALLOWED);
		feed(&l, key, 0, 0);
		cr_assert_eq(take(&l, key, 1).why, SCRIPT_LIMITED);
	}
}

static char first_byte(const char *key)
{
	struct redis_answer a = redis_client_command(&rig.client, "GET %s", key);
	char first = a.type == '$' && a.text.len > 0 ? a.text.ptr[0] : '\0';

	redis_answer_release(&a);
	return first;
}

Test(feedback, where_a_hold_is_and_when_it_goes)
{
	for (int k = 0; k < KINDS; k++) {
		struct limit l = make(kinds[k].algorithm, 10);

		feed(&l, kinds[k].key, 7200 * SECOND, NONE);
		cr_assert_eq(first_byte(kinds[k].hold_key), 'H');
		struct redis_answer a =
			redis_client_command(&rig.client, "PTTL %s", kinds[k].hold_key);

		cr_assert_geq(a.integer, 7200 * 1000, "%d", k);
		redis_answer_release(&a);
		pass(7200 * SECOND);
		cr_assert_eq(take(&l, kinds[k].key, 1).status, SCRIPT_ALLOWED);
	}
	cr_assert_neq(first_byte("k:b{a}"), 'H', "the next plain batch finds an integer");
}

Test(feedback, a_plain_batch_finds_a_held_key)
{
	struct limit l = make(ALGORITHM_TOKEN_BUCKET, 10);
	struct script_check check[3] = {{.limit = &l, .key = SLICE("k:b{a}1"), .cost = 3},
					{.limit = &l, .key = SLICE("k:b{a}2"), .cost = 3},
					{.limit = &l, .key = SLICE("k:b{a}1"), .cost = 7}};
	struct script_op op[3];
	struct script_answer answer[3];

	feed(&l, "k:b{a}2", SECOND, NONE);
	for (int i = 0; i < 3; i++)
		op[i] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &check[i], .n_checks = 1};
	script_rig_run(&rig, op, 3, answer);
	cr_assert(answer[0].status == SCRIPT_ALLOWED && answer[0].remaining == 7);
	check_held(answer[1], SECOND);
	cr_assert(answer[2].status == SCRIPT_ALLOWED && answer[2].remaining == 0);
}

Test(feedback, a_hold_outlives_changes_of_the_state)
{
	for (int k = 0; k < KINDS; k++) {
		struct limit l = make(kinds[k].algorithm, 10),
			     raised = make(kinds[k].algorithm, 20);
		struct script_check check = {.limit = &l, .key = slice_of(kinds[k].key), .cost = 4},
				    other = check;
		struct script_op op[2] = {{.kind = SCRIPT_TAKE,
					   .checks = &check,
					   .n_checks = 1,
					   .permit = SLICE("p")},
					  {.kind = SCRIPT_PEEK, .checks = &other, .n_checks = 1}};
		struct script_answer a[2];

		other.limit = &raised;
		script_rig_run(&rig, op, 1, a);
		feed(&l, kinds[k].key, 5 * SECOND, NONE);
		op[0].kind = SCRIPT_GIVE;
		op[0].stamp_us = a[0].now_us;
		script_rig_run(&rig, op, 2, a); /* and the limit changes within a batch */
		cr_assert_eq(a[0].amount, 4, "%d: %lu", k, (unsigned long)a[0].amount);
		check_held(a[1], 5 * SECOND);
		check_held(take(&raised, kinds[k].key, 1), 5 * SECOND);
		pass(5 * SECOND);
		cr_assert_eq(peek(&l, kinds[k].key).remaining, 10);
	}
}

Test(feedback, leases_are_refused_and_those_outstanding_kept)
{
	struct limit l = make(ALGORITHM_TOKEN_BUCKET, 10);
	struct script_check check = {.limit = &l, .key = SLICE("k:b{a}"), .cost = 1};
	struct script_op op = {.kind = SCRIPT_LEASE,
			       .checks = &check,
			       .n_checks = 1,
			       .amount = 6,
			       .lease = {1},
			       .ttl_us = SECOND / 2,
			       .sharers = 1};
	struct script_answer a;

	script_rig_run(&rig, &op, 1, &a);
	cr_assert(a.status == SCRIPT_ALLOWED && a.amount == 6);
	feed(&l, "k:b{a}", SECOND / 10, NONE);
	op.lease[0] = 2;
	script_rig_run(&rig, &op, 1, &a);
	check_held(a, SECOND / 10);
	op.kind = SCRIPT_UNLEASE;
	op.lease[0] = 1;
	op.amount = 5;
	script_rig_run(&rig, &op, 1, &a);
	cr_assert(a.status == SCRIPT_ALLOWED && a.amount == 5);
	check_held(take(&l, "k:b{a}", 1), SECOND / 10);
	pass(SECOND / 10);
	cr_assert_eq(peek(&l, "k:b{a}").remaining, 9);
}

Test(feedback, a_shadow_check_never_refuses)
{
	struct limit l = make(ALGORITHM_TOKEN_BUCKET, 10);
	struct script_check check = {
		.limit = &l, .key = SLICE("k:b{a}"), .cost = 1, .shadow = true};
	struct script_answer a;

	feed(&l, "k:b{a}", SECOND, NONE);
	a = run_check(SCRIPT_TAKE, &check, false, 0, 0);
	cr_assert(a.status == SCRIPT_SHADOWED && a.shadowed);
}

Test(feedback, of_several_checks_the_held_one_refuses_all)
{
	struct limit l = make(ALGORITHM_TOKEN_BUCKET, 10), w = make(ALGORITHM_SLIDING_WINDOW, 10);
	struct script_check check[2] = {{.limit = &l, .key = SLICE("k:b{a}"), .cost = 1},
					{.limit = &w, .key = SLICE("k:w{a}"), .cost = 1}};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = check, .n_checks = 2};
	struct script_answer a;

	feed(&w, "k:w{a}", SECOND, NONE);
	script_rig_run(&rig, &op, 1, &a);
	check_held(a, SECOND);
	cr_assert_eq(a.check, 1);
	cr_assert_eq(peek(&l, "k:b{a}").remaining, 10);
}

Test(feedback, a_limit_of_zero_is_left_alone)
{
	for (int k = 0; k < KINDS; k++) {
		struct limit l = make(kinds[k].algorithm, 0);

		feed(&l, kinds[k].key, SECOND, 0);
		cr_assert_eq(take(&l, kinds[k].key, 1).wait_us, -1);
		cr_assert_eq(first_byte(kinds[k].hold_key), '\0');
	}
}

/* ---- Breakers ---- */

static const struct breaker_rule rule = {
	.failures = 2, .of = 3, .open_us = 5 * SECOND, .trials = 1};

static struct script_answer guarded(enum script_op_kind kind, int k, bool ok)
{
	struct limit l = make(kinds[k].algorithm, 10);
	struct script_check check = {
		.limit = &l, .key = slice_of(kinds[k].key), .cost = 1, .breaker = &rule};

	return run_check(kind, &check, ok, 0, NONE);
}

static void check_open(struct script_answer a, uint64_t us)
{
	cr_assert_eq(a.status, SCRIPT_REFUSED);
	cr_assert_eq(a.why, SCRIPT_BREAKER_OPEN);
	cr_assert_eq(a.wait_us, (int64_t)us, "%ld", (long)a.wait_us);
}

Test(feedback, a_breaker_opens_tries_and_closes)
{
	for (int k = 0; k < KINDS; k++) {
		cr_assert_eq(guarded(SCRIPT_FEEDBACK, k, false).amount, BREAKER_SAME);
		cr_assert_eq(guarded(SCRIPT_TAKE, k, false).status, SCRIPT_ALLOWED);
		cr_assert_eq(guarded(SCRIPT_FEEDBACK, k, false).amount, BREAKER_OPENED);
		check_open(guarded(SCRIPT_TAKE, k, false), 5 * SECOND);
		pass(5 * SECOND);
		cr_assert_eq(guarded(SCRIPT_PEEK, k, false).status, SCRIPT_ALLOWED,
			     "a look is no trial");
		cr_assert_eq(guarded(SCRIPT_TAKE, k, false).status, SCRIPT_ALLOWED);
		check_open(guarded(SCRIPT_TAKE, k, false), 5 * SECOND);
		cr_assert_eq(guarded(SCRIPT_FEEDBACK, k, false).amount, BREAKER_OPENED);
		pass(5 * SECOND);
		cr_assert_eq(guarded(SCRIPT_TAKE, k, false).status, SCRIPT_ALLOWED);
		pass(5 * SECOND - 1);
		check_open(guarded(SCRIPT_TAKE, k, false), 1);
		pass(1);
		cr_assert_eq(guarded(SCRIPT_TAKE, k, false).status, SCRIPT_ALLOWED,
			     "the trial had no outcome");
		cr_assert_eq(guarded(SCRIPT_FEEDBACK, k, true).amount, BREAKER_CLOSED);
		cr_assert_eq(guarded(SCRIPT_TAKE, k, false).status, SCRIPT_ALLOWED);
	}
}

Test(feedback, a_healthy_key_has_no_breaker)
{
	cr_assert_eq(guarded(SCRIPT_FEEDBACK, 0, true).amount, BREAKER_SAME);
	cr_assert_eq(first_byte("k:ob{a}"), '\0');
	guarded(SCRIPT_FEEDBACK, 0, false);
	cr_assert_eq(first_byte("k:ob{a}"), 'c');
	for (int i = 0; i < 3; i++)
		guarded(SCRIPT_FEEDBACK, 0, true);
	cr_assert_eq(first_byte("k:ob{a}"), '\0');
}

Test(feedback, a_trial_that_was_given_back_is_free)
{
	struct limit l = make(ALGORITHM_TOKEN_BUCKET, 10);
	struct script_check check = {
		.limit = &l, .key = SLICE("k:b{a}"), .cost = 1, .breaker = &rule};
	struct script_op op = {.kind = SCRIPT_GIVE, .checks = &check, .n_checks = 1};
	struct script_answer a;

	guarded(SCRIPT_FEEDBACK, 0, false);
	guarded(SCRIPT_FEEDBACK, 0, false);
	pass(5 * SECOND);
	op.stamp_us = guarded(SCRIPT_TAKE, 0, false).now_us;
	pass(SECOND);
	check_open(guarded(SCRIPT_TAKE, 0, false), 4 * SECOND);
	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(guarded(SCRIPT_TAKE, 0, false).status, SCRIPT_ALLOWED);
}

/* What was admitted while the store was away is taken as far as it is there, and never refused. */
Test(feedback, a_charge_takes_what_is_there)
{
	for (unsigned i = 0; i < KINDS; i++) {
		struct limit l = make(kinds[i].algorithm, 10);
		struct script_check check = {.limit = &l, .key = slice_of(kinds[i].key), .cost = 7};
		struct script_answer a = run_check(SCRIPT_CHARGE, &check, false, 0, NONE);

		cr_assert_eq(a.status, SCRIPT_ALLOWED, "%s", kinds[i].key);
		cr_assert_eq(a.remaining, 3, "%s: %lu", kinds[i].key, (unsigned long)a.remaining);
		a = run_check(SCRIPT_CHARGE, &check, false, 0, NONE);
		cr_assert_eq(a.status, SCRIPT_ALLOWED, "%s", kinds[i].key);
		cr_assert_eq(a.remaining, 0, "%s", kinds[i].key);
		check.cost = 1;
		a = run_check(SCRIPT_TAKE, &check, false, 0, NONE);
		cr_assert_eq(a.status, SCRIPT_REFUSED, "%s", kinds[i].key);
	}
}
