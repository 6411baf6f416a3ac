/*
 * I2 by the script itself: three regions, each with keys and a clock of its own in a real Redis, an allocator that moves their
 * shares of one limit, and callers who take all that there is, from leases as well. Messages are late, lost and doubled; clocks are
 * set. Of what all regions admitted together every interval is checked. A script in which one rule is broken must be found out;
 * of more rules tests/lua/test_quota_differential.c does.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocator.h"
#include "core/calendar.h"
#include "core/region_share.h"
#include "dice.h"
#include "script_rig.h"

#define MS UINT64_C(1000)
#define SECOND (1000 * MS)
#define GRANT_US (SECOND / 2)
#define START (UINT64_C(4102444800) * SECOND) /* the year 2100: keys don't expire meanwhile */

enum { REGIONS = 3, EDGES = 200, MESSAGES = 256, HELD = 64, SPENT_MOST = 40000, STEPS = 700 };

struct region {
	int64_t offset_us; /* its clock is so far from true time */
	bool jumped;       /* it was set, and nobody asked since */
	uint64_t demand;
	struct script_quota quota;
};

struct message {
	uint64_t due_us; /* 0: none */
	unsigned region;
	bool is_grant;
	struct share_grant grant;
	struct share_report report;
};

/* A lease that will be spent, or the part of it that is given back. */
struct held {
	uint64_t at_us; /* 0: none */
	unsigned region;
	uint64_t id, amount, back, window_us;
};

struct spent {
	uint64_t at_us, cost,
		window_us; /* calendars: when the window that its region was in began */
};

struct world {
	struct script_rig rig;
	struct dice dice;
	unsigned seed;
	bool jumps;
	bool calm; /* little is asked, whatever is reported: buckets are full when all is taken at once */
	struct limit limit;
	uint64_t edge[EDGES];
	uint64_t now_us; /* true time */
	struct allocator *allocator;
	uint64_t epoch;
	struct allocator_terms terms;
	struct region region[REGIONS];
	struct message message[MESSAGES];
	struct held held[HELD];
	struct spent spent[SPENT_MOST];
	unsigned n_spent;
	uint64_t last_lease;
	uint64_t n_by_lease, n_above; /* spent from leases; admitted while a grant was in force */
};

static uint64_t pick(struct world *w, uint64_t n)
{
	return dice_below(&w->dice, n);
}

/* ---- Regions ---- */

static uint64_t clock_of(const struct world *w, unsigned region)
{
	return (uint64_t)((int64_t)w->now_us + w->region[region].offset_us);
}

/* The allocator's clock is its own. */
static uint64_t allocator_us(const struct world *w)
{
	return w->now_us - START + 1;
}

static struct script_answer ask(struct world *w, unsigned region, struct script_op *op,
				uint64_t cost)
{
	static const char *const letter[] = {[ALGORITHM_TOKEN_BUCKET] = "b",
					     [ALGORITHM_SLIDING_WINDOW] = "w",
					     [ALGORITHM_CALENDAR] = "d"};
	char name[32];
	struct script_check check = {
		.limit = &w->limit, .cost = cost, .quota = &w->region[region].quota};
	struct script_answer a;

	snprintf(name, sizeof name, "k:%s{r%u}p:0", letter[w->limit.algorithm], region);
	check.key = slice_of(name);
	op->checks = &check;
	op->n_checks = 1;
	w->rig.virtual_us = w->rig.clock_us = clock_of(w, region);
	w->rig.jumped = w->region[region].jumped;
	w->region[region].jumped = false;
	script_rig_run(&w->rig, op, 1, &a);
	cr_assert_neq(a.status, SCRIPT_EDGES);
	return a;
}

static uint64_t window_of(const struct world *w, unsigned region)
{
	const struct calendar_edges *e = &w->limit.edges;

	if (w->limit.algorithm != ALGORITHM_CALENDAR)
		return 0;
	return e->edge_us[calendar_edges_passed(e, clock_of(w, region)) - 1];
}

