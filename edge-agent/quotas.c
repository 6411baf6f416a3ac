/*
 * A quota's turn comes once a report interval, spread over it: Redis is told how much was asked for here, and answers with the
 * region's report, which goes to Kafka unless another agent of the region has just made one. A grant that was read goes into
 * Redis at once, and again with the next turn until Redis has answered: it knows grants by their number, and whether it has
 * read one before.
 *
 * A report that somebody waits for does not wait for its turn, it *hurries*: the first demand, of a region that has lent its
 * floor; and that less is in force now, for then another region may have more.
 *
 *   asked for, or followed ──▶ in the table ──each interval: report──▶ … ──nobody for QUOTAS_LATELY_MS──▶ gone
 */
#include "quotas.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "agent.h"
#include "control/control.h"
#include "control/policy_stats.h"
#include "core/calendar.h"
#include "core/quota_table.h"
#include "engine_life.h"
#include "io/clock.h"
#include "io/log.h"
#include "quota.h"
#include "tour.h"
#include "usage_report.h"

enum {
	TICKS = 25, /* in an interval */
	TICK_MIN_MS = 10,
	DEMAND_INTERVALS = 3,   /* a demand counts for so many, ... */
	DEMAND_SPARE_MS = 1000, /* ... and so much longer */
	LENDS_AFTER_MS = 10000, /* nothing was asked for */
	CLIPPED_MS = 5000,      /* a grant may take so long */
	SILENT_SPARE_MS = 1000,
	KEY_BYTES_MAX = 64 + 1 + SHARE_ROOT_MAX,
	HLC_TEXT_MAX = 24,
};

struct quotas {
	uv_loop_t *loop;
	struct kafka_producer *producer;
	struct hlc *hlc;
	const struct edge_conf *conf;
	struct agent *owner; /* NULL: not started, or stopped */
	struct quota_table *table;
	uint64_t agent; /* among those of the region; not 0 */
	uint64_t every_ms, tick_ms;
	struct buf value;
	struct quotas_numbers numbers; /* the counters of it */
	uv_timer_t timer;
};

/* What Redis was asked for; it holds the quota in the table. */
struct question {
	struct quotas *quotas;
	struct quota *quota;
	uint64_t clock, seq; /* of the grant; seq 0: it is a report */
	bool hurries;
};

/* The share has grown: on its way to all loops, whose callers wait for that. */
struct grown {
	struct tour tour; /* first */
	size_t policy_len, root_len;
	char name[]; /* policy, root */
};

static const struct policy *policy_of(const struct quotas *s, struct slice name)
{
	const struct policy *p =
		s->owner != NULL ? catalogue_policy(control_catalogue(s->owner->control), name)
				 : NULL;

	return p != NULL && p->scope == SCOPE_GLOBAL ? p : NULL;
}

static struct quota *quota_get(struct quotas *s, struct slice policy, struct slice root)
{
	struct quota *q = quota_table_get(s->table, policy, root);

	if (q == NULL)
		s->numbers.overflows++;
	else if (q->since_ms == 0)
		q->since_ms = uv_now(s->loop);
	return q;
}

/* ---- Redis ---- */

static void hold(struct quota *q, int by)
{
	q->held = (uint16_t)(q->held + by);
	q->busy = q->held > 0;
}

static int compare_parts(uint32_t a, uint32_t a_whole, uint32_t b, uint32_t b_whole)
{
	uint64_t x = (uint64_t)a * b_whole, y = (uint64_t)b * a_whole;

	return (x > y) - (x < y);
}

static void visit_grown(struct tour *t, struct agent *a)
{
	const struct grown *g = (const struct grown *)t;

	if (a->engine != NULL)
		engine_may_have_more(a->engine, (struct slice){g->name, g->policy_len},
				     (struct slice){g->name + g->policy_len, g->root_len});
}

static void on_grown(struct tour *t)
{
	free(t);
}

