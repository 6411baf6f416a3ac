/*
 * Random sequences of a region's share through the script in a real Redis and through region_share.c: the same share is in force and
 * the same is reported, while grants come late, twice and of other clocks and limits, floors and limits change, the floor is
 * lent, and the clock goes on, back a little, or is set. Under that share buckets with leases, and shared_bucket.c: the
 * same is admitted, and a wait is exact by the plan.
 */
#include <assert.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/region_share.h"
#include "core/shared_bucket.h"
#include "dice.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define GRANT_US (SECOND / 2)
#define START (UINT64_C(4102444800) * SECOND) /* the year 2100: keys don't expire meanwhile */

enum { KEYS = 2 };
static_assert((int)OUTSTANDING_MAX == (int)SCRIPT_LEASES_MAX, "the twin remembers as many");

struct run {
	struct script_rig rig;
	unsigned seed;
	struct dice dice;
	struct limit limit;
	struct script_quota quota;
	struct region_share twin;
	struct region_share_terms terms;
	struct shared_bucket bucket[KEYS];
	bool begun;
	uint64_t written_us; /* how far the clock was when the share was written last */
	uint64_t seq, epoch;
	bool differs;
	unsigned n_grants, n_lent, n_jumps, n_settling, n_leased, n_taken, n_refused, n_waits;
};

static void expect(struct run *r, bool same)
{
	r->differs = r->differs || !same;
}

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
	bool changes = !r->begun || r->twin.whole != q->whole || q->floors > r->twin.floors;

	if (!r->begun) {
		region_share_init(&r->twin, now_us, now_us, q->whole,
				  q->floors == 1 ? q->floor : 0);
	} else if (r->rig.jumped || now_us + SECOND < r->written_us) {
		r->twin.seen_us = r->written_us;
		region_share_jump(&r->twin, &r->terms, now_us);
		r->n_jumps++;
		changes = true;
	}
	r->begun = true;
	region_share_now(&r->twin, now_us);
	if (r->twin.whole != q->whole)
		region_share_set_whole(&r->twin, now_us, q->whole, q->floors, q->floor);
	region_share_set_floor(&r->twin, now_us, q->floors, q->floor);
	if (changes)
		r->written_us = r->twin.seen_us;
}

static struct script_answer run_on(struct run *r, struct script_op *op, unsigned key, uint64_t cost)
{
	char name[32];
	struct script_check check = {.limit = &r->limit, .cost = cost, .quota = &r->quota};
	struct script_answer a;

	snprintf(name, sizeof name, "k:b{root}policy:0/%u", key);
	check.key = slice_of(name);
	op->checks = &check;
	op->n_checks = 1;
	script_rig_run(&r->rig, op, 1, &a);
	twin_sees(r, a.now_us);
	return a;
}

/* ---- The share ---- */

static struct script_answer run(struct run *r, struct script_op *op)
{
	struct script_answer a = run_on(r, op, 0, 1);

	r->written_us = r->twin.seen_us;
	return a;
}

static bool says_the_same(const struct share_report *a, const struct share_report *b)
{
	return a->clock == b->clock && a->t0_us == b->t0_us && a->seq == b->seq &&
	       a->live == b->live && a->whole == b->whole && a->floors == b->floors &&
	       a->lent == b->lent && a->lent_epoch == b->lent_epoch &&
	       a->lent_c0_us == b->lent_c0_us;
}

