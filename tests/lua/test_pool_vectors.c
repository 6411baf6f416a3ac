/* Replays tests/vectors/pools.json through the pool script in a real Redis and through its twin in C. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool_pair.h"

#define START UINT64_C(4102444800000000) /* the year 2100: keys don't expire meanwhile */

enum { ENDPOINTS_MAX = 8, TEXT_MAX = 512 };

static const char *const kind_names[] = {"proxy", "key"};
static const char *const select_names[] = {"round-robin", "weighted", "least-loaded"};
static const char *const event_names[] = {"",        "cooled", "returned",  "disabled", "paused",
					  "resumed", "held",   "escalated", "capped",   "extended"};
static const char *const reported_names[] = {"no ticket", "counted", "not counted"};

static json_t *document;

static void load(void)
{
	const char *directory = getenv("KOVA_SOURCE_DIR");
	char path[4096];
	json_error_t error;

	snprintf(path, sizeof path, "%s/tests/vectors/pools.json",
		 directory == NULL ? "." : directory);
	document = json_load_file(path, 0, &error);
	cr_assert_not_null(document, "%s:%d: %s", path, error.line, error.text);
}

static void unload(void)
{
	json_decref(document);
}

TestSuite(pool_vectors, .init = load, .fini = unload);

/* ---- Reading ---- */

static double real(const json_t *object, const char *key, double otherwise)
{
	const json_t *v = json_object_get(object, key);

	return v != NULL ? json_number_value(v) : otherwise;
}

static uint64_t whole(const json_t *object, const char *key, uint64_t otherwise)
{
	return (uint64_t)real(object, key, (double)otherwise);
}

static uint64_t us(const json_t *object, const char *key, uint64_t otherwise_ms)
{
	return 1000 * whole(object, key, otherwise_ms);
}

static struct slice text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? slice_of(text) : (struct slice){0};
}

static unsigned name_of(const json_t *object, const char *key, const char *const *names, unsigned n)
{
	struct slice text = text_of(object, key);
	unsigned i = 0;

	while (text.len > 0 && i < n && !slice_equal(text, slice_of(names[i])))
		i++;
	cr_assert_lt(i, n, "%s", key);
	return i;
}

static struct pool_rule rule_of(const json_t *v)
{
	return (struct pool_rule){.kind = (enum pool_kind)name_of(v, "kind", kind_names, 2),
				  .select = (enum pool_select)name_of(v, "select", select_names, 3),
				  .window = (uint8_t)whole(v, "window", 10),
				  .threshold = (uint8_t)whole(v, "threshold", 5),
				  .escalate_after = (uint8_t)whole(v, "after", 3),
				  .escalate_of = (uint8_t)whole(v, "of", 10),
				  .direct = json_is_true(json_object_get(v, "direct")),
				  .exclusive = json_is_true(json_object_get(v, "exclusive")),
				  .base = us(v, "base", 30000),
				  .max = us(v, "max", 900000),
				  .trial = us(v, "trial", 120000),
				  .ramp = us(v, "ramp", 0),
				  .lease = us(v, "lease", 120000),
				  .floor_active = whole(v, "floor", 1),
				  .floor_pause = us(v, "pause", 30000),
				  .blame_within = us(v, "within", 10000),
				  .blame_min = whole(v, "min", 3),
				  .blame_hold = us(v, "hold", 30000),
				  .escalate_hold = us(v, "escalated", 600000),
				  .session_ttl = us(v, "ttl", 600000),
				  .report = us(v, "report", 60000),
				  .every = us(v, "every", 10000),
				  .jitter = real(v, "jitter", 0),
				  .blame_share = real(v, "share", 0.5),
				  .max_out = real(v, "max_out", 0.5)};
}

static size_t endpoints_of(const json_t *v, struct pool_endpoint *ret)
{
	const json_t *list = json_object_get(v, "endpoints"), *e;
	size_t i;

	cr_assert_leq(json_array_size(list), ENDPOINTS_MAX);
	json_array_foreach(list, i, e) {
		const char *id = json_string_value(e);

		ret[i] = (struct pool_endpoint){.id = id != NULL ? slice_of(id) : text_of(e, "id"),
						.account = text_of(e, "group"),
						.weight = real(e, "weight", 1),
						.slots = (uint32_t)whole(e, "slots", 0),
						.tier = (uint8_t)whole(e, "tier", 1)};
	}
	return json_array_size(list);
}

/* A token bucket, if the vector has one of this name. */
static const struct limit *limit_of(const json_t *v, const char *name, struct limit *l)
{
	const json_t *of = json_object_get(v, name);

	*l = (struct limit){.limit = whole(of, "limit", 0),
			    .per_us = us(of, "per", 1000),
			    .burst = whole(of, "burst", 1)};
	cr_assert(limit_init(l) == KOVA_OK);
	return of != NULL ? l : NULL;
}

static struct pool_op op_of(const json_t *step, const struct pool_op_permits *permits)
{
	struct pool_op op = {.kind = POOL_OP_NEXT};