static void tell_waiters(struct quotas *s, const struct quota *q)
{
	struct grown *g = malloc(sizeof *g + q->policy_len + q->root_len);

	if (g == NULL)
		return; /* they ask again */
	g->tour = (struct tour){0};
	g->policy_len = q->policy_len;
	g->root_len = q->root_len;
	memcpy(g->name, q->name, (size_t)q->policy_len + q->root_len);
	tour_start(&g->tour, s->owner, visit_grown, on_grown);
}

/* Returns whether it has grown (above 0), or is less. */
static int note_share(struct quotas *s, struct quota *q, const struct script_share *said)
{
	const struct quota_share was = q->share;

	q->share = (struct quota_share){.said_ms = uv_now(s->loop),
					.whole = said->report.whole,
					.parts = said->parts,
					.floor = said->floor,
					.granted = said->granted_us > 0,
					.lent = said->lent_us > 0};
	return was.said_ms > 0
		       ? compare_parts(said->parts, said->report.whole, was.parts, was.whole)
		       : 0;
}

/* The script says when the window of a calendar began. */
static void name_window(const struct quotas *s, const struct quota *q, struct script_share *said)
{
	const struct policy *p = policy_of(s, quota_policy(q));

	if (p != NULL && p->levels[0].limit.algorithm == ALGORITHM_CALENDAR)
		said->report.window =
			calendar_window_number(&p->levels[0].limit.edges, said->window_us);
}

static void ask(struct quotas *s, struct quota *q, const struct policy *p, struct script_op *op);
static void hurry(struct quotas *s, struct quota *q);
static void report(struct quotas *s, struct quota *q, const struct share_report *r);

static void put_grant(struct quotas *s, struct quota *q, const struct policy *p)
{
	struct script_op op = {.kind = SCRIPT_SHARE_READ, .grant = &q->grant};

	ask(s, q, p, &op);
}

/* Redis has read it, or a newer one. Another may have come meanwhile. */
static void grant_is_read(struct quota *q, uint64_t clock, uint64_t seq)
{
	if (q->grant.clock < clock || (q->grant.clock == clock && q->grant.seq <= seq))
		q->grant.seq = 0;
}

/* Where several agents report, one does so to Kafka, and puts grants into Redis at once. */
static void on_reported(struct quotas *s, struct quota *q, const struct script_share *said,
			bool hurried)
{
	const struct policy *p = policy_of(s, quota_policy(q));

	q->is_reporter = said->reporter;
	if (hurried && !q->is_reported)
		q->hurries = false;
	if (said->reporter || hurried)
		report(s, q, &said->report);
	if (q->grant.seq == 0)
		return;
	grant_is_read(q, said->report.clock, said->report.seq);
	if (q->grant.seq > 0 && p != NULL)
		put_grant(s, q, p);
}

static void on_answer(kova_status status, const struct script_answer *answer, void *data)
{
	struct question *question = data;
	struct quotas *s = question->quotas;
	struct quota *q = question->quota;
	struct question asked = *question;
	struct script_share share;
	int grown;

	free(question);
	hold(q, -1);
	if (status != KOVA_OK || s->owner == NULL || script_share_parse(answer, &share) != KOVA_OK)
		return;
	name_window(s, q, &share);
	grown = note_share(s, q, &share);
	if (grown > 0 && q->demand > 0)
		tell_waiters(s, q);
	if (asked.seq == 0) {
		on_reported(s, q, &share, asked.hurries);
	} else {
		s->numbers.applied += answer->status == SCRIPT_ALLOWED;
		q->hurries |= grown < 0 && q->is_reporter;
		grant_is_read(q, asked.clock, asked.seq);
	}
	hurry(s, q);
}

static void ask(struct quotas *s, struct quota *q, const struct policy *p, struct script_op *op)
{
	struct question *question = malloc(sizeof *question);

	if (question == NULL)
		return;
	*question = (struct question){
		.quotas = s, .quota = q, .hurries = op->kind == SCRIPT_SHARE_REPORT && q->hurries};
	if (op->kind == SCRIPT_SHARE_READ) {
		question->clock = op->grant->clock;
		question->seq = op->grant->seq;
	}
	hold(q, 1);
	quota_ask(s->owner->engine, p, quota_root(q), op, on_answer, question);
}

