/*
 * A private Redis for each test of the decide script, limits of every algorithm, and the operations that most tests
 * ask. For one file of tests: include it once, and give start() and stop() to its TestSuite.
 */
#pragma once

#include <criterion/criterion.h>
#include <time.h>

#include "core/limit.h"
#include "script_rig.h"

#define SECOND UINT64_C(1000000)

static struct script_rig rig;

static void start(void)
{
	script_rig_start(&rig);
	rig.clock_us = (uint64_t)time(NULL) * SECOND;
}

static void stop(void)
{
	script_rig_stop(&rig);
}

static inline struct limit make(enum algorithm a, uint64_t limit, uint64_t per_us, uint64_t burst)
{
	struct limit l = {.algorithm = a,
			  .limit = limit,
			  .per_us = per_us,
			  .burst = burst,
			  .hold_us = per_us};

	cr_assert_eq(limit_init(&l), KOVA_OK);
	return l;
}

static inline struct limit bucket(uint64_t limit, uint64_t per_us, uint64_t burst)
{
	return make(ALGORITHM_TOKEN_BUCKET, limit, per_us, burst);
}

/* A day that began a while ago, the one before and the one after. */
static inline struct limit calendar(uint64_t limit, uint64_t edge[4])
{
	struct limit l = make(ALGORITHM_CALENDAR, limit, 0, 0);

	for (unsigned i = 0; i < 4; i++)
		edge[i] = rig.clock_us + i * 86400 * SECOND - 90000 * SECOND;
	l.edges = (struct calendar_edges){.edge_us = edge, .n = 4};
	return l;
}

static inline void sleep_us(uint64_t us)
{
	struct timespec t = {(time_t)(us / SECOND), (long)(us % SECOND) * 1000};

	nanosleep(&t, NULL);
}

static inline struct script_answer take(const struct limit *l, const char *key, uint64_t cost)
{
	return script_rig_one(&rig, SCRIPT_TAKE, l, key, cost);
}

static inline struct script_answer peek(const struct limit *l, const char *key)
{
	return script_rig_one(&rig, SCRIPT_PEEK, l, key, 1);
}

static inline struct script_answer run(const struct script_op *op)
{
	struct script_answer a;

	script_rig_run(&rig, op, 1, &a);
	return a;
}

static inline struct limit of_each(enum algorithm a, uint64_t limit, uint64_t edge[4])
{
	return a == ALGORITHM_CALENDAR ? calendar(limit, edge)
				       : make(a, limit, 3600 * SECOND, limit);
}
