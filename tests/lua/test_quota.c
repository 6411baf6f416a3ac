/* Decisions under a region's share of a quota: levels, weights, leases, what is reported, what stays in Redis and for how long. */
#include <criterion/criterion.h>

#include "core/share_plan.h"
#include "script_fixture.h"

TestSuite(quota, .init = start, .fini = stop);

#define HOUR (3600 * SECOND)
#define GRANT_US (SECOND / 2)

static const struct script_quota half = {.whole = SHARE_RATE_WHOLE,
					 .floor = 500,
					 .floors = 1,
					 .lend_us = 30 * SECOND,
					 .grant_us = GRANT_US};

static struct script_answer ask(enum script_op_kind kind, const struct limit *l, const char *key,
				uint64_t cost, const struct script_quota *q)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = cost, .quota = q};
	struct script_op op = {.kind = kind, .checks = &check, .n_checks = 1};

	return run(&op);
}

static struct script_share report(const struct limit *l, const char *key,
				  const struct script_quota *q, struct script_asked asked)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1, .quota = q};
	struct script_op op = {
		.kind = SCRIPT_SHARE_REPORT, .checks = &check, .n_checks = 1, .asked = asked};
	struct script_answer a = run(&op);
	struct script_share s;

	cr_assert_eq(script_share_parse(&a, &s), KOVA_OK);
	return s;
}

static struct script_share read_grant(const struct limit *l, const char *key,
				      const struct script_quota *q, struct share_grant g)
{
	struct script_check check = {.limit = l, .key = slice_of(key), .cost = 1, .quota = q};
	struct script_op op = {
		.kind = SCRIPT_SHARE_READ, .checks = &check, .n_checks = 1, .grant = &g};
	struct script_answer a = run(&op);
	struct script_share s;

	cr_assert_eq(a.status, SCRIPT_ALLOWED);
	cr_assert_eq(script_share_parse(&a, &s), KOVA_OK);
	return s;
}

/* A grant of all for `duration_us`, in answer to a report of now. */
static struct script_share grant_all(const struct limit *l, const char *key,
				     const struct script_quota *q, uint64_t seq,
				     uint64_t duration_us)
{
	struct script_share s = report(l, key, q, (struct script_asked){1, 1, SECOND});

	return read_grant(l, key, q,
			  (struct share_grant){.seq = seq,
					       .clock = s.report.clock,
					       .t0_us = s.report.t0_us,
					       .duration_us = duration_us,
					       .whole = q->whole,
					       .parts = q->whole,
					       .epoch = 7,
					       .c0_us = 1});
}

static int64_t ttl_ms(const char *key)
{
	return redis_client_integer(&rig.client, "PTTL %s", key);
}

Test(quota, each_level_has_the_same_part_of_its_own_limit)
{
	const struct script_quota q = {
		.whole = 100, .floor = 50, .floors = 1, .grant_us = GRANT_US};
	struct limit tenant = make(ALGORITHM_SLIDING_WINDOW, 100, HOUR, 0);
	struct limit user = make(ALGORITHM_SLIDING_WINDOW, 10, HOUR, 0);
	struct script_check check[2] = {
		{.limit = &tenant, .key = SLICE("k:w{a}p:0"), .cost = 1, .quota = &q},
		{.limit = &user, .key = SLICE("k:w{a}p:1/u"), .cost = 1, .quota = &q}};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = check, .n_checks = 2};
	struct script_answer a;

	for (unsigned i = 1; i <= 5; i++) {
		a = run(&op);
		cr_assert_eq(a.status, SCRIPT_ALLOWED);
		cr_assert_eq(a.remaining, 5 - i);
	}
	a = run(&op);
	cr_assert_eq(a.status, SCRIPT_REFUSED);
	cr_expect_eq(a.check, 1);
	cr_expect_eq(
		report(&tenant, "k:w{a}p:0", &q, (struct script_asked){1, 0, SECOND}).report.used,
		50, "half of what a user has in all is half of the whole");
	cr_expect_eq(ask(SCRIPT_TAKE, &tenant, "k:w{a}p:0", 45, &q).status, SCRIPT_ALLOWED);
	cr_expect_eq(ask(SCRIPT_TAKE, &tenant, "k:w{a}p:0", 1, &q).status, SCRIPT_REFUSED);
}

