/*
 * Regions that share global quotas in virtual time: I2 holds in every seed, every rule of docs/global.md that is broken on purpose is
 * found out, loose quotas exceed by no more than is said, a seed replays to the same history, in quiet times the limit is used wherever the load is, and a region that
 * is cut off serves within its floor.
 *
 * KOVA_SIM_SEEDS=n       that many seeds (10 000; sanitized, 60 and no broken rules)
 * KOVA_SIM_SEED=n        only this one, its log printed; KOVA_SIM_MUTATION=NAME with this rule broken
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "globe.h"

enum {
	SEEDS = 10000,
	SEEDS_SANITIZED = 60,
	SEEDS_FOR_A_MUTATION = 6000,
	LOOSE_SEEDS = 2000,
	REPLAYED_SEEDS = 20,
	QUIET_SEEDS = 12,
};

static const char *const mutation_name[] = {
#define X(name, text) #name,
	GLOBE_MUTATIONS(X)
#undef X
};

static const char *const mutation_text[] = {
#define X(name, text) text,
	GLOBE_MUTATIONS(X)
#undef X
};

enum { MUTATIONS = sizeof mutation_name / sizeof *mutation_name };

static enum mutation mutation_at(unsigned i)
{
	return (enum mutation)(SIM_MUTATIONS_END + 1 + i);
}

struct totals {
	uint64_t events, faults, grants, lends, by_lease, takeovers, admitted, trace;
};

/* Whether a violation was found; *ret_what says which. */
static bool violates(uint64_t seed, enum mutation m, struct totals *t, char *ret_what)
{
	bool logging = getenv("KOVA_SIM_SEED") != NULL, found;
	struct globe *g = globe_new(seed, m, GLOBE_FAULTY, logging);

	globe_run(g);
	found = g->world.violation[0] != '\0';
	memcpy(ret_what, g->world.violation, sizeof g->world.violation);
	if (logging)
		world_print_log(&g->world);
	t->events += g->world.n_events;
	t->faults += g->n_faults;
	t->grants += g->n_grants;
	t->lends += g->n_lends;
	t->by_lease += g->n_by_lease;
	t->takeovers += g->n_takeovers;
	t->trace = g->trace;
	for (unsigned k = 0; k < GLOBE_KEYS; k++)
		t->admitted += g->checkers[k].admitted;
	globe_free(g);
	return found;
}

static int replay(uint64_t seed)
{
	const char *name = getenv("KOVA_SIM_MUTATION");
	enum mutation m = SIM_NOTHING;
	struct totals t = {0};
	char what[WORLD_LOG_BYTES];

	for (unsigned i = 0; i < MUTATIONS && name != NULL; i++)
		if (strcmp(mutation_name[i], name) == 0)
			m = mutation_at(i);
	return violates(seed, m, &t, what) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static bool holds(uint64_t seeds)
{
	struct totals t = {0};
	char what[WORLD_LOG_BYTES];
	clock_t begun = clock();

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		if (!violates(seed, SIM_NOTHING, &t, what))
			continue;
		printf("FAILED: seed %llu: %s\nagain: KOVA_SIM_SEED=%llu %s\n",
		       (unsigned long long)seed, what, (unsigned long long)seed,
		       "build/tests/sim_globe");
		return false;
	}
	printf("%llu seeds in %.1f s: %llu events, %llu faults, %llu grants, %llu promises, %llu "
	       "take-overs, %llu admitted, %llu of them by leases\n",
	       (unsigned long long)seeds, (double)(clock() - begun) / CLOCKS_PER_SEC,
	       (unsigned long long)t.events, (unsigned long long)t.faults,
	       (unsigned long long)t.grants, (unsigned long long)t.lends,
	       (unsigned long long)t.takeovers, (unsigned long long)t.admitted,
	       (unsigned long long)t.by_lease);
	return t.grants > 10 * seeds && t.lends > seeds && t.by_lease > t.admitted / 20;
}

static bool found_out(unsigned i)
{
	struct totals t = {0};
	char what[WORLD_LOG_BYTES];

	for (uint64_t seed = 1; seed <= SEEDS_FOR_A_MUTATION; seed++)
		if (violates(seed, mutation_at(i), &t, what)) {
			printf("%-24s seed %4llu: %s\n", mutation_name[i], (unsigned long long)seed,
			       what);
			return true;
		}
	printf("FAILED: %s is not found out in %d seeds: %s\n", mutation_name[i],
	       SEEDS_FOR_A_MUTATION, mutation_text[i]);
	return false;
}

static bool replays(void)
{
	char what[WORLD_LOG_BYTES];

	for (uint64_t seed = 1; seed <= REPLAYED_SEEDS; seed++) {
		struct totals once = {0}, again = {0};

		violates(seed, SIM_NOTHING, &once, what);
		violates(seed, SIM_NOTHING, &again, what);
		if (once.trace != again.trace || once.events != again.events) {
			printf("FAILED: seed %llu has two histories\n", (unsigned long long)seed);
			return false;
		}
	}
	return true;
}

/* ---- Loose ---- */

