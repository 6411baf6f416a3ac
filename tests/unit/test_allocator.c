/* The allocator and the region's share by themselves: what counts, until when, and what changes it. tests/sim has them at work. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/allocator.h"
#include "core/region_share.h"

#define SECOND UINT64_C(1000000)
#define EPOCH 77

static const struct region_share_terms region_terms = {.lend_us = 30 * SECOND,
						       .lease_max_us = SECOND};

static struct allocator *a;

static void set_up(void)
{
	a = malloc(ALLOCATOR_BYTES(2));
}

static void tear_down(void)
{
	free(a);
}

TestSuite(allocator, .init = set_up, .fini = tear_down);

static struct allocator_terms rate_terms(void)
{
	return (struct allocator_terms){
		.kind = SHARE_RATE,
		.n_regions = 2,
		.whole = SHARE_RATE_WHOLE,
		.duration_us = 5 * SECOND,
		.margin_us = 600000,
		.lend_us = 30 * SECOND,
		.max_skew_us = 250000,
		.region = {{.floor = 100, .before = 100, .weight = 1},
			   {.floor = 100, .before = 100, .weight = 1}},
	};
}

static struct share_report report(uint64_t t0_us, uint32_t demand)
{
	return (struct share_report){.clock = 1, .t0_us = t0_us, .whole = 1000, .demand = demand};
}

/* The grant for a region that reports now; parts 0: none. */
static struct share_grant grant(const struct allocator_terms *t, unsigned region, uint64_t now_us,
				struct share_report r)
{
	struct share_grant grants[ALLOCATOR_REGIONS_MAX];
	uint32_t given;

	allocator_report(a, t, EPOCH, region, now_us, &r);
	given = allocator_grant(a, t, EPOCH, now_us, grants);
	return given >> region & 1 ? grants[region] : (struct share_grant){0};
}

Test(allocator, what_one_leaves_the_other_gets_above_its_floor)
{
	struct allocator_terms t = rate_terms();
	struct share_grant g;

	allocator_init(a, &t);
	g = grant(&t, 0, SECOND, report(500, 2000));
	cr_expect_eq(g.parts, 900);
	cr_expect_eq(g.t0_us, 500);
	cr_expect_eq(g.seq, 1);
	cr_expect_eq(g.c0_us, SECOND);
	cr_expect_eq(allocator_counted(a, &t, 0, SECOND), 900);
	cr_expect_eq(allocator_counted(a, &t, 0, SECOND + 5600000 - 1), 900);
	cr_expect_eq(allocator_counted(a, &t, 0, SECOND + 5600000 + ALLOCATOR_TICK_US), 100);
}

Test(allocator, a_report_is_answered_once)
{
	struct allocator_terms t = rate_terms();

	allocator_init(a, &t);
	cr_expect_eq(grant(&t, 0, SECOND, report(500, 2000)).seq, 1);
	cr_expect_eq(grant(&t, 0, 9 * SECOND, report(500, 2000)).seq, 0, "it is not news");
	cr_expect_eq(grant(&t, 0, 9 * SECOND, report(501, 2000)).seq, 2);
}

Test(allocator, less_counts_once_it_is_reported)
{
	struct allocator_terms t = rate_terms();
	struct share_report r = report(500, 2000);

	allocator_init(a, &t);
	cr_expect_eq(grant(&t, 0, SECOND, r).parts, 900);
	/* Another wants its part. */
	cr_expect_eq(grant(&t, 1, SECOND, report(500, 2000)).parts, 100);
	r.t0_us++;
	cr_expect_eq(grant(&t, 0, 2 * SECOND, r).parts, 500);
	cr_expect_eq(allocator_counted(a, &t, 0, 2 * SECOND), 900);
	cr_expect_eq(grant(&t, 1, 3 * SECOND, report(501, 2000)).parts, 100);
	/* Read, not reported yet that it was. */
	r.t0_us++;
	r.seq = 1;
	r.live = true;
	grant(&t, 0, 3 * SECOND, r);
	cr_expect_eq(allocator_counted(a, &t, 0, 3 * SECOND), 900);
	r.t0_us++;
	r.seq = 2;
	allocator_report(a, &t, EPOCH, 0, 3 * SECOND, &r);
	cr_expect_eq(allocator_counted(a, &t, 0, 3 * SECOND), 500);
	cr_expect_eq(grant(&t, 1, 3 * SECOND, report(502, 2000)).parts, 500);
}