static void spend(struct world *w, uint64_t cost, uint64_t window_us)
{
	if (cost == 0)
		return;
	cr_assert_lt(w->n_spent, SPENT_MOST);
	w->spent[w->n_spent++] = (struct spent){w->now_us, cost, window_us};
}

/* So much, or (0) all that there is. */
static void take(struct world *w, unsigned region, uint64_t cost)
{
	struct script_op op = {.kind = SCRIPT_PEEK};

	if (cost == 0)
		cost = ask(w, region, &op, 1).remaining;
	if (cost == 0)
		return;
	op.kind = SCRIPT_TAKE;
	if (ask(w, region, &op, cost).status == SCRIPT_ALLOWED)
		spend(w, cost, window_of(w, region));
}

static struct held *held_room(struct world *w)
{
	for (unsigned i = 0; i < HELD; i++)
		if (w->held[i].at_us == 0)
			return &w->held[i];
	return NULL;
}

/* All of it is spent at one instant, mostly the last; or a part, and the rest is given back then. */
static void lease(struct world *w, unsigned region)
{
	uint64_t ttl_us = 1000 + pick(w, pick(w, 3) == 0 ? 400 * MS : 50 * MS);
	struct script_op op = {
		.kind = SCRIPT_LEASE, .amount = LIMIT_MAX, .ttl_us = ttl_us, .sharers = 1};
	struct held *h = held_room(w);
	struct script_answer a;
	uint64_t id = ++w->last_lease;

	if (h == NULL)
		return;
	memcpy(op.lease, &id, sizeof op.lease);
	a = ask(w, region, &op, 1);
	if (a.status != SCRIPT_ALLOWED)
		return;
	if (a.lease_us == 0) {
		spend(w, a.amount, window_of(w, region));
		return;
	}
	*h = (struct held){
		.region = region, .id = id, .amount = a.amount, .window_us = window_of(w, region)};
	h->at_us = w->now_us + (pick(w, 2) == 0 ? ttl_us - 1 : pick(w, ttl_us));
	h->back = pick(w, 4) == 0 ? pick(w, a.amount + 1) : 0;
}

static void spend_held(struct world *w, struct held *h)
{
	struct script_op op = {.kind = SCRIPT_UNLEASE, .amount = h->back};

	spend(w, h->amount - h->back, h->window_us);
	w->n_by_lease += h->amount - h->back;
	h->at_us = 0;
	if (h->back == 0)
		return;
	memcpy(op.lease, &h->id, sizeof op.lease);
	ask(w, h->region, &op, 1);
}

/* ---- Messages ---- */

static void send(struct world *w, const struct message *m)
{
	unsigned copies = pick(w, 10) == 0 ? 0 : pick(w, 10) == 0 ? 2 : 1;

	for (unsigned i = 0; i < MESSAGES && copies > 0; i++) {
		if (w->message[i].due_us != 0)
			continue;
		w->message[i] = *m;
		w->message[i].due_us =
			w->now_us + 1 + pick(w, pick(w, 8) == 0 ? 2 * SECOND : 60 * MS);
		copies--;
	}
}

static void report(struct world *w, unsigned region)
{
	struct region *r = &w->region[region];
	struct script_op op = {.kind = SCRIPT_SHARE_REPORT,
			       .asked = {1, (uint32_t)r->demand, 1500 * MS}};
	struct script_answer a = ask(w, region, &op, 1);
	struct script_share share;
	struct message m = {.region = region};

	cr_assert_eq(script_share_parse(&a, &share), KOVA_OK);
	m.report = share.report;
	m.report.window = calendar_window_number(&w->limit.edges, share.window_us);
	send(w, &m);
}

static void read_grant(struct world *w, const struct message *m)
{
	struct script_op op = {.kind = SCRIPT_SHARE_READ, .grant = &m->grant};

	ask(w, m->region, &op, 1);
	if (!w->calm && pick(w, 2) == 0)
		take(w, m->region, 0);
}

