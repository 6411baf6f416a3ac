/*
 * A region: keys of one root under one share. Every call reads the clock first; where that was set by more than the guard
 * lets pass, the share is told before anything is decided. Leases are spent by holders who go by clocks of their own.
 */
#include <stdlib.h>

#include "globe.h"

#define POLL_US (GLOBE_SECOND / 10)
#define REPORT_US (GLOBE_SECOND / 2)

static struct limit share_limit(struct globe_region *r, uint64_t now_us)
{
	return share_of(r->limit, region_share_now(&r->share, now_us), r->share.whole);
}

/* ---- The clock ---- */

/* What counts in a window stays for a whole one by the new clock, leases included. */
static void redate_windows(struct globe_region *r, uint64_t now_us)
{
	const struct globe *g = r->globe;

	for (unsigned k = 0; k < GLOBE_KEYS; k++) {
		uint64_t total = r->windows[k].log.total;

		window_release(&r->windows[k]);
		r->windows[k] = (struct window){0};
		if (total > 0 &&
		    !admission_log_add(&r->windows[k].log, now_us + g->region_terms.lease_max_us,
				       total, 0))
			abort();
	}
}

/* A share that is forgotten begins with the floors of whoever asks first, where these are the first there were. */
static void begin_share(struct globe_region *r, uint64_t now_us)
{
	struct globe *g = r->globe;

	r->forgotten = r->jumped = false;
	redate_windows(r, now_us);
	region_share_init(&r->share, r->share.plan.clock + 1, now_us, r->share.whole,
			  r->caller == 0 ? g->scenario.floors[0][r->number] : 0);
	world_log(&g->world, "region %u: the share begins anew, version %u", r->number, r->caller);
}

static void set_floors(struct globe_region *r, uint64_t now_us)
{
	if (r->caller <= r->share.floors)
		return;
	if (world_has(&r->globe->world, SIM_FLOOR_AT_ONCE))
		r->share.confirmed = r->caller;
	region_share_set_floor(&r->share, now_us, r->caller,
			       r->globe->scenario.floors[r->caller][r->number]);
}

/* A call. What the share sees of the clock: it stands still where that goes back a little. */
static uint64_t now_of(struct globe_region *r)
{
	struct globe *g = r->globe;
	uint64_t now_us = sim_clock_read(&r->clock, g->world.now_us);
	uint32_t window;

	r->caller = agents_any(r);
	if (r->forgotten)
		begin_share(r, now_us);
	if (r->jumped) {
		r->jumped = false;
		redate_windows(r, now_us);
		if (world_has(&g->world, SIM_JUMP_ENDS_PROMISE))
			r->share.lent_until_us = 0;
		if (!world_has(&g->world, SIM_JUMP_KEEPS_GRANT))
			region_share_jump(&r->share, &g->region_terms, now_us);
	}
	region_share_now(&r->share, now_us);
	now_us = r->share.seen_us;
	set_floors(r, now_us);
	window = 1 + (uint32_t)((now_us - GLOBE_START_US) / g->window_us);
	if (window > r->window) {
		r->window = window;
		for (unsigned k = 0; k < GLOBE_KEYS; k++)
			r->totals[k] = 0;
	}
	return now_us;
}

void region_step(struct globe_region *r, int64_t step_us, bool noticed)
{
	struct world *w = &r->globe->world;

	world_log(w, "region %u: the clock is set by %lld us", r->number, (long long)step_us);
	globe_observe(r->globe);
	sim_clock_set(&r->clock, w->now_us, r->clock.ppm, step_us);
	r->jumped = r->jumped || noticed;
	if (noticed) /* nothing is refilled for it */
		r->checked_us += (uint64_t)step_us;
	globe_observe(r->globe);
}

/* ---- Grants ---- */

struct news {
	struct globe_region *region;
	struct share_grant grant;
};

