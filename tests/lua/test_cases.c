/* Faults that users of other limiters met, as far as the script alone can have them; by a clock of the test's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/limit.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)
#define MS UINT64_C(1000)

static struct script_rig rig;
static uint64_t start_us;

static void start(void)
{
	script_rig_start(&rig);
	/* On a whole minute, a day ahead of Redis's clock, by which keys expire. */
	start_us = ((uint64_t)time(NULL) / 60 + 1440) * 60 * SECOND;
	rig.virtual_us = rig.clock_us = start_us;
}

static void stop(void)
{
	script_rig_stop(&rig);
}

TestSuite(cases, .init = start, .fini = stop);

static void set_clock(uint64_t us)
{
	rig.virtual_us = rig.clock_us = us;
}

static struct limit make(enum algorithm a, uint64_t limit, uint64_t per_us, uint64_t burst)
{
	struct limit l = {.algorithm = a,
			  .limit = limit,
			  .per_us = per_us,
			  .burst = burst,
			  .hold_us = per_us};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

/* `n` callers at once; how many were admitted. */
static unsigned crowd(const struct limit *l, const char *key, unsigned n)
{
	struct script_check c = {.limit = l, .key = slice_of(key), .cost = 1};
	struct script_op op[SCRIPT_OPS_MAX];
	struct script_answer a[SCRIPT_OPS_MAX];
	unsigned admitted = 0;

	for (unsigned i = 0; i < SCRIPT_OPS_MAX; i++)
		op[i] = (struct script_op){.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1};
	while (n > 0) {
		unsigned some = n < SCRIPT_OPS_MAX ? n : SCRIPT_OPS_MAX;

		script_rig_run(&rig, op, some, a);
		for (unsigned i = 0; i < some; i++)
			admitted += a[i].status == SCRIPT_ALLOWED;
		n -= some;
	}
	return admitted;
}

/* 1. 200 callers at once on a limit of 100: absent, and idle for 1, 2 and 10 periods. */
Test(cases, a_crowd_gets_exactly_the_limit)
{
	static const uint64_t idle[] = {1, 2, 10, 1, 2};

	for (int a = 0; a < ALGORITHM_N; a++) {
		uint64_t edge[] = {start_us,
				   start_us + SECOND,
				   start_us + 2 * SECOND,
				   start_us + 4 * SECOND,
				   start_us + 14 * SECOND,
				   start_us + 15 * SECOND,
				   start_us + 17 * SECOND};
		struct limit l = make((enum algorithm)a, 100, SECOND, 100);
		char key[40];

		l.edges = (struct calendar_edges){.edge_us = edge, .n = 7};
		snprintf(key, sizeof key, "k:x{t}%d", a);
		set_clock(start_us);
		for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) {
			cr_assert_eq(crowd(&l, key, 200), 100, "algorithm %d, round %zu", a, i);
			/* A sliding counter is empty again only after two periods. */
			set_clock(rig.virtual_us +
				  idle[i] * SECOND * (a == ALGORITHM_SLIDING_COUNTER ? 2 : 1));
			if (a == ALGORITHM_CALENDAR)
				set_clock(edge[i + 1]);
		}
	}
}

/* 2. 1000 a second for 10 s against 100 a second: no more than rate·T + burst, no less than 99 % of rate·T. */
Test(cases, an_offer_of_ten_times_the_rate)
{
	static const uint64_t bursts[] = {1, 10};

	for (int a = 0; a <= ALGORITHM_GCRA; a++) {
		for (int b = 0; b < 2; b++) {
			struct limit l = make((enum algorithm)a, 100, SECOND, bursts[b]);
			char key[40];
			unsigned admitted = 0;

			snprintf(key, sizeof key, "k:x{t}%d%d", a, b);
			for (uint64_t ms = 0; ms < 10000; ms++) {
				set_clock(start_us + ms * MS);
				admitted += crowd(&l, key, 1);
			}
			cr_assert_leq(admitted, 1000 + bursts[b]);
			cr_assert_geq(admitted, 990);
		}
	}
}

/* 3. Drain, wait exactly as told, ask: admitted. */
Test(cases, waiting_as_told_is_enough)
{
	static const uint64_t rates[][2] = {{3, 7 * SECOND}, {10, SECOND}, {1, 60 * SECOND}};

	for (int a = 0; a < ALGORITHM_N; a++) {
		for (int r = 0; r < 3 && a != ALGORITHM_CALENDAR; r++) {
			struct limit l =
				make((enum algorithm)a, rates[r][0], rates[r][1], rates[r][0]);
			char key[40];

			snprintf(key, sizeof key, "k:x{t}%d%d", a, r);
			set_clock(start_us + 12345);
			crowd(&l, key, (unsigned)rates[r][0]);
			for (int i = 0; i < 50; i++) {
				struct script_answer answer =
					script_rig_one(&rig, SCRIPT_TAKE, &l, key, 1);
				uint64_t wait_us = (uint64_t)answer.wait_us;

				cr_assert(answer.status == SCRIPT_REFUSED && wait_us > 0);
				set_clock(rig.virtual_us + wait_us - 1);
				cr_assert_eq(crowd(&l, key, 1), 0,
					     "algorithm %d: not one µs sooner", a);
				set_clock(rig.virtual_us + 1);
				cr_assert_eq(crowd(&l, key, 1), 1, "algorithm %d, rate %d, time %d",
					     a, r, i);
				while (crowd(&l, key, 1) > 0)
					;
			}
		}
	}
}

