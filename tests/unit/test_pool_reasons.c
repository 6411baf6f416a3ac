/*
 * Why there is no endpoint: of several reasons the one that ends first, and when that is. What is told is compared with what the pool's
 * page says of each endpoint and target at the same instant, in random pools that hold, cool, are full and fall below their floor.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/pool_policy.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)
#define NEVER UINT64_MAX

enum { ENDPOINTS = 4, OUT_MAX = 64, STEPS = 1500, SEEDS = 40, TARGETS = 3 };

static const char *const ids[ENDPOINTS] = {"a", "b", "c", "d"};
static const char *const targets[TARGETS] = {"", "shop", "bank"};

struct world {
	struct dice dice;
	struct pool_policy *pool;
	struct pool_rule rule;
	struct pool_endpoint endpoint[ENDPOINTS];
	size_t n;
	uint64_t now_us, floor_stop_us; /* 0: the floor does not pause */
	struct {
		uint64_t serial, stop_us;
	} out[OUT_MAX];
	size_t n_out;
	struct pool_view view;
};

/* When each reason ends, from now; NEVER: it does not hold. */
struct reasons {
	uint64_t us[POOL_PAUSES];
};

static uint64_t pick(struct world *w, uint64_t n)
{
	return dice_below(&w->dice, n);
}

static void begin(struct world *w)
{
	pool_policy_begin(w->pool, &w->rule, w->endpoint, w->n, w->now_us, 0.5);
}

