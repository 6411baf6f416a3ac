/*
 * Random sequences of a region's share through the script in a real Redis and through region_share.c: the same share is in force and
 * the same is reported, while grants come late, twice and of other clocks and limits, floors and limits change, the floor is
 * lent, and the clock goes on, back a little, or is set.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/region_share.h"
#include "dice.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define START (UINT64_C(4102444800) * SECOND) /* the year 2100: keys don't expire meanwhile */

struct run {
	struct script_rig rig;
	unsigned seed;
	struct dice dice;
	struct limit limit;
	struct script_quota quota;
	struct region_share twin;
	struct region_share_terms terms;
	bool begun;
	uint64_t seq, epoch;
	unsigned n_grants, n_lent, n_jumps, n_settling;
};

static uint64_t pick(struct run *r, uint64_t n)
{
	return dice_below(&r->dice, n);
}

static uint32_t parts(struct run *r)
{
	return (uint32_t)pick(r, (uint64_t)r->quota.whole + 1);
}

/* What each call does first. */
static void twin_sees(struct run *r, uint64_t now_us)
{
	const struct script_quota *q = &r->quota;

	if (!r->begun) {
		region_share_init(&r->twin, now_us, now_us, q->whole,
				  q->floors == 1 ? q->floor : 0);
	} else if (r->rig.jumped || now_us + SECOND < r->twin.seen_us) {
		region_share_jump(&r->twin, &r->terms, now_us);
		r->n_jumps++;
	}
	r->begun = true;
	region_share_now(&r->twin, now_us);
	if (r->twin.whole != q->whole)
		region_share_set_whole(&r->twin, now_us, q->whole, q->floors, q->floor);
	region_share_set_floor(&r->twin, now_us, q->floors, q->floor);
}

static void compare(struct run *r, const struct script_answer *a, uint32_t demand)
{
	struct share_report c;
	struct script_share s;
	uint64_t now_us = a->now_us;
	bool same;

	cr_assert_eq(script_share_parse(a, &s), KOVA_OK);
	for (struct script_answer cut = *a; cut.echo.len > 0;) {
		cut.echo.len--;
		cr_assert_eq(script_share_parse(&cut, &s), KOVA_EPROTO);
	}
	region_share_report(&r->twin, now_us, &c);
	same = s.report.clock == c.clock && s.report.t0_us == c.t0_us && s.report.seq == c.seq &&
	       s.report.live == c.live && s.report.whole == c.whole &&
	       s.report.floors == c.floors && s.report.lent == c.lent &&
	       s.report.lent_epoch == c.lent_epoch && s.report.lent_c0_us == c.lent_c0_us;
	if (!same)
		cr_log_error("lua %lu %lu %lu %d %u %u %u, c %lu %lu %lu %d %u %u %u",
			     s.report.clock, s.report.t0_us, s.report.seq, s.report.live,
			     s.report.whole, s.report.floors, s.report.lent, c.clock, c.t0_us,
			     c.seq, c.live, c.whole, c.floors, c.lent);
	cr_assert(same, "seed %u", r->seed);
	cr_assert_eq(s.parts, region_share_now(&r->twin, now_us), "seed %u: %u, %u", r->seed,
		     s.parts, region_share_now(&r->twin, now_us));
	cr_assert_eq(s.floor, r->twin.floor);
	cr_assert_eq(s.granted_us > 0, region_share_is_granted(&r->twin, now_us));
	cr_assert_eq(s.report.demand, demand);
	cr_assert_eq(s.report.used, 0);
	r->n_settling += r->twin.settles_us > r->twin.seen_us && c.seq < r->twin.seq;
}

static struct script_answer run(struct run *r, struct script_op *op)
{
	struct script_check check = {.limit = &r->limit,
				     .key = slice_of("k:b{root}policy:0"),
				     .cost = 1,
				     .quota = &r->quota};
	struct script_answer a;

	op->checks = &check;
	op->n_checks = 1;
	script_rig_run(&r->rig, op, 1, &a);
	twin_sees(r, a.now_us);
	return a;
}

/* Mostly a fresh one that answers the region's clock; now and then one of before, of another clock, of another limit. */
static void grant(struct run *r)
{
	struct share_grant g = {.seq = r->seq,
				.clock = r->twin.plan.clock,
				.t0_us = r->twin.seen_us - pick(r, 3 * SECOND),
				.duration_us = 1 + pick(r, 10 * SECOND),
				.whole = r->quota.whole,
				.parts = parts(r),
				.floors = r->quota.floors - (uint32_t)pick(r, 2),
				.epoch = r->epoch,
				.c0_us = 1 + pick(r, 1000)};
	struct script_op op = {.kind = SCRIPT_SHARE_READ, .grant = &g};
	struct script_answer a;

	if (pick(r, 8) > 0)
		g.seq = r->seq += 1 + pick(r, 3);
	if (pick(r, 10) == 0)
		g.clock += 1 + pick(r, 2);
	if (pick(r, 10) == 0)
		g.t0_us += pick(r, 6 * SECOND);
	if (pick(r, 6) == 0)
		g.parts = (uint32_t)pick(r, (g.whole = 1 + (uint32_t)pick(r, LIMIT_MAX)) +
						    UINT64_C(1));
	if (pick(r, 20) == 0)
		r->epoch = dice_next(&r->dice) | 1;
	a = run(r, &op);
	cr_assert_eq(a.status == SCRIPT_ALLOWED,
		     region_share_read(&r->twin, &r->terms, a.now_us, &g, LIMIT_FOREVER_US));
	r->n_grants += a.status == SCRIPT_ALLOWED && region_share_is_granted(&r->twin, a.now_us);
	compare(r, &a, 0);
}

