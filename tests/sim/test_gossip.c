/*
 * Gossip in virtual time: a thousand nodes learn of each other and of a change within the stated rounds and bytes; smaller nets
 * agree again after whatever happens to them; and each rule that is broken on purpose is found out.
 *
 * KOVA_SIM_SEEDS=n       that many seeds of trouble (150; sanitized 10, and no broken rules)
 * KOVA_SIM_SEED=n        only this one, its log printed; KOVA_SIM_MUTATION=NAME with this rule broken
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gossip_net.h"

enum {
	LARGE = 1000,
	ROUNDS_MAX = 15,
	REST_BYTES_MAX = 2048, /* a second and node, both ways, IP and UDP headers included */
	SEEDS = 150,
	SEEDS_SANITIZED = 10,
	SEEDS_FOR_A_MUTATION = 40,
	SEED_STRIDE = 6, /* fixed: a new scenario leaves the histories of the others as they are */
	FLOOD_DATAGRAMS_MAX =
		90, /* a second: 30 each of grants and news, probes and their answers */
};

static const char *const mutation_name[] = {"",
#define X(name, text) #name,
					    GOSSIP_MUTATIONS(X)
#undef X
};

static const char *const mutation_text[] = {"",
#define X(name, text) text,
					    GOSSIP_MUTATIONS(X)
#undef X
};

/* ---- Many nodes ---- */

static bool everyone_knows_everyone(const struct net *net)
{
	for (unsigned i = 0; i < net->n; i++)
		if (gossip_members(net->nodes[i].g)->n_alive != net->n - 1)
			return false;
	return true;
}

static void start_all(struct net *net)
{
	for (unsigned i = 0; i < net->n; i++) {
		net_start(net, i, true);
		net_run(net, 2);
	}
	for (int s = 0; s < 120 && !everyone_knows_everyone(net); s++)
		net_run(net, 1000);
	if (!everyone_knows_everyone(net))
		world_violated(&net->world, "not everyone knows everyone after two minutes");
}

static void count_bytes(const struct net *net, uint64_t *ret_sum, uint64_t *ret_most,
			const uint64_t *before)
{
	*ret_sum = *ret_most = 0;
	for (unsigned i = 0; i < net->n; i++) {
		uint64_t n = net->nodes[i].bytes_in + net->nodes[i].bytes_out - before[i];

		*ret_sum += n;
		*ret_most = n > *ret_most ? n : *ret_most;
	}
}

static void check_rest(struct net *net)
{
	uint64_t *before = calloc(net->n, sizeof *before), sum, most;
	unsigned seconds = 30;

	if (before == NULL)
		abort();
	net_run(net, 5000);
	for (unsigned i = 0; i < net->n; i++)
		before[i] = net->nodes[i].bytes_in + net->nodes[i].bytes_out;
	net_run(net, seconds * 1000);
	count_bytes(net, &sum, &most, before);
	free(before);
	printf("  at rest, sent and received: %llu bytes a second and node, the busiest node "
	       "%llu\n",
	       (unsigned long long)(sum / net->n / seconds), (unsigned long long)(most / seconds));
	if (most / seconds > REST_BYTES_MAX)
		world_violated(&net->world, "a node at rest needs %llu bytes a second",
			       (unsigned long long)(most / seconds));
}

/* Rounds until every node has a change that one of them made. */
static void check_spread(struct net *net, unsigned id, uint64_t lose_one_in)
{
	unsigned rounds = 0;

	net->lose_one_in = lose_one_in;
	net_write(net, (unsigned)world_below(&net->world, net->n), id, "spread", false);
	while (net_holders(net, id) < net->n && rounds < 1000) {
		net_run(net, GOSSIP_INTERVAL_MS);
		rounds++;
	}
	if (net->n == LARGE)
		printf("  a change reached all %u after %u rounds, 1 in %llu lost\n", net->n,
		       rounds, (unsigned long long)lose_one_in);
	if (rounds > ROUNDS_MAX)
		world_violated(&net->world, "a change needed %u rounds", rounds);
	net_run(net, 3000);
	net->lose_one_in = 0;
}

static bool large(unsigned n, uint64_t seed)
{
	struct net net;
	bool holds;

	net_init(&net, n, seed, false);
	start_all(&net);
	printf("%u nodes know each other after %.1f s\n", n, (double)net.world.now_us / 1e6);
	check_rest(&net);
	check_spread(&net, 1, 0);
	check_spread(&net, 2, 10);
	check_spread(&net, 3, 5);
	holds = net.world.violation[0] == '\0';
	if (!holds)
		printf("FAILED: %u nodes: %s\n", n, net.world.violation);
	net_release(&net);
	return holds;
}

/* ---- Trouble ---- */