Test(allocator, little_is_not_moved)
{
	struct allocator_terms t = rate_terms();

	allocator_init(a, &t);
	cr_expect_eq(grant(&t, 0, SECOND, report(500, 480)).parts, 600 + 150);
	cr_expect_eq(grant(&t, 1, SECOND, report(500, 0)).parts, 250);
	cr_expect_eq(grant(&t, 0, SECOND + 1, report(501, 490)).seq, 0);
	cr_expect_eq(grant(&t, 0, SECOND + 1, report(502, 400)).seq, 0);
}

Test(allocator, an_owner_that_takes_over_counts_the_largest_that_may_live)
{
	struct allocator_terms t = rate_terms();
	const struct share_grant newest = {.seq = 9,
					   .clock = 1,
					   .t0_us = 100,
					   .duration_us = 5 * SECOND,
					   .whole = 1000,
					   .parts = 300,
					   .before = 800,
					   .floor = 100};

	allocator_init(a, &t);
	allocator_restore(a, &t, 0, SECOND, &newest);
	cr_expect_eq(allocator_counted(a, &t, 0, SECOND), 800);
	cr_expect_eq(grant(&t, 1, 2 * SECOND, report(1, 2000)).parts, 200);
	cr_expect_eq(grant(&t, 0, 3 * SECOND, report(101, 2000)).seq, 10);
}

Test(allocator, a_lent_floor_is_used_by_who_lent_it_to_whom_and_in_time)
{
	struct allocator_terms t = rate_terms();
	struct share_report lends = report(1, 0);

	allocator_init(a, &t);
	lends.lent = 100;
	lends.lent_epoch = EPOCH + 1;
	lends.lent_c0_us = SECOND;
	allocator_report(a, &t, EPOCH, 1, SECOND, &lends);
	cr_expect_eq(grant(&t, 0, SECOND, report(1, 2000)).parts, 900, "another's promise");
	lends.t0_us++;
	lends.lent_epoch = EPOCH;
	lends.seq = 1;
	cr_expect_eq(grant(&t, 1, 2 * SECOND, lends).parts, 0);
	lends.t0_us++;
	lends.seq = 2;
	allocator_report(a, &t, EPOCH, 1, 2 * SECOND, &lends);
	cr_expect_eq(grant(&t, 0, 2 * SECOND, report(2, 2000)).parts, 1000);
	/* The promise binds until 31 s; of these 0.8 s are margin, and a grant counts for 5.6 s. */
	cr_expect_eq(grant(&t, 0, 24600000 - 2 * ALLOCATOR_TICK_US, report(3, 2000)).parts, 1000);
	cr_expect_eq(grant(&t, 0, 24600001 + 5 * SECOND, report(4, 2000)).parts, 900);
}

Test(allocator, a_raised_floor_waits_until_there_is_room_for_it)
{
	struct allocator_terms t = rate_terms();
	struct share_report r = report(500, 2000);
	struct share_grant g;

	allocator_init(a, &t);
	cr_expect_eq(grant(&t, 0, SECOND, r).parts, 900);
	t.floors = 1;
	t.region[1].floor = 500;
	allocator_set_floors(a, &t);
	cr_expect_eq(grant(&t, 1, SECOND, report(500, 2000)).floors, 0);
	r.t0_us++;
	r.floors = 1;
	g = grant(&t, 1, 7 * SECOND, report(501, 2000));
	cr_expect_eq(g.floors, 1);
	cr_expect_eq(g.floor, 500);
}

Test(allocator, who_does_not_know_the_newest_floors_lowers_none)
{
	struct allocator_terms t = rate_terms();
	const struct share_grant risen = {
		.seq = 1, .clock = 1, .whole = 1000, .floor = 500, .floors = 1};
	struct share_report r = report(501, 0);

	r.floors = 1;
	allocator_init(a, &t);
	allocator_restore(a, &t, 1, SECOND, &risen);
	allocator_report(a, &t, EPOCH, 1, SECOND, &r);
	cr_expect_eq(allocator_counted(a, &t, 1, 60 * SECOND), 500);
}

