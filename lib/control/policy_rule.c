/*
 * What a policy or an override says, checked. Which fields go with which algorithm is said once, in
 * `algorithms`; whatever does not is an error that says where it belongs.
 */
#include "control/policy_rule.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "control/policy_stats.h"
#include "control/weights.h"
#include "core/duration.h"
#include "core/lease.h"
#include "core/rls_key.h"
#include "core/share_plan.h"
#include "core/shares.h"
#include "io/calendar_zone.h"
#include "io/policy_fields.h"

enum { LEVELS_MAX = 8, ENVOY_KEYS_MAX = 16 };
enum { GLOBAL_LOOSE = 1, WEIGHTS_HISTORY = 1 };

#define FIELD(name) (1u << FIELD_##name)
enum { FIELD_PER, FIELD_BURST, FIELD_TZ, FIELD_HOLD, FIELD_PLAN, FIELD_N };

static const char *const field_names[FIELD_N] = {
	[FIELD_PER] = "per",   [FIELD_BURST] = "burst", [FIELD_TZ] = "tz",
	[FIELD_HOLD] = "hold", [FIELD_PLAN] = "plan",
};

static const char *const field_owners[FIELD_N] = {
	[FIELD_PER] = "every algorithm but `concurrency`",
	[FIELD_BURST] = "`token-bucket` and `gcra`",
	[FIELD_TZ] = "`calendar`",
	[FIELD_HOLD] = "`concurrency`",
	[FIELD_PLAN] = "`token-bucket`",
};

/* The fields that each algorithm has beside `limit`. */
static const unsigned algorithm_fields[ALGORITHM_N] = {
	[ALGORITHM_TOKEN_BUCKET] = FIELD(PER) | FIELD(BURST) | FIELD(PLAN),
	[ALGORITHM_GCRA] = FIELD(PER) | FIELD(BURST),
	[ALGORITHM_SLIDING_WINDOW] = FIELD(PER),
	[ALGORITHM_SLIDING_COUNTER] = FIELD(PER),
	[ALGORITHM_CALENDAR] = FIELD(PER) | FIELD(TZ),
	[ALGORITHM_CONCURRENCY] = FIELD(HOLD),
};

/* What is being read: where errors go, and what all levels of the policy have in common. */
struct reading {
	struct conf_reader *r;
	const struct conf_path *path; /* of the policy */
	const struct policy_fields *fields;
};

static enum algorithm algorithm_of(const struct reading *in)
{
	return in->fields->algorithm >= 0 ? (enum algorithm)in->fields->algorithm
					  : ALGORITHM_TOKEN_BUCKET;
}

/* An error for each of `given` that the algorithm has not. */
static void fail_misplaced(struct conf_reader *r, const struct conf_path *path,
			   enum algorithm algorithm, unsigned given)
{
	for (unsigned i = 0; i < FIELD_N; i++)
		if ((given & ~algorithm_fields[algorithm] & 1u << i) != 0)
			conf_fail(r, path, field_names[i], CONF_AT_KEY,
				  "`%s` is for %s; this is `%s`", field_names[i], field_owners[i],
				  policy_algorithm_names[algorithm]);
}

static unsigned level_given(const struct level_fields *f)
{
	return (f->per != NULL ? FIELD(PER) : 0) | (f->burst != CONF_ABSENT ? FIELD(BURST) : 0);
}

/* `per` of all but the calendar: a duration. */
static bool per_read(struct conf_reader *r, const struct conf_path *path, const json_t *per,
		     int64_t *ret_ms)
{
	struct slice text = {json_string_value(per), json_string_length(per)};
	uint64_t ms;

	if (text.ptr == NULL || duration_parse(text, &ms) != KOVA_OK ||
	    (int64_t)ms < POLICY_PER_MIN_MS || (int64_t)ms > POLICY_PER_MAX_MS) {
		conf_fail(r, path, "per", CONF_AT_VALUE,
			  "`per` must be a duration as \"250ms\" \"10s\" \"5m\" \"1h\" \"7d\" "
			  "from 1ms to 400d");
		return false;
	}
	*ret_ms = (int64_t)ms;
	return true;
}

