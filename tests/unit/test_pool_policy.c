/* What holds of every pool, whatever happens to it: random workers on the twin of the pool script. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/pool_policy.h"
#include "dice.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(1796000000123457)

enum { ENDPOINTS = 9, OUT_MAX = 200, STEPS = 3000, SEEDS = 40 };

static const char *const ids[ENDPOINTS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};

struct world {
	unsigned seed;
	struct dice dice;
	struct pool_policy *pool;
	struct pool_rule rule;
	struct pool_endpoint endpoint[ENDPOINTS];
	size_t n;
	uint64_t now_us;
	struct {
		uint64_t serial, stop_us;
		uint32_t endpoint;
	} out[OUT_MAX];
	size_t n_out;
	struct pool_view view; /* of the last step */
};

static uint64_t pick(struct world *w, uint64_t n)
{
	return dice_below(&w->dice, n);
}

static void begin(struct world *w)
{
	pool_policy_begin(w->pool, &w->rule, w->endpoint, w->n, w->now_us,
			  (double)pick(w, 1000) / 1000);
}

static void end(struct world *w)
{
	pool_policy_end(w->pool);
}

static void show(struct world *w)
{
	begin(w);
	pool_policy_show(w->pool, &w->view);
	end(w);
}

static struct world world_of(unsigned seed, size_t n)
{
	struct world w = {.seed = seed, .dice = {seed}, .n = n, .now_us = START};

	w.rule = (struct pool_rule){.window = 10,
				    .threshold = 5,
				    .escalate_after = 3,
				    .escalate_of = 10,
				    .base = 2 * SECOND,
				    .max = 60 * SECOND,
				    .trial = SECOND,
				    .lease = 5 * SECOND,
				    .floor_pause = 3 * SECOND,
				    .blame_within = 5 * SECOND,
				    .blame_min = 3,
				    .blame_hold = SECOND,
				    .escalate_hold = 10 * SECOND,
				    .session_ttl = 60 * SECOND,
				    .report = 60 * SECOND,
				    .every = SECOND,
				    .jitter = 0.1,
				    .blame_share = 0.5,
				    .max_out = 0.5};
	for (size_t i = 0; i < n; i++)
		w.endpoint[i] = (struct pool_endpoint){
			.id = slice_of(ids[i]), .weight = 1 + (double)pick(&w, 3), .tier = 1};
	w.pool = pool_policy_new();
	cr_assert_not_null(w.pool);
	return w;
}

static void world_end(struct world *w)
{
	pool_policy_free(w->pool);
}

static struct pool_given next(struct world *w, const char *target)
{
	struct pool_next_op op = {.target = slice_of(target)};
	struct pool_given g;

	begin(w);
	pool_policy_next(w->pool, &op, NULL, &g);
	end(w);
	if (g.pause == POOL_NOT_PAUSED && w->n_out < OUT_MAX) {
		w->out[w->n_out].serial = g.serial;
		w->out[w->n_out].endpoint = g.endpoint;
		w->out[w->n_out++].stop_us = w->now_us + w->rule.lease;
	}
	return g;
}

static enum pool_reported report(struct world *w, uint64_t serial, enum pool_outcome outcome,
				 uint64_t hint_us)
{
	struct pool_report_op op = {.outcome = outcome, .hint_us = hint_us};
	enum pool_reported reported;

	begin(w);
	reported = pool_policy_report(w->pool, serial, &op);
	end(w);
	return reported;
}

static void forget_out(struct world *w, size_t i)
{
	w->out[i] = w->out[--w->n_out];
}

/* ---- Choice ---- */

Test(pool_policy, round_robin_is_exactly_even)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 2 + seed % (ENDPOINTS - 1));
		unsigned n[ENDPOINTS] = {0};

		for (unsigned i = 0; i < STEPS; i++) {
			unsigned least = UINT32_MAX, most = 0;

			w.now_us += pick(&w, SECOND);
			n[next(&w, i % 3 == 0 ? "shop" : "").endpoint]++;
			if (pick(&w, 2) == 0)
				report(&w, i + 1, POOL_OK, 0);
			for (size_t k = 0; k < w.n; k++) {
				least = n[k] < least ? n[k] : least;
				most = n[k] > most ? n[k] : most;
			}
			cr_assert_leq(most - least, 1, "seed %u, turn %u", seed, i);
		}
		world_end(&w);
	}
}