static uint64_t window_end_us(const struct globe *g, const struct share_grant *grant)
{
	if (g->scenario.kind != SHARE_CALENDAR || world_has(&g->world, SIM_GRANT_OUTLIVES_WINDOW))
		return LIMIT_FOREVER_US;
	return GLOBE_START_US + grant->window * g->window_us;
}

static void break_grant(struct globe_region *r, struct share_grant *grant, uint64_t now_us)
{
	const struct world *w = &r->globe->world;

	if (world_has(w, SIM_GRANT_FROM_READING))
		grant->t0_us = now_us;
	if (world_has(w, SIM_GRANT_OF_OTHER_CLOCK) && grant->clock != r->share.plan.clock) {
		grant->clock = r->share.plan.clock;
		grant->t0_us = grant->t0_us < now_us ? grant->t0_us : now_us;
	}
	if (world_has(w, SIM_GRANT_OF_OTHER_LIMIT)) {
		grant->whole = r->share.whole;
		grant->parts = grant->parts < grant->whole ? grant->parts : grant->whole;
	}
	if (world_has(w, SIM_OLD_GRANT_AGAIN) && grant->seq <= r->share.seq)
		r->share.seq = grant->seq - 1;
}

/* The rule that is broken: what the share grew by is there at once. */
static void add_tokens(struct globe_region *r, uint64_t now_us, uint32_t was)
{
	struct globe *g = r->globe;
	const struct shared_bucket_terms t = {r->limit, &r->share.plan,
					      g->region_terms.lease_max_us};
	uint32_t is = region_share_now(&r->share, now_us);

	for (unsigned k = 0; k < GLOBE_KEYS && is > was; k++) {
		shared_bucket_tokens_ut(&r->buckets[k], &t, now_us);
		r->buckets[k].tokens_ut += (is - was) * (r->limit->cap_ut / SHARE_RATE_WHOLE);
	}
}

static void lease(struct globe_region *r, unsigned key);

struct grant_end {
	struct globe_region *region;
	uint64_t until_us;
};

static void on_grant_ends(void *owner, void *what)
{
	const struct grant_end *e = what;
	struct world *w = &e->region->globe->world;
	uint64_t now_us = now_of(e->region);

	if (e->region->share.until_us != e->until_us)
		return;
	if (now_us + GLOBE_SECOND / 50 < e->until_us) { /* the clock was set back */
		world_at(w, w->now_us + (e->until_us - now_us) - 1000, on_grant_ends, owner, what);
		return;
	}
	for (unsigned k = 0; k < GLOBE_KEYS; k++)
		if (e->region->globe->scenario.leases) {
			lease(e->region, k);
		} else {
			region_ask(e->region, k, 0);
			globe_gulp(owner, k, world_any_size(w, GLOBE_SECOND));
		}
}

/* The worst: all that there is, at once when there is more; and just before the grant ends, then what others have got. */
static void plan_gulps(struct globe_region *r, uint64_t now_us)
{
	struct world *w = &r->globe->world;
	uint64_t left_us = r->share.until_us > now_us ? r->share.until_us - now_us : 0;
	struct grant_end *e;

	if (r->globe->scenario.quiet)
		return;
	if (world_one_in(w, r->globe->scenario.calm ? 40 : 4))
		region_ask(r, (unsigned)world_below(w, GLOBE_KEYS), 0);
	if (left_us == 0 || left_us > GLOBE_DURATION_US)
		return;
	e = globe_alloc(r->globe, sizeof *e);
	*e = (struct grant_end){r, r->share.until_us};
	world_at(w, w->now_us + left_us - world_any_size(w, left_us) / 20, on_grant_ends, r->globe,
		 e);
}