static bool edges_read(const struct reading *in, const struct conf_path *path, const json_t *per,
		       struct limit *l)
{
	static const char *const units[] = {"day", "week", "month", NULL};
	const char *text = json_string_value(per), *tz = in->fields->tz;
	int unit = 0;

	while (text != NULL && units[unit] != NULL && strcmp(units[unit], text) != 0)
		unit++;
	if (text == NULL || units[unit] == NULL) {
		conf_fail(in->r, path, "per", CONF_AT_VALUE,
			  "`per` of a calendar must be one of `day` `week` `month`");
		return false;
	}
	kova_status status =
		calendar_zone_edges((enum calendar_unit)unit, tz != NULL ? tz : "UTC", &l->edges);

	if (status == KOVA_ENOTFOUND)
		conf_fail(in->r, in->path, "tz", CONF_AT_VALUE,
			  "`tz` must be a zone of the IANA time zone database as "
			  "\"Europe/Berlin\"; there is no `%.64s`",
			  tz);
	return status == KOVA_OK;
}

void policy_set_rate(struct limit *l, int64_t limit, int64_t per_ms, int64_t burst)
{
	bool bursts = (algorithm_fields[l->algorithm] & FIELD(BURST)) != 0;

	l->limit = (uint64_t)limit;
	l->per_us = (uint64_t)per_ms * 1000;
	if (bursts)
		l->burst = burst != CONF_ABSENT ? (uint64_t)burst
						: limit_default_burst(l->limit, l->per_us);
}

/* A plan: `slots` at once, each for `hold` at most, at a rate that keeps them just busy. */
kova_status policy_set_plan(struct level *level, int64_t slots, int64_t hold_ms)
{
	level->has_slots = true;
	level->limit.algorithm = ALGORITHM_TOKEN_BUCKET;
	policy_set_rate(&level->limit, slots, hold_ms, CONF_ABSENT);
	level->slots = (struct limit){.algorithm = ALGORITHM_CONCURRENCY,
				      .limit = (uint64_t)slots,
				      .hold_us = (uint64_t)hold_ms * 1000};
	kova_status status = limit_init(&level->limit);

	return status == KOVA_OK ? limit_init(&level->slots) : status;
}

static bool fail_range(struct conf_reader *r, const struct conf_path *path)
{
	conf_fail(
		r, path, NULL, CONF_AT_VALUE,
		"burst × per ÷ limit is more than 100 years: `burst` or `per` must be smaller, or "
		"`limit` larger");
	return false;
}

/* The limit of one level from its own fields, at `path`. */
static bool level_read(const struct reading *in, const struct conf_path *path,
		       const struct level_fields *f, struct level *level)
{
	struct limit *l = &level->limit;
	size_t errors = in->r->n_errors;
	int64_t per_ms = 0;

	l->algorithm = algorithm_of(in);
	if (in->fields->scope == SCOPE_GLOBAL && l->algorithm == ALGORITHM_GCRA)
		l->algorithm = ALGORITHM_TOKEN_BUCKET; /* what it admits is the same */
	fail_misplaced(in->r, path, l->algorithm, level_given(f));
	if (f->limit == CONF_ABSENT)
		conf_fail(in->r, path, NULL, CONF_AT_VALUE, "`limit` is missing%s",
			  path == in->path ? ", or `levels`, or `plan`" : "");
	if ((algorithm_fields[l->algorithm] & FIELD(PER)) != 0 && f->per == NULL)
		conf_fail(in->r, path, NULL, CONF_AT_VALUE,
			  "`per` is missing: what `limit` is for");
	if (in->r->n_errors != errors)
		return false;
	if (l->algorithm == ALGORITHM_CONCURRENCY) {
		l->limit = (uint64_t)f->limit;
		l->hold_us = (uint64_t)in->fields->hold * 1000;
	} else if (l->algorithm == ALGORITHM_CALENDAR) {
		l->limit = (uint64_t)f->limit;
		if (!edges_read(in, path, f->per, l))
			return false;
	} else {
		if (!per_read(in->r, path, f->per, &per_ms))
			return false;
		policy_set_rate(l, f->limit, per_ms, f->burst);
	}
	return limit_init(l) == KOVA_OK || fail_range(in->r, path);
}