/* What others went through changes nothing of that between two that are active all the time. */
Test(pool_policy, round_robin_is_even_among_those_that_stay)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 5);
		unsigned n[ENDPOINTS] = {0};

		for (unsigned i = 0; i < STEPS; i++) {
			struct pool_given g;

			w.now_us += pick(&w, SECOND / 10);
			g = next(&w, "");
			if (pick(&w, 10) == 0) {
				begin(&w);
				pool_policy_undo(w.pool, g.serial);
				end(&w);
				continue;
			}
			n[g.endpoint]++;
			report(&w, g.serial,
			       g.endpoint >= 2 && pick(&w, 3) > 0 ? POOL_TIMEOUT : POOL_OK, 0);
			cr_assert(n[0] <= n[1] + 1 && n[1] <= n[0] + 1, "seed %u: %u and %u", seed,
				  n[0], n[1]);
		}
		show(&w);
		cr_assert_gt(w.view.totals.cooldowns, 0);
		world_end(&w);
	}
}

Test(pool_policy, weights_are_smooth_and_exact)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 2 + seed % (ENDPOINTS - 1));
		double turns[ENDPOINTS] = {0}, sum = 0;

		w.rule.select = POOL_WEIGHTED;
		for (size_t i = 0; i < w.n; i++)
			sum += w.endpoint[i].weight;
		for (unsigned i = 1; i <= STEPS; i++) {
			turns[next(&w, "").endpoint]++;
			for (size_t k = 0; k < w.n; k++) {
				double due = i * w.endpoint[k].weight / sum;

				cr_assert(turns[k] > due - 2 && turns[k] < due + 2,
					  "seed %u, turn %u: %g of %g", seed, i, turns[k], due);
			}
		}
		world_end(&w);
	}
}

Test(pool_policy, least_loaded_gives_what_has_least)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 2 + seed % (ENDPOINTS - 1));

		w.rule.select = POOL_LEAST_LOADED;
		for (unsigned i = 0; i < STEPS / 10; i++) {
			struct pool_given g;

			show(&w);
			g = next(&w, "");
			for (size_t k = 0; k < w.n; k++)
				cr_assert_leq((double)w.view.endpoint[g.endpoint].in_flight *
						      w.endpoint[k].weight,
					      (double)w.view.endpoint[k].in_flight *
						      w.endpoint[g.endpoint].weight,
					      "seed %u", seed);
			for (uint64_t k = pick(&w, 3); k > 0 && w.n_out > 0; k--) {
				size_t at = pick(&w, w.n_out);

				report(&w, w.out[at].serial, POOL_OK, 0);
				forget_out(&w, at);
			}
		}
		world_end(&w);
	}
}

/* ---- What is in flight ---- */

Test(pool_policy, in_flight_is_what_is_out)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 4);

		for (unsigned i = 0; i < STEPS / 3; i++) {
			uint64_t in_flight[ENDPOINTS] = {0};
			size_t at = w.n_out > 0 ? pick(&w, w.n_out) : 0;

			w.now_us += pick(&w, SECOND / 5);
			for (size_t k = w.n_out; k-- > 0;)
				if (w.out[k].stop_us <= w.now_us)
					forget_out(&w, k);
			if (pick(&w, 2) == 0 || w.n_out == 0) {
				next(&w, pick(&w, 2) == 0 ? "shop" : "");
			} else if (at < w.n_out) {
				uint64_t serial = w.out[at].serial;
				enum pool_outcome outcome =
					(enum pool_outcome)pick(&w, POOL_OUTCOMES);

				forget_out(&w, at);
				cr_assert_neq(report(&w, serial, outcome, 0), POOL_NO_TICKET);
				cr_assert_eq(report(&w, serial, outcome, 0), POOL_NOT_COUNTED);
			}
			w.n = 3 + pick(&w, 2); /* the last comes and goes */
			show(&w);
			for (size_t k = 0; k < w.n_out; k++)
				in_flight[w.out[k].endpoint]++;
			for (size_t k = 0; k < w.n; k++)
				cr_assert_eq(w.view.endpoint[k].in_flight, in_flight[k],
					     "seed %u, step %u, %zu", seed, i, k);
		}
		world_end(&w);
	}
}