Test(quota, a_cost_that_only_the_whole_holds_is_asked_for_again)
{
	struct limit l = bucket(100, HOUR, 100);
	struct limit w = make(ALGORITHM_SLIDING_WINDOW, 1000, HOUR, 0);

	cr_expect_eq(ask(SCRIPT_TAKE, &l, "k:b{a}p:0", 50, &half).status, SCRIPT_ALLOWED);
	cr_expect_eq(ask(SCRIPT_TAKE, &l, "k:b{a}p:0/x", 51, &half).wait_us, GRANT_US);
	cr_expect_eq(ask(SCRIPT_TAKE, &l, "k:b{a}p:0/x", 101, &half).wait_us, -1);
	cr_expect_eq(ask(SCRIPT_TAKE, &w, "k:w{b}p:0", 501, &half).wait_us, GRANT_US);
	cr_expect_eq(ask(SCRIPT_TAKE, &w, "k:w{b}p:0", 1001, &half).wait_us, -1);
}

Test(quota, what_is_given_back_is_at_most_what_the_share_holds)
{
	struct limit l = bucket(100, HOUR, 100);
	struct script_check check = {
		.limit = &l, .key = SLICE("k:b{a}p:0"), .cost = 30, .quota = &half};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = &check, .n_checks = 1};
	struct script_answer a = run(&op);

	cr_assert_eq(a.remaining, 20);
	op.kind = SCRIPT_GIVE;
	op.stamp_us = a.now_us;
	check.cost = 10;
	a = run(&op);
	cr_expect_eq(a.remaining, 30);
	check.cost = 100;
	a = run(&op);
	cr_expect_eq(a.remaining, 50);
	cr_expect_eq(ttl_ms("k:b{a}p:0"), -2, "one that is full is as if it were not there");
}

Test(quota, demand_is_that_of_all_agents_as_long_as_it_counts)
{
	struct limit l = bucket(100, SECOND, 100);
	const char *key = "k:b{a}p:0";

	cr_expect_eq(report(&l, key, &half, (struct script_asked){1, 100, HOUR}).report.demand,
		     100);
	cr_expect_eq(report(&l, key, &half, (struct script_asked){2, 50, 50000}).report.demand,
		     150);
	cr_expect_eq(report(&l, key, &half, (struct script_asked){1, 70, HOUR}).report.demand, 120);
	sleep_us(60000);
	cr_expect_eq(report(&l, key, &half, (struct script_asked){3, 0, HOUR}).report.demand, 70);
}

Test(quota, who_is_asked_for_nothing_lends_its_floor)
{
	struct limit l = bucket(100, SECOND, 100);
	const char *key = "k:b{a}p:0";
	struct script_share s;

	grant_all(&l, key, &half, 1, SECOND / 10);
	sleep_us(110000);
	s = report(&l, key, &half, (struct script_asked){1, 0, SECOND});
	cr_expect_eq(s.report.lent, 500);
	cr_expect_eq(s.report.lent_epoch, 7);
	cr_expect_eq(s.report.lent_c0_us, 1);
	cr_expect_eq(s.parts, 0);
	cr_expect_gt(s.lent_us, 29 * SECOND);
	cr_expect_eq(ask(SCRIPT_TAKE, &l, key, 1, &half).status, SCRIPT_REFUSED);
}

Test(quota, a_lease_ends_before_the_grant_that_it_rests_on)
{
	struct limit l = bucket(1000, SECOND, 1000);
	struct script_check check = {
		.limit = &l, .key = SLICE("k:b{a}p:0"), .cost = 1, .quota = &half};
	struct script_op op = {.kind = SCRIPT_LEASE,
			       .checks = &check,
			       .n_checks = 1,
			       .amount = 10,
			       .sharers = 1,
			       .lease = {1},
			       .ttl_us = SECOND};

	grant_all(&l, "k:b{a}p:0", &half, 1, SECOND / 2);
	cr_expect_eq(run(&op).lease_us, 0);
	op.ttl_us = 10000;
	cr_expect_eq(run(&op).lease_us, 10000);
}

Test(quota, a_state_of_another_scope_is_empty)
{
	struct limit l = bucket(1, HOUR, 100);
	const char *key = "k:b{a}p:0";

	cr_assert_eq(take(&l, key, 1).remaining, 99);
	cr_expect_eq(ask(SCRIPT_TAKE, &l, key, 1, &half).status, SCRIPT_REFUSED);
	cr_assert_eq(ask(SCRIPT_TAKE, &l, "k:b{b}p:0", 1, &half).remaining, 49);
	cr_expect_eq(take(&l, "k:b{b}p:0", 1).status, SCRIPT_REFUSED);
	cr_expect_eq(peek(&l, "k:b{b}p:0").remaining, 0);
}