/* `limit`, `per` and `burst` of the policy itself, where `instead` says them. */
static void fail_own_limit(const struct reading *in, const char *instead)
{
	const struct level_fields *f = &in->fields->level;
	const struct {
		const char *name;
		bool given;
	} own[] = {{"limit", f->limit != CONF_ABSENT},
		   {"per", f->per != NULL},
		   {"burst", f->burst != CONF_ABSENT}};

	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		if (own[i].given)
			conf_fail(in->r, in->path, own[i].name, CONF_AT_KEY,
				  "`%s` and `%s` exclude each other", own[i].name, instead);
}

static bool plan_read(const struct reading *in, struct level *level)
{
	const struct conf_path path = {.up = in->path, .key = "plan"};
	size_t errors = in->r->n_errors;
	struct plan_fields plan;

	fail_own_limit(in, "plan");
	if (json_is_object(in->fields->plan))
		conf_read(in->r, &path, in->fields->plan, &plan_table, &plan);
	else
		conf_fail(in->r, &path, NULL, CONF_AT_VALUE,
			  "`plan` must be an object as { \"slots\": 50, \"hold\": \"10s\" }");
	if (in->r->n_errors != errors)
		return false;
	return policy_set_plan(level, plan.slots, plan.hold) == KOVA_OK || fail_range(in->r, &path);
}

static bool name_taken(const struct level *levels, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(levels[i].name, name) == 0)
			return true;
	return false;
}

/* What weight and ceiling make of the level `index`, at `path`. */
static void share_read(const struct reading *in, const struct conf_path *path, size_t index,
		       const struct level_fields *f, struct level *level)
{
	const char *named = f->weight != CONF_ABSENT ? "weight" : "ceiling";

	if (f->weight == CONF_ABSENT && f->ceiling == CONF_ABSENT)
		return;
	if (algorithm_of(in) != ALGORITHM_TOKEN_BUCKET)
		conf_fail(in->r, path, named, CONF_AT_KEY,
			  "`%s` is for `token-bucket`; this is `%s`", named,
			  policy_algorithm_names[algorithm_of(in)]);
	else if (index == 0)
		conf_fail(in->r, path, named, CONF_AT_KEY,
			  "`%s` is for a level below another: the first has none to share", named);
	else if (f->weight == CONF_ABSENT)
		conf_fail(in->r, path, named, CONF_AT_KEY, "`ceiling` goes with `weight`");
	else if (in->fields->weights != WEIGHTS_HISTORY)
		level->weight = (uint32_t)f->weight;
	else if (f->weight > SHARE_WEIGHT_MAX / WEIGHTS_ONE)
		conf_fail(in->r, path, "weight", CONF_AT_VALUE,
			  "with `weights` `history`, `weight` must be from 1 to %d",
			  SHARE_WEIGHT_MAX / WEIGHTS_ONE);
	else
		level->weight = (uint32_t)f->weight * WEIGHTS_ONE;
}

/* With a ceiling, that is what bounds a key; the burst that goes with the lower of both is enough. */
static void ceiling_apply(struct level_fields *f)
{
	struct slice text = {json_string_value(f->per), json_string_length(f->per)};
	int64_t lower = f->limit < f->ceiling ? f->limit : f->ceiling;
	uint64_t per_ms;

	if (f->ceiling == CONF_ABSENT || f->limit == CONF_ABSENT)
		return;
	if (f->burst == CONF_ABSENT && text.ptr != NULL &&
	    duration_parse(text, &per_ms) == KOVA_OK && per_ms > 0)
		f->burst = (int64_t)limit_default_burst((uint64_t)lower, per_ms * 1000);
	f->limit = f->ceiling;
}

static void levels_read(const struct reading *in, struct policy_rule *rule)
{
	const struct conf_path list = {.up = in->path, .key = "levels"};
	struct level_fields f;
	size_t i;
	json_t *value;

	fail_own_limit(in, "levels");
	json_array_foreach(in->fields->levels, i, value) {
		const struct conf_path path = {.up = &list, .index = i};
		size_t errors = in->r->n_errors;

		if (!json_is_object(value))
			continue; /* an error already */
		conf_read(in->r, &path, value, &level_table, &f);
		if (in->r->n_errors != errors)
			continue;
		if (name_taken(rule->levels, i, f.name))
			conf_fail(in->r, &path, "name", CONF_AT_VALUE,
				  "two levels have the name `%s`", f.name);
		strcpy(rule->levels[i].name, f.name);
		share_read(in, &path, i, &f, &rule->levels[i]);
		ceiling_apply(&f);
		level_read(in, &path, &f, &rule->levels[i]);
	}
}