static void deliver(struct world *w, struct message *m)
{
	m->due_us = 0;
	if (m->is_grant)
		read_grant(w, m);
	else
		allocator_report(w->allocator, &w->terms, w->epoch, m->region, allocator_us(w),
				 &m->report);
}

static void allocate(struct world *w)
{
	struct message m = {.is_grant = true};
	struct share_grant grant[ALLOCATOR_REGIONS_MAX];
	uint32_t given = allocator_grant(w->allocator, &w->terms, w->epoch, allocator_us(w), grant);

	for (m.region = 0; m.region < REGIONS; m.region++) {
		if ((given & 1U << m.region) == 0)
			continue;
		m.grant = grant[m.region];
		send(w, &m);
	}
}

/* ---- Time ---- */

/* What happens next, not later than `until_us`. */
static uint64_t next_us(const struct world *w, uint64_t until_us)
{
	for (unsigned i = 0; i < MESSAGES; i++)
		if (w->message[i].due_us != 0 && w->message[i].due_us < until_us)
			until_us = w->message[i].due_us;
	for (unsigned i = 0; i < HELD; i++)
		if (w->held[i].at_us != 0 && w->held[i].at_us < until_us)
			until_us = w->held[i].at_us;
	return until_us;
}

static void pass(struct world *w, uint64_t until_us)
{
	while (w->now_us < until_us) {
		w->now_us = next_us(w, until_us);
		for (unsigned i = 0; i < MESSAGES; i++)
			if (w->message[i].due_us == w->now_us)
				deliver(w, &w->message[i]);
		for (unsigned i = 0; i < HELD; i++)
			if (w->held[i].at_us == w->now_us)
				spend_held(w, &w->held[i]);
	}
}

static void take_everywhere(struct world *w)
{
	for (unsigned i = 0; i < REGIONS && pick(w, 6) > 0; i++)
		take(w, i, 0);
}

static void step(struct world *w)
{
	unsigned region = (unsigned)pick(w, REGIONS);
	struct region *r = &w->region[region];

	pass(w, w->now_us + 1 + pick(w, 20 * MS));
	if (pick(w, 12) == 0)
		r->demand = pick(w, 3) == 0 ? 0 : w->terms.whole * (1 + pick(w, 3)) / 2;
	if (w->jumps && pick(w, 300) == 0) {
		r->offset_us += (int64_t)pick(w, 40 * SECOND) - (int64_t)(20 * SECOND);
		r->jumped = true;
	}
	switch (pick(w, 7)) {
	case 0:
	case 1:
		report(w, region);
		break;
	case 2:
		allocate(w);
		break;
	case 3:
		if (!w->calm || pick(w, 6) == 0)
			take_everywhere(w);
		break;
	case 4:
		if (!w->calm || pick(w, 4) == 0)
			lease(w, region);
		break;
	default:
		if (!w->calm)
			take(w, region, pick(w, 3));
	}
}

/* ---- What was admitted ---- */

/* Each region's refill comes in steps, of which it may be one ahead (share_plan.h). */
static bool within_bucket(const struct world *w)
{
	double rate = (double)w->limit.limit / (double)w->limit.per_us, level = 0;
	double most = (double)w->limit.burst +
		      REGIONS * (SHARE_QUANTUM_US * rate + SHARE_QUANTUM_UT / 1e6) + 1e-6;

	for (unsigned i = 0; i < w->n_spent; i++) {
		uint64_t passed_us = i > 0 ? w->spent[i].at_us - w->spent[i - 1].at_us : 0;

		level -= rate * (double)passed_us;
		level = (level > 0 ? level : 0) + (double)w->spent[i].cost;
		if (level > most)
			return false;
	}
	return true;
}

static bool within_windows(const struct world *w)
{
	uint64_t sum = 0;

	for (unsigned i = 0, first = 0; i < w->n_spent; i++) {
		sum += w->spent[i].cost;
		for (; w->spent[first].at_us + w->limit.per_us <= w->spent[i].at_us; first++)
			sum -= w->spent[first].cost;
		if (sum > w->limit.limit)
			return false;
	}
	return true;
}