static void compare(struct run *r, const struct script_answer *a, uint32_t demand)
{
	struct share_report c;
	struct script_share s;
	uint64_t now_us = a->now_us;

	cr_assert_eq(script_share_parse(a, &s), KOVA_OK);
	for (struct script_answer cut = *a; cut.echo.len > 0;) {
		cut.echo.len--;
		cr_assert_eq(script_share_parse(&cut, &s), KOVA_EPROTO);
	}
	region_share_report(&r->twin, now_us, &c);
	expect(r, says_the_same(&s.report, &c) && s.report.demand == demand && s.report.used == 0);
	expect(r, s.parts == region_share_now(&r->twin, now_us) && s.floor == r->twin.floor);
	expect(r, (s.granted_us > 0) == region_share_is_granted(&r->twin, now_us));
	r->n_settling += r->twin.settles_us > r->twin.seen_us && c.seq < r->twin.seq;
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
	if (pick(r, 6) == 0) {
		g.whole = 1 + (uint32_t)pick(r, LIMIT_MAX);
		g.parts = (uint32_t)pick(r, g.whole + UINT64_C(1));
	}
	if (pick(r, 20) == 0)
		r->epoch = dice_next(&r->dice) | 1;
	a = run(r, &op);
	expect(r, (a.status == SCRIPT_ALLOWED) ==
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

/* ---- Buckets ---- */

static struct shared_bucket_terms bucket_terms(const struct run *r)
{
	return (struct shared_bucket_terms){&r->limit, &r->twin.plan, r->terms.lease_max_us};
}

static uint64_t tokens_at(const struct run *r, unsigned key, uint64_t at_us)
{
	struct share_plan stays = r->twin.plan;
	const struct shared_bucket_terms t = {&r->limit, &stays, r->terms.lease_max_us};
	struct shared_bucket b = r->bucket[key];

	while (stays.n > 1 && stays.piece[stays.n - 1].from_us > r->twin.seen_us)
		stays.n--;
	return shared_bucket_tokens_ut(&b, &t, at_us > r->twin.seen_us ? at_us : r->twin.seen_us);
}

/* Refused: should the share stay, it is there after the wait, and not before; or the share may be another by then. */
static void check_wait(struct run *r, unsigned key, uint64_t cost, const struct script_answer *a)
{
	uint64_t at_us = a->now_us + (uint64_t)a->wait_us;

	r->n_refused++;
	if (a->wait_us < 0) {
		expect(r, cost > r->limit.burst);
	} else if (tokens_at(r, key, at_us) < cost * LIMIT_UT) {
		expect(r, a->wait_us == GRANT_US);
	} else {
		r->n_waits++;
		expect(r, a->wait_us == GRANT_US || tokens_at(r, key, at_us - 1) < cost * LIMIT_UT);
	}
}

/* The amount: of an ordinary take the cost; 0: refused. */
static uint64_t twin_takes(struct run *r, unsigned key, uint64_t now_us, const struct script_op *op,
			   uint64_t cost, bool *ret_leased)
{
	const struct shared_bucket_terms t = bucket_terms(r);
	struct shared_bucket *b = &r->bucket[key];
	uint64_t seen_us = r->twin.seen_us, n, id = op->lease[7];
	uint64_t end_us = now_us + script_lease_hold_us(op->ttl_us);
	uint64_t room = tokens_at(r, key, 0) / LIMIT_UT; /* who is refused writes nothing */

	*ret_leased = false;
	if (room < cost)
		return 0;
	shared_bucket_tokens_ut(b, &t, seen_us);
	if (op->kind == SCRIPT_TAKE || !outstanding_has_room(&b->leases, id) ||
	    end_us > region_share_lease_end_us(&r->twin, &r->terms, now_us))
		return shared_bucket_take(b, &t, seen_us, cost) ? cost : 0;
	n = room / op->sharers < op->amount ? room / op->sharers : op->amount;
	n = n > cost ? n : cost;
	*ret_leased = shared_bucket_lease(b, &t, seen_us, id, n, end_us);
	region_share_leased(&r->twin, end_us);
	return n;
}

static void take(struct run *r)
{
	unsigned key = (unsigned)pick(r, KEYS);
	uint64_t cost = 1 + pick(r, pick(r, 4) == 0 ? r->limit.burst + 2 : 3);
	struct script_op op = {.kind = pick(r, 2) == 0 ? SCRIPT_TAKE : SCRIPT_LEASE,
			       .amount = 1 + pick(r, r->limit.burst),
			       .ttl_us = SCRIPT_LEASE_TTL_MIN_US +
					 pick(r, UINT64_C(1) << pick(r, 23)),
			       .sharers = 1 + (uint32_t)pick(r, 3)};
	struct script_answer a;
	uint64_t amount, end_of_leases;
	bool leased;

	cost = cost < LIMIT_MAX ? cost : LIMIT_MAX;
	op.lease[7] = (unsigned char)(1 + pick(r, pick(r, 2) == 0 ? 40 : 6));
	a = run_on(r, &op, key, cost);
	end_of_leases = r->twin.leases_until_us;
	amount = twin_takes(r, key, a.now_us, &op, cost, &leased);
	expect(r, (a.status == SCRIPT_ALLOWED) == (amount > 0) && (a.lease_us > 0) == leased);
	expect(r, a.remaining == tokens_at(r, key, 0) / LIMIT_UT);
	if (amount == 0)
		check_wait(r, key, cost, &a);
	else if (op.kind == SCRIPT_LEASE)
		expect(r, a.amount == amount);
	if (leased && end_of_leases != r->twin.leases_until_us)
		r->written_us = r->twin.seen_us;
	r->n_leased += leased;
	r->n_taken += amount > 0;
}

static void unlease(struct run *r)
{
	unsigned key = (unsigned)pick(r, KEYS);
	struct script_op op = {.kind = SCRIPT_UNLEASE, .amount = pick(r, r->limit.burst)};
	struct shared_bucket b = r->bucket[key];
	struct script_answer a;
	struct limit share;
	bool known;

	op.lease[7] = (unsigned char)(1 + pick(r, 6));
	a = run_on(r, &op, key, 1);

	const struct shared_bucket_terms t = bucket_terms(r);

	known = shared_bucket_unlease(&b, &t, r->twin.seen_us, op.lease[7], op.amount);
	expect(r, (a.status == SCRIPT_ALLOWED) == known);
	expect(r, a.remaining == b.tokens_ut / LIMIT_UT);
	share = share_of(&r->limit, region_share_now(&r->twin, a.now_us), SHARE_RATE_WHOLE);
	if (known && b.leases.n == 0 && b.tokens_ut == share.cap_ut)
		b = (struct shared_bucket){0}; /* the key is gone */
	if (known)
		r->bucket[key] = b;
}

/* ---- Sequences ---- */

static void pass_time(struct run *r)
{
	uint64_t step_us = pick(r, pick(r, 3) == 0 ? 6 * SECOND : SECOND);

	r->rig.jumped = pick(r, 40) == 0;
	if (r->rig.jumped && pick(r, 2) == 0)
		r->rig.virtual_us -= 20 * step_us;
	else if (r->rig.jumped)
		r->rig.virtual_us += 20 * step_us;
	else if (r->written_us == r->twin.seen_us && pick(r, 12) == 0)
		r->rig.virtual_us -= step_us / 4;
	else
		r->rig.virtual_us += step_us;
	r->rig.clock_us = r->rig.virtual_us;
}

static void random_limit(struct run *r)
{
	static const uint64_t per_us[] = {1000,    3000,     33000,       100000,          1000000,
					  7000000, 60000000, 86400000000, LIMIT_PER_MAX_US};
	uint64_t most = pick(r, 6) == 0 ? LIMIT_MAX : 100;

	r->limit.limit = 1 + pick(r, most);
	r->limit.burst = 1 + pick(r, most);
	r->limit.per_us = per_us[pick(r, sizeof per_us / sizeof *per_us)];
	cr_assert_eq(limit_init(&r->limit), KOVA_OK);
}

static void step(struct run *r, bool decides)
{
	if (!r->begun) {
		report(r);
		return;
	}
	pass_time(r);
	if (pick(r, 20) == 0)
		configure(r);
	if (decides && pick(r, 6) == 0)
		unlease(r);
	else if (decides && pick(r, 4) > 0)
		take(r);
	else if (pick(r, 2) == 0)
		grant(r);
	else
		report(r);
}

/* With a rule of the script's broken, or (NULL) as it is. Whether all was the same. */
static bool sequence(unsigned seed, enum algorithm algorithm, bool decides,
		     const char *const *broken, struct run *total)
{
	struct run r = {.seed = seed, .dice = {seed}, .epoch = seed};

	r.limit.algorithm = algorithm;
	random_limit(&r);
	r.terms = (struct region_share_terms){
		.lend_us = pick(&r, 6) == 0 ? 0 : pick(&r, 30 * SECOND),
		.lease_max_us = script_lease_hold_us(SCRIPT_LEASE_TTL_MAX_US),
		.loose = pick(&r, 4) == 0};
	r.quota = (struct script_quota){.whole = SHARE_RATE_WHOLE,
					.floors = 1 + (uint32_t)pick(&r, 2),
					.loose = r.terms.loose,
					.lend_us = r.terms.lend_us,
					.grant_us = GRANT_US};
	if (algorithm != ALGORITHM_TOKEN_BUCKET)
		r.quota.whole = 1 + (uint32_t)pick(&r, LIMIT_MAX);
	r.quota.floor = parts(&r);
	script_rig_start(&r.rig);
	if (broken != NULL) {
		r.rig.rule = broken[0];
		r.rig.instead = broken[1];
	}
	r.rig.virtual_us = START + pick(&r, SECOND);
	for (int i = 0; i < 300 && !r.differs; i++)
		step(&r, decides);
	script_rig_stop(&r.rig);
	total->n_grants += r.n_grants;
	total->n_lent += r.n_lent;
	total->n_jumps += r.n_jumps;
	total->n_settling += r.n_settling;
	total->n_leased += r.n_leased;
	total->n_taken += r.n_taken;
	total->n_refused += r.n_refused;
	total->n_waits += r.n_waits;
	return !r.differs;
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
	struct script_quota quota = {.whole = SHARE_RATE_WHOLE, .floors = 1, .grant_us = GRANT_US};
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
	struct run total = {0};

	for (unsigned seed = 1; seed <= 60; seed++)
		cr_assert(
			sequence(seed,
				 seed % 2 == 0 ? ALGORITHM_TOKEN_BUCKET : ALGORITHM_SLIDING_WINDOW,
				 false, NULL, &total),
			"seed %u", seed);
	cr_log_info("%u grants, %u promises, %u jumps, %u late words", total.n_grants, total.n_lent,
		    total.n_jumps, total.n_settling);
	cr_assert_gt(total.n_grants, 1000);
	cr_assert_gt(total.n_lent, 100);
	cr_assert_gt(total.n_jumps, 100);
	cr_assert_gt(total.n_settling, 100);
}

Test(quota_differential, buckets_under_a_share)
{
	struct run total = {0};

	for (unsigned seed = 1; seed <= 60; seed++)
		cr_assert(sequence(seed, ALGORITHM_TOKEN_BUCKET, true, NULL, &total), "seed %u",
			  seed);
	cr_log_info("%u grants, %u jumps, %u taken, %u leased, %u refused, %u waits",
		    total.n_grants, total.n_jumps, total.n_taken, total.n_leased, total.n_refused,
		    total.n_waits);
	cr_assert_gt(total.n_grants, 500);
	cr_assert_gt(total.n_jumps, 100);
	cr_assert_gt(total.n_leased, 500);
	cr_assert_gt(total.n_taken, 2000);
	cr_assert_gt(total.n_waits, 500);
}

/* Each a rule of docs/global.md and what is done instead: the twin does otherwise. */
Test(quota_differential, a_broken_rule_is_found_out)
{
	static const char *const broken[][2] = {
		/* a grant's time runs from when it was read */
		{"g.t0 + g.duration", "s.seen + g.duration"},
		/* an older grant that comes again is used */
		{"if g.seq <= s.seq then", "if g.seq == 0 then"},
		/* a grant that echoes another clock is used */
		{"if g.clock ~= s.clock or g.t0 > s.seen then", "if g.t0 > s.seen then"},
		/* ... or was given before its time */
		{"if g.clock ~= s.clock or g.t0 > s.seen then", "if g.clock ~= s.clock then"},
		/* a grant of another limit is so many parts of this one */
		{"scale_down(g.parts, g.whole, s.whole)", "g.parts"},
		/* a clock that is set leaves the grant in force */
		{"jump(s, terms.lend_us)", "s.seen = now"},
		/* ... or ends a promise */
		{"lends and now + lend_us or 0", "0"},
		/* a lease may end after the grant that it rests on */
		{"return now < s.until_us and s.until_us < stop and s.until_us or stop",
		 "return stop"},
		/* a smaller grant is reported while leases of the larger are out */
		{"local settled, lends, live = s.settles <= s.seen,",
		 "local settled, lends, live = true,"},
		/* a floor is lent while leases of it are out */
		{"or s.leases_until > s.seen then", "then"},
		/* a promise is not kept */
		{"local own = time < s.lent_until and s.floor - s.lent or s.floor",
		 "local own = s.floor"},
		/* a raised floor applies before it is confirmed */
		{"if s.risen_at > 0 and s.confirmed >= floors then", "if true then"},
		/* a floor that nothing confirmed is used by who remembers nothing */
		{"terms.floors == 1 and terms.floor or 0", "terms.floor"},
		/* where pieces are too many the two oldest become one of the greater share */
		{"parts_then < pieces[1][2]", "parts_then > pieces[1][2]"},
		/* after a jump the share of now is known to have been */
		{"least = s.pieces[i][2] < least and", "least = false and"},
		/* a bucket refills its past by the share of now */
		{"while i > 1 and pieces[i].from > s.time do",
		 "while i > 1 and pieces[i].from > now do"},
		/* a share that shrinks leaves tokens above it */
		{"s.tokens = s.tokens < room and s.tokens or room", ""},
		/* an absent key is full under the share of now */
		{"(s.clock == 0 or s.tokens > first.cap) and first.cap",
		 "s.clock == 0 and l.pieces[#l.pieces].cap"},
		/* a lease that has ended is dropped before the refill up to its end */
		{"if lease and lease.stop < to then", "if false then"},
		/* what a lease left goes back above the burst */
		{"s.tokens, s.outstanding = s.tokens + back, s.outstanding - amount\n"
		 "      advance(s, l)",
		 "s.tokens, s.outstanding = s.tokens + back, s.outstanding - amount"},
	};
	struct run total = {0};

	for (unsigned i = 0; i < sizeof broken / sizeof *broken; i++) {
		unsigned seed = 1;

		while (seed <= 40 &&
		       sequence(seed, ALGORITHM_TOKEN_BUCKET, true, broken[i], &total) &&
		       sequence(seed, ALGORITHM_SLIDING_WINDOW, false, broken[i], &total))
			seed++;
		cr_log_info("%s: seed %u", broken[i][0], seed);
		cr_expect_leq(seed, 40, "%s", broken[i][0]);
	}
}
