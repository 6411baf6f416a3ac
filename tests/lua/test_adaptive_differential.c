/*
 * Random takes and outcomes through the script in a real Redis and through adaptive.c and bucket.c: equal verdicts, limits
 * and changes. And whatever the limit does, no interval has more than the burst of the highest limit in force in it and
 * what that refills.
 */
#include <criterion/criterion.h>
#include <time.h>

#include "core/adaptive.h"
#include "dice.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)

enum { RUNS = 60, STEPS = 250 };

struct run {
	struct script_rig *rig;
	unsigned seed;
	struct dice dice;
	struct limit whole;
	struct adaptive_rule rule;
	struct adaptive twin;
	struct bucket bucket;
	struct {
		uint64_t at_us, limit, admitted;
	} log[STEPS];
	int n;
};

static void random_limit(struct run *r)
{
	static const uint64_t per_us[] = {1000, 7000, 33000, 1000000, 60000000, 86400000000};

	r->whole = (struct limit){
		.algorithm = ALGORITHM_TOKEN_BUCKET,
		.limit = 1 + dice_below(&r->dice, dice_below(&r->dice, 3) == 0 ? LIMIT_MAX : 200),
		.per_us = per_us[dice_below(&r->dice, 6)],
		.burst = 1 + dice_below(&r->dice, dice_below(&r->dice, 3) == 0 ? LIMIT_MAX : 50)};
	cr_assert_eq(limit_init(&r->whole), KOVA_OK);
}

static void random_rule(struct run *r)
{
	uint32_t max = 1 + (uint32_t)dice_below(&r->dice, r->whole.limit);

	r->rule = (struct adaptive_rule){
		.mode = (enum adaptive_mode)dice_below(&r->dice, 2),
		.min = 1 + (uint32_t)dice_below(&r->dice, max),
		.max = max,
		.increase = 1 + (uint32_t)dice_below(&r->dice, max),
		.decrease = (uint8_t)(1 + dice_below(&r->dice, 99)),
		.tolerance = (uint16_t)(1 + dice_below(&r->dice, ADAPTIVE_TOLERANCE_MAX)),
		.window_us = 10000 + dice_below(&r->dice, 2 * SECOND)};
}

static struct script_answer ask(struct run *r, const struct script_op *wanted, uint64_t cost)
{
	struct script_check check = {
		.limit = &r->whole, .key = SLICE("k:b{a}"), .cost = cost, .adaptive = &r->rule};
	struct script_op op = *wanted;
	struct script_answer a;

	op.checks = &check;
	op.n_checks = 1;
	op.amount = UINT64_MAX;
	script_rig_run(r->rig, &op, 1, &a);
	return a;
}

static void current(const struct run *r, struct limit *ret_limit)
{
	adaptive_bucket_limit(&r->whole, adaptive_limit(&r->twin, &r->rule), ret_limit);
}

static void take(struct run *r)
{
	uint64_t cost = 1 + dice_below(&r->dice, 3);
	struct script_answer a = ask(r, &(struct script_op){.kind = SCRIPT_TAKE}, cost);
	struct limiter_verdict v;
	struct limit l;

	current(r, &l);
	bucket_take(&r->bucket, &l, r->rig->virtual_us, cost, &v);
	cr_assert_eq(a.status == SCRIPT_ALLOWED, v.allowed, "seed %u", r->seed);
	cr_assert_eq(a.remaining, v.remaining, "seed %u", r->seed);
	cr_assert_eq(a.wait_us, v.wait_us, "seed %u", r->seed);
	cr_assert_eq(a.reset_us, v.reset_us, "seed %u", r->seed);
	cr_assert_eq(a.limit, l.limit, "seed %u: %lu, not %lu", r->seed, (unsigned long)a.limit,
		     (unsigned long)l.limit);
	r->log[r->n].admitted = v.allowed ? cost : 0;
}

static void feed(struct run *r)
{
	uint64_t now_us = r->rig->virtual_us;
	struct adaptive_outcome o = {
		.congested = dice_below(&r->dice, 5) == 0,
		.latency_us = dice_below(&r->dice, 4) == 0 ? 0 : dice_below(&r->dice, 500) * 1000};
	struct limit from, to;
	struct script_answer a;
	enum adaptive_change change;

	current(r, &from);
	o.spent = bucket_debt_ut(&r->bucket, &from, now_us) * 2 >= from.cap_ut;
	a = ask(r,
		&(struct script_op){.kind = SCRIPT_FEEDBACK,
				    .ok = true,
				    .congested = o.congested,
				    .latency_us = o.latency_us},
		1);
	change = adaptive_feed(&r->twin, &r->rule, r->whole.per_us, now_us, &o);
	current(r, &to);
	if (change != ADAPTIVE_SAME)
		adaptive_bucket_move(&r->bucket, &from, &to, now_us);
	cr_assert_eq(script_fed_adaptive(a.amount), change, "seed %u", r->seed);
	cr_assert_eq(a.limit, to.limit, "seed %u: %lu, not %lu", r->seed, (unsigned long)a.limit,
		     (unsigned long)to.limit);
	cr_assert(to.limit >= r->rule.min && to.limit <= r->rule.max);
	r->log[r->n].admitted = 0;
}

