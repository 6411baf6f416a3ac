/*
 * A region in virtual time: I1, I4, I5 and ids hold in every seed, every rule that is broken on purpose is found out, and in
 * quiet times the limit is used.
 *
 * KOVA_SIM_SEEDS=n       that many seeds (400; sanitized, 60 and no broken rules: they take ten times as long)
 * KOVA_SIM_SEED=n        only this one, its log printed; KOVA_SIM_MUTATION=NAME with this rule broken
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "region.h"

enum {
	SEEDS = 400,
	SEEDS_SANITIZED = 60,
	SEEDS_FOR_A_MUTATION = 400,
	QUIET_SEEDS = 10,
	QUIET_SEEDS_SANITIZED = 2
};

static const char *const mutation_name[] = {"",
#define X(name, text) #name,
					    SIM_MUTATIONS(X)
#undef X
};

static const char *const mutation_text[] = {"",
#define X(name, text) text,
					    SIM_MUTATIONS(X)
#undef X
};

struct totals {
	uint64_t seconds, events, leases, by_lease, admitted, faults;
};

/* Whether a violation was found; *ret_what says which. */
static bool violates(uint64_t seed, enum mutation m, bool logging, struct totals *t, char *ret_what)
{
	struct region *r = region_new(seed, m, false, logging);
	bool found;

	region_run(r);
	found = r->world.violation[0] != '\0';
	memcpy(ret_what, r->world.violation, sizeof r->world.violation);
	if (logging)
		world_print_log(&r->world);
	t->seconds += r->world.now_us / 1000000;
	t->events += r->world.n_events;
	t->leases += r->n_leases;
	t->by_lease += r->n_by_lease;
	t->faults += r->n_faults;
	for (unsigned i = 0; i < QUOTAS_MAX; i++)
		t->admitted += r->store.checkers[i].admitted;
	region_free(r);
	return found;
}

static int replay(uint64_t seed)
{
	const char *name = getenv("KOVA_SIM_MUTATION");
	enum mutation m = SIM_NOTHING;
	struct totals t = {0};
	char what[WORLD_LOG_BYTES];

	for (int i = 1; i < SIM_MUTATIONS_END && name != NULL; i++)
		if (strcmp(mutation_name[i], name) == 0)
			m = (enum mutation)i;
	return violates(seed, m, true, &t, what) ? EXIT_FAILURE : EXIT_SUCCESS;
}

static bool holds(uint64_t seeds)
{
	struct totals t = {0};
	char what[WORLD_LOG_BYTES];
	clock_t begun = clock();
	double took;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		if (!violates(seed, SIM_NOTHING, false, &t, what))
			continue;
		violates(seed, SIM_NOTHING, true, &t, what);
		printf("FAILED: seed %llu: %s\nagain: KOVA_SIM_SEED=%llu %s\n",
		       (unsigned long long)seed, what, (unsigned long long)seed,
		       "build/tests/sim_region");
		return false;
	}
	took = (double)(clock() - begun) / CLOCKS_PER_SEC;
	printf("%llu seeds, %llu simulated seconds in %.1f s (%.0f a second): %llu events, %llu "
	       "faults, "
	       "%llu admitted, %llu of them by %llu leases\n",
	       (unsigned long long)seeds, (unsigned long long)t.seconds, took,
	       (double)t.seconds / took, (unsigned long long)t.events, (unsigned long long)t.faults,
	       (unsigned long long)t.admitted, (unsigned long long)t.by_lease,
	       (unsigned long long)t.leases);
	return t.by_lease > t.admitted / 10;
}

static bool found_out(enum mutation m)
{
	struct totals t = {0};
	char what[WORLD_LOG_BYTES];

	for (uint64_t seed = 1; seed <= SEEDS_FOR_A_MUTATION; seed++)
		if (violates(seed, m, false, &t, what)) {
			printf("%-24s seed %3llu: %s\n", mutation_name[m], (unsigned long long)seed,
			       what);
			return true;
		}
	printf("FAILED: %s is not found out in %d seeds: %s\n", mutation_name[m],
	       SEEDS_FOR_A_MUTATION, mutation_text[m]);
	return false;
}

static bool used_when_quiet(uint64_t seeds)
{
	double least = 1;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		struct region *r = region_new(seed, SIM_NOTHING, true, false);
		double used;

		region_run(r);
		used = region_utilisation(r);
		least = used < least ? used : least;
		if (used < 0.98 || r->world.violation[0] != '\0')
			printf("FAILED: quiet seed %llu: %.1f %% used %s\n",
			       (unsigned long long)seed, 100 * used, r->world.violation);
		region_free(r);
	}
	printf("quiet: at least %.2f %% of the limit is used\n", 100 * least);
	return least >= 0.98;
}

int main(void)
{
	const char *sanitizer = getenv("KOVA_SANITIZE");
	bool sanitized = sanitizer != NULL && strcmp(sanitizer, "none") != 0, ok;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("KOVA_SIM_SEED") != NULL)
		return replay(world_option("KOVA_SIM_SEED", 1));
	ok = holds(world_option("KOVA_SIM_SEEDS", sanitized ? SEEDS_SANITIZED : SEEDS));
	for (int m = 1; m < SIM_MUTATIONS_END && !sanitized; m++)
		ok = found_out((enum mutation)m) && ok;
	return used_when_quiet(sanitized ? QUIET_SEEDS_SANITIZED : QUIET_SEEDS) && ok
		       ? EXIT_SUCCESS
		       : EXIT_FAILURE;
}