Test(allocator, there_is_no_grant_without_room_not_even_for_a_floor)
{
	struct allocator_terms t = rate_terms();
	const struct share_grant all = {.seq = 1,
					.clock = 1,
					.duration_us = 5 * SECOND,
					.whole = 1000,
					.parts = 1000,
					.floor = 100};

	/* The other's floor was lent, by a promise to an owner before. */
	allocator_init(a, &t);
	allocator_restore(a, &t, 0, SECOND, &all);
	cr_expect_eq(grant(&t, 1, SECOND, report(1, 2000)).parts, 0);
}

Test(allocator, a_window_remembers_what_was_used)
{
	struct allocator_terms t = rate_terms();
	struct share_report r = report(500, 2000);

	t.kind = SHARE_WINDOW;
	t.whole = 1000;
	t.window_us = 10 * SECOND;
	allocator_init(a, &t);
	cr_expect_eq(grant(&t, 0, SECOND, r).parts, 900);
	cr_expect_eq(allocator_counted(a, &t, 0, 16 * SECOND), 900, "for a window more");
	r = (struct share_report){.clock = 1, .t0_us = 501, .seq = 1, .whole = 1000, .used = 700};
	allocator_report(a, &t, EPOCH, 0, 7 * SECOND, &r);
	cr_expect_eq(allocator_counted(a, &t, 0, 7 * SECOND), 700);
	cr_expect_eq(allocator_counted(a, &t, 0, 17600000 + 2 * ALLOCATOR_TICK_US), 100);
}

Test(allocator, a_calendar_remembers_until_its_window_ends)
{
	struct allocator_terms t = rate_terms();
	struct share_report r = report(500, 2000), other = report(400, 2000);

	t.kind = SHARE_CALENDAR;
	t.whole = 1000;
	r.window = other.window = 3;
	allocator_init(a, &t);
	cr_expect_eq(grant(&t, 0, SECOND, r).parts, 900);
	cr_expect_eq(grant(&t, 1, 3600 * SECOND, other).parts, 100);
	/* Who is ahead has a new one; for who is behind the old one is as it was. */
	r.window = 4;
	r.t0_us++;
	cr_expect_eq(grant(&t, 0, 3601 * SECOND, r).parts, 500);
	other.t0_us++;
	cr_expect_eq(grant(&t, 1, 3602 * SECOND, other).parts, 100);
}

Test(allocator, a_limit_that_changed_is_shared_in_the_same_fractions)
{
	struct allocator_terms t = rate_terms();
	struct share_report r = report(500, 2000);

	t.kind = SHARE_WINDOW;
	t.window_us = SECOND;
	allocator_init(a, &t);
	cr_expect_eq(grant(&t, 0, SECOND, r).parts, 900);
	t.whole = 501;
	t.region[0].floor = t.region[1].floor = 50;
	allocator_set_whole(a, &t, 1000);
	cr_expect_eq(allocator_counted(a, &t, 0, SECOND), 451);
	/* Who does not know yet reports in parts of what it knows. */
	cr_expect_eq(grant(&t, 1, SECOND, report(500, 2000)).parts, 50);
	cr_expect_eq(a->region[1].demand, 501);
}

Test(allocator, the_excess_of_loose_is_what_silent_regions_keep)
{
	struct allocator_terms t = rate_terms();

	t.loose = true;
	allocator_init(a, &t);
	grant(&t, 0, SECOND, report(500, 2000));
	cr_expect_eq(allocator_excess(a, &t, SECOND), 0);
	cr_expect_eq(grant(&t, 1, 9 * SECOND, report(500, 2000)).parts, 900);
	cr_expect_eq(allocator_excess(a, &t, 9 * SECOND), 800);
}