static void on_news(void *owner, void *what)
{
	struct globe_region *r = owner;
	struct globe *g = r->globe;
	struct news *n = what;
	uint64_t now_us = now_of(r);
	uint32_t was = region_share_now(&r->share, now_us);

	break_grant(r, &n->grant, now_us);
	if (region_share_read(&r->share, &g->region_terms, now_us, &n->grant,
			      window_end_us(g, &n->grant)))
		world_log(&g->world, "region %u: grant %llu: share %u, was %u", r->number,
			  (unsigned long long)n->grant.seq, region_share_now(&r->share, now_us),
			  was);
	if (world_has(&g->world, SIM_TOKENS_WITH_SHARE) && g->scenario.kind == SHARE_RATE)
		add_tokens(r, now_us, was);
	plan_gulps(r, now_us);
}

void region_tell(struct globe_region *r, const struct share_grant *grant, uint64_t delay_us)
{
	struct news *n = globe_alloc(r->globe, sizeof *n);

	*n = (struct news){r, *grant};
	world_at(&r->globe->world, r->globe->world.now_us + delay_us, on_news, r, n);
}

static void on_poll(void *owner, void *what)
{
	struct globe_region *r = owner;
	struct globe *g = r->globe;
	uint64_t end = broker_last_stable(&g->broker);

	if (g->world.now_us >= r->cannot_read_until_us) {
		if (!g->scenario.quiet && world_one_in(&g->world, 100))
			r->read -= r->read < 20 ? r->read : 20; /* redelivered */
		for (; r->read < end; r->read++) {
			const struct globe_record *record = &g->broker.grants[r->read];

			if (record->region == r->number &&
			    g->broker.txns[record->txn].state == TXN_COMMITTED)
				region_tell(r, &record->grant, globe_delay_us(g));
		}
	}
	world_at(&g->world, g->world.now_us + POLL_US, on_poll, r, what);
}

void region_limit(struct globe_region *r)
{
	struct globe *g = r->globe;
	uint64_t now_us = now_of(r);
	uint32_t whole = share_whole(&g->limits[1]);
	uint32_t floor = g->scenario.floors[r->share.floors][r->number];

	r->limit = &g->limits[1];
	if (g->scenario.kind != SHARE_RATE)
		region_share_set_whole(&r->share, now_us, whole, r->share.floors,
				       share_scale_down(floor, g->whole, whole));
}

/* ---- Reports ---- */

static uint32_t used_parts(struct globe_region *r, uint64_t now_us)
{
	const struct globe *g = r->globe;
	uint64_t most = 0;

	for (unsigned k = 0; k < GLOBE_KEYS; k++) {
		uint64_t used = r->totals[k];

		if (g->scenario.kind == SHARE_WINDOW)
			used = admission_log_used(&r->windows[k].log, now_us, g->window_us, false);
		most = used > most ? used : most;
	}
	return (uint32_t)(g->scenario.kind == SHARE_RATE ? 0 : most);
}

void region_forget(struct globe_region *r, bool emptied)
{
	struct world *w = &r->globe->world;
	uint64_t now_us = now_of(r);
	const struct region_share *s = &r->share;
	bool expires = !region_share_is_granted(s, now_us) &&
		       (s->floors == 0 || world_has(w, SIM_FLOORS_EXPIRE));

	if (now_us < s->lent_until_us || now_us < s->leases_until_us || now_us < s->settles_us ||
	    used_parts(r, now_us) > 0 || !(emptied || expires))
		return;
	r->forgotten = true;
	for (uint32_t v = 0; v < GLOBE_VERSIONS && emptied; v++)
		r->heard_us[v] = 0;
	world_log(w, "region %u: the share is forgotten", r->number);
}

/* Parts that it could have used lately. */
static uint32_t demand_parts(const struct globe_region *r, uint32_t used)
{
	const struct globe *g = r->globe;
	uint64_t passed_us = g->world.now_us - r->asked_from_us + 1;
	double a_second =
		g->scenario.calm ? (double)r->demand : (double)r->asked * 1e6 / (double)passed_us;
	double demand = used + 4 * (double)r->asked;

	if (g->scenario.kind == SHARE_RATE)
		demand = a_second * SHARE_RATE_WHOLE * (double)r->limit->per_us / 1e6 /
			 (double)r->limit->limit;
	else if (g->scenario.kind == SHARE_WINDOW)
		demand = a_second * (double)g->window_us / 1e6;
	return (uint32_t)(demand < 2e9 ? demand : 2e9);
}