/* How many levels the JSON has; 0 after an error. */
static size_t levels_count(const struct reading *in)
{
	size_t n = json_array_size(in->fields->levels);

	if (in->fields->levels == NULL)
		return 1;
	if (n >= 1 && n <= LEVELS_MAX)
		return n;
	conf_fail(in->r, in->path, "levels", CONF_AT_VALUE,
		  "`levels` must be 1 to %d levels, not %zu", LEVELS_MAX, n);
	return 0;
}

/* `none`, `aof` or `replica:N`. */
static bool durability_parse(const char *text, struct durability *ret_durability)
{
	static const char replica[] = "replica:";
	unsigned n = 0;

	*ret_durability = (struct durability){.aof = strcmp(text, "aof") == 0};
	if (ret_durability->aof || strcmp(text, "none") == 0)
		return true;
	if (strncmp(text, replica, strlen(replica)) != 0)
		return false;
	text += strlen(replica);
	if (*text == '0') /* one way only to write a number */
		return false;
	while (*text >= '0' && *text <= '9' && n <= DURABILITY_REPLICAS_MAX)
		n = n * 10 + (unsigned)(*text++ - '0');
	ret_durability->replicas = (uint8_t)n;
	return *text == '\0' && n >= 1 && n <= DURABILITY_REPLICAS_MAX;
}

static void durability_read(const struct reading *in, struct durability *ret_durability)
{
	const char *text = json_string_value(in->fields->durability);

	*ret_durability = (struct durability){0};
	if (in->fields->durability == NULL ||
	    (text != NULL && durability_parse(text, ret_durability)))
		return;
	conf_fail(in->r, in->path, "durability", CONF_AT_VALUE,
		  "`durability` must be `none`, `aof` or `replica:N`, N from 1 to %d",
		  DURABILITY_REPLICAS_MAX);
}

/* `auto`, `off` or an object. */
static void lease_read(const struct reading *in, struct policy *p)
{
	const struct conf_path path = {.up = in->path, .key = "lease"};
	const json_t *value = in->fields->lease;
	const char *text = json_string_value(value);
	struct lease_fields f = {.max = CONF_ABSENT, .ttl = LEASE_TTL_US / 1000};

	if (json_is_object(value))
		conf_read(in->r, &path, value, &lease_table, &f);
	else if (value != NULL &&
		 (text == NULL || (strcmp(text, "auto") != 0 && strcmp(text, "off") != 0)))
		conf_fail(in->r, in->path, "lease", CONF_AT_VALUE,
			  "`lease` must be `auto`, `off` or an object as { \"max\": 1000, \"ttl\": "
			  "\"500ms\" }");
	p->lease.off = text != NULL && strcmp(text, "off") == 0;
	p->lease.automatic = !json_is_object(value);
	p->lease.max = f.max == CONF_ABSENT ? 0 : (uint64_t)f.max;
	p->lease.ttl_us = p->lease.automatic ? LEASE_AUTO_TTL_US : (uint64_t)f.ttl * 1000;
}

static void breaker_read(const struct reading *in, struct policy *p)
{
	const struct conf_path path = {.up = in->path, .key = "breaker"};
	const json_t *value = in->fields->breaker;
	size_t errors = in->r->n_errors;
	struct breaker_fields f = {0};

	if (value == NULL)
		return;
	if (json_is_object(value))
		conf_read(in->r, &path, value, &breaker_table, &f);
	else
		conf_fail(in->r, in->path, "breaker", CONF_AT_VALUE,
			  "`breaker` must be an object as { \"failures\": 5, \"of\": 10, \"open\": "
			  "\"30s\", "
			  "\"trials\": 1 }");
	if (in->r->n_errors != errors)
		return;
	if (f.failures > f.of)
		conf_fail(in->r, &path, NULL, CONF_AT_VALUE, "`failures` must be at most `of`, %d",
			  (int)f.of);
	p->has_breaker = true;
	p->breaker = (struct breaker_rule){.failures = (uint8_t)f.failures,
					   .of = (uint8_t)f.of,
					   .trials = (uint8_t)f.trials,
					   .open_us = (uint64_t)f.open * 1000};
}