Test(allocator, a_grant_that_nobody_here_knows_of_counts_as_all)
{
	struct allocator_terms t = rate_terms();
	struct share_report r = report(500, 2000);

	allocator_init(a, &t);
	r.seq = 7;
	r.live = true;
	allocator_report(a, &t, EPOCH, 0, SECOND, &r);
	cr_expect_eq(allocator_counted(a, &t, 0, SECOND), 1000);
	cr_expect_eq(grant(&t, 1, SECOND, report(500, 2000)).parts, 0);
	cr_expect_eq(allocator_counted(a, &t, 0, 7 * SECOND), 100);
	r.t0_us++;
	r.live = false;
	cr_expect_eq(grant(&t, 0, 7 * SECOND, r).seq, 9);
}

Test(allocator, more_than_all_was_used_is_all)
{
	struct allocator_terms t = rate_terms();
	struct share_report r = report(500, UINT32_MAX);

	t.kind = SHARE_WINDOW;
	t.window_us = SECOND;
	allocator_init(a, &t);
	r.whole = 1;
	r.used = UINT32_MAX;
	allocator_report(a, &t, EPOCH, 0, SECOND, &r);
	cr_expect_eq(allocator_counted(a, &t, 0, SECOND), 1000);
	cr_expect_eq(a->region[0].demand, 1000);
}

Test(allocator, nothing_rests_that_counts_or_is_heard_of)
{
	struct allocator_terms t = rate_terms();

	allocator_init(a, &t);
	grant(&t, 0, SECOND, report(500, 2000));
	cr_expect_not(allocator_is_at_rest(a, &t, 5 * SECOND, SECOND), "a grant counts");
	cr_expect(allocator_is_at_rest(a, &t, 8 * SECOND, SECOND));
	cr_expect_not(allocator_is_at_rest(a, &t, 8 * SECOND, 9 * SECOND), "heard of");
	a->newest = 2;
	cr_expect_not(allocator_is_at_rest(a, &t, 8 * SECOND, SECOND), "floors have changed");
	a->newest = 1;
	t.kind = SHARE_CALENDAR;
	cr_expect_not(allocator_is_at_rest(a, &t, 86400 * SECOND, SECOND));
	cr_expect(allocator_is_at_rest(a, &t, 33 * 86400 * SECOND, SECOND));
	t.loose = true;
	cr_expect_not(allocator_is_at_rest(a, &t, 33 * 86400 * SECOND, SECOND), "it goes on");
}

/* ---- The region's side ---- */

static struct share_grant grant_of(uint64_t seq, uint64_t t0_us, uint32_t parts)
{
	return (struct share_grant){.seq = seq,
				    .clock = 1,
				    .t0_us = t0_us,
				    .duration_us = 5 * SECOND,
				    .whole = 1000,
				    .parts = parts,
				    .epoch = EPOCH,
				    .c0_us = 1};
}

static struct region_share region(uint64_t now_us)
{
	struct region_share s;

	region_share_init(&s, 1, now_us, 1000, 100);
	return s;
}

static bool reads(struct region_share *s, uint64_t now_us, struct share_grant g)
{
	return region_share_read(s, &region_terms, now_us, &g, LIMIT_FOREVER_US);
}

Test(region_share, a_grant_ends_by_the_time_it_echoes)
{
	struct region_share s = region(10 * SECOND);

	cr_expect(reads(&s, 14 * SECOND, grant_of(1, 10 * SECOND, 700)));
	cr_expect_eq(region_share_now(&s, 15 * SECOND - 1), 700);
	cr_expect_eq(region_share_now(&s, 15 * SECOND), 100);
	cr_expect_eq(region_share_now(&s, 12 * SECOND), 100, "not back");
}

Test(region_share, an_old_grant_or_one_of_another_clock_is_none)
{
	struct region_share s = region(10 * SECOND);
	struct share_grant g = grant_of(2, 10 * SECOND, 700);

	cr_expect(reads(&s, 11 * SECOND, g));
	cr_expect_not(reads(&s, 11 * SECOND, grant_of(1, 10 * SECOND, 900)));
	region_share_jump(&s, &region_terms, 9 * SECOND);
	cr_expect_eq(region_share_now(&s, 9 * SECOND), 100);
	cr_expect(reads(&s, 12 * SECOND, grant_of(3, 11 * SECOND, 700)));
	cr_expect_eq(region_share_now(&s, 12 * SECOND), 100);
	g.seq = 4;
	g.clock = 2;
	cr_expect(reads(&s, 12 * SECOND, g));
	cr_expect_eq(region_share_now(&s, 12 * SECOND), 700);
}