struct letter {
	unsigned region;
	struct share_report report;
};

static void on_letter(void *owner, void *what)
{
	struct globe *g = owner;
	struct letter *l = what;

	broker_report(&g->broker, l->region, &l->report);
}

static void send(struct globe_region *r, const struct share_report *report, uint64_t delay_us)
{
	struct letter *l = globe_alloc(r->globe, sizeof *l);

	*l = (struct letter){r->number, *report};
	world_at(&r->globe->world, r->globe->world.now_us + delay_us, on_letter, r->globe, l);
}

static void report(struct globe_region *r)
{
	struct globe *g = r->globe;
	struct share_report report;
	uint64_t now_us = now_of(r);
	uint32_t used = used_parts(r, now_us), floor = r->share.floor;

	if ((g->scenario.calm ? r->demand == 0 : r->asked == 0) && floor > 0 &&
	    g->scenario.kind != SHARE_CALENDAR &&
	    region_share_lend(&r->share, &g->region_terms, now_us, floor, used))
		g->n_lends++;
	region_share_report(&r->share, now_us, &report);
	if (world_has(&g->world, SIM_LESS_BEFORE_LEASES_END)) {
		report.seq = r->share.seq;
		report.live = region_share_is_granted(&r->share, now_us);
	}
	report.floors = agents_say(r, r->caller, report.floors);
	report.used = used;
	report.demand = demand_parts(r, used);
	report.window = g->scenario.kind == SHARE_CALENDAR ? r->window : 0;
	r->asked = 0;
	r->asked_from_us = g->world.now_us;
	if (g->world.now_us < r->cannot_write_until_us)
		return;
	send(r, &report, globe_delay_us(g));
	if (!g->scenario.quiet && world_one_in(&g->world, 20))
		send(r, &report, world_below(&g->world, 10 * GLOBE_SECOND));
}

static void on_report(void *owner, void *what)
{
	struct globe_region *r = owner;
	struct world *w = &r->globe->world;

	report(r);
	world_at(w, w->now_us + REPORT_US - 50000 + world_below(w, 100000), on_report, r, what);
}

/* ---- Keys ---- */

static void admitted(struct globe_region *r, unsigned key, uint64_t cost, uint32_t window)
{
	r->admitted += cost;
	globe_admitted(r->globe, key, cost, window);
	world_log(&r->globe->world, "region %u: %llu of key %u", r->number,
		  (unsigned long long)cost, key);
}

/* Rules that are broken. */
static void break_bucket(struct globe_region *r, struct shared_bucket *b,
			 const struct shared_bucket_terms *t, uint64_t now_us)
{
	const struct world *w = &r->globe->world;
	uint64_t full_ut = share_limit(r, now_us).cap_ut;

	if (world_has(w, SIM_ABSENT_FULL) && b->clock == 0)
		*b = (struct shared_bucket){
			.clock = t->plan->clock, .at_us = now_us, .tokens_ut = full_ut};
	if (world_has(w, SIM_LENDER_RESUMES_FULL) && r->share.lent > 0 &&
	    now_us >= r->share.lent_until_us && b->at_us < r->share.lent_until_us) {
		shared_bucket_tokens_ut(b, t, now_us);
		b->tokens_ut = full_ut;
	}
}

