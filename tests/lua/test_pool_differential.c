/*
 * Random pools, workers and times through the script in a real Redis and through its twin: equal answers, events and pages, op by
 * op, while definitions change, endpoints and targets have good and bad times, leases end, and the clock leaps and goes back.
 * Of a twin in which one rule is broken it must be found out.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "dice.h"
#include "pool_broken.h"
#include "pool_pair.h"

#define SECOND UINT64_C(1000000)
#define START UINT64_C(4102444800123457) /* the year 2100: keys don't expire meanwhile */

enum {
	ENDPOINTS = 12,
	MANY = 40,
	/* more than the script looks at at once */ TARGETS = 4,
	SESSIONS = 6,
	WAITERS = 8,
	KNOWN = 64,
	BATCHES = 400
};

enum pool_mutation pool_broken;

struct run {
	struct pool_pair *pair;
	unsigned seed;
	struct dice dice;
	bool waits; /* some do, in line or for a session's endpoint; else the clock goes back */
	uint64_t now_us;
	struct pool_rule rule;
	struct limit own, common; /* of permits */
	struct pool_endpoint endpoint[MANY];
	size_t n, most;
	char id[MANY][8];
	unsigned ill[MANY];               /* of 8 outcomes so many are failures */
	unsigned angry[TARGETS];          /* of 8 so many are judged */
	uint64_t ticket[KNOWN];           /* some of those out, and of those reported */
	uint8_t target[KNOWN], of[KNOWN]; /* where it is used */
	size_t n_tickets;
	uint64_t waiter[WAITERS], arrival_us[WAITERS]; /* arrival 0: he has not asked yet */
	uint64_t n_waiters;
	uint64_t began[MANY]; /* of cooldowns, as a prober was told */
	uint16_t skip[2];
	struct pool_quota quota[2];
	char text[160]; /* what differs */
	unsigned given, counted, trials, moved, held, cooled, capped, escalated, passed,
		pauses[POOL_PAUSES];
};

static const char *const target_names[TARGETS] = {"", "shop", "bank", "a.example"};
static const char *const session_names[SESSIONS] = {"s", "t", "u", "v", "w", "x"};
static const char *const agents[] = {"one             ", "two             "};

static uint64_t pick(struct run *r, uint64_t n)
{
	return dice_below(&r->dice, n);
}

static bool in_n(struct run *r, uint64_t n)
{
	return pick(r, n) == 0;
}

static uint64_t span(struct run *r, uint64_t most_ms)
{
	return 1000 * (1 + pick(r, most_ms));
}

/* ---- What is configured ---- */

static void random_rule(struct run *r)
{
	static const double shares[] = {0, 0.34, 0.5, 0.8, 1};
	struct pool_rule *rule = &r->rule;
	bool is_key = r->seed % 4 == 0;

	*rule = (struct pool_rule){.kind = is_key ? POOL_KEY : POOL_PROXY,
				   .select = (enum pool_select)pick(r, 3),
				   .window = (uint8_t)(2 + pick(r, in_n(r, 8) ? 31 : 5)),
				   .escalate_of = (uint8_t)(1 + pick(r, 8)),
				   .direct = in_n(r, 3),
				   .health = in_n(r, 4),
				   .exclusive = r->waits && in_n(r, 3),
				   .base = span(r, 3000),
				   .trial = span(r, 4000),
				   .ramp = in_n(r, 2) ? span(r, 30000) : 0,
				   .lease = span(r, 15000),
				   .floor_active = in_n(r, 3) ? 0 : 1 + pick(r, 5),
				   .floor_pause = span(r, 6000),
				   .blame_within = span(r, 8000),
				   .blame_min = 1 + pick(r, 8),
				   .blame_hold = span(r, 2000),
				   .blame_share = shares[1 + pick(r, 4)],
				   .escalate_hold = span(r, 5000),
				   .session_ttl = span(r, 10000),
				   .report = span(r, 20000),
				   .every = span(r, 4000),
				   .jitter = shares[pick(r, 5)],
				   .max_out = shares[pick(r, 5)]};
	rule->threshold = (uint8_t)(2 + pick(r, rule->window < 4 ? rule->window - 1U : 3));
	rule->escalate_after = (uint8_t)(1 + pick(r, rule->escalate_of));
	rule->max = rule->base + span(r, 20000);
}

