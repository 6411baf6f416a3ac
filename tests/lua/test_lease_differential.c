/*
 * Random sequences of takes, leases, returns and gives through the script in a real Redis and through leased_bucket.c: equal
 * answers, in batches that are plain and batches that are not, while limits change and the clock leaps, goes back and, in
 * every other sequence, is now and then doubted.
 */
#include <assert.h>
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/leased_bucket.h"
#include "dice.h"
#include "script_rig.h"

#define START UINT64_C(4102444800123457) /* the year 2100: keys don't expire meanwhile */

enum { KEYS = 3, OPS_MAX = 12 };
static_assert((int)OUTSTANDING_MAX == (int)SCRIPT_LEASES_MAX, "the twin remembers as many");

struct run {
	struct script_rig rig;
	unsigned seed;
	struct dice dice;
	struct limit limit[KEYS];
	struct leased_bucket twin[KEYS];
	char name[KEYS][32];
};

static uint64_t pick(struct run *r, uint64_t n)
{
	return dice_below(&r->dice, n);
}

static uint64_t random_amount(struct run *r)
{
	return pick(r, 12) == 0 ? 1 + pick(r, LIMIT_MAX) : 1 + pick(r, 60);
}

static void random_limit(struct run *r, struct limit *ret_limit)
{
	static const uint64_t per_us[] = {1000,    3000,    20000,    33000,      100000,
					  1000000, 7000000, 60000000, 86400000000};
	struct limit l = {.limit = pick(r, 30) == 0 ? 0 : random_amount(r),
			  .burst = random_amount(r)};

	l.per_us = per_us[pick(r, sizeof per_us / sizeof *per_us)];
	cr_assert_eq(limit_init(&l), KOVA_OK);
	*ret_limit = l;
}

static uint64_t random_cost(struct run *r, const struct limit *l)
{
	return pick(r, 4) == 0 ? 1 + pick(r, l->burst) : 1 + pick(r, 3);
}

static struct script_op random_op(struct run *r, struct script_check *check, unsigned key,
				  bool plain)
{
	static const enum script_op_kind kinds[] = {SCRIPT_TAKE,  SCRIPT_TAKE,    SCRIPT_LEASE,
						    SCRIPT_LEASE, SCRIPT_UNLEASE, SCRIPT_GIVE};
	struct script_op op = {.kind = SCRIPT_TAKE, .checks = check, .n_checks = 1};

	*check = (struct script_check){.limit = &r->limit[key], .key = slice_of(r->name[key])};
	check->cost = random_cost(r, &r->limit[key]);
	if (!plain)
		op.kind = kinds[pick(r, sizeof kinds / sizeof *kinds)];
	op.amount = random_cost(r, &r->limit[key]);
	op.lease[7] =
		(unsigned char)(1 + pick(r, pick(r, 2) == 0 ? 40 : 6)); /* 32 are remembered */
	op.ttl_us = SCRIPT_LEASE_TTL_MIN_US + pick(r, UINT64_C(1) << pick(r, 23));
	op.sharers = 1 + (uint32_t)pick(r, 3);
	return op;
}

struct answered {
	enum script_status status;
	uint64_t amount;
	bool leased;
	struct limiter_verdict v; /* of takes and leases */
};

static struct answered twin_answers(struct leased_bucket *b, const struct limit *l,
				    const struct script_op *op, uint64_t now_us, bool doubted)
{
	struct leased_bucket_request request = {op->checks->cost, op->amount, op->sharers,
						op->lease[7], 0};
	struct answered a = {.status = SCRIPT_ALLOWED};

	request.hold_us = script_lease_hold_us(op->ttl_us);
	if (op->kind == SCRIPT_GIVE) {
		a.amount = leased_bucket_give(b, l, now_us, doubted, op->checks->cost);
	} else if (op->kind == SCRIPT_UNLEASE) {
		if (!leased_bucket_unlease(b, l, now_us, doubted, request.id, op->amount,
					   &a.amount))
			a.status = SCRIPT_UNKNOWN;
	} else {
		if (op->kind == SCRIPT_LEASE)
			a.leased = leased_bucket_lease(b, l, now_us, doubted, &request, &a.amount,
						       &a.v);
		else
			leased_bucket_take(b, l, now_us, doubted, op->checks->cost, &a.v);
		a.status = a.v.allowed ? SCRIPT_ALLOWED : SCRIPT_REFUSED;
	}
	return a;
}