/*
 * It falls by half an interval, so that what comes in bursts has a share between them; a region that says 0 lends its floor, and has
 * it back only when its promise is over.
 */
static void note_demand(const struct quotas *s, struct quota *q, uint32_t demand)
{
	uint32_t least = uv_now(s->loop) < q->asked_ms + LENDS_AFTER_MS ? 1 : 0;

	if (q->asked_ms == 0)
		least = 0;
	if (demand < q->demand / 2)
		demand = q->demand / 2;
	q->demand = demand > least ? demand : least;
}

static const struct limit *limit_of(const struct quotas *s, const struct quota *q,
				    const struct policy *p)
{
	return quota_limit(control_catalogue(s->owner->control), p, quota_root(q),
			   (int64_t)(clock_read().wall_us / 1000));
}

static void ask_report(struct quotas *s, struct quota *q, const struct policy *p)
{
	struct script_op op = {
		.kind = SCRIPT_SHARE_REPORT,
		.asked = {.agent = s->agent,
			  .demand = q->demand,
			  .keep_us = (DEMAND_INTERVALS * s->every_ms + DEMAND_SPARE_MS) * 1000}};

	ask(s, q, p, &op);
}

/* Its report, if it hurries, and nothing of it is on its way. */
static void hurry(struct quotas *s, struct quota *q)
{
	const struct policy *p = q->hurries && q->held == 0 ? policy_of(s, quota_policy(q)) : NULL;

	if (p != NULL)
		ask_report(s, q, p);
}

/* ---- Kafka ---- */

/* The producer's other records of the topic are told of by pointers that are even. */
static void *opaque_of(struct quota *q)
{
	return (char *)q + 1;
}

bool quotas_delivered(struct quotas *s, void *opaque)
{
	if (((uintptr_t)opaque & 1) == 0)
		return false;
	struct quota *q = (struct quota *)(void *)((char *)opaque - 1);

	q->is_reported = false;
	hold(q, -1);
	hurry(s, q);
	return true;
}

/* While the last one waits for a broker there is none. One that is lost is followed by the next. */
static void report(struct quotas *s, struct quota *q, const struct share_report *r)
{
	const struct slice policy = quota_policy(q), root = quota_root(q);
	const struct share_quota of = {slice_of(s->conf->region), policy, root};
	const struct edge_regions *regions = &s->conf->regions;
	struct share_report says = *r;
	uint32_t least = engine_least_version(s->owner->engine);
	char key[KEY_BYTES_MAX], hlc[HLC_TEXT_MAX];
	int hlc_len =
		snprintf(hlc, sizeof hlc, "%" PRIu64, hlc_now(s->hlc, clock_read().wall_us / 1000));
	const struct kafka_header headers[] = {
		{"schema", SLICE(SHARE_REPORT_SCHEMA)},
		{"region", slice_of(s->conf->region)},
		{"agent", slice_of(s->conf->node)},
		{"hlc", {hlc, (size_t)hlc_len}},
	};
	struct kafka_record record = {.topic = USAGE_TOPIC,
				      .key = {key, policy.len + 1 + root.len},
				      .headers = headers,
				      .n_headers = sizeof headers / sizeof headers[0],
				      .opaque = opaque_of(q)};

	buf_clear(&s->value);
	/* Not before the last agent of an earlier version is gone, by whose floors a share that Redis forgot would begin. */
	if (says.floors > least)
		says.floors = least;
	says.floor = says.floors == regions->version ? regions->of[regions->own].floor_ppm + 1 : 0;
	share_report_write(&of, &says, &s->value);
	if (q->is_reported || buf_failed(&s->value) || record.key.len > sizeof key)
		return;
	record.value = buf_slice(&s->value);
	memcpy(key, policy.ptr, policy.len);
	key[policy.len] = '/';
	memcpy(key + policy.len + 1, root.ptr, root.len);
	if (kafka_produce(s->producer, &record) != KOVA_OK)
		return;
	q->is_reported = true;
	hold(q, 1);
	s->numbers.reports++;
}

/* ---- Turns ---- */

