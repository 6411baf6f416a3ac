#include "region.h"

#include <assert.h>

#include "core/script.h"

uint64_t store_now_us(const struct store *s)
{
	return sim_clock_read(&s->clock, s->region->world.now_us);
}

unsigned store_path(const struct store *s, unsigned child, unsigned ret_path[LEVELS_MAX])
{
	if (s->region->scenario.n_levels == 1) {
		ret_path[0] = child;
		return 1;
	}
	ret_path[0] = 0;
	ret_path[1] = 1 + child;
	return 2;
}

/* ---- What must hold ---- */

static uint64_t spendable(const struct store *s, unsigned quota)
{
	const struct scenario *sc = &s->region->scenario;
	uint64_t sum = 0;

	for (unsigned child = 0; child < sc->n_children; child++) {
		unsigned path[LEVELS_MAX], n = store_path(s, child, path);

		for (unsigned i = 0; i < n; i++)
			for (unsigned a = 0; a < sc->n_agents && path[i] == quota; a++)
				sum += agent_spendable(&s->region->agents[a], child);
	}
	return sum;
}

/* I4: what can be taken and what holders can still spend never exceeds what a full limit holds. */
static void check_spendable(struct store *s, unsigned child)
{
	unsigned path[LEVELS_MAX], n = store_path(s, child, path);

	for (unsigned i = 0; i < n; i++) {
		const struct limit *l = &s->region->limits[path[i]];
		uint64_t room = quota_room(&s->quotas[path[i]], store_now_us(s));
		uint64_t held = spendable(s, path[i]);

		if (room + held > limit_capacity(l))
			world_violated(&s->region->world,
				       "minted: %llu there and %llu leased of %llu (key %u)",
				       (unsigned long long)room, (unsigned long long)held,
				       (unsigned long long)limit_capacity(l), path[i]);
	}
}

static const char *const algorithm_name[ALGORITHM_N] = {[ALGORITHM_TOKEN_BUCKET] = "token bucket",
							[ALGORITHM_GCRA] = "gcra",
							[ALGORITHM_SLIDING_WINDOW] =
								"sliding window",
							[ALGORITHM_CALENDAR] = "calendar"};

/* I1. */
void store_admitted(struct store *s, unsigned child, uint64_t cost, uint64_t granted_us)
{
	unsigned path[LEVELS_MAX], n = store_path(s, child, path);

	for (unsigned i = 0; i < n; i++)
		if (!checker_spend(&s->checkers[path[i]], store_now_us(s), granted_us, cost))
			world_violated(
				&s->region->world, "more admitted than the %s allows (key %u)",
				algorithm_name[s->region->limits[path[i]].algorithm], path[i]);
}

/* ---- Operations ---- */

/* What all levels have; *ret_wait_us: until `cost` fits in all of those where it does not. */
static uint64_t room_of(const struct store *s, unsigned child, uint64_t cost, uint64_t *ret_wait_us)
{
	unsigned path[LEVELS_MAX], n = store_path(s, child, path);
	uint64_t now_us = store_now_us(s), least = UINT64_MAX;

	*ret_wait_us = 0;
	for (unsigned i = 0; i < n; i++) {
		uint64_t room = quota_room(&s->quotas[path[i]], now_us), wait_us;

		least = room < least ? room : least;
		if (room >= cost)
			continue;
		wait_us = quota_wait_us(&s->quotas[path[i]], now_us, cost);
		*ret_wait_us = wait_us > *ret_wait_us ? wait_us : *ret_wait_us;
	}
	return least;
}

static void take_all(struct store *s, unsigned child, uint64_t cost)
{
	unsigned path[LEVELS_MAX], n = store_path(s, child, path);

	for (unsigned i = 0; i < n; i++)
		quota_take(&s->quotas[path[i]], store_now_us(s), cost);
}

/* I5: a refusal has taken nothing. */
static void refuse(struct store *s, const struct call *c)
{
	unsigned path[LEVELS_MAX], n = store_path(s, c->ask.child, path);
	uint64_t now_us = store_now_us(s), before = quota_room(&s->quotas[path[0]], now_us);

	if (world_has(&s->region->world, SIM_SOME_LEVELS) && n > 1 && before >= c->ask.cost)
		quota_take(&s->quotas[path[0]], now_us, c->ask.cost);
	if (quota_room(&s->quotas[path[0]], now_us) != before)
		world_violated(&s->region->world, "refused, and taken from one level");
}

static void take(struct store *s, struct call *c)
{
	struct world *w = &s->region->world;
	const struct ask *k = &c->ask;

	if (k->has_id && s->charged[k->serial] && !world_has(w, SIM_ID_IGNORED)) {
		c->allowed = true;
		return;
	}
	c->allowed = room_of(s, k->child, k->cost, &c->wait_us) >= k->cost;
	if (!c->allowed) {
		refuse(s, c);
		return;
	}
	if (s->charged[k->serial])
		world_violated(w, "request %u was charged twice", k->serial);
	take_all(s, k->child, k->cost);
	s->charged[k->serial] = 1;
	store_admitted(s, k->child, k->cost, UINT64_MAX);
}