Test(region_share, less_is_reported_when_leases_have_ended)
{
	struct region_share s = region(10 * SECOND);
	struct share_report r;

	reads(&s, 11 * SECOND, grant_of(1, 10 * SECOND, 900));
	region_share_leased(&s, region_share_lease_end_us(&s, &region_terms, 11 * SECOND));
	reads(&s, 11500000, grant_of(2, 11 * SECOND, 500));
	cr_expect_eq(region_share_now(&s, 11500000), 500);
	region_share_report(&s, 12 * SECOND - 1, &r);
	cr_expect_eq(r.seq, 1);
	cr_expect(r.live);
	region_share_report(&s, 12 * SECOND, &r);
	cr_expect_eq(r.seq, 2);
	cr_expect_eq(region_share_lease_end_us(&s, &region_terms, 15500000), 16 * SECOND);
}

Test(region_share, a_lowered_limit_is_in_force_where_it_is_known)
{
	struct region_share s = region(10 * SECOND);
	struct share_report r;

	reads(&s, 11 * SECOND, grant_of(1, 10 * SECOND, 700));
	region_share_set_whole(&s, 12 * SECOND, 100, s.floors, 10);
	cr_expect_eq(region_share_now(&s, 12 * SECOND), 70);
	cr_expect_eq(region_share_now(&s, 15 * SECOND), 10);
	reads(&s, 16 * SECOND, grant_of(2, 15 * SECOND, 555));
	cr_expect_eq(region_share_now(&s, 16 * SECOND), 55, "of an older limit");
	region_share_report(&s, 16 * SECOND, &r);
	cr_expect_eq(r.whole, 100);
}

Test(region_share, a_promise_binds_from_the_reading)
{
	struct region_share s = region(10 * SECOND);
	struct share_report r;

	cr_expect_not(region_share_lend(&s, &region_terms, 10 * SECOND, 100, 0));
	reads(&s, 11 * SECOND, grant_of(1, 5 * SECOND, 100));
	cr_expect_not(region_share_lend(&s, &region_terms, 12 * SECOND, 100, 1), "it was used");
	region_share_leased(&s, 12 * SECOND + 1);
	cr_expect_not(region_share_lend(&s, &region_terms, 12 * SECOND, 100, 0), "leased");
	cr_expect(region_share_lend(&s, &region_terms, 12 * SECOND + 1, 100, 0));
	cr_expect_eq(region_share_now(&s, 41 * SECOND - 1), 0);
	region_share_report(&s, 41 * SECOND - 1, &r);
	cr_expect_eq(r.lent, 100);
	cr_expect_eq(r.lent_epoch, EPOCH);
	region_share_jump(&s, &region_terms, 100 * SECOND);
	cr_expect_eq(region_share_now(&s, 130 * SECOND - 1), 0, "from the jump");
	cr_expect_eq(region_share_now(&s, 130 * SECOND), 100);
}

Test(region_share, a_cut_floor_applies_at_once_and_a_raised_one_when_confirmed)
{
	struct region_share s = region(10 * SECOND);
	struct share_grant g = grant_of(1, 1, 0);

	region_share_set_floor(&s, 11 * SECOND, 1, 50);
	cr_expect_eq(region_share_now(&s, 11 * SECOND), 50);
	region_share_set_floor(&s, 12 * SECOND, 2, 400);
	cr_expect_eq(region_share_now(&s, 12 * SECOND), 50);
	g.floors = 1;
	reads(&s, 12 * SECOND, g);
	cr_expect_eq(region_share_now(&s, 12 * SECOND), 50);
	g.seq = 2;
	g.floors = 2;
	reads(&s, 12 * SECOND, g);
	cr_expect_eq(region_share_now(&s, 12 * SECOND), 400);
}