/* More than the limit comes, for that is what loose gives away, but never more than the allocators said that may. */
static bool excess_is_bounded(uint64_t seeds)
{
	uint64_t exceeded = 0;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct globe *g = globe_new(seed, SIM_NOTHING, GLOBE_LOOSE, false);
		char what[WORLD_LOG_BYTES];

		globe_run(g);
		memcpy(what, g->world.violation, sizeof what);
		exceeded += g->exceeded;
		globe_free(g);
		if (what[0] != '\0') {
			printf("FAILED: loose, seed %llu: %s\n", (unsigned long long)seed, what);
			return false;
		}
	}
	printf("loose: in %llu of %llu seeds more than the limit, never more than its bound\n",
	       (unsigned long long)exceeded, (unsigned long long)seeds);
	return exceeded > 0;
}

/* ---- Quiet times ---- */

enum { MOVES = 4, MOVE_S = 18, SETTLE_S = 10 };

static uint64_t admitted_in(struct globe *g, unsigned region, uint64_t seconds)
{
	uint64_t before = g->regions[region].admitted;

	world_run(&g->world, g->world.now_us + seconds * GLOBE_SECOND);
	return g->regions[region].admitted - before;
}

/* The part of the limit that is used from 10 s after the demand moved; the least of several moves. */
static double used_after_moves(uint64_t seed, char *ret_what)
{
	struct globe *g = globe_new(seed, SIM_NOTHING, GLOBE_QUIET, false);
	double a_second = (double)g->limit.limit * 1e6 / (double)g->limit.per_us, least = 1;

	for (unsigned move = 0; move < MOVES; move++) {
		unsigned region = move % g->scenario.n_regions;
		double used;

		for (unsigned i = 0; i < g->scenario.n_regions; i++)
			g->regions[i].demand = i == region ? (uint64_t)(10 * a_second) : 0;
		admitted_in(g, region, SETTLE_S);
		used = (double)admitted_in(g, region, MOVE_S - SETTLE_S) /
		       ((MOVE_S - SETTLE_S) * a_second);
		least = used < least ? used : least;
	}
	memcpy(ret_what, g->world.violation, sizeof g->world.violation);
	globe_free(g);
	return least;
}

/* What a region that is cut off serves of its floor, and what another does meanwhile of the rest. */
static bool serves_cut_off(uint64_t seed)
{
	struct globe *g = globe_new(seed, SIM_NOTHING, GLOBE_QUIET, false);
	double a_second = (double)g->limit.limit * 1e6 / (double)g->limit.per_us, own, rest;
	uint64_t before;
	bool ok;

	for (unsigned i = 0; i < g->scenario.n_regions; i++)
		g->regions[i].demand = (uint64_t)(3 * a_second);
	world_run(&g->world, 10 * GLOBE_SECOND);
	g->regions[0].cannot_write_until_us = UINT64_MAX;
	g->regions[0].cannot_read_until_us = UINT64_MAX;
	world_run(&g->world, 50 * GLOBE_SECOND);
	before = g->regions[1].admitted + g->regions[2].admitted;
	own = (double)admitted_in(g, 0, 30) /
	      (30 * a_second * g->regions[0].share.floor / g->whole);
	rest = (double)(g->regions[1].admitted + g->regions[2].admitted - before) / (30 * a_second);
	ok = own > 0.9 && own < 1.01 && rest > 0.9 && g->world.violation[0] == '\0';
	if (!ok)
		printf("FAILED: cut off, seed %llu: %.2f of the floor, the others %.2f of all %s\n",
		       (unsigned long long)seed, own, rest, g->world.violation);
	globe_free(g);
	return ok;
}

static bool used_when_quiet(void)
{
	double least = 1;
	bool ok = true;

	for (uint64_t seed = 1; seed <= QUIET_SEEDS; seed++) {
		char what[WORLD_LOG_BYTES];
		double used = used_after_moves(seed, what);

		least = used < least ? used : least;
		if (used < 0.9 || what[0] != '\0') {
			printf("FAILED: quiet seed %llu: %.1f %% used %s\n",
			       (unsigned long long)seed, 100 * used, what);
			ok = false;
		}
		ok = serves_cut_off(seed) && ok;
	}
	printf("quiet: at least %.1f %% of the limit is used from %d s after each move\n",
	       100 * least, SETTLE_S);
	return ok;
}

int main(void)
{
	const char *sanitizer = getenv("KOVA_SANITIZE");
	bool sanitized = sanitizer != NULL && strcmp(sanitizer, "none") != 0, ok;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("KOVA_SIM_SEED") != NULL)
		return replay(world_option("KOVA_SIM_SEED", 1));
	ok = holds(world_option("KOVA_SIM_SEEDS", sanitized ? SEEDS_SANITIZED : SEEDS));
	ok = replays() && ok;
	ok = excess_is_bounded(sanitized ? SEEDS_SANITIZED : LOOSE_SEEDS) && ok;
	for (unsigned i = 0; i < MUTATIONS && !sanitized; i++)
		ok = found_out(i) && ok;
	return used_when_quiet() && ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