static unsigned any_up(struct net *net)
{
	unsigned i = (unsigned)world_below(&net->world, net->n);

	while (net->nodes[i].g == NULL)
		i = (i + 1) % net->n;
	return i;
}

static void write_something(struct net *net)
{
	unsigned i = any_up(net), id = 1 + (unsigned)world_below(&net->world, 9);
	char text[24] = "";

	if (!world_one_in(&net->world, 3))
		snprintf(text, sizeof text, "v%llu",
			 (unsigned long long)world_below(&net->world, 1000000));
	if (!net->nodes[i].paused)
		net_write(net, i, id, text, false);
}

static void part(struct net *net)
{
	unsigned parts = 1 + (unsigned)world_below(&net->world, 3);

	for (unsigned i = 0; i < net->n; i++)
		net->nodes[i].part = (unsigned)world_below(&net->world, parts);
	world_log(&net->world, "the network has %u parts", parts);
}

static void one_trouble(struct net *net)
{
	unsigned i = (unsigned)world_below(&net->world, net->n);

	switch (world_below(&net->world, 6)) {
	case 0:
		part(net);
		return;
	case 1:
		if (net->nodes[i].g == NULL)
			net_start(net, i, world_one_in(&net->world, 2));
		else if (net_up(net) > 2)
			net_crash(net, i, false);
		return;
	case 2:
		if (net->nodes[i].g != NULL)
			net_pause(net, i, !net->nodes[i].paused);
		return;
	case 3:
		net->lose_one_in = world_below(&net->world, 2) * (3 + world_below(&net->world, 20));
		return;
	default:
		write_something(net);
	}
}

static void calm_down(struct net *net, bool seeded)
{
	net->lose_one_in = net->double_one_in = 0;
	for (unsigned i = 0; i < net->n; i++) {
		net->nodes[i].part = 0;
		if (net->nodes[i].g == NULL)
			net_start(net, i, seeded);
		net_pause(net, i, false);
	}
	net_run(net, 60000);
}

static void start_some(struct net *net)
{
	for (unsigned i = 0; i < net->n; i++) {
		net_start(net, i, true);
		/* Two files, each on half of the nodes, and nobody remembers having loaded one. */
		net_write_first(net, i, 20, i % 2 ? "file A" : "file B");
	}
	net_run(net, 10000);
}

/* Cuts, pauses, crashes, loss, doubles; then peace, and all agree on what was written last. */
static void trouble(struct net *net)
{
	net->double_one_in = 10;
	net->delay_us = 1 + world_below(&net->world, 100000);
	start_some(net);
	for (unsigned i = 0; i < net->n; i++)
		gossip_set_seeds(net->nodes[i].g, NULL, 0);
	for (int i = 0; i < 60; i++) {
		one_trouble(net);
		net_run(net, 50 + world_below(&net->world, 3000));
	}
	calm_down(net, world_one_in(&net->world, 2));
	net_check_members(net);
	net_check_items(net);
}

/* One node's clock is 10 s ahead; it writes all the same, as at a load of its file. */
static void ahead(struct net *net)
{
	unsigned bad = 1 + (unsigned)world_below(&net->world, net->n - 1);

	start_some(net);
	net_write(net, 0, 1, "right", false);
	net_run(net, 3000);
	net->nodes[bad].ahead_ms = 10000;
	net_run(net, 20000);
	for (unsigned id = 1; id < 4; id++) {
		net_write(net, bad, id, "refused", false);
		net_write(net, bad, id, "wrong", true);
	}
	net_run(net, 5000);
	/* One that has seen it restarts, with what it has on disk. */
	unsigned other = (bad + 1) % net->n;

	net_crash(net, other, false);
	net_run(net, 1000);
	net_start(net, other, true);
	net_run(net, 20000); /* its time has come: it is refused all the same */
	net->nodes[bad].ahead_ms = 0;
	net_run(net, 5000);
	for (unsigned id = 1; id < 4; id++)
		net_write(net, other, id, "right again", false);
	net_run(net, 10000);
	net_check_items(net);
}

/* As ahead(), while one is not there and one is cut off: they come when the time of what was stamped has come. */
static void late(struct net *net)
{
	unsigned bad = 1 + (unsigned)world_below(&net->world, net->n - 1);
	unsigned away = bad % (net->n - 1) + 1, cut = away % (net->n - 1) + 1;

	start_some(net);
	for (unsigned id = 1; id < 4; id++)
		net_write(net, 0, id, "right", false);
	net_run(net, 5000);
	net_crash(net, away, world_one_in(&net->world, 2));
	net->nodes[cut].part = 1;
	net->nodes[bad].ahead_ms = 10000;
	for (unsigned id = 1; id < 4; id++)
		net_write(net, bad, id, id == 2 ? "" : "wrong", true);
	net_run(net, 15000);
	net->nodes[bad].ahead_ms = 0;
	net->late = true;
	net->nodes[cut].part = 0;
	net_start(net, away, true);
	net_run(net, 60000);
	net_check_items(net);
}