static void random_endpoint(struct run *r, size_t i)
{
	unsigned number = (unsigned)pick(r, r->most);
	char id[sizeof *r->id];

	snprintf(id, sizeof id, "e%u", number);
	for (size_t k = 0; k < r->n; k++) /* unlike any other there is */
		if (k != i && strcmp(r->id[k], id) == 0)
			return;
	memcpy(r->id[i], id, sizeof id);
	r->endpoint[i] = (struct pool_endpoint){
		.id = slice_of(r->id[i]),
		.account = in_n(r, 3) ? (number % 2 == 0 ? SLICE("even") : SLICE("odd"))
				      : (struct slice){0},
		.weight = in_n(r, 12) ? 0 : (double)(1 + pick(r, 5)),
		.slots = in_n(r, 3) ? 1 + (uint32_t)pick(r, 4) : 0,
		.tier = (uint8_t)(1 + (in_n(r, 4) ? pick(r, 3) : 0)),
		.off = in_n(r, 16)};
	r->ill[i] = in_n(r, 2) ? (unsigned)pick(r, 9) : 0;
}

/* Another definition: one endpoint comes, goes or changes, or all rules do. */
static void configure(struct run *r)
{
	if (in_n(r, 4)) {
		random_rule(r);
	} else if (in_n(r, 3) && r->n < r->most) {
		size_t i = r->n;

		r->id[i][0] = '\0';
		random_endpoint(r, i);
		r->n += r->id[i][0] != '\0';
	} else if (in_n(r, 2) && r->n > 0) {
		r->n--;
	} else if (r->n > 0) {
		random_endpoint(r, pick(r, r->n));
	}
}

/* ---- What workers do ---- */

static struct pool_op next_op(struct run *r)
{
	struct pool_op op = {.kind = POOL_OP_NEXT};
	uint64_t waiter = pick(r, WAITERS);

	op.next.target = slice_of(target_names[in_n(r, 3) ? pick(r, TARGETS) : pick(r, 2)]);
	if (in_n(r, 4))
		op.next.session = slice_of(session_names[pick(r, SESSIONS)]);
	if (in_n(r, 8))
		op.next.tier = (uint8_t)(1 + pick(r, 4));
	if (in_n(r, 10) && r->n > 0) {
		r->skip[0] = (uint16_t)pick(r, r->n);
		r->skip[1] = (uint16_t)pick(r, r->n);
		op.next.skip = r->skip;
		op.next.n_skip = 1 + pick(r, 2);
	}
	if (r->seed % 5 > 1 && in_n(r, 2))
		op.permits.own = &r->own;
	if (r->seed % 5 > 1 && in_n(r, 3))
		op.permits.common = &r->common;
	op.permits.own_cost = 1 + pick(r, 2);
	op.permits.common_cost = 1 + pick(r, 4);
	if (r->waits && in_n(r, 3)) {
		op.next.waiter = r->waiter[waiter];
		op.next.arrival_us = r->arrival_us[waiter];
	}
	return op;
}

static enum pool_outcome outcome_of(struct run *r, size_t known)
{
	static const enum pool_outcome failures[] = {POOL_REFUSED, POOL_AUTH, POOL_AUTH,
						     POOL_TIMEOUT},
				       judged[] = {POOL_BLOCKED, POOL_CAPTCHA, POOL_EMPTY};

	if (in_n(r, 12))
		return in_n(r, 2) ? POOL_TARGET : POOL_CANCELLED;
	if (pick(r, 8) < r->angry[r->target[known]])
		return judged[pick(r, 3)];
	if (pick(r, 8) < r->ill[r->of[known]])
		return in_n(r, 4) ? judged[pick(r, 3)] : failures[pick(r, 4)];
	return POOL_OK;
}