	if (json_object_get(step, "report") != NULL) {
		op.kind = POOL_OP_REPORT;
		op.serial = whole(step, "report", 0);
		op.report.outcome = (enum pool_outcome)name_of(step, "outcome", pool_outcome_names,
							       POOL_OUTCOMES);
		op.report.status = (uint16_t)whole(step, "status", 0);
		op.report.hint_us = us(step, "retry_after", 0);
	} else if (json_object_get(step, "undo") != NULL) {
		op.kind = POOL_OP_UNDO;
		op.serial = whole(step, "undo", 0);
	} else {
		op.permits = *permits;
		op.next.target = text_of(step, "target");
		op.next.session = text_of(step, "session");
		op.next.tier = (uint8_t)whole(step, "tier", 0);
	}
	return op;
}

/* ---- Writing ---- */

struct line {
	char text[TEXT_MAX];
	size_t len;
};

static void __attribute__((format(printf, 2, 3))) add(struct line *l, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	l->len += (size_t)vsnprintf(l->text + l->len, TEXT_MAX - l->len, format, arguments);
	va_end(arguments);
	cr_assert_lt(l->len, TEXT_MAX);
}

static void add_us(struct line *l, uint64_t amount_us)
{
	add(l, " %.10g", (double)amount_us / 1000);
}

static void add_id(struct line *l, const struct pool_batch *b, uint32_t endpoint)
{
	const struct slice id = b->endpoints[endpoint].id;

	add(l, "%.*s", (int)id.len, id.ptr);
}

static void add_answer(struct line *l, const struct pool_batch *b, const struct pool_op_answer *a)
{
	const struct pool_given *g = &a->given;

	if (b->op->kind == POOL_OP_REPORT) {
		add(l, "%s", reported_names[a->reported]);
	} else if (b->op->kind == POOL_OP_NEXT && g->pause != POOL_NOT_PAUSED) {
		add(l, "%s", pool_pause_names[g->pause]);
		if (g->retry_us >= 0)
			add_us(l, (uint64_t)g->retry_us);
	} else if (b->op->kind == POOL_OP_NEXT) {
		add_id(l, b, g->endpoint);
		add(l, "%s", g->trial ? " trial" : "");
		if (g->moved)
			add(l, " moved %u", g->moves);
	}
	for (size_t i = 0; i < a->n_tries; i++)
		if (!a->try[i].allowed) {
			add(l, " without ");
			add_id(l, b, a->try[i].endpoint);
			add_us(l, (uint64_t)a->try[i].wait_us);
		}
}

static void add_event(struct line *l, const struct pool_batch *b, const struct pool_event *e)
{
	add(l, "%s%s", l->len > 0 ? "; " : "", event_names[e->kind]);
	if (e->kind != POOL_EVENT_PAUSED && e->endpoint != POOL_NO_ENDPOINT) {
		add(l, " ");
		add_id(l, b, e->endpoint);
	}
	if (e->kind == POOL_EVENT_ESCALATED)
		add(l, " %u", (unsigned)e->amount);
	else if (e->amount > 0)
		add_us(l, e->amount);
	if (e->target.len > 0)
		add(l, " %.*s", (int)e->target.len, e->target.ptr);
}

/* What was answered, and what was told. */
static struct line line_of(const struct pool_batch *b, const struct pool_answers *a)
{
	struct line l = {.len = 0};

	add_answer(&l, b, &a->op[0]);
	for (size_t i = 0; i < a->n_events; i++)
		add_event(&l, b, &a->event[i]);
	return l;
}

/* ---- Replaying ---- */

static void replay(struct pool_pair *pair, const json_t *v)
{
	static struct pool_answers lua, c;
	struct pool_rule rule = rule_of(json_object_get(v, "rule"));
	struct pool_endpoint endpoints[ENDPOINTS_MAX];
	struct limit own, common;
	const struct pool_op_permits permits = {.own = limit_of(v, "own", &own),
						.common = limit_of(v, "common", &common),
						.own_cost = 1,
						.common_cost = 1};
	struct pool_op op;
	struct pool_batch b = {.rule = &rule,
			       .endpoints = endpoints,
			       .n = endpoints_of(v, endpoints),
			       .luck = real(v, "luck", 0.5),
			       .op = &op,
			       .n_ops = 1};
	const json_t *step;
	size_t i;

	pool_pair_clear(pair);
	json_array_foreach(json_object_get(v, "steps"), i, step) {
		const char *name = json_string_value(json_object_get(v, "name"));
		const char *is = json_string_value(json_object_get(step, "is"));

		op = op_of(step, &permits);
		b.now_us = START + us(step, "at", 0);
		pool_pair_run(pair, &b, &lua, &c);
		cr_expect_str_eq(line_of(&b, &lua).text, is, "%s, step %zu, by the script: %s",
				 name, i, line_of(&b, &lua).text);
		cr_expect_str_eq(line_of(&b, &c).text, is, "%s, step %zu, in C: %s", name, i,
				 line_of(&b, &c).text);
	}
	cr_expect_gt(i, 0);
}

Test(pool_vectors, by_the_script_and_in_c)
{
	struct pool_pair pair;
	const json_t *v;
	size_t i;

	pool_pair_start(&pair);
	json_array_foreach(json_object_get(document, "vectors"), i, v)
		replay(&pair, v);
	pool_pair_stop(&pair);
	cr_assert_geq(i, 12);
}