static bool within_calendar(const struct world *w)
{
	for (unsigned e = 0; e < EDGES; e++) {
		uint64_t sum = 0;

		for (unsigned i = 0; i < w->n_spent; i++)
			sum += w->spent[i].window_us == w->edge[e] ? w->spent[i].cost : 0;
		if (sum > w->limit.limit)
			return false;
	}
	return true;
}

static bool is_within(const struct world *w)
{
	switch (w->limit.algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
		return within_bucket(w);
	case ALGORITHM_SLIDING_WINDOW:
		return within_windows(w);
	default:
		return within_calendar(w);
	}
}

/* ---- Worlds ---- */

static void begin_limit(struct world *w, enum algorithm algorithm)
{
	uint64_t at_us = START - 30 * SECOND;

	w->limit = (struct limit){.algorithm = algorithm,
				  .limit = 20 + pick(w, 200),
				  .per_us = 300 * MS + pick(w, SECOND)};
	w->limit.burst = w->limit.limit / (1 + pick(w, 8));
	for (unsigned i = 0; i < EDGES; i++, at_us += SECOND + pick(w, SECOND))
		w->edge[i] = at_us;
	w->limit.edges = (struct calendar_edges){.edge_us = w->edge, .n = EDGES, .first = 10};
	cr_assert_eq(limit_init(&w->limit), KOVA_OK);
}

static void begin(struct world *w, enum algorithm algorithm)
{
	static const enum share_kind kind[] = {[ALGORITHM_TOKEN_BUCKET] = SHARE_RATE,
					       [ALGORITHM_SLIDING_WINDOW] = SHARE_WINDOW,
					       [ALGORITHM_CALENDAR] = SHARE_CALENDAR};
	uint32_t left;

	begin_limit(w, algorithm);
	w->now_us = START;
	left = share_whole(&w->limit);
	w->terms = (struct allocator_terms){.kind = kind[algorithm],
					    .n_regions = REGIONS,
					    .whole = left,
					    .duration_us = 500 * MS,
					    .margin_us = allocator_least_margin_us(500 * MS, 0),
					    .window_us = w->limit.per_us,
					    .lend_us = 3 * SECOND,
					    .floors = 1};
	for (unsigned i = 0; i < REGIONS; i++) {
		uint32_t floor = (uint32_t)pick(w, left / 2 + 1);

		left -= floor;
		w->region[i].quota = (struct script_quota){.whole = w->terms.whole,
							   .floor = floor,
							   .floors = 1,
							   .lend_us = w->terms.lend_us,
							   .grant_us = GRANT_US};
		w->region[i].offset_us =
			(int64_t)pick(w, algorithm == ALGORITHM_CALENDAR ? SECOND : 9 * SECOND);
		w->region[i].demand = w->terms.whole;
		w->terms.region[i].floor = w->terms.region[i].before = floor;
		w->terms.region[i].weight = 1;
	}
	allocator_init(w->allocator, &w->terms);
	w->epoch = 1 + pick(w, 1000);
}

static struct world *world_new(void)
{
	struct world *w = calloc(1, sizeof *w);

	w->allocator = malloc(ALLOCATOR_BYTES(REGIONS));
	return w;
}

static void world_free(struct world *w)
{
	free(w->allocator);
	free(w);
}

/* Whether nothing was exceeded. */
static bool run(struct world *w, enum algorithm algorithm, unsigned seed, bool jumps)
{
	struct redis_answer a = redis_client_command(&w->rig.client, "FLUSHALL");
	struct script_rig rig = w->rig;
	struct allocator *allocator = w->allocator;
	uint64_t n_by_lease = w->n_by_lease, n_above = w->n_above;

	redis_answer_release(&a);
	*w = (struct world){.rig = rig,
			    .allocator = allocator,
			    .dice = {seed},
			    .seed = seed,
			    .jumps = jumps,
			    .calm = seed % 4 > 0};
	w->n_by_lease = n_by_lease;
	w->n_above = n_above;
	begin(w, algorithm);
	for (unsigned i = 0; i < STEPS; i++)
		step(w);
	for (unsigned i = 0; i < w->n_spent; i++)
		w->n_above += w->spent[i].cost;
	return is_within(w);
}