static void random_quotas(struct run *r, struct pool_report_op *report)
{
	static const char *const names[] = {"requests", "tokens", "input-tokens"};

	report->quotas = r->quota;
	report->n_quotas = 1 + pick(r, 2);
	for (size_t i = 0; i < report->n_quotas; i++) {
		struct pool_quota *q = &r->quota[i];

		*q = (struct pool_quota){.limit = (int64_t)pick(r, 100) - 1,
					 .left = in_n(r, 3) ? 0 : (int64_t)pick(r, 8) - 1,
					 .absolute = in_n(r, 2)};
		strcpy(q->name, names[pick(r, 3)]);
		q->reset_us = in_n(r, 8) ? pick(r, 100000 * SECOND) : span(r, 6000);
		if (q->absolute)
			q->reset_us += r->now_us - pick(r, 2000000);
	}
}

static struct pool_op report_op(struct run *r)
{
	static const uint16_t statuses[] = {0, 403, 429};
	struct pool_op op = {.kind = POOL_OP_REPORT};
	size_t known = r->n_tickets > 0 ? pick(r, r->n_tickets) : 0;

	if (r->n_tickets == 0 || in_n(r, 50))
		return op;
	op.serial = r->ticket[known];
	op.report.outcome = outcome_of(r, known);
	op.report.status = statuses[pick(r, 3)];
	if (in_n(r, 4))
		op.report.hint_us = span(r, 15000);
	if (r->rule.kind == POOL_KEY && in_n(r, 4))
		random_quotas(r, &op.report);
	if (!in_n(r, 20)) { /* reported twice, now and then */
		r->n_tickets--;
		r->ticket[known] = r->ticket[r->n_tickets];
		r->target[known] = r->target[r->n_tickets];
		r->of[known] = r->of[r->n_tickets];
	}
	return op;
}

static struct pool_op other_op(struct run *r)
{
	uint32_t endpoint = r->n > 0 ? (uint32_t)pick(r, r->n) : 0;
	struct pool_op op = {.kind = POOL_OP_SHOW, .endpoint = endpoint};

	switch (pick(r, 8)) {
	case 0:
		op.kind = POOL_OP_UNDO;
		op.serial = r->n_tickets > 0 ? r->ticket[pick(r, r->n_tickets)] : 0;
		break;
	case 1:
		op.kind = POOL_OP_LEAVE;
		op.waiter = r->waiter[pick(r, WAITERS)];
		break;
	case 2:
		op.kind = POOL_OP_NUMBERS;
		break;
	case 3:
		op.kind = POOL_OP_ENABLE;
		break;
	case 4:
		op.kind = POOL_OP_PROBE;
		op.began = r->began[endpoint];
		op.found = in_n(r, 3) ? POOL_PROBE_TUNNEL : POOL_PROBE_OK;
		break;
	case 5:
		op.kind = POOL_OP_PROBER;
		op.agent = agents[pick(r, 2)];
		op.ttl_us = span(r, 2000);
		op.room = in_n(r, 3) ? 2 : MANY;
		break;
	default:
		break;
	}
	return op;
}

/* ---- What they were told ---- */

static void know(struct run *r, const struct pool_next_op *op, const struct pool_given *g)
{
	size_t i = r->n_tickets < KNOWN ? r->n_tickets++ : pick(r, KNOWN);

	r->ticket[i] = g->serial;
	r->of[i] = (uint8_t)g->endpoint;
	for (uint8_t t = 0; t < TARGETS; t++)
		if (slice_equal(op->target, slice_of(target_names[t])))
			r->target[i] = t;
}

