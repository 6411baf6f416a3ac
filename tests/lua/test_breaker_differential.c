/* Random takes, outcomes and gives through the script in a real Redis and through breaker.c: equal answers. */
#include <criterion/criterion.h>
#include <time.h>

#include "core/breaker.h"
#include "dice.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)

enum { RUNS = 40, STEPS = 120 };

struct run {
	struct script_rig *rig;
	unsigned seed;
	struct dice dice;
	struct breaker_rule rule;
	struct breaker twin;
	uint64_t taken_at_us;
};

static void random_rule(struct run *r)
{
	r->rule.of = (uint8_t)(1 + dice_below(&r->dice,
					      dice_below(&r->dice, 3) == 0 ? BREAKER_OF_MAX : 8));
	r->rule.failures = (uint8_t)(1 + dice_below(&r->dice, r->rule.of));
	r->rule.trials = (uint8_t)(1 + dice_below(&r->dice, 3));
	r->rule.open_us = 10000 + dice_below(&r->dice, 30 * SECOND);
}

/* The limit never refuses: what does is the breaker. */
static struct script_answer ask(struct run *r, enum script_op_kind kind, bool ok)
{
	static struct limit l = {.algorithm = ALGORITHM_TOKEN_BUCKET,
				 .limit = LIMIT_MAX,
				 .per_us = 1000,
				 .burst = LIMIT_MAX};
	struct script_check check = {
		.limit = &l, .key = SLICE("k:b{a}"), .cost = 1, .breaker = &r->rule};
	struct script_op op = {.kind = kind,
			       .checks = &check,
			       .n_checks = 1,
			       .ok = ok,
			       .amount = UINT64_MAX,
			       .stamp_us = r->taken_at_us};
	struct script_answer a;

	cr_assert_eq(limit_init(&l), KOVA_OK);
	script_rig_run(r->rig, &op, 1, &a);
	return a;
}

static void take(struct run *r, enum script_op_kind kind)
{
	uint64_t now_us = r->rig->virtual_us, wait_us = breaker_wait_us(&r->twin, &r->rule, now_us);
	struct script_answer a = ask(r, kind, false);

	if (wait_us > 0) {
		cr_assert(a.status == SCRIPT_REFUSED && a.why == SCRIPT_BREAKER_OPEN, "seed %u",
			  r->seed);
		cr_assert_eq((uint64_t)a.wait_us, wait_us, "seed %u", r->seed);
		return;
	}
	cr_assert_eq(a.status, SCRIPT_ALLOWED, "seed %u", r->seed);
	if (kind == SCRIPT_TAKE) {
		breaker_take(&r->twin, &r->rule, now_us);
		r->taken_at_us = now_us;
	}
}

static void step(struct run *r)
{
	uint64_t now_us = r->rig->virtual_us += dice_below(&r->dice, 4) == 0
							? dice_below(&r->dice, 20 * SECOND)
							: dice_below(&r->dice, 100000);
	bool ok = dice_below(&r->dice, 2) == 0;

	r->rig->clock_us = now_us;
	switch (dice_below(&r->dice, 8)) {
	case 0:
		take(r, SCRIPT_PEEK);
		break;
	case 1:
		ask(r, SCRIPT_GIVE, false);
		breaker_give(&r->twin, &r->rule, r->taken_at_us);
		break;
	case 2:
	case 3:
	case 4:
		take(r, SCRIPT_TAKE);
		break;
	default:
		cr_assert_eq(ask(r, SCRIPT_FEEDBACK, ok).amount,
			     breaker_feed(&r->twin, &r->rule, now_us, ok), "seed %u", r->seed);
	}
}

Test(breaker_differential, the_script_and_its_twin_agree)
{
	struct script_rig rig;

	script_rig_start(&rig);
	for (unsigned seed = 1; seed <= RUNS; seed++) {
		struct run r = {.rig = &rig, .seed = seed, .dice = {seed}};
		struct redis_answer a = redis_client_command(&rig.client, "FLUSHALL");

		redis_answer_release(&a);
		rig.clock_us = rig.virtual_us = ((uint64_t)time(NULL) + 100000) * SECOND;
		random_rule(&r);
		for (int i = 0; i < STEPS; i++)
			step(&r);
	}
	script_rig_stop(&rig);
}
