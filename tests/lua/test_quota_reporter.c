/* Of several agents of a region one reports: the one that has been asked for the longest, and when it is silent, the next. */
#include <criterion/criterion.h>

#include "core/share_plan.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define GRANT_US (SECOND / 2)
#define START (UINT64_C(4102444800) * SECOND) /* the year 2100: keys don't expire meanwhile */

static struct script_rig rig;
static struct limit limit;

static struct script_share report(uint64_t agent, uint32_t demand)
{
	const struct script_quota quota = {
		.whole = SHARE_RATE_WHOLE, .floor = 100, .floors = 1, .grant_us = GRANT_US};
	const struct script_check check = {
		.limit = &limit, .key = slice_of("k:b{root}policy:0"), .cost = 1, .quota = &quota};
	const struct script_op op = {.kind = SCRIPT_SHARE_REPORT,
				     .checks = &check,
				     .n_checks = 1,
				     .asked = {agent, demand, SECOND}};
	struct script_answer a;
	struct script_share s;

	script_rig_run(&rig, &op, 1, &a);
	cr_assert_eq(script_share_parse(&a, &s), KOVA_OK);
	return s;
}

Test(quota_reporter, one_of_several)
{
	limit = (struct limit){.limit = 10, .burst = 10, .per_us = SECOND};
	cr_assert_eq(limit_init(&limit), KOVA_OK);
	script_rig_start(&rig);
	rig.virtual_us = START;
	for (int i = 0; i < 3; i++) {
		cr_expect(report(7, 1).reporter);
		cr_expect_not(report(8, 2).reporter);
		cr_expect_not(report(6, 4).reporter);
		cr_expect_eq(report(7, 1).report.demand, 7);
		rig.virtual_us += SECOND / 2;
	}
	rig.virtual_us += SECOND / 4;
	cr_expect_not(report(8, 2).reporter);
	cr_expect_not(report(6, 4).reporter, "the first is silent, but not for long");
	rig.virtual_us += SECOND / 2;
	cr_expect(report(8, 2).reporter);
	cr_expect_eq(report(6, 4).report.demand, 6);
	cr_expect_not(report(7, 1).reporter, "it has come again");
	rig.virtual_us += 2 * SECOND;
	cr_expect(report(6, 0).reporter);
	script_rig_stop(&rig);
}