/* He comes again with the time at which he first did, until he is served. */
static void hear_waiter(struct run *r, const struct pool_next_op *op, const struct pool_given *g)
{
	for (size_t i = 0; i < WAITERS; i++) {
		if (op->waiter == 0 || r->waiter[i] != op->waiter)
			continue;
		if (g->pause == POOL_NOT_PAUSED)
			r->waiter[i] = ++r->n_waiters;
		r->arrival_us[i] = g->pause == POOL_NOT_PAUSED ? 0
				   : op->arrival_us > 0        ? op->arrival_us
							       : r->now_us;
	}
}

static void hear(struct run *r, const struct pool_op *op, const struct pool_op_answer *a)
{
	if (op->kind == POOL_OP_REPORT)
		r->counted += a->reported == POOL_COUNTED;
	for (size_t i = 0; op->kind == POOL_OP_PROBER && i < a->n_due; i++)
		r->began[a->due[i].endpoint] = a->due[i].began;
	if (op->kind != POOL_OP_NEXT)
		return;
	hear_waiter(r, &op->next, &a->given);
	for (size_t i = 0; i < a->n_tries; i++)
		r->passed += !a->try[i].allowed;
	r->pauses[a->given.pause]++;
	r->trials += a->given.trial;
	r->moved += a->given.moved;
	if (a->given.pause == POOL_NOT_PAUSED) {
		r->given++;
		know(r, &op->next, &a->given);
	}
}

static void count_events(struct run *r, const struct pool_answers *a)
{
	for (size_t i = 0; i < a->n_events; i++) {
		r->cooled += a->event[i].kind == POOL_EVENT_COOLED;
		r->held += a->event[i].kind == POOL_EVENT_HELD;
		r->capped += a->event[i].kind == POOL_EVENT_CAPPED;
		r->escalated += a->event[i].kind == POOL_EVENT_ESCALATED;
	}
}

/* ---- A sequence ---- */

static bool one_batch(struct run *r)
{
	static struct pool_answers lua, c;
	struct pool_op op[POOL_PAIR_OPS_MAX];
	struct pool_batch b = {.rule = &r->rule,
			       .endpoints = r->endpoint,
			       .n = r->n,
			       .now_us = r->now_us,
			       .luck = (double)pick(r, 1000) / 1000,
			       .op = op,
			       .n_ops = 1 + (uint32_t)pick(r, in_n(r, 4) ? 12 : 3)};
	const char *differs;

	for (uint32_t i = 0; i < b.n_ops; i++) {
		uint64_t which = pick(r, 16);

		op[i] = which < 8 ? next_op(r) : which < 14 ? report_op(r) : other_op(r);
		if (op[i].report.n_quotas > 0 || op[i].next.n_skip > 0) /* one has room */
			b.n_ops = i + 1;
	}
	pool_pair_run(r->pair, &b, &lua, &c);
	differs = pool_answers_differ(&b, &lua, &c);
	if (differs != NULL) {
		snprintf(r->text, sizeof r->text, "%s", differs);
		return false;
	}
	for (uint32_t i = 0; i < b.n_ops; i++)
		hear(r, &op[i], &c.op[i]);
	count_events(r, &c);
	return true;
}

static void pass_time(struct run *r)
{
	uint64_t us = pick(r, UINT64_C(1) << pick(r, in_n(r, 16) ? 25 : 21));

	if (in_n(r, 400))
		r->now_us += pick(r, 2 * 3600 * SECOND);
	else if (!r->waits && in_n(r, 60))
		r->now_us -= us;
	else if (!in_n(r, 4))
		r->now_us += us;
	if (in_n(r, 50))
		for (size_t i = 0; i < r->n; i++)
			r->ill[i] = in_n(r, 2) ? (unsigned)pick(r, 9) : 0;
	if (in_n(r, 30))
		for (size_t i = 0; i < TARGETS; i++)
			r->angry[i] = in_n(r, 4) ? (unsigned)pick(r, 9) : 0;
}

