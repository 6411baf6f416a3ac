/* What an agent says of a global quota: the floor by its configuration, and demand in parts of the whole. */
#include <criterion/criterion.h>

#include "core/share_plan.h"
#include "edge_regions.h"
#include "quota.h"

Test(quota, the_floor_is_the_regions_part_rounded_down)
{
	struct region_conf of[2] = {{.floor_ppm = 250000}, {.floor_ppm = 333333}};
	const struct edge_regions regions = {.n = 2, .own = 1, .of = of, .version = 7};
	const struct policy p = {.global = {.loose = true, .whole = 1000}};
	const struct policy few = {.global = {.whole = 2}};
	const struct script_quota q = quota_of(&regions, &p);

	cr_expect_eq(q.whole, 1000);
	cr_expect_eq(q.floor, 333);
	cr_expect_eq(q.floors, 7);
	cr_expect(q.loose);
	cr_expect_eq(q.lend_us, SHARE_LEND_US);
	cr_expect_eq(quota_of(&regions, &few).floor, 0);
	cr_expect_not(quota_of(&regions, &few).loose);
}

Test(quota, demand_is_a_part_of_the_whole)
{
	const struct policy rate = {.global.whole = SHARE_RATE_WHOLE};
	const struct policy days = {.global.whole = 500};
	const struct limit a_minute = {
		.algorithm = ALGORITHM_TOKEN_BUCKET, .limit = 600, .per_us = 60000000};
	const struct limit window = {
		.algorithm = ALGORITHM_SLIDING_WINDOW, .limit = 50, .per_us = 2000000};
	const struct limit day = {.algorithm = ALGORITHM_CALENDAR, .limit = 500};
	const struct limit none = {.algorithm = ALGORITHM_TOKEN_BUCKET, .per_us = 1};

	cr_expect_eq(quota_demand(&rate, &a_minute, 5, 0), 500);
	cr_expect_eq(quota_demand(&rate, &a_minute, 25, 0), 2500);
	cr_expect_eq(quota_demand(&rate, &a_minute, 1e-3, 0), 1, "who asks has some");
	cr_expect_eq(quota_demand(&rate, &a_minute, 0, 0), 0);
	cr_expect_eq(quota_demand(&rate, &a_minute, 1e30, 0), LIMIT_MAX);
	cr_expect_eq(quota_demand(&rate, &none, 10, 0), 0);
	/* Of a level whose limit is less than the whole, the same part. */
	cr_expect_eq(quota_demand(&days, &window, 10, 0), 200);
	cr_expect_eq(quota_demand(&days, &day, 99, 7), 28, "it reckons with more to come");
}

Test(quota, first_demand_is_the_floor_at_least)
{
	struct region_conf of[1] = {{.floor_ppm = 100000}};
	const struct edge_regions regions = {.n = 1, .of = of, .version = 1};
	const struct policy p = {.global.whole = SHARE_RATE_WHOLE};
	const struct limit a_minute = {
		.algorithm = ALGORITHM_TOKEN_BUCKET, .limit = 600, .per_us = 60000000};

	cr_expect_eq(quota_first_demand(&regions, &p, &a_minute, 1), 100);
	cr_expect_eq(quota_first_demand(&regions, &p, &a_minute, 90), 150);
	of[0].floor_ppm = 0;
	cr_expect_eq(quota_first_demand(&regions, &p, &a_minute, 6), 10);
	cr_expect_eq(quota_first_demand(&regions, &p, &(struct limit){.per_us = 1}, 6), 1);
}