/* One node's clock is 10 s behind: it refuses what all others take, and convinces nobody. */
static void behind(struct net *net)
{
	unsigned bad = 1 + (unsigned)world_below(&net->world, net->n - 1);

	start_some(net);
	net->nodes[bad].ahead_ms = -10000;
	net_run(net, 10000);
	for (unsigned id = 1; id < 4; id++)
		net_write(net, 0, id, "right", false);
	net_run(net, 20000);
	net->nodes[bad].ahead_ms = 0;
	net_run(net, 20000);
	net_check_items(net);
}

/* Nothing but loss: nobody dies of it. */
static void lossy(struct net *net)
{
	start_some(net);
	net->lose_one_in = 10;
	net_run(net, 60000);
	if (net->deaths > 0)
		world_violated(&net->world, "%llu times a node that lives was thought dead",
			       (unsigned long long)net->deaths);
	net->lose_one_in = 0;
	net_run(net, 20000);
	net_check_members(net);
}

/* Two nodes can't hear each other, but all others: nobody is even suspected. */
static void one_link(struct net *net)
{
	start_some(net);
	net->cut_a = 1;
	net->cut_b = 2;
	net->suspicions = 0;
	net_run(net, 60000);
	if (net->suspicions > 0)
		world_violated(&net->world, "a node is suspected though others reach it");
}

/* A deleted item stays deleted, also when one comes back that has not heard of it. */
static void deletion(struct net *net)
{
	start_some(net);
	net_write(net, 0, 1, "there", false);
	net_run(net, 5000);
	unsigned away = 1 + (unsigned)world_below(&net->world, net->n - 1);

	net_crash(net, away, false);
	net_write(net, 0, 1, "", false);
	net_run(net, 30000);
	net_start(net, away, true);
	net_run(net, 20000);
	net_check_items(net);
	net_check_members(net);
}

/* A change is with everyone in a few rounds, and who dies is known to be dead, for good, within 30 s. */
static void spread(struct net *net)
{
	start_some(net);
	check_spread(net, 1, 0);
	unsigned dead = 1 + (unsigned)world_below(&net->world, net->n - 1);

	net_crash(net, dead, false);
	net_run(net, 30000);
	net_check_members(net);
	net_start(net, dead, true);
	net_run(net, 10000);
	net_check_members(net);
}

/* ---- Grants ---- */

static void grants_begin(struct net *net)
{
	net->regional = true;
	net->keep_ms = 3000;
	net->late_ms = 500;
	start_some(net);
}

/* Some of what is decided is committed, and its region knows the newest soon, whatever is lost, doubled and overtaken. */
static void grants(struct net *net)
{
	net->double_one_in = 10;
	net->delay_us = 1 + world_below(&net->world, 100000);
	grants_begin(net);
	net->lose_one_in = 10;
	for (int i = 0; i < 100; i++) {
		net_grant(net, (unsigned)world_below(&net->world, 12),
			  !world_one_in(&net->world, 4));
		net_run(net, world_below(&net->world, 200));
	}
	net_run(net, 2000);
	for (unsigned q = 0; q < 12; q++)
		if (net_without_grant(net, q) > 0)
			world_violated(&net->world, "%u nodes don't know the newest grant of %u",
				       net_without_grant(net, q), q);
}

/* The coordinator can't reach the one node of a region, but others can. */
static void stranger(struct net *net)
{
	grants_begin(net);
	net->cut_a = 0;
	net->cut_b = 3;
	net_run(net, 20000);
	for (int i = 0; i < 20; i++) {
		net_grant(net, 0, true);
		net_run(net, 500);
		if (net_without_grant(net, 0) > 0)
			world_violated(&net->world, "a grant did not come by others");
	}
}

/* More grants than can be passed on: membership and changes go on as ever, and no node sends more than it may. */
static void flood(struct net *net)
{
	uint64_t before = 0;

	grants_begin(net);
	net->overrun = true;
	check_spread(net, 1, 0);
	for (unsigned s = 0; s < 20; s++) {
		for (unsigned q = 0; q < NET_QUOTAS && s<12; q += s> 0 ? 8 : 1)
			net_grant(net, q, true);
		if (s == 5)
			check_spread(net, 2, 10);
		before = net->nodes[0].datagrams_out;
		net_run(net, 1000);
		if (net->nodes[0].datagrams_out - before > FLOOD_DATAGRAMS_MAX)
			world_violated(&net->world, "%llu datagrams in a second",
				       (unsigned long long)(net->nodes[0].datagrams_out - before));
	}
	if (net->deaths > 0)
		world_violated(&net->world, "a node that lives was thought dead");
	unsigned dead = 1 + (unsigned)world_below(&net->world, net->n - 1);

	for (unsigned q = 0; q < NET_QUOTAS; q++)
		net_grant(net, q, true);
	net_crash(net, dead, false);
	net_run(net, 30000);
	net_check_members(net);
}