/* Whether all was the same; else r->text says what was not. */
static bool sequence(struct run *r)
{
	pool_pair_clear(r->pair);
	r->now_us = START + pick(r, SECOND);
	random_rule(r);
	r->own = (struct limit){.limit = 1 + pick(r, 8), .per_us = SECOND, .burst = 1 + pick(r, 6)};
	r->common = (struct limit){
		.limit = 10 + pick(r, 40), .per_us = SECOND, .burst = 3 + pick(r, 60)};
	cr_assert(limit_init(&r->own) == KOVA_OK && limit_init(&r->common) == KOVA_OK);
	for (size_t want = 1 + pick(r, r->most - 1), tries = 0; r->n < want && tries < 200;
	     tries++) {
		r->id[r->n][0] = '\0';
		random_endpoint(r, r->n);
		r->n += r->id[r->n][0] != '\0';
	}
	for (size_t i = 0; i < WAITERS; i++)
		r->waiter[i] = ++r->n_waiters;
	for (int i = 0; i < BATCHES; i++) {
		pass_time(r);
		if (in_n(r, 40))
			configure(r);
		if (!one_batch(r))
			return false;
	}
	return true;
}

static struct run run_of(struct pool_pair *pair, unsigned seed)
{
	return (struct run){.pair = pair,
			    .seed = seed,
			    .dice = {seed},
			    .waits = seed % 2 == 0,
			    .most = seed % 3 == 0 ? MANY : ENDPOINTS};
}

Test(pool_differential, equal_answers)
{
	struct pool_pair pair;
	struct run all = {0};

	pool_pair_start(&pair);
	for (unsigned seed = 1; seed <= 60; seed++) {
		struct run r = run_of(&pair, seed);

		cr_assert(sequence(&r), "seed %u: %s", seed, r.text);
		all.given += r.given;
		all.counted += r.counted;
		all.trials += r.trials;
		all.moved += r.moved;
		all.held += r.held;
		all.cooled += r.cooled;
		all.capped += r.capped;
		all.escalated += r.escalated;
		all.passed += r.passed;
		for (int i = 0; i < POOL_PAUSES; i++)
			all.pauses[i] += r.pauses[i];
	}
	pool_pair_stop(&pair);
	cr_log_info("%u given, %u counted, %u trials, %u moved, %u held, %u cooled, %u capped, "
		    "%u escalated, %u without a permit; floor %u, cooling %u, slots %u, held %u, "
		    "empty %u, limited %u",
		    all.given, all.counted, all.trials, all.moved, all.held, all.cooled, all.capped,
		    all.escalated, all.passed, all.pauses[POOL_FLOOR], all.pauses[POOL_COOLING],
		    all.pauses[POOL_SLOTS], all.pauses[POOL_HELD], all.pauses[POOL_NOTHING],
		    all.pauses[POOL_LIMITED]);
	cr_assert_gt(all.given, 10000);
	cr_assert_gt(all.counted, 5000);
	cr_assert_gt(all.trials, 100);
	cr_assert_gt(all.moved, 100);
	cr_assert_gt(all.held, 20);
	cr_assert_gt(all.cooled, 300);
	cr_assert_gt(all.capped, 20);
	cr_assert_gt(all.escalated, 50);
	cr_assert_gt(all.passed, 1000);
	for (int i = POOL_FLOOR; i <= POOL_LIMITED; i++)
		cr_assert_gt(all.pauses[i], 100, "%s", pool_pause_names[i]);
}

Test(pool_differential, a_broken_rule_is_found_out)
{
	static const char *const what[] = {"nothing",
#define X(name, text) text,
					   POOL_MUTATIONS(X)
#undef X
	};
	struct pool_pair pair;

	pool_pair_start(&pair);
	for (int i = POOL_NOTHING_BROKEN + 1; i < POOL_MUTATIONS_END; i++) {
		unsigned seed = 1;

		pool_broken = (enum pool_mutation)i;
		for (; seed <= 40; seed++) {
			struct run r = run_of(&pair, seed);

			if (!sequence(&r))
				break;
		}
		cr_log_info("%s: seed %u", what[i], seed);
		cr_expect_leq(seed, 40, "%s", what[i]);
	}
	pool_pair_stop(&pair);
}