/* ---- Cooldowns ---- */

/* A deadline that was told stands, or moves later: but for that of a trial, and for one that passed. */
Test(pool_policy, deadlines_never_shorten)
{
	unsigned seen = 0, later = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 3);
		uint64_t stop_us[ENDPOINTS] = {0}, trial[ENDPOINTS] = {0},
			 trial_us[ENDPOINTS] = {0};

		for (unsigned i = 0; i < STEPS / 3; i++) {
			struct pool_given g;
			size_t at;

			w.now_us += pick(&w, SECOND / 3);
			g = next(&w, "");
			if (g.pause == POOL_NOT_PAUSED && g.trial) {
				trial[g.endpoint] = g.serial;
				trial_us[g.endpoint] = w.now_us + w.rule.trial;
			}
			at = pick(&w, w.n_out + 1);
			if (at < w.n_out) {
				bool good = pick(&w, 4) == 0;

				report(&w, w.out[at].serial, good ? POOL_OK : POOL_TIMEOUT,
				       pick(&w, 4) == 0 ? pick(&w, 20 * SECOND) : 0);
				if (good && w.out[at].serial == trial[w.out[at].endpoint])
					stop_us[w.out[at].endpoint] = 0;
				forget_out(&w, at);
			}
			show(&w);
			for (size_t k = 0; k < w.n; k++) {
				const struct pool_shown *s = &w.view.endpoint[k];
				uint64_t now_us = s->cooling ? w.now_us + s->returns_us : 0;

				if (stop_us[k] > w.now_us) {
					cr_assert_geq(now_us, stop_us[k], "seed %u, step %u", seed,
						      i);
					later += now_us > stop_us[k];
					seen++;
				}
				stop_us[k] = w.now_us >= trial_us[k] ? now_us : 0;
			}
		}
		world_end(&w);
	}
	cr_assert_gt(seen, 1000);
	cr_assert_gt(later, 10);
}

/* While it pauses nobody gets anything; it pauses where fewer are there than the floor. */
Test(pool_policy, the_floor_is_never_undercut)
{
	unsigned paused = 0, served = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 6);
		uint64_t until_us = 0;

		w.rule.floor_active = 2 + seed % 4;
		w.rule.lease = w.rule.trial = 60 * SECOND;
		for (unsigned i = 0; i < STEPS / 3; i++) {
			size_t there = 0;
			struct pool_given g;

			w.now_us += pick(&w, SECOND / 3);
			show(&w);
			for (size_t k = 0; k < w.n; k++)
				there += !w.view.endpoint[k].cooling ||
					 w.view.endpoint[k].returns_us == 0;
			g = next(&w, "");
			if (g.pause == POOL_FLOOR) {
				cr_assert_lt(there, w.rule.floor_active, "seed %u", seed);
				cr_assert_leq(g.retry_us, (int64_t)w.rule.floor_pause);
				until_us = w.now_us + (uint64_t)g.retry_us;
				paused++;
				continue;
			}
			if (g.pause != POOL_NOT_PAUSED)
				continue;
			cr_assert(there >= w.rule.floor_active || w.now_us >= until_us,
				  "seed %u: one of %zu was given", seed, there);
			served++;
			report(&w, g.serial, pick(&w, 3) == 0 ? POOL_OK : POOL_REFUSED, 0);
		}
		world_end(&w);
	}
	cr_assert_gt(paused, 1000);
	cr_assert_gt(served, 1000);
}

/* Half-open: among all workers one trial at a time. */
Test(pool_policy, one_trial_at_a_time)
{
	unsigned trials = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 2);
		uint64_t free_us[ENDPOINTS] = {0}, trial[ENDPOINTS] = {0};

		for (unsigned i = 0; i < STEPS / 3; i++) {
			struct pool_given g;

			w.now_us += pick(&w, SECOND / 4);
			g = next(&w, "");
			if (g.pause == POOL_NOT_PAUSED && g.trial) {
				cr_assert_geq(w.now_us, free_us[g.endpoint], "seed %u", seed);
				trial[g.endpoint] = g.serial;
				free_us[g.endpoint] = w.now_us + w.rule.trial;
				trials++;
			}
			for (size_t k = pick(&w, w.n_out + 1); k < w.n_out; k = w.n_out) {
				if (trial[w.out[k].endpoint] == w.out[k].serial)
					free_us[w.out[k].endpoint] = 0;
				report(&w, w.out[k].serial,
				       pick(&w, 4) == 0 ? POOL_OK : POOL_TUNNEL, 0);
				forget_out(&w, k);
			}
		}
		world_end(&w);
	}
	cr_assert_gt(trials, 100);
}