static void step(struct run *r)
{
	struct limit l;

	r->rig->virtual_us += dice_below(&r->dice, 4) == 0 ? dice_below(&r->dice, 3 * SECOND)
							   : dice_below(&r->dice, 30000);
	r->rig->clock_us = r->rig->virtual_us;
	if (dice_below(&r->dice, 3) == 0)
		take(r);
	else
		feed(r);
	current(r, &l);
	r->log[r->n].at_us = r->rig->virtual_us;
	r->log[r->n++].limit = l.limit;
}

/* I1, over every interval from one step to another. */
static void check_intervals(const struct run *r)
{
	for (int from = 0; from < r->n; from++) {
		uint64_t admitted = 0, highest = from > 0 ? r->log[from - 1].limit : r->rule.max;
		struct limit l;

		for (int to = from; to < r->n; to++) {
			if (r->log[to].limit > highest)
				highest = r->log[to].limit;
			admitted += r->log[to].admitted;
			adaptive_bucket_limit(&r->whole, (uint32_t)highest, &l);
			cr_assert_leq(admitted * LIMIT_UT,
				      l.cap_ut +
					      bucket_credit_ut(&l, r->log[from].at_us,
							       r->log[to].at_us, UINT64_MAX / 4) +
					      l.quantum_ut,
				      "seed %u: steps %d to %d", r->seed, from, to);
		}
	}
}

Test(adaptive_differential, the_script_and_its_twin_agree)
{
	struct script_rig rig;

	script_rig_start(&rig);
	for (unsigned seed = 1; seed <= RUNS; seed++) {
		struct run r = {.rig = &rig, .seed = seed, .dice = {seed}};
		struct redis_answer a = redis_client_command(&rig.client, "FLUSHALL");

		redis_answer_release(&a);
		rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) * SECOND;
		random_limit(&r);
		random_rule(&r);
		for (int i = 0; i < STEPS; i++)
			step(&r);
		check_intervals(&r);
	}
	script_rig_stop(&rig);
}

/* Without trouble an AIMD key has no state, and is without one again when the trouble is over. */
Test(adaptive_differential, no_trouble_no_state)
{
	struct script_rig rig;
	struct run r = {
		.rig = &rig,
		.rule = {.min = 1, .max = 10, .increase = 10, .decrease = 50, .window_us = SECOND}};
	struct script_op ok = {.kind = SCRIPT_FEEDBACK, .ok = true},
			 error = {.kind = SCRIPT_FEEDBACK, .congested = true},
			 all = {.kind = SCRIPT_TAKE};
	struct redis_answer a;

	script_rig_start(&rig);
	r.whole = (struct limit){.limit = 10, .per_us = SECOND, .burst = 10};
	cr_assert_eq(limit_init(&r.whole), KOVA_OK);
	rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) * SECOND;
	cr_assert_eq(ask(&r, &ok, 1).limit, 10);
	a = redis_client_command(&rig.client, "DBSIZE");
	cr_assert_eq(a.integer, 0);
	redis_answer_release(&a);
	cr_assert_eq(ask(&r, &error, 1).limit, 5);
	a = redis_client_command(&rig.client, "PTTL k:ab{a}");
	cr_assert(a.integer > 3600000 - 2000);
	redis_answer_release(&a);
	cr_assert_eq(ask(&r, &all, 5).status, SCRIPT_ALLOWED);
	rig.clock_us = rig.virtual_us += SECOND / 2;
	ask(&r, &all, 2);
	rig.virtual_us += SECOND / 2;
	ask(&r, &all, 2);
	cr_assert_eq(ask(&r, &ok, 1).limit, 10);
	a = redis_client_command(&rig.client, "EXISTS k:ab{a}");
	cr_assert_eq(a.integer, 0);
	redis_answer_release(&a);
	script_rig_stop(&rig);
}

/* Forgotten earlier, the limit would fall and be whole again before what the fall freed had come in by time. */
Test(adaptive_differential, a_limit_is_kept_for_as_long_as_the_whole_bucket_takes_to_fill)
{
	struct script_rig rig;
	struct run r = {
		.rig = &rig,
		.rule = {.min = 1, .max = 24, .increase = 1, .decrease = 50, .window_us = SECOND}};
	struct script_op error = {.kind = SCRIPT_FEEDBACK, .congested = true};
	struct redis_answer a;

	script_rig_start(&rig);
	r.whole = (struct limit){.limit = 24, .per_us = 86400 * SECOND, .burst = 24};
	cr_assert_eq(limit_init(&r.whole), KOVA_OK);
	cr_assert_eq(ask(&r, &error, 1).limit, 12);
	a = redis_client_command(&rig.client, "PTTL k:ab{a}");
	cr_assert(a.integer > 86400000 && a.integer <= 86400000 + 62000, "%ld", (long)a.integer);
	redis_answer_release(&a);
	script_rig_stop(&rig);
}
