/* What a refusal by a share says of the time: what the share of now gives, or that a grant may come before; and that nobody tells of demand. */
#include <criterion/criterion.h>

#include "core/share_plan.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define HOUR (3600 * SECOND)
#define GRANT_US (SECOND / 2)
#define START (UINT64_C(4102444800) * SECOND) /* the year 2100: keys don't expire meanwhile */

static const struct script_quota quota = {.whole = SHARE_RATE_WHOLE,
					  .floor = 500,
					  .floors = 1,
					  .lend_us = 30 * SECOND,
					  .grant_us = GRANT_US};

static struct script_rig rig;
static struct limit limit;

/* 100 an hour: of half of it one comes in 72 s. */
static void start(void)
{
	limit = (struct limit){.limit = 100, .burst = 100, .per_us = HOUR};
	cr_assert_eq(limit_init(&limit), KOVA_OK);
	script_rig_start(&rig);
	rig.virtual_us = START;
}

static void stop(void)
{
	script_rig_stop(&rig);
}

TestSuite(quota_wait, .init = start, .fini = stop);

static struct script_answer run(struct script_op op, uint64_t cost)
{
	const struct script_check check = {.limit = &limit,
					   .key = slice_of("k:b{root}policy:0"),
					   .cost = cost,
					   .quota = &quota};
	struct script_answer a;

	op.checks = &check;
	op.n_checks = 1;
	script_rig_run(&rig, &op, 1, &a);
	return a;
}

static struct script_answer take(uint64_t cost)
{
	return run((struct script_op){.kind = SCRIPT_TAKE}, cost);
}

static struct script_share report(uint32_t demand)
{
	struct script_answer a = run(
		(struct script_op){.kind = SCRIPT_SHARE_REPORT, .asked = {1, demand, 2 * SECOND}},
		1);
	struct script_share s;

	cr_assert_eq(script_share_parse(&a, &s), KOVA_OK);
	return s;
}

/* In answer to a report of now. */
static void grant(uint32_t parts, uint64_t duration_us, uint32_t demand)
{
	static uint64_t seq;
	struct share_report r = report(demand).report;
	const struct share_grant g = {.seq = ++seq,
				      .clock = r.clock,
				      .t0_us = r.t0_us,
				      .duration_us = duration_us,
				      .whole = SHARE_RATE_WHOLE,
				      .parts = parts,
				      .epoch = 7,
				      .c0_us = 1};

	cr_assert_eq(run((struct script_op){.kind = SCRIPT_SHARE_READ, .grant = &g}, 1).status,
		     SCRIPT_ALLOWED);
}

Test(quota_wait, of_what_nobody_has_told_a_grant_may_come)
{
	struct script_op lease = {
		.kind = SCRIPT_LEASE, .amount = 5, .sharers = 1, .lease = {1}, .ttl_us = SECOND};

	cr_assert_eq(take(50).status, SCRIPT_ALLOWED);
	cr_expect_eq(take(1).wait_us, GRANT_US);
	cr_expect(take(1).is_untold);
	cr_expect(run(lease, 1).is_untold);
	cr_expect_not(run((struct script_op){.kind = SCRIPT_PEEK}, 1).is_untold);
	cr_expect_not(take(101).is_untold, "it never fits");
	cr_expect_eq(take(101).wait_us, -1);
	report(0);
	cr_expect(take(1).is_untold, "no demand");
	report(1);
	cr_expect_not(take(1).is_untold);
	cr_expect_eq(take(1).wait_us, GRANT_US);
	rig.virtual_us += 3 * SECOND;
	cr_expect(take(1).is_untold, "that counts no more");
}

Test(quota_wait, where_no_grant_comes_it_is_what_the_floor_gives)
{
	cr_assert_eq(take(50).status, SCRIPT_ALLOWED);
	for (int i = 0; i < 6; i++) {
		report(1);
		cr_expect_eq(take(1).wait_us, i < 5 ? GRANT_US : 72 * SECOND - 5 * SECOND, "%d", i);
		rig.virtual_us += SECOND;
	}
	cr_expect_eq(take(51).wait_us, GRANT_US, "a larger share alone can hold it");
}

Test(quota_wait, a_grant_is_expected_to_go_on)
{
	grant(800, 2 * SECOND, 1);
	cr_assert_eq(take(50).status, SCRIPT_ALLOWED, "tokens don't come with it");
	cr_expect_eq(take(1).wait_us, 45 * SECOND);
	cr_expect_eq(take(1).wait_us, 45 * SECOND);
}

Test(quota_wait, nobody_waits_for_a_lent_floor)
{
	grant(600, 2 * SECOND, 0);
	rig.virtual_us += 3 * SECOND;
	cr_assert_eq(report(0).report.lent, 500);
	cr_expect_eq(take(1).status, SCRIPT_REFUSED);
	cr_expect(take(1).is_untold);
	for (int i = 0; i < 20; i++) {
		cr_expect_eq(take(1).wait_us, GRANT_US);
		report(1);
		rig.virtual_us += SECOND;
	}
	rig.virtual_us += 10 * SECOND; /* it is over */
	cr_expect_eq(take(51).wait_us, GRANT_US);
	cr_expect_leq(take(1).wait_us, (int64_t)GRANT_US);
}