/* 5. Hammered at ten times the limit for three windows: each still admits about the limit. */
Test(cases, a_hammered_window_still_admits)
{
	for (int a = 0; a < ALGORITHM_CALENDAR; a++) {
		struct limit l = make((enum algorithm)a, 100, SECOND, 1);
		char key[40];

		snprintf(key, sizeof key, "k:x{t}%d", a);
		for (uint64_t w = 0; w < 4; w++) {
			unsigned admitted = 0;

			for (uint64_t ms = 0; ms < 1000; ms++) {
				set_clock(start_us + w * SECOND + ms * MS);
				admitted += crowd(&l, key, 1);
			}
			cr_assert_geq(admitted, a == ALGORITHM_SLIDING_COUNTER && w > 0 ? 95 : 99,
				      "algorithm %d", a);
			cr_assert_leq(admitted, 101);
		}
	}
}

/* 13. Within a window the reset is constant; the first request after an edge is admitted, 200 edges. */
Test(cases, the_first_after_an_edge_is_admitted)
{
	uint64_t edge[204];
	struct limit l = make(ALGORITHM_CALENDAR, 5, 0, 0);

	for (uint64_t i = 0; i < 204; i++)
		edge[i] = start_us + i * 3600 * SECOND;
	l.edges = (struct calendar_edges){.edge_us = edge, .n = 204};
	for (uint64_t i = 1; i <= 200; i++) {
		set_clock(edge[i] - 2 * MS);
		crowd(&l, "k:d{t}x", 9);
		cr_assert_eq(crowd(&l, "k:d{t}x", 1), 0);
		for (uint64_t us = i % 3 * MS; us <= 2 * MS; us += MS) {
			struct script_answer a;

			set_clock(edge[i] + us);
			a = script_rig_one(&rig, SCRIPT_TAKE, &l, "k:d{t}x", 1);
			cr_assert_eq(a.status, SCRIPT_ALLOWED);
			cr_assert_eq(rig.virtual_us + a.reset_us, edge[i + 1]);
		}
	}
}

/* 10. Permits whose holder died are all free within `hold`. */
Test(cases, permits_of_the_dead_come_back)
{
	struct limit l = make(ALGORITHM_CONCURRENCY, 8, 10 * SECOND, 0);

	cr_assert_eq(crowd(&l, "k:c{t}x", 64), 8);
	set_clock(start_us + 10 * SECOND - 1);
	cr_assert_eq(crowd(&l, "k:c{t}x", 64), 0);
	set_clock(start_us + 10 * SECOND);
	cr_assert_eq(crowd(&l, "k:c{t}x", 64), 8);
}

/* 11. Every request fails and is refunded: the rate is bounded all the same. */
Test(cases, refunding_everything_keeps_the_rate_bounded)
{
	struct limit l = make(ALGORITHM_TOKEN_BUCKET, 10, SECOND, 10);
	struct script_check c = {.limit = &l, .key = SLICE("k:b{t}x"), .cost = 1};
	unsigned admitted = 0;

	for (uint64_t ms = 0; ms < 10000; ms += 10) {
		char receipt[32];
		struct script_op op = {.kind = SCRIPT_TAKE, .checks = &c, .n_checks = 1};
		struct script_answer a;

		set_clock(start_us + ms * MS);
		snprintf(receipt, sizeof receipt, "k:r{t}%lu", (unsigned long)ms);
		op.receipt_key = slice_of(receipt);
		script_rig_run(&rig, &op, 1, &a);
		if (a.status != SCRIPT_ALLOWED)
			continue;
		admitted++;
		op.kind = SCRIPT_REFUND;
		op.amount = UINT64_MAX;
		script_rig_run(&rig, &op, 1, &a);
	}
	cr_assert_leq(admitted, 10 + 2 * 10 * 10, "burst, and twice the rate");
	cr_assert_geq(admitted, 100);
}

/* The timeline of the source: capacity 20, 10 a second. */
Test(cases, the_timeline)
{
	struct limit l = make(ALGORITHM_TOKEN_BUCKET, 10, SECOND, 20);

	cr_assert_eq(script_rig_one(&rig, SCRIPT_TAKE, &l, "k:b{t}x", 15).remaining, 5);
	set_clock(start_us + SECOND);
	cr_assert_eq(script_rig_one(&rig, SCRIPT_TAKE, &l, "k:b{t}x", 15).remaining, 0);
	set_clock(start_us + 2 * SECOND);
	cr_assert_eq(script_rig_one(&rig, SCRIPT_TAKE, &l, "k:b{t}x", 10).status, SCRIPT_ALLOWED);
	cr_assert_eq(script_rig_one(&rig, SCRIPT_TAKE, &l, "k:b{t}x", 1).wait_us,
		     100 * (int64_t)MS);
}