static bool is_of_use(const struct quota *q, uint64_t now_ms)
{
	uint64_t last_ms = q->asked_ms > q->follows_ms ? q->asked_ms : q->follows_ms;

	return now_ms <= last_ms + QUOTAS_LATELY_MS;
}

static void turn(struct quotas *s, struct quota *q, uint64_t now_ms)
{
	const struct policy *p = policy_of(s, quota_policy(q));
	uint64_t asked = 0;

	quota_table_turn(s->table, q, now_ms);
	if (p == NULL || !is_of_use(q, now_ms)) {
		if (!q->busy)
			quota_table_remove(s->table, q);
		return;
	}
	if (q->held > q->is_reported) /* the last question has no answer yet */
		return;
	if (quota_table_measure(s->table, q, &asked))
		note_demand(s, q, quota_demand(p, limit_of(s, q, p), q->rate, asked));
	ask_report(s, q, p);
}

static void on_timer(uv_timer_t *timer)
{
	struct quotas *s = timer->data;
	uint64_t now_ms = uv_now(s->loop);
	/* Twice as many as there would be if all were spread evenly. */
	size_t most = 1 + 2 * quota_table_count(s->table) * s->tick_ms / s->every_ms;
	struct quota *q;

	while (most-- > 0 && (q = quota_table_next(s->table)) != NULL &&
	       (q->turn_ms == 0 || now_ms >= q->turn_ms + s->every_ms))
		turn(s, q, now_ms);
	if (quota_table_count(s->table) == 0)
		uv_timer_stop(timer);
}

/* There is something to do. */
static void wake(struct quotas *s)
{
	if (s->owner != NULL && !uv_is_active((uv_handle_t *)&s->timer))
		uv_timer_start(&s->timer, on_timer, s->tick_ms, s->tick_ms);
}

/* ---- What is heard ---- */

void quotas_asked(struct quotas *s, struct slice policy, struct slice root, uint64_t cost)
{
	struct quota *q = policy_of(s, policy) != NULL ? quota_get(s, policy, root) : NULL;

	if (q == NULL)
		return;
	quota_table_asked(s->table, q, cost);
	quota_table_use(s->table, q);
	q->asked_ms = uv_now(s->loop);
	wake(s);
}

void quotas_round(struct quotas *s)
{
	quota_table_round(s->table, clock_read().boot_us);
}

void quotas_untold(struct quotas *s, struct slice policy, struct slice root, uint64_t cost)
{
	const struct policy *p = policy_of(s, policy);
	struct quota *q = p != NULL ? quota_get(s, policy, root) : NULL;

	if (q == NULL || q->demand > 0) /* it is told of */
		return;
	quota_table_use(s->table, q);
	q->asked_ms = uv_now(s->loop);
	q->demand = quota_first_demand(&s->conf->regions, p, limit_of(s, q, p), cost);
	q->hurries = true;
	wake(s);
	hurry(s, q);
}

void quotas_follow(struct quotas *s, struct slice policy, struct slice root)
{
	struct quota *q = policy_of(s, policy) != NULL ? quota_get(s, policy, root) : NULL;

	if (q == NULL)
		return;
	quota_table_use(s->table, q);
	q->follows_ms = uv_now(s->loop);
	wake(s);
}

bool quotas_grant(struct quotas *s, const struct share_quota *of, const struct share_grant *g)
{
	const struct policy *p = policy_of(s, of->policy);
	struct quota *q = p != NULL ? quota_table_find(s->table, of->policy, of->root) : NULL;

	/* A region that has forgotten its grants has another clock: then their numbers may be smaller. */
	if (q == NULL || g->clock < q->newest_clock ||
	    (g->clock == q->newest_clock && g->seq <= q->newest_seq))
		return false;
	q->grant = *g;
	q->newest_clock = g->clock;
	q->newest_seq = g->seq;
	q->granted_ms = uv_now(s->loop);
	q->duration_us = g->duration_us;
	if (q->is_reporter || (q->demand > 0 && compare_parts(g->parts, g->whole, q->share.parts,
							      q->share.whole) > 0))
		put_grant(s, q, p);
	return true;
}

/* ---- Numbers ---- */