static void fail_adaptive(const struct reading *in, const char *field, const char *text)
{
	const struct conf_path path = {.up = in->path, .key = "adaptive"};

	conf_fail(in->r, &path, field, field != NULL ? CONF_AT_VALUE : CONF_AT_KEY, "%s", text);
}

/* What its fields say, given the limit that they are within. */
static void adaptive_fill(const struct reading *in, const struct adaptive_fields *f, int64_t limit,
			  struct adaptive_rule *ret_rule)
{
	int64_t max = f->max != CONF_ABSENT ? f->max : limit;
	int64_t step = max / 50 > 0 ? max / 50 : 1;

	if (max > limit)
		fail_adaptive(in, f->max != CONF_ABSENT ? "max" : NULL,
			      "`max` must be at most the policy's `limit` (of its last level)");
	if (f->min > max)
		fail_adaptive(in, "min", "`min` must be at most `max`");
	if (f->mode == ADAPTIVE_AIMD && f->tolerance != CONF_ABSENT)
		fail_adaptive(in, "tolerance", "`tolerance` is for mode `gradient`");
	*ret_rule = (struct adaptive_rule){
		.mode = (enum adaptive_mode)f->mode,
		.min = (uint32_t)f->min,
		.max = (uint32_t)max,
		.increase = (uint32_t)(f->increase != CONF_ABSENT ? f->increase : step),
		.decrease = (uint8_t)f->decrease,
		.tolerance = (uint16_t)(f->tolerance != CONF_ABSENT ? f->tolerance : 50),
		.window_us = (uint64_t)f->window * 1000};
}

/* After the levels were read. */
static void adaptive_read(const struct reading *in, struct policy *p)
{
	const struct conf_path path = {.up = in->path, .key = "adaptive"};
	const struct level *last = &p->levels[p->n_levels - 1];
	const json_t *value = in->fields->adaptive;
	size_t errors = in->r->n_errors;
	struct adaptive_fields f = {0};

	if (value == NULL)
		return;
	if (algorithm_of(in) != ALGORITHM_TOKEN_BUCKET || last->has_slots)
		conf_fail(in->r, in->path, "adaptive", CONF_AT_KEY,
			  "`adaptive` is for `token-bucket` without a `plan`; this is %s",
			  last->has_slots ? "a plan" : policy_algorithm_names[algorithm_of(in)]);
	else if (json_is_object(value))
		conf_read(in->r, &path, value, &adaptive_table, &f);
	else
		conf_fail(in->r, in->path, "adaptive", CONF_AT_VALUE,
			  "`adaptive` must be an object as { \"mode\": \"aimd\", \"min\": 1, "
			  "\"max\": 100 }");
	if (in->r->n_errors != errors)
		return;
	if (last->limit.limit == 0)
		fail_adaptive(in, NULL, "a `limit` of 0 can't be adapted");
	else
		adaptive_fill(in, &f, (int64_t)last->limit.limit, &p->adaptive);
	p->has_adaptive = true;
}

static bool is_strict(const struct policy_fields *f)
{
	return f->scope == SCOPE_GLOBAL && f->global != GLOBAL_LOOSE;
}

/* What can't be shared out among regions. */
static void global_check(const struct reading *in)
{
	const struct policy_fields *f = in->fields;
	enum algorithm a = algorithm_of(in);

	if (is_strict(f) && f->on_outage >= 0 && f->on_outage != OUTAGE_DENY)
		conf_fail(in->r, in->path, "on_outage", CONF_AT_VALUE,
			  "with scope `global`, `on_outage` must be `deny`, or `global` `loose`: a "
			  "strict limit is not exceeded whatever is away");
	if (a == ALGORITHM_SLIDING_COUNTER || a == ALGORITHM_CONCURRENCY)
		conf_fail(in->r, in->path, "algorithm", CONF_AT_VALUE,
			  "with scope `global`, `algorithm` must be one of `token-bucket` `gcra` "
			  "`sliding-window` `calendar`; this is `%s`",
			  policy_algorithm_names[a]);
	if (f->plan != NULL)
		conf_fail(in->r, in->path, "plan", CONF_AT_KEY,
			  "`plan` and scope `global` exclude each other: permits that are held "
			  "can't be shared out among regions");
	if (f->adaptive != NULL)
		conf_fail(in->r, in->path, "adaptive", CONF_AT_KEY,
			  "`adaptive` and scope `global` exclude each other: each region would "
			  "learn another limit");
}