static bool leasable(const struct store *s, const struct call *c, uint64_t end_us)
{
	unsigned path[LEVELS_MAX], n = store_path(s, c->ask.child, path);

	for (unsigned i = 0; i < n; i++)
		if (!quota_leasable(&s->quotas[path[i]], store_now_us(s), c->lease, end_us))
			return false;
	return true;
}

static void lease(struct store *s, struct call *c)
{
	unsigned path[LEVELS_MAX], n = store_path(s, c->ask.child, path);
	uint64_t room = room_of(s, c->ask.child, c->ask.cost, &c->wait_us);
	uint64_t now_us = store_now_us(s), end_us;

	c->freed_us = end_us = now_us + (world_has(&s->region->world, SIM_NO_MARGIN)
						 ? c->ttl_us
						 : script_lease_hold_us(c->ttl_us));
	c->allowed = room >= c->ask.cost;
	if (!c->allowed)
		return;
	c->leased = leasable(s, c, end_us);
	c->granted = room / c->sharers < c->amount ? room / c->sharers : c->amount;
	if (!c->leased || c->granted < c->ask.cost)
		c->granted = c->ask.cost;
	for (unsigned i = 0; i < n && c->leased; i++) {
		quota_lease(&s->quotas[path[i]], now_us, c->granted, c->lease, end_us);
		checker_taken(&s->checkers[path[i]], now_us);
	}
	if (!c->leased) {
		take_all(s, c->ask.child, c->granted);
		store_admitted(s, c->ask.child, c->granted, UINT64_MAX);
	}
	s->region->n_leases += c->leased;
}

static void unlease(struct store *s, const struct call *c)
{
	unsigned path[LEVELS_MAX], n = store_path(s, c->ask.child, path);

	for (unsigned i = 0; i < n; i++)
		quota_unlease(&s->quotas[path[i]], store_now_us(s), c->lease, c->amount);
}

static void give(struct store *s, const struct call *c)
{
	unsigned path[LEVELS_MAX], n = store_path(s, c->ask.child, path);

	for (unsigned i = 0; i < n; i++) {
		uint64_t given =
			quota_give(&s->quotas[path[i]], store_now_us(s), c->stamp_us, c->ask.cost);

		if (s->charged[c->ask.serial])
			checker_refund(&s->checkers[path[i]], c->stamp_us, given);
	}
	s->charged[c->ask.serial] = 0;
}

static void tell_full(struct store *s)
{
	for (unsigned i = 0; i < s->n_quotas; i++) {
		const struct leased_bucket *b = &s->quotas[i].bucket;

		if (s->region->limits[i].algorithm == ALGORITHM_TOKEN_BUCKET &&
		    b->bucket.debt_ut == 0 && b->leases.n == 0)
			checker_full(&s->checkers[i]);
	}
}

static const char *const kind_name[] = {"TAKE", "LEASE", "UNLEASE", "GIVE"};

static void execute(struct store *s, struct call *c)
{
	c->executed = true;
	c->redis_us = store_now_us(s);
	for (unsigned i = 0; i < s->n_quotas; i++)
		checker_observe(&s->checkers[i], c->redis_us);
	tell_full(s); /* a key that is absent still */
	if (c->kind == CALL_TAKE)
		take(s, c);
	else if (c->kind == CALL_LEASE)
		lease(s, c);
	else if (c->kind == CALL_UNLEASE)
		unlease(s, c);
	else
		give(s, c);
	world_log(&s->region->world,
		  "redis %.6f: agent %u %s key %u cost %u lease %llu amount %llu: %s, granted %llu",
		  (double)(c->redis_us % 1000000000) / 1e6, c->agent->number, kind_name[c->kind],
		  c->ask.child, c->ask.cost, (unsigned long long)c->lease,
		  (unsigned long long)c->amount, c->allowed ? "yes" : "no",
		  (unsigned long long)c->granted);
	check_spendable(s, c->ask.child);
	tell_full(s);
}

/* What left on a connection that broke since may have reached Redis or not; its answer goes nowhere. */
void store_on_call(void *owner, void *call)
{
	struct store *s = owner;
	struct call *c = call;
	struct world *w = &s->region->world;
	bool broken = c->generation != c->agent->link.generation;
	uint64_t at_us;

	if (s->up && s->paused_until_us > w->now_us) {
		world_at(w, s->paused_until_us, store_on_call, s, c);
		return;
	}
	if (!s->up || (broken && world_one_in(w, 2))) {
		call_unref(c);
		return;
	}
	execute(s, c);
	at_us = sim_link_arrival(w, &s->region->weather, &c->agent->link.back_us);
	if (broken || at_us == UINT64_MAX)
		call_unref(c);
	else
		world_at(w, at_us, agent_on_reply, c->agent, c);
}