static void nothing_is_exceeded(enum algorithm algorithm, bool jumps)
{
	struct world *w = world_new();

	script_rig_start(&w->rig);
	for (unsigned seed = 1; seed <= 25; seed++)
		cr_assert(run(w, algorithm, seed, jumps && seed % 2 == 0), "seed %u", seed);
	cr_log_info("%lu admitted, %lu from leases", (unsigned long)w->n_above,
		    (unsigned long)w->n_by_lease);
	cr_assert_gt(w->n_above, 5000);
	cr_assert_gt(w->n_by_lease, 1000);
	script_rig_stop(&w->rig);
	world_free(w);
}

Test(quota_intervals, token_bucket)
{
	nothing_is_exceeded(ALGORITHM_TOKEN_BUCKET, true);
}

Test(quota_intervals, sliding_window)
{
	nothing_is_exceeded(ALGORITHM_SLIDING_WINDOW, true);
}

Test(quota_intervals, calendar)
{
	nothing_is_exceeded(ALGORITHM_CALENDAR, false);
}

/* ---- Rules that are broken ---- */

static const struct {
	const char *name;
	enum algorithm algorithm;
	bool jumps;
	const char *rule, *instead;
} broken[] = {
	{"a promise is not kept", ALGORITHM_TOKEN_BUCKET, false,
	 "local own = time < s.lent_until and s.floor - s.lent or s.floor", "local own = s.floor"},
	{"a clock that is set leaves the grant in force", ALGORITHM_TOKEN_BUCKET, true,
	 "jump(s, terms.lend_us)", "s.seen = now"},
	{"what a window used is not reported", ALGORITHM_SLIDING_WINDOW, false,
	 "return s.used[i][2], 0", "return 0, 0"},
	{"a window forgets when the clock is set", ALGORITHM_SLIDING_WINDOW, true,
	 "if call('ZSCORE', key, mark) then", "if true then"},
	{"a grant for one calendar window is used in the next", ALGORITHM_CALENDAR, false,
	 "stop = stop < window_end and stop or window_end", ""},
	{"what a calendar's window used is not reported", ALGORITHM_CALENDAR, false,
	 "return s.window_used, s.window", "return 0, s.window"},
};

enum { SEEDS_MOST = 100 };

static void is_found_out(unsigned number)
{
	struct world *w = world_new();
	unsigned seed = 1;

	script_rig_start(&w->rig);
	w->rig.rule = broken[number].rule;
	w->rig.instead = broken[number].instead;
	while (seed <= SEEDS_MOST && run(w, broken[number].algorithm, seed, broken[number].jumps))
		seed++;
	cr_log_info("%s: seed %u", broken[number].name, seed);
	cr_expect_leq(seed, SEEDS_MOST, "%s", broken[number].name);
	script_rig_stop(&w->rig);
	world_free(w);
}

static void all_are_found_out(enum algorithm algorithm)
{
	for (unsigned i = 0; i < sizeof broken / sizeof *broken; i++)
		if (broken[i].algorithm == algorithm)
			is_found_out(i);
}

Test(quota_intervals, a_broken_rule_of_buckets_is_found_out)
{
	all_are_found_out(ALGORITHM_TOKEN_BUCKET);
}

Test(quota_intervals, a_broken_rule_of_windows_is_found_out)
{
	all_are_found_out(ALGORITHM_SLIDING_WINDOW);
}

Test(quota_intervals, a_broken_rule_of_calendars_is_found_out)
{
	all_are_found_out(ALGORITHM_CALENDAR);
}