static bool take_bucket(struct globe_region *r, unsigned key, uint64_t now_us, uint64_t cost,
			uint64_t lease_end_us, uint64_t *ret_taken)
{
	struct globe *g = r->globe;
	struct share_plan plan = r->share.plan;
	const struct shared_bucket_terms t = {r->limit, &plan, g->region_terms.lease_max_us};
	struct shared_bucket *b = &r->buckets[key];

	if (world_has(&g->world, SIM_LAZY_SHARE)) {
		plan.piece[0].parts = region_share_now(&r->share, now_us);
		plan.n = 1;
	}
	break_bucket(r, b, &t, now_us);
	if (cost == 0)
		cost = shared_bucket_tokens_ut(b, &t, now_us) / LIMIT_UT;
	*ret_taken = cost;
	if (cost == 0)
		return false;
	if (lease_end_us == 0)
		return shared_bucket_take(b, &t, now_us, cost);
	return shared_bucket_lease(b, &t, now_us, ++r->last_lease, cost, lease_end_us);
}

static bool take_window(struct globe_region *r, unsigned key, uint64_t now_us, uint64_t cost,
			uint64_t lease_end_us, uint64_t *ret_taken)
{
	struct limit share = share_limit(r, now_us);
	struct admission_log *log = &r->windows[key].log;
	uint64_t used = admission_log_used(log, now_us, share.per_us, false);

	if (cost == 0)
		cost = used < share.limit ? share.limit - used : 0;
	*ret_taken = cost;
	if (cost == 0 || used + cost > share.limit)
		return false;
	admission_log_expire(log, now_us, share.per_us);
	if (!admission_log_add(log, lease_end_us > 0 ? lease_end_us : now_us, cost, 0))
		abort();
	return true;
}

static bool take_calendar(struct globe_region *r, unsigned key, uint64_t now_us, uint64_t cost,
			  uint64_t *ret_taken)
{
	uint64_t most = share_limit(r, now_us).limit, used = r->totals[key];

	if (cost == 0)
		cost = used < most ? most - used : 0;
	*ret_taken = cost;
	if (cost == 0 || used + cost > most)
		return false;
	r->totals[key] += cost;
	return true;
}

static bool take(struct globe_region *r, unsigned key, uint64_t now_us, uint64_t cost,
		 uint64_t lease_end_us, uint64_t *ret_taken)
{
	switch (r->globe->scenario.kind) {
	case SHARE_RATE:
		return take_bucket(r, key, now_us, cost, lease_end_us, ret_taken);
	case SHARE_WINDOW:
		return take_window(r, key, now_us, cost, lease_end_us, ret_taken);
	default:
		return take_calendar(r, key, now_us, cost, ret_taken);
	}
}

void region_ask(struct globe_region *r, unsigned key, uint64_t cost)
{
	uint64_t taken;

	if (take(r, key, now_of(r), cost, 0, &taken))
		admitted(r, key, taken, r->window);
	r->asked += cost > 0 ? cost : taken + 1;
}

/* ---- Leases ---- */

struct spend {
	struct globe_region *region;
	unsigned key;
	uint64_t amount;
	uint32_t window;
};

static void on_spend(void *owner, void *what)
{
	struct spend *s = what;

	s->region->globe->n_by_lease += s->amount;
	admitted(s->region, s->key, s->amount, s->window);
	if (world_one_in(&s->region->globe->world, 2))
		globe_gulp(owner, s->key, 0);
}

/* A holder spends all of it at once, at any time: mostly at its end. */
static void lease(struct globe_region *r, unsigned key)
{
	struct globe *g = r->globe;
	struct world *w = &g->world;
	uint64_t now_us = now_of(r), end_us, taken, held_us;
	struct spend *s;

	end_us = region_share_lease_end_us(&r->share, &g->region_terms, now_us);
	if (world_has(w, SIM_LEASE_OUTLIVES_GRANT))
		end_us = now_us + g->region_terms.lease_max_us;
	if (g->scenario.kind == SHARE_CALENDAR &&
	    end_us > GLOBE_START_US + r->window * g->window_us)
		return;
	if (end_us < now_us + 1000 || !take(r, key, now_us, 0, end_us, &taken))
		return;
	region_share_leased(&r->share, end_us);
	r->asked += taken;
	s = globe_alloc(g, sizeof *s);
	*s = (struct spend){r, key, taken, r->window};
	held_us = (end_us - now_us) / 100 * 98;
	held_us -= world_one_in(w, 2) ? world_below(w, held_us + 1) : 0;
	world_at(w, w->now_us + held_us, on_spend, g, s);
}