Test(quota, children_with_weights_share_what_the_region_has)
{
	struct limit l = bucket(100, HOUR, 100);
	struct script_check check = {.limit = &l,
				     .key = SLICE("k:b{a}p:0"),
				     .cost = 1,
				     .quota = &half,
				     .share = {.id = 1, .weight = 1, .most = 100}};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = &check, .n_checks = 1};
	unsigned taken[2] = {0};

	for (unsigned child = 0; child < 2; child++) {
		check.share.id = 1 + child;
		cr_assert_eq(run(&op).status, SCRIPT_ALLOWED);
	}
	for (unsigned child = 0; child < 2; child++) {
		check.share.id = 1 + child;
		while (run(&op).status == SCRIPT_ALLOWED)
			taken[child]++;
	}
	cr_expect_eq(taken[0], 24);
	cr_expect_eq(taken[1], 23, "the first that it took was of its part");
}

Test(quota, a_share_that_is_none_now_is_held_all_the_same)
{
	const struct script_quota none = {
		.whole = 100, .floor = 0, .floors = 1, .grant_us = GRANT_US};
	const struct script_quota all = {
		.whole = 100, .floor = 100, .floors = 2, .grant_us = GRANT_US};
	struct limit l = make(ALGORITHM_SLIDING_WINDOW, 100, HOUR, 0);
	struct script_check check = {
		.limit = &l, .key = SLICE("k:w{a}p:0"), .cost = 1, .quota = &none};
	struct script_op op = {.kind = SCRIPT_FEEDBACK,
			       .checks = &check,
			       .n_checks = 1,
			       .amount = UINT64_MAX,
			       .hold_us = HOUR};
	struct script_share s = report(&l, "k:w{a}p:0", &none, (struct script_asked){1, 1, SECOND});

	run(&op);
	s = read_grant(&l, "k:w{a}p:0", &all,
		       (struct share_grant){.seq = 1,
					    .clock = s.report.clock,
					    .t0_us = s.report.t0_us,
					    .whole = 100,
					    .floors = 2});
	cr_assert_eq(s.parts, 100);
	cr_expect_eq(ask(SCRIPT_TAKE, &l, "k:w{a}p:0", 1, &all).why, SCRIPT_HELD);
}

Test(quota, keys_stay_until_absence_says_no_more)
{
	struct limit l = bucket(60, 60 * SECOND, 100);
	const struct script_quota later = {
		.whole = SHARE_RATE_WHOLE, .floor = 400, .floors = 2, .grant_us = GRANT_US};
	double full_ms = 100 * 1000, e_folds = 18.42; /* ln 10^8 */
	struct script_share s;

	ask(SCRIPT_TAKE, &l, "k:b{a}p:0", 50, &half);
	cr_expect_gt(ttl_ms("k:b{a}p:0"), (int64_t)(full_ms * e_folds) + 60000);
	cr_expect_lt(ttl_ms("k:b{a}p:0"), (int64_t)(full_ms * (e_folds + 1)) + 63000);
	cr_expect_gt(ttl_ms("k:q{a}p"), 3600000);
	cr_expect_lt(ttl_ms("k:q{a}p"), 3600000 + 63000);
	ask(SCRIPT_TAKE, &l, "k:b{b}p:0", 1, &later);
	cr_expect_gt(ttl_ms("k:q{b}p"), INT64_C(30) * 86400000, "nothing is confirmed yet");
	s = report(&l, "k:b{a}p:0", &half, (struct script_asked){1, 1, SECOND});
	read_grant(
		&l, "k:b{a}p:0", &later,
		(struct share_grant){
			.seq = 1, .clock = s.report.clock, .whole = SHARE_RATE_WHOLE, .floors = 2});
	cr_expect_gt(ttl_ms("k:q{a}p"), INT64_C(30) * 86400000);
}

Test(quota, a_calendar_counts_for_the_window_that_the_clock_shows)
{
	const struct script_quota q = {
		.whole = 100, .floor = 50, .floors = 1, .grant_us = GRANT_US};
	uint64_t edge[4];
	struct limit l = calendar(100, edge);
	const char *key = "k:d{a}p:0";
	struct script_share s;

	cr_assert_eq(ask(SCRIPT_TAKE, &l, key, 30, &q).remaining, 20);
	cr_expect_eq(ask(SCRIPT_TAKE, &l, key, 21, &q).status, SCRIPT_REFUSED);
	s = report(&l, key, &q, (struct script_asked){1, 5, SECOND});
	cr_expect_eq(s.report.used, 30);
	cr_expect_eq(s.report.demand, 35);
	cr_expect_eq(s.window_us, edge[1]);
	s = grant_all(&l, key, &q, 1, 1000 * HOUR);
	cr_expect_leq(s.granted_us, edge[2] - s.report.t0_us, "it ends with the window");
	cr_expect_eq(ask(SCRIPT_TAKE, &l, key, 70, &q).status, SCRIPT_ALLOWED);
}
