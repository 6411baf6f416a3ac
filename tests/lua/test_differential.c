/*
 * The same random sequences through the script in a real Redis and through the twins in C: equal decisions, remaining,
 * wait and reset. Keys are taken from under changing limits, in batches that are plain and batches that are not.
 *
 * By Redis's own clock the twin is given the time that Redis answers, so nothing depends on how fast this runs. By a clock of
 * the test's, time also leaps and goes back. In half of the sequences the clock is doubted now and then.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/keyspace.h"
#include "core/limiter.h"
#include "script_rig.h"

enum { KEYS = 5, OPS_MAX = 24 };

struct run {
	struct script_rig rig;
	enum algorithm algorithm;
	unsigned seed;
	bool doubts; /* now and then; buckets in test_lease_differential.c */
	struct limit limit[KEYS];
	struct limiter_state twin[KEYS];
	uint64_t edge[8];
};

static uint64_t pick(struct run *r, uint64_t n)
{
	return ((uint64_t)rand_r(&r->seed) << 31 | (uint64_t)rand_r(&r->seed)) % n;
}

static uint64_t random_amount(struct run *r)
{
	switch (pick(r, 8)) {
	case 0:
		return 1 + pick(r, LIMIT_MAX);
	case 1:
		return LIMIT_MAX;
	case 2:
		return 1;
	default:
		return 1 + pick(r, 40);
	}
}

/* Edges some ms apart, so that windows end while the test runs. */
static void random_edges(struct run *r)
{
	uint64_t at = r->rig.clock_us - 2000;

	for (int i = 0; i < 8; i++) {
		r->edge[i] = at;
		at += 1000 + pick(r, 20000);
	}
}

static void random_limit(struct run *r, struct limit *ret_limit)
{
	static const uint64_t per_us[] = {1000,     3000,       7000,        20000,
					  33000,    100000,     1000000,     7000000,
					  60000000, 3600000000, 86400000000, LIMIT_PER_MAX_US};
	struct limit l;

	do {
		l = (struct limit){.algorithm = r->algorithm, .limit = random_amount(r)};
		l.per_us = per_us[pick(r, sizeof per_us / sizeof *per_us)];
		l.burst = random_amount(r);
		l.hold_us = 1000 + pick(r, 30000);
		l.edges = (struct calendar_edges){.edge_us = r->edge, .n = 8};
		if (pick(r, 40) == 0)
			l.limit = 0;
	} while (limit_init(&l) != KOVA_OK);
	*ret_limit = l;
}

static uint64_t random_cost(struct run *r, const struct limit *l)
{
	uint64_t most = limit_capacity(l);

	switch (pick(r, 6)) {
	case 0:
		return most > 0 ? 1 + pick(r, most) : 1;
	case 1:
		return most > 0 ? most : LIMIT_MAX;
	case 2:
		return most < LIMIT_MAX ? most + 1 : LIMIT_MAX;
	default:
		return 1 + pick(r, 3);
	}
}

static void compare(struct run *r, const struct script_answer *lua, const struct limiter_verdict *c,
		    const struct limit *l, uint64_t cost)
{
	bool same = (lua->status == SCRIPT_ALLOWED) == c->allowed &&
		    lua->remaining == c->remaining && lua->wait_us == c->wait_us &&
		    lua->reset_us == c->reset_us;

	if (!same)
		cr_log_error("lua %d %lu %ld %lu, c %d %lu %ld %lu", lua->status == SCRIPT_ALLOWED,
			     (unsigned long)lua->remaining, (long)lua->wait_us,
			     (unsigned long)lua->reset_us, c->allowed, (unsigned long)c->remaining,
			     (long)c->wait_us, (unsigned long)c->reset_us);
	cr_assert(same, "algorithm %d limit %lu per %lu burst %lu cost %lu now %lu", r->algorithm,
		  (unsigned long)l->limit, (unsigned long)l->per_us, (unsigned long)l->burst,
		  (unsigned long)cost, (unsigned long)lua->now_us);
}