/* The fields that concern the whole policy. */
static void policy_check(const struct reading *in)
{
	const struct policy_fields *f = in->fields;
	unsigned given = (f->tz != NULL ? FIELD(TZ) : 0) |
			 (f->hold != CONF_ABSENT ? FIELD(HOLD) : 0) |
			 (f->plan != NULL ? FIELD(PLAN) : 0);

	fail_misplaced(in->r, in->path, algorithm_of(in), given);
	if (algorithm_of(in) == ALGORITHM_CONCURRENCY && f->hold == CONF_ABSENT)
		conf_fail(in->r, in->path, NULL, CONF_AT_VALUE,
			  "`hold` is missing: the longest time a permit lives");
	if (f->plan != NULL && f->levels != NULL)
		conf_fail(in->r, in->path, "plan", CONF_AT_KEY,
			  "`plan` and `levels` exclude each other");
	if (f->scope == SCOPE_GLOBAL)
		global_check(in);
	else if (f->global >= 0)
		conf_fail(in->r, in->path, "global", CONF_AT_KEY,
			  "`global` is for scope `global`; this is `%s`",
			  policy_scope_names[f->scope]);
}

static void policy_fill(struct policy_rule *rule, const struct policy_fields *f)
{
	struct policy *p = &rule->policy;

	strcpy(p->name, f->name);
	p->shadow = f->shadow;
	p->scope = (enum policy_scope)f->scope;
	p->global.loose = f->global == GLOBAL_LOOSE;
	p->weighs_history = f->weights == WEIGHTS_HISTORY;
	p->on_outage = f->on_outage >= 0 ? (enum outage_action)f->on_outage
		       : is_strict(f)    ? OUTAGE_DENY
					 : OUTAGE_LOCAL;
	p->wait_max_queue = (uint32_t)f->wait.max_queue;
	p->wait_max_ms = (uint64_t)f->wait.max_wait;
	p->levels = rule->levels;
}

static void limits_read(const struct reading *in, struct policy_rule *rule)
{
	if (in->fields->levels != NULL) {
		levels_read(in, rule);
		return;
	}
	strcpy(rule->levels[0].name, in->fields->name);
	if (in->fields->plan != NULL)
		plan_read(in, &rule->levels[0]);
	else
		level_read(in, in->path, &in->fields->level, &rule->levels[0]);
}

/* After the levels were read: of what the shares are parts. */
static void whole_find(struct policy *p)
{
	uint32_t whole = 1;

	for (uint8_t i = 0; i < p->n_levels; i++)
		if (share_whole(&p->levels[i].limit) > whole)
			whole = share_whole(&p->levels[i].limit);
	p->global.whole = whole;
}

/* A report says in which window its region is: of one calendar. */
static void calendars_check(const struct reading *in, const struct policy *p)
{
	const uint64_t *edges = p->levels[0].limit.edges.edge_us;

	if (p->scope != SCOPE_GLOBAL || algorithm_of(in) != ALGORITHM_CALENDAR)
		return;
	for (uint8_t i = 1; i < p->n_levels; i++)
		if (p->levels[i].limit.edges.edge_us != edges)
			conf_fail(in->r, in->path, "levels", CONF_AT_VALUE,
				  "with scope `global` all levels of a calendar must have the same "
				  "`per`");
}

static void weights_check(const struct reading *in, const struct policy *p)
{
	bool weighs = false;

	for (uint8_t i = 0; i < p->n_levels; i++)
		weighs = weighs || p->levels[i].weight > 0;
	if (p->weighs_history && !weighs)
		conf_fail(in->r, in->path, "weights", CONF_AT_VALUE,
			  "`weights` `history` is for policies with a level that has a `weight`");
}