static void end(struct world *w)
{
	const struct pool_event *e;
	size_t n;

	pool_policy_end(w->pool);
	e = pool_policy_events(w->pool, &n);
	for (size_t i = 0; i < n; i++)
		if (e[i].kind == POOL_EVENT_PAUSED)
			w->floor_stop_us = w->now_us + e[i].amount;
		else if (e[i].kind == POOL_EVENT_RESUMED)
			w->floor_stop_us = 0;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t first_lease(struct world *w)
{
	uint64_t us = NEVER;

	for (size_t i = 0; i < w->n_out; i++)
		us = least(us, w->out[i].stop_us - w->now_us);
	return us;
}

static int by_size(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

/* Its pause, or until enough endpoints are back. */
static uint64_t floor_us(const struct world *w)
{
	uint64_t returns[ENDPOINTS], us = w->floor_stop_us - w->now_us;
	size_t n = 0, lacks;

	if (w->floor_stop_us <= w->now_us)
		return NEVER;
	for (size_t i = 0; i < w->n; i++)
		if (w->view.endpoint[i].cooling)
			returns[n++] = w->view.endpoint[i].returns_us;
	qsort(returns, n, sizeof *returns, by_size);
	lacks = w->rule.floor_active - (w->n - n);
	return lacks > 0 && lacks <= n ? least(us, returns[lacks - 1]) : us;
}

/* How long the target is held and, by endpoint, until it may be used there. */
static uint64_t at_target(const struct world *w, const char *target,
			  uint64_t cools[static ENDPOINTS])
{
	uint64_t held = 0;

	for (size_t t = 0; t < w->view.n_targets; t++) {
		struct slice name = w->view.target[t].head.name;

		if (name.len > 0 && !slice_equal(name, slice_of(target)))
			continue;
		held = most(held, w->view.target[t].head.held_us);
		for (size_t k = 0; k < w->view.target[t].head.n_cooling; k++)
			cools[w->view.target[t].cooling[k].endpoint] =
				w->view.target[t].cooling[k].us;
	}
	return held;
}

/* Returns whether an endpoint is open. */
static bool find_reasons(struct world *w, const char *target, struct reasons *r)
{
	uint64_t cools[ENDPOINTS] = {0}, held = at_target(w, target, cools);
	bool open = false;

	for (size_t i = 0; i < POOL_PAUSES; i++)
		r->us[i] = NEVER;
	r->us[POOL_FLOOR] = floor_us(w);
	for (size_t i = 0; i < w->n; i++) {
		const struct pool_shown *s = &w->view.endpoint[i];
		uint64_t holds = most(held, s->held_us), away = most(s->returns_us, cools[i]);
		bool full = w->endpoint[i].slots > 0 && s->in_flight >= w->endpoint[i].slots;

		if (holds > 0)
			r->us[POOL_HELD] = least(r->us[POOL_HELD], holds);
		if (away > 0)
			r->us[POOL_COOLING] = least(r->us[POOL_COOLING], away);
		if (full)
			r->us[POOL_SLOTS] = first_lease(w);
		open = open || (holds == 0 && away == 0 && !full);
	}
	return open;
}

static void check(struct world *w, const char *target, const struct pool_given *g,
		  unsigned *several)
{
	struct reasons r;
	bool open = find_reasons(w, target, &r);
	uint64_t first = r.us[POOL_FLOOR];
	unsigned n = first < NEVER;

	for (int i = POOL_COOLING; i <= POOL_HELD && !open; i++) {
		first = least(first, r.us[i]);
		n += r.us[i] < NEVER;
	}
	if (first == NEVER) {
		cr_assert_eq(g->pause, POOL_NOT_PAUSED);
		return;
	}
	cr_assert_neq(g->pause, POOL_NOT_PAUSED);
	cr_assert_eq((uint64_t)g->retry_us, first, "%s %lld, not %llu", pool_pause_names[g->pause],
		     (long long)g->retry_us, (unsigned long long)first);
	cr_assert_eq(r.us[g->pause], first, "%s", pool_pause_names[g->pause]);
	several[g->pause] += n > 1;
}

static void one_report(struct world *w)
{
	static const enum pool_outcome outcomes[] = {POOL_OK,     POOL_OK,      POOL_TIMEOUT,
						     POOL_TUNNEL, POOL_BLOCKED, POOL_BLOCKED};
	size_t i = pick(w, w->n_out);
	struct pool_quota quota = {
		.name = "requests", .limit = 9, .left = 0, .reset_us = 1 + pick(w, 9 * SECOND)};
	struct pool_report_op op = {.outcome = outcomes[pick(w, 6)],
				    .status = 429,
				    .hint_us = pick(w, 3) == 0 ? pick(w, 9 * SECOND) : 0,
				    .quotas = &quota,
				    .n_quotas = w->rule.kind == POOL_KEY && pick(w, 6) == 0};

	begin(w);
	pool_policy_report(w->pool, w->out[i].serial, &op);
	end(w);
	w->out[i] = w->out[--w->n_out];
}

static void one_next(struct world *w, unsigned *several)
{
	const char *target = targets[pick(w, TARGETS)];
	struct pool_next_op op = {.target = slice_of(target)};
	struct pool_given g;

	begin(w);
	pool_policy_show(w->pool, &w->view);
	end(w);
	begin(w);
	pool_policy_next(w->pool, &op, NULL, &g);
	end(w);
	check(w, target, &g, several);
	if (g.pause != POOL_NOT_PAUSED)
		return;
	w->out[w->n_out].serial = g.serial;
	w->out[w->n_out++].stop_us = w->now_us + w->rule.lease;
}

static struct world world_of(unsigned seed)
{
	struct world w = {.dice = {seed}, .n = 1 + seed % ENDPOINTS, .now_us = START};

	w.rule = (struct pool_rule){.kind = seed % 2 == 0 ? POOL_KEY : POOL_PROXY,
				    .window = 4,
				    .threshold = 2,
				    .escalate_after = 3,
				    .escalate_of = 10,
				    .direct = true,
				    .base = SECOND + pick(&w, 5 * SECOND),
				    .max = 20 * SECOND,
				    .trial = SECOND,
				    .lease = SECOND + pick(&w, 8 * SECOND),
				    .floor_active = pick(&w, w.n + 1),
				    .floor_pause = SECOND + pick(&w, 6 * SECOND),
				    .blame_within = 5 * SECOND,
				    .blame_min = 1 + pick(&w, 2),
				    .blame_hold = SECOND + pick(&w, 6 * SECOND),
				    .escalate_hold = 10 * SECOND,
				    .session_ttl = 60 * SECOND,
				    .report = 60 * SECOND,
				    .every = SECOND,
				    .blame_share = 0.5,
				    .max_out = 1};
	for (size_t i = 0; i < w.n; i++)
		w.endpoint[i] = (struct pool_endpoint){
			.id = slice_of(ids[i]),
			.weight = 1,
			.slots = pick(&w, 2) == 0 ? 1 + (uint32_t)pick(&w, 3) : 0,
			.tier = 1};
	w.pool = pool_policy_new();
	cr_assert_not_null(w.pool);
	return w;
}

Test(pool_reasons, the_one_that_ends_first)
{
	unsigned several[POOL_PAUSES] = {0};

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed);

		for (unsigned i = 0; i < STEPS; i++) {
			w.now_us += pick(&w, SECOND / 2);
			for (size_t k = 0; k < w.n_out;)
				if (w.out[k].stop_us <= w.now_us)
					w.out[k] = w.out[--w.n_out];
				else
					k++;
			if (w.n_out > 0 && (w.n_out == OUT_MAX || pick(&w, 3) > 0))
				one_report(&w);
			else
				one_next(&w, several);
		}
		pool_policy_free(w.pool);
	}
	cr_log_info("of several reasons: floor %u, cooling %u, slots %u, held %u",
		    several[POOL_FLOOR], several[POOL_COOLING], several[POOL_SLOTS],
		    several[POOL_HELD]);
	for (int i = POOL_FLOOR; i <= POOL_HELD; i++)
		cr_assert_gt(several[i], 100, "%s: %u", pool_pause_names[i], several[i]);
}