static void one_batch(struct run *r, const char (*name)[64])
{
	struct script_check check[OPS_MAX];
	struct script_op op[OPS_MAX];
	struct script_answer answer[OPS_MAX];
	uint64_t key[OPS_MAX];
	uint32_t n = 1 + (uint32_t)pick(r, OPS_MAX - 1);
	bool general = pick(r, 2) == 0, alike = pick(r, 2) == 0;

	for (uint32_t i = 0; i < n; i++) {
		key[i] = pick(r, KEYS);
		check[i] = (struct script_check){.limit = &r->limit[key[i]],
						 .key = slice_of(name[key[i]]),
						 .cost = random_cost(r, &r->limit[key[i]])};
		for (uint32_t j = 0; j < i && alike; j++) /* all that is asked of a key */
			if (key[j] == key[i])
				check[i].cost = check[j].cost;
		op[i] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &check[i], .n_checks = 1};
	}
	if (general && n < OPS_MAX) {
		check[n] = check[0];
		op[n] = (struct script_op){.kind = SCRIPT_PEEK, .checks = &check[n], .n_checks = 1};
	}
	r->rig.doubted = r->doubts && r->algorithm != ALGORITHM_TOKEN_BUCKET && pick(r, 3) == 0;
	script_rig_run(&r->rig, op, general && n < OPS_MAX ? n + 1 : n, answer);
	for (uint32_t i = 0; i < n; i++) {
		struct limiter_verdict v;

		if (answer[i].status == SCRIPT_EDGES) {
			random_edges(r);
			return;
		}
		(r->rig.doubted ? limiter_admit_doubted : limiter_admit)(
			&r->limit[key[i]], &r->twin[key[i]], answer[i].now_us, check[i].cost, &v);
		compare(r, &answer[i], &v, &r->limit[key[i]], check[i].cost);
	}
}

static void change_a_limit(struct run *r)
{
	random_limit(r, &r->limit[pick(r, KEYS)]);
}

static void pass_real_time(struct run *r)
{
	struct timespec pause = {0, (long)pick(r, 3000000)};

	if (pick(r, 4) == 0)
		nanosleep(&pause, NULL);
}

/* Steps of all sizes up to half a year, now and then backwards: in calendars no further than the window before, for the
 * script gets no more edges. Keys expire by Redis's clock, which this one stays ahead of. */
static void pass_virtual_time(struct run *r)
{
	uint64_t step_us = pick(r, UINT64_C(1) << pick(r, 44));
	uint64_t back_us = r->algorithm == ALGORITHM_CALENDAR ? step_us % 1000 : step_us / 16;

	if (pick(r, 12) == 0 &&
	    r->rig.virtual_us - back_us > (uint64_t)time(NULL) * 1000000 + 60000000)
		r->rig.virtual_us -= back_us;
	else if (pick(r, 3) > 0)
		r->rig.virtual_us += step_us;
	r->rig.clock_us = r->rig.virtual_us;
}

static void sequence(enum algorithm a, unsigned seed, int batches, bool is_virtual)
{
	struct run r = {.algorithm = a, .seed = seed, .doubts = seed > 4};
	char name[KEYS][64];

	script_rig_start(&r.rig);
	r.rig.clock_us = (uint64_t)time(NULL) * 1000000;
	if (is_virtual)
		r.rig.clock_us = r.rig.virtual_us =
			r.rig.clock_us + UINT64_C(30000000) * 1000000 + pick(&r, 1000000);
	random_edges(&r);
	for (int i = 0; i < KEYS; i++) {
		snprintf(name[i], sizeof name[i], "k:x{key}%d:%d", a, i);
		random_limit(&r, &r.limit[i]);
		cr_assert(limiter_init(&r.twin[i], &r.limit[i], 0, false));
	}
	for (int i = 0; i < batches; i++) {
		if (is_virtual)
			pass_virtual_time(&r);
		else
			pass_real_time(&r);
		if (pick(&r, 20) == 0)
			change_a_limit(&r);
		one_batch(&r, (const char(*)[64])name);
	}
	for (int i = 0; i < KEYS; i++)
		limiter_release(&r.twin[i]);
	script_rig_stop(&r.rig);
}

#define DIFFERENTIAL(name, algorithm)                                  \
	Test(differential, name)                                       \
	{                                                              \
		for (unsigned seed = 1; seed <= 8; seed++)             \
			sequence(algorithm, seed, 400, seed % 2 != 0); \
	}

DIFFERENTIAL(token_bucket, ALGORITHM_TOKEN_BUCKET)
DIFFERENTIAL(gcra, ALGORITHM_GCRA)
DIFFERENTIAL(sliding_window, ALGORITHM_SLIDING_WINDOW)
DIFFERENTIAL(sliding_counter, ALGORITHM_SLIDING_COUNTER)
DIFFERENTIAL(calendar, ALGORITHM_CALENDAR)
DIFFERENTIAL(concurrency, ALGORITHM_CONCURRENCY)