static const struct scenario {
	const char *name;
	void (*run)(struct net *net);
	unsigned nodes, one_seed_in;
} scenarios[] = {
	{"trouble", trouble, 12, 1},   {"ahead", ahead, 7, 5},       {"lossy", lossy, 25, 10},
	{"one link", one_link, 8, 5},  {"deletion", deletion, 6, 5}, {"spread", spread, 60, 10},
	{"late", late, 7, 5},          {"behind", behind, 7, 5},     {"grants", grants, 13, 5},
	{"stranger", stranger, 4, 10}, {"flood", flood, 30, 10},
};

enum { N_SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

static bool violates(uint64_t seed, unsigned which, bool logging, uint64_t *ret_trace,
		     char *ret_what)
{
	struct net net;
	const struct scenario *s = &scenarios[which];

	net_init(&net, s->nodes, seed * SEED_STRIDE + which, logging);
	s->run(&net);
	if (logging)
		world_print_log(&net.world);
	bool found = net.world.violation[0] != '\0';

	snprintf(ret_what, WORLD_LOG_BYTES, "%.20s: %.130s", s->name, net.world.violation);
	*ret_trace = net.trace;
	net_release(&net);
	return found;
}

static bool seed_violates(uint64_t seed, bool logging, char *ret_what)
{
	uint64_t trace;

	for (unsigned i = 0; i < N_SCENARIOS; i++)
		if (seed % scenarios[i].one_seed_in == 0 &&
		    violates(seed, i, logging, &trace, ret_what))
			return true;
	return false;
}

static bool holds(uint64_t seeds)
{
	char what[WORLD_LOG_BYTES];

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		if (!seed_violates(seed, false, what))
			continue;
		seed_violates(seed, true, what);
		printf("FAILED: seed %llu: %s\nagain: KOVA_SIM_SEED=%llu build/tests/sim_gossip\n",
		       (unsigned long long)seed, what, (unsigned long long)seed);
		return false;
	}
	printf("%llu seeds of trouble\n", (unsigned long long)seeds);
	return true;
}

/* The same seed, the same history. */
static bool replays(void)
{
	uint64_t first = 0, second = 0;
	char what[WORLD_LOG_BYTES];

	violates(3, 0, false, &first, what);
	violates(3, 0, false, &second, what);
	if (first != second)
		printf("FAILED: a seed has two histories\n");
	return first == second;
}

static bool found_out(enum gossip_mutation m)
{
	char what[WORLD_LOG_BYTES];
	bool found = false;

	gossip_broken = m;
	for (uint64_t seed = 10; seed <= 10 * SEEDS_FOR_A_MUTATION && !found; seed += 10)
		if (seed_violates(seed, false, what)) {
			printf("%-18s seed %3llu: %s\n", mutation_name[m], (unsigned long long)seed,
			       what);
			found = true;
		}
	gossip_broken = GOSSIP_NOTHING_BROKEN;
	if (!found)
		printf("FAILED: %s is not found out: %s\n", mutation_name[m], mutation_text[m]);
	return found;
}

static int replay(uint64_t seed)
{
	const char *name = getenv("KOVA_SIM_MUTATION");
	char what[WORLD_LOG_BYTES];

	for (int i = 1; i < GOSSIP_MUTATIONS_END && name != NULL; i++)
		if (strcmp(mutation_name[i], name) == 0)
			gossip_broken = (enum gossip_mutation)i;
	return seed_violates(seed, true, what) ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(void)
{
	const char *sanitize = getenv("KOVA_SANITIZE");
	bool sanitized = sanitize != NULL && strcmp(sanitize, "none") != 0;
	bool ok;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (getenv("KOVA_SIM_SEED") != NULL)
		return replay(world_option("KOVA_SIM_SEED", 1));
	ok = large(sanitized ? LARGE / 10 : LARGE, 1);
	ok = holds(world_option("KOVA_SIM_SEEDS", sanitized ? SEEDS_SANITIZED : SEEDS)) && ok;
	ok = replays() && ok;
	for (int m = 1; m < GOSSIP_MUTATIONS_END && !sanitized; m++)
		ok = found_out((enum gossip_mutation)m) && ok;
	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