static int compare_keys(const void *a, const void *b)
{
	return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

static void envoy_read(const struct reading *in, struct policy_rule *rule)
{
	const struct conf_path path = {.up = in->path, .key = "envoy"};
	const json_t *value = in->fields->envoy;
	size_t errors = in->r->n_errors, n, i;
	struct envoy_fields f = {0};
	struct slice keys[ENVOY_KEYS_MAX];
	json_t *key;

	if (value == NULL)
		return;
	if (algorithm_of(in) == ALGORITHM_CONCURRENCY)
		conf_fail(in->r, in->path, "envoy", CONF_AT_KEY,
			  "`envoy` is for every algorithm but `concurrency`: Envoy gives no permit "
			  "back");
	else if (json_is_object(value))
		conf_read(in->r, &path, value, &envoy_table, &f);
	else
		conf_fail(in->r, in->path, "envoy", CONF_AT_VALUE,
			  "`envoy` must be an object as { \"domain\": \"edge\", \"descriptors\": "
			  "[\"tenant\"] }");
	if (in->r->n_errors != errors)
		return;
	n = json_array_size(f.descriptors);
	if (n < 1 || n > ENVOY_KEYS_MAX)
		conf_fail(in->r, &path, "descriptors", CONF_AT_VALUE,
			  "`descriptors` must be 1 to %d keys, not %zu", ENVOY_KEYS_MAX, n);
	if (in->r->n_errors != errors)
		return;
	rls_name_add(&rule->envoy, slice_of(f.domain));
	json_array_foreach(f.descriptors, i, key) {
		keys[i] = slice_of(json_string_value(key));
		rls_name_add(&rule->envoy, keys[i]);
	}
	rule->policy.envoy = buf_slice(&rule->envoy);
	qsort(keys, n, sizeof keys[0], compare_keys);
	rls_name_add(&rule->envoy_set, slice_of(f.domain));
	for (i = 0; i < n; i++)
		rls_name_add(&rule->envoy_set, keys[i]);
	rule->policy.envoy_set = buf_slice(&rule->envoy_set);
}

static void rule_read(const struct reading *in, struct policy_rule *rule)
{
	size_t errors = in->r->n_errors;

	policy_fill(rule, in->fields);
	lease_read(in, &rule->policy);
	breaker_read(in, &rule->policy);
	limits_read(in, rule);
	if (in->r->n_errors != errors)
		return;
	adaptive_read(in, &rule->policy);
	whole_find(&rule->policy);
	calendars_check(in, &rule->policy);
	weights_check(in, &rule->policy);
	envoy_read(in, rule);
}

struct policy_rule *policy_rule_read(struct conf_reader *r, const struct conf_path *path,
				     const json_t *value)
{
	struct policy_fields fields;
	const struct reading in = {r, path, &fields};
	struct durability durability;
	size_t errors = r->n_errors, n;

	if (!json_is_object(value)) {
		conf_fail(r, path, NULL, CONF_AT_VALUE, "a policy must be an object");
		return NULL;
	}
	conf_read(r, path, value, &policy_table, &fields);
	if (r->n_errors != errors)
		return NULL;
	policy_check(&in);
	durability_read(&in, &durability);
	n = levels_count(&in);
	if (r->n_errors != errors)
		return NULL;
	struct policy_rule *rule = calloc(1, sizeof *rule + n * sizeof rule->levels[0]);

	if (rule == NULL)
		return NULL;
	atomic_init(&rule->refs, 1);
	rule->policy.n_levels = (uint8_t)n;
	rule->policy.durability = durability;
	rule_read(&in, rule);
	if (r->n_errors == errors && !buf_failed(&rule->envoy) && !buf_failed(&rule->envoy_set))
		rule->policy.stats = policy_stats_get(slice_of(fields.name));
	if (rule->policy.stats == NULL) {
		policy_rule_unref(rule);
		return NULL;
	}
	return rule;
}

struct policy_rule *policy_rule_ref(struct policy_rule *rule)
{
	atomic_fetch_add_explicit(&rule->refs, 1, memory_order_relaxed);
	return rule;
}

void policy_rule_unref(struct policy_rule *rule)
{
	if (rule != NULL && atomic_fetch_sub_explicit(&rule->refs, 1, memory_order_acq_rel) == 1) {
		buf_release(&rule->envoy);
		buf_release(&rule->envoy_set);
		free(rule);
	}
}