/* ---- Blame ---- */

/* A target that turns everybody away is held; of a tier no more than max_out are ever out for it. */
Test(pool_policy, a_bad_target_never_cools_all)
{
	static const double shares[] = {0, 0.25, 0.5, 0.75};
	unsigned held = 0;

	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 3 + seed % (ENDPOINTS - 2));
		const char *target = seed % 2 == 0 ? "shop" : "";

		w.rule.max_out = shares[seed % 4];
		w.rule.blame_min = 2 + pick(&w, 4);
		for (unsigned i = 0; i < STEPS / 3; i++) {
			struct pool_given g;
			size_t out = 0;

			w.now_us += pick(&w, 2 * SECOND);
			g = next(&w, target);
			held += g.pause == POOL_HELD;
			if (g.pause == POOL_NOT_PAUSED)
				report(&w, g.serial, POOL_BLOCKED + (enum pool_outcome)pick(&w, 3),
				       0);
			show(&w);
			for (size_t k = 0; k < w.n; k++)
				out += w.view.endpoint[k].cooling;
			for (size_t t = 0; t < w.view.n_targets; t++)
				out += w.view.target[t].head.n_cooling;
			cr_assert_leq((double)out, w.rule.max_out * (double)w.n, "seed %u: %zu out",
				      seed, out);
		}
		world_end(&w);
	}
	cr_assert_gt(held, 1000);
}

/* Its own errors are nobody's, and a caller's who gave up. */
Test(pool_policy, what_is_not_the_endpoints_cools_nothing)
{
	struct world w = world_of(1, 3);

	for (unsigned i = 0; i < STEPS; i++) {
		struct pool_given g = next(&w, i % 2 == 0 ? "shop" : "");

		report(&w, g.serial, i % 3 == 0 ? POOL_CANCELLED : POOL_TARGET, SECOND);
	}
	show(&w);
	for (size_t i = 0; i < w.n; i++)
		cr_assert_eq(w.view.endpoint[i].outcomes + w.view.endpoint[i].failures, 0);
	cr_assert_eq(w.view.totals.cooldowns, 0);
	world_end(&w);
}

/* ---- Given back ---- */

static void undo_one(struct world *w, const char *target, const char *session)
{
	struct pool_next_op op = {.target = slice_of(target), .session = slice_of(session)};
	struct pool_given g;

	begin(w);
	pool_policy_next(w->pool, &op, NULL, &g);
	if (g.pause == POOL_NOT_PAUSED)
		pool_policy_undo(w->pool, g.serial);
	end(w);
}

Test(pool_policy, what_is_undone_leaves_no_trace)
{
	for (unsigned seed = 1; seed <= SEEDS; seed++) {
		struct world w = world_of(seed, 4), other = world_of(seed, 4);

		w.rule.select = other.rule.select = (enum pool_select)(seed % 2 * 2);
		for (unsigned i = 0; i < STEPS / 10; i++) {
			struct pool_given a, b;

			w.now_us = other.now_us = w.now_us + pick(&w, SECOND / 4);
			for (uint64_t k = pick(&w, 3); k > 0; k--)
				undo_one(&w, "shop", k == 1 ? "s" : "");
			a = next(&w, "shop");
			b = next(&other, "shop");
			cr_assert_eq(a.pause, b.pause, "seed %u", seed);
			cr_assert_eq(a.endpoint, b.endpoint, "seed %u, step %u", seed, i);
			w.dice = other.dice; /* the same luck */
			if (a.pause != POOL_NOT_PAUSED)
				continue;
			report(&w, a.serial, i % 3 == 0 ? POOL_OK : POOL_TIMEOUT, 0);
			report(&other, b.serial, i % 3 == 0 ? POOL_OK : POOL_TIMEOUT, 0);
		}
		world_end(&w);
		world_end(&other);
	}
}