/* ---- Clients ---- */

static void change_mood(struct globe_region *r)
{
	struct globe *g = r->globe;
	struct world *w = &g->world;
	uint64_t a_second = r->limit->limit * GLOBE_SECOND / g->window_us;

	r->demand = world_one_in(w, 3) ? 0 : 1 + a_second * world_any_size(w, 30) / 10;
	r->until_us = w->now_us + world_any_size(w, 16 * GLOBE_SECOND);
}

/* A bucket that is full goes, now and then. */
static void expire(struct globe_region *r)
{
	struct globe *g = r->globe;
	struct shared_bucket *b = &r->buckets[world_below(&g->world, GLOBE_KEYS)];
	const struct shared_bucket_terms t = {r->limit, &r->share.plan,
					      g->region_terms.lease_max_us};
	uint64_t now_us = now_of(r);

	if (shared_bucket_tokens_ut(b, &t, now_us) == share_limit(r, now_us).cap_ut &&
	    b->leases.n == 0)
		*b = (struct shared_bucket){0};
}

static void on_client(void *owner, void *what)
{
	struct globe_region *r = owner;
	struct globe *g = r->globe;
	struct world *w = &g->world;
	uint64_t wait_us = g->scenario.quiet ? 10000 : 10000 + world_below(w, 100000);
	unsigned key = g->scenario.second_key ? (unsigned)world_below(w, GLOBE_KEYS) : 0;
	uint64_t cost = r->demand * wait_us / GLOBE_SECOND;

	if (!g->scenario.quiet && r->until_us <= w->now_us)
		change_mood(r);
	if (!g->scenario.quiet && g->scenario.kind == SHARE_RATE && world_one_in(w, 8))
		expire(r);
	if (g->scenario.calm) {
		if (r->demand > 0 && g->scenario.leases && world_one_in(w, 40))
			lease(r, key);
		else if (world_one_in(w, 10))
			region_ask(r, key, 1);
	} else if (r->demand > 0 && !g->scenario.quiet && g->scenario.leases && world_one_in(w, 6))
		lease(r, key);
	else if (r->demand > 0 && !g->scenario.quiet && world_one_in(w, 8))
		region_ask(r, key, 0);
	else if (g->scenario.quiet) /* one by one: a floor may hold little at once */
		for (uint64_t i = 0; i < cost; i++)
			region_ask(r, key, 1);
	else if (cost > 0)
		region_ask(r, key, cost);
	world_at(w, w->now_us + wait_us, on_client, r, what);
}

void region_init(struct globe_region *r, struct globe *g, unsigned number)
{
	struct world *w = &g->world;

	*r = (struct globe_region){.globe = g, .number = number, .limit = &g->limits[0]};
	sim_clock_set(&r->clock, 0, 0,
		      (int64_t)(GLOBE_START_US + 4000 * GLOBE_SECOND +
				(g->scenario.kind == SHARE_CALENDAR
					 ? world_below(w, GLOBE_SECOND)
					 : world_below(w, 1000 * GLOBE_SECOND))));
	region_share_init(&r->share, 1, sim_clock_read(&r->clock, 0), g->whole,
			  g->scenario.floors[0][number]);
	agents_init(r);
	world_at(w, world_below(w, POLL_US), on_poll, r, NULL);
	world_at(w, world_below(w, REPORT_US), on_report, r, NULL);
	world_at(w, world_below(w, POLL_US), on_client, r, NULL);
}

void region_release(struct globe_region *r)
{
	for (unsigned k = 0; k < GLOBE_KEYS; k++)
		window_release(&r->windows[k]);
}