/* A grant that has ended without news, and goes on here. */
static bool goes_on(const struct quotas *s, const struct quota *q)
{
	return q->share.granted &&
	       uv_now(s->loop) > q->granted_ms + q->duration_us / 1000 + SILENT_SPARE_MS;
}

static struct quotas_policy *policy_place(struct quotas_numbers *n, const struct policy *p)
{
	unsigned i = 0;

	while (i < n->n_policies && n->policies[i].name != p->stats->name)
		i++;
	if (i == QUOTAS_POLICIES_MAX)
		return NULL;
	if (i == n->n_policies)
		n->policies[n->n_policies++] =
			(struct quotas_policy){.name = p->stats->name, .loose = p->global.loose};
	return &n->policies[i];
}

static enum quota_state state_of(const struct quota *q, uint64_t now_ms)
{
	if (q->share.granted)
		return QUOTA_GRANTED;
	if (q->asked_ms + CLIPPED_MS > now_ms && q->since_ms + CLIPPED_MS < now_ms)
		return QUOTA_CLIPPED;
	return q->share.lent ? QUOTA_LENT : QUOTA_FLOOR;
}

static void add_quota(const struct quotas *s, const struct quota *q, const struct policy *p,
		      struct quotas_numbers *n)
{
	struct quotas_policy *of = policy_place(n, p);
	double share = (double)q->share.parts / q->share.whole;
	enum quota_state state = state_of(q, uv_now(s->loop));

	n->clipped += state == QUOTA_CLIPPED;
	if (of == NULL)
		return;
	of->roots[state]++;
	of->share += share;
	of->demand += (double)q->demand / p->global.whole;
	if (p->global.loose && goes_on(s, q)) {
		double excess = share - (double)q->share.floor / q->share.whole;

		of->excess = excess > of->excess ? excess : of->excess;
	}
}

void quotas_numbers(const struct quotas *s, struct quotas_numbers *ret_numbers)
{
	*ret_numbers = s->numbers;
	ret_numbers->on = true;
	ret_numbers->quotas = quota_table_count(s->table);
	for (const struct quota *q = quota_table_next(s->table); q != NULL; q = q->later) {
		const struct policy *p = policy_of(s, quota_policy(q));

		if (p != NULL && q->share.said_ms > 0 && q->share.whole > 0)
			add_quota(s, q, p, ret_numbers);
	}
	for (unsigned i = 0; i < ret_numbers->n_policies; i++) {
		struct quotas_policy *of = &ret_numbers->policies[i];
		uint64_t n = 0;

		for (int state = 0; state < QUOTA_STATES; state++)
			n += of->roots[state];
		of->share /= (double)n;
		of->demand /= (double)n;
	}
}

/* ---- Life ---- */

struct quotas *quotas_new(uv_loop_t *loop, struct kafka_producer *producer, struct hlc *hlc,
			  const struct edge_conf *conf)
{
	struct quotas *s = calloc(1, sizeof *s);

	if (s == NULL)
		return NULL;
	s->loop = loop;
	s->producer = producer;
	s->hlc = hlc;
	s->conf = conf;
	s->every_ms = conf->kafka.report_ms;
	s->tick_ms = s->every_ms / TICKS > TICK_MIN_MS ? s->every_ms / TICKS : TICK_MIN_MS;
	s->table = quota_table_new(QUOTAS_MAX);
	if (s->table == NULL ||
	    getrandom(&s->agent, sizeof s->agent, 0) != (ssize_t)sizeof s->agent) {
		quota_table_free(s->table);
		free(s);
		return NULL;
	}
	s->agent |= 1;
	uv_timer_init(loop, &s->timer);
	s->timer.data = s;
	quotas_round(s);
	return s;
}

void quotas_start(struct quotas *s, struct agent *owner)
{
	s->owner = owner;
}

void quotas_stop(struct quotas *s)
{
	s->owner = NULL;
	uv_timer_stop(&s->timer);
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

void quotas_free(struct quotas *s)
{
	if (s == NULL)
		return;
	quota_table_free(s->table);
	buf_release(&s->value);
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}