static void report(struct run *r)
{
	struct script_op op = {.kind = SCRIPT_SHARE_REPORT, .asked = {1, 0, SECOND}};
	struct script_answer a;

	op.asked.demand = pick(r, 2) == 0 ? 0 : (uint32_t)pick(r, 2000);
	a = run(r, &op);
	if (op.asked.demand == 0 && r->twin.floor > 0 && r->terms.lend_us > 0)
		r->n_lent += region_share_lend(&r->twin, &r->terms, a.now_us, r->twin.floor, 0);
	compare(r, &a, op.asked.demand);
}

static void configure(struct run *r)
{
	bool rate = r->limit.algorithm == ALGORITHM_TOKEN_BUCKET;

	if (!rate && pick(r, 3) == 0)
		r->quota.whole = 1 + (uint32_t)pick(r, pick(r, 2) == 0 ? 20 : LIMIT_MAX);
	r->quota.floors += pick(r, 2) == 0;
	if (r->quota.floor > r->quota.whole || r->quota.floors > r->twin.floors)
		r->quota.floor = parts(r);
}

static void pass_time(struct run *r)
{
	uint64_t step_us = pick(r, pick(r, 3) == 0 ? 6 * SECOND : SECOND);

	r->rig.jumped = pick(r, 40) == 0;
	if (r->rig.jumped && pick(r, 2) == 0)
		r->rig.virtual_us -= 20 * step_us;
	else if (r->rig.jumped)
		r->rig.virtual_us += 20 * step_us;
	else if (pick(r, 12) == 0)
		r->rig.virtual_us -= step_us / 4;
	else
		r->rig.virtual_us += step_us;
	r->rig.clock_us = r->rig.virtual_us;
}

static void sequence(unsigned seed, enum algorithm algorithm, unsigned *total)
{
	struct run r = {.seed = seed, .dice = {seed}, .epoch = seed};

	r.limit =
		(struct limit){.algorithm = algorithm, .limit = 10, .burst = 20, .per_us = SECOND};
	cr_assert_eq(limit_init(&r.limit), KOVA_OK);
	r.terms = (struct region_share_terms){
		.lend_us = pick(&r, 6) == 0 ? 0 : pick(&r, 30 * SECOND),
		.lease_max_us = script_lease_hold_us(SCRIPT_LEASE_TTL_MAX_US),
		.loose = pick(&r, 4) == 0};
	r.quota = (struct script_quota){.whole = SHARE_RATE_WHOLE,
					.floors = 1 + (uint32_t)pick(&r, 2),
					.loose = r.terms.loose,
					.lend_us = r.terms.lend_us};
	if (algorithm != ALGORITHM_TOKEN_BUCKET)
		r.quota.whole = 1 + (uint32_t)pick(&r, LIMIT_MAX);
	r.quota.floor = parts(&r);
	script_rig_start(&r.rig);
	r.rig.virtual_us = START + pick(&r, SECOND);
	for (int i = 0; i < 300; i++) {
		if (r.begun)
			pass_time(&r);
		if (r.begun && pick(&r, 20) == 0)
			configure(&r);
		if (pick(&r, 2) == 0 && r.begun)
			grant(&r);
		else
			report(&r);
	}
	script_rig_stop(&r.rig);
	total[0] += r.n_grants;
	total[1] += r.n_lent;
	total[2] += r.n_jumps;
	total[3] += r.n_settling;
}

Test(quota_differential, a_grant_that_can_be_none)
{
	static const struct share_grant none[] = {
		{.seq = LIMIT_FOREVER_US + 1, .whole = 1},
		{.clock = LIMIT_FOREVER_US + 1, .whole = 1},
		{.t0_us = LIMIT_FOREVER_US + 1, .whole = 1},
		{.duration_us = LIMIT_FOREVER_US, .whole = 1},
		{.c0_us = LIMIT_FOREVER_US + 1, .whole = 1},
		{.whole = 0},
		{.whole = LIMIT_MAX + 1},
		{.whole = 10, .parts = 11},
	};
	struct limit l = {.limit = 1, .burst = 1, .per_us = SECOND};
	struct script_quota quota = {.whole = SHARE_RATE_WHOLE, .floors = 1};
	struct script_check check = {
		.limit = &l, .key = slice_of("k:b{root}policy:0"), .cost = 1, .quota = &quota};
	struct script_op op = {.kind = SCRIPT_SHARE_READ, .checks = &check, .n_checks = 1};
	struct script_batch *b = script_batch_new();

	cr_assert_eq(limit_init(&l), KOVA_OK);
	for (unsigned i = 0; i < sizeof none / sizeof *none; i++) {
		op.grant = &none[i];
		cr_expect_eq(script_batch_add(b, &op, START), KOVA_ERANGE, "%u", i);
	}
	cr_expect_eq(script_batch_ops(b), 0);
	script_batch_free(b);
}

Test(quota_differential, the_share)
{
	unsigned total[4] = {0};

	for (unsigned seed = 1; seed <= 60; seed++)
		sequence(seed, seed % 2 == 0 ? ALGORITHM_TOKEN_BUCKET : ALGORITHM_SLIDING_WINDOW,
			 total);
	cr_log_info("%u grants, %u promises, %u jumps, %u late words", total[0], total[1], total[2],
		    total[3]);
	cr_assert_gt(total[0], 1000);
	cr_assert_gt(total[1], 100);
	cr_assert_gt(total[2], 100);
	cr_assert_gt(total[3], 100);
}