static void compare(struct run *r, const struct script_op *op, const struct script_answer *lua,
		    unsigned key)
{
	struct answered c =
		twin_answers(&r->twin[key], &r->limit[key], op, lua->now_us, r->rig.doubted);
	bool same = lua->status == c.status && lua->amount == c.amount;

	if (op->kind == SCRIPT_TAKE || op->kind == SCRIPT_LEASE)
		same = same && lua->lease_us == (c.leased ? op->ttl_us : 0) &&
		       lua->remaining == c.v.remaining && lua->wait_us == c.v.wait_us &&
		       lua->reset_us == c.v.reset_us;
	if (!same)
		cr_log_error("lua %d %lu %lu %lu %ld %lu, c %d %lu %d %lu %ld %lu", lua->status,
			     (unsigned long)lua->amount, (unsigned long)lua->lease_us,
			     (unsigned long)lua->remaining, (long)lua->wait_us,
			     (unsigned long)lua->reset_us, c.status, (unsigned long)c.amount,
			     c.leased, (unsigned long)c.v.remaining, (long)c.v.wait_us,
			     (unsigned long)c.v.reset_us);
	cr_assert(same, "seed %u kind %d cost %lu amount %lu limit %lu per %lu burst %lu now %lu%s",
		  r->seed, op->kind, (unsigned long)op->checks->cost, (unsigned long)op->amount,
		  (unsigned long)r->limit[key].limit, (unsigned long)r->limit[key].per_us,
		  (unsigned long)r->limit[key].burst, (unsigned long)lua->now_us,
		  r->rig.doubted ? " in doubt" : "");
}

static void one_batch(struct run *r)
{
	struct script_check check[OPS_MAX];
	struct script_op op[OPS_MAX];
	struct script_answer answer[OPS_MAX];
	unsigned key[OPS_MAX];
	uint32_t n = 1 + (uint32_t)pick(r, OPS_MAX);
	bool plain = pick(r, 3) == 0;

	for (uint32_t i = 0; i < n; i++) {
		key[i] = (unsigned)pick(r, KEYS);
		op[i] = random_op(r, &check[i], key[i], plain);
	}
	r->rig.doubted = r->seed % 2 == 0 && pick(r, 3) == 0;
	script_rig_run(&r->rig, op, n, answer);
	for (uint32_t i = 0; i < n; i++)
		compare(r, &op[i], &answer[i], key[i]);
}

/* Steps of all sizes up to a quarter of an hour, now and then back. */
static void pass_time(struct run *r)
{
	uint64_t step_us = pick(r, UINT64_C(1) << pick(r, 31));

	if (pick(r, 12) == 0)
		r->rig.virtual_us -= step_us;
	else if (pick(r, 3) > 0)
		r->rig.virtual_us += step_us;
	r->rig.clock_us = r->rig.virtual_us;
}

Test(lease_differential, token_bucket)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		struct run r = {.seed = seed, .dice = {seed}};

		script_rig_start(&r.rig);
		r.rig.virtual_us = START + pick(&r, 1000000);
		for (int i = 0; i < KEYS; i++) {
			snprintf(r.name[i], sizeof r.name[i], "k:b{key}%d", i);
			random_limit(&r, &r.limit[i]);
		}
		for (int i = 0; i < 400; i++) {
			pass_time(&r);
			if (pick(&r, 20) == 0)
				random_limit(&r, &r.limit[pick(&r, KEYS)]);
			one_batch(&r);
		}
		script_rig_stop(&r.rig);
	}
}
