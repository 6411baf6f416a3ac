/*
 * File → JSON → the fields of the option tables → what goes together → owned strings, as an agent's. Of a policy the
 * coordinator wants the name and the limit; the rest is read by the same tables, and what goes together the agents check.
 */
#include "coord_conf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/rule_set.h"
#include "control/weights.h"
#include "core/clock_offset.h"
#include "core/duration.h"
#include "core/history.h"
#include "core/share_plan.h"
#include "core/shares.h"
#include "io/conf_copy.h"
#include "io/option_table.h"
#include "io/policy_fields.h"
#include "io/state_dir.h"

enum { WEIGHTS_HISTORY = 1, WEIGH_MS_MIN = 100, WEIGH_MS_MAX = 86400000 };
enum { ROLLUP_MS_MIN = 100, ROLLUP_MS_MAX = 60000, GRANT_MS_MIN = 1000, GRANT_MS_MAX = 60000 };
enum { SESSION_MS_MIN = 1000, SESSION_MS_MAX = 300000 };

struct coord_fields {
	const char *node, *http;
	struct auth_fields auth;
	struct tls_fields tls;
	bool insecure;
	struct kafka_fields kafka;
	int64_t rollup, session_timeout; /* ms */
	struct coord_regions_fields regions;
	struct grant_fields {
		int64_t duration, margin; /* ms */
	} grant;
	struct {
		int64_t max_skew; /* ms */
	} clock;
	struct gossip_fields gossip;
	const char *state_dir;
	struct drift_fields drift;
	struct weights_fields {
		int64_t half_life, every; /* ms */
	} weights;
	const json_t *policies;
};

static const struct conf_option grant_options[] = {
	{.name = "duration",
	 .type = CONF_DURATION,
	 .at = offsetof(struct grant_fields, duration),
	 .fallback = "5s",
	 .min = GRANT_MS_MIN,
	 .max = GRANT_MS_MAX,
	 .text = "how long a region may use a grant, by its own clock, from the report on that the "
		 "grant answers: ten reports at least, or it often runs out"},
	{.name = "margin",
	 .type = CONF_DURATION,
	 .at = offsetof(struct grant_fields, margin),
	 .fallback = "600ms",
	 .min = 0,
	 .max = GRANT_MS_MAX,
	 .text = "how much longer it counts here: at least 2 × `clock.max_skew` + 1 % of "
		 "`duration`"},
};

static const struct conf_table grant_table = {
	.title = "`grant`",
	.text = "What regions get of global limits beyond their floors "
		"([Global quotas](global.md)).",
	.options = grant_options,
	.n_options = COUNT(grant_options),
};

static const struct conf_option clock_options[] = {
	{.name = "max_skew",
	 .type = CONF_DURATION,
	 .at = 0,
	 .fallback = "250ms",
	 .min = CLOCK_SKEW_MIN_MS,
	 .max = CLOCK_SKEW_MAX_MS,
	 .text = "at least the greatest `max_skew` of any agent: by so much a region's clock may "
		 "be "
		 "off without anybody noticing"},
};

static const struct conf_table clock_table = {
	.title = "`clock`",
	.text = "How far clocks may differ.",
	.options = clock_options,
	.n_options = COUNT(clock_options),
};

static const struct conf_option weights_options[] = {
	{.name = "half_life",
	 .type = CONF_DURATION,
	 .at = offsetof(struct weights_fields, half_life),
	 .fallback = "1d",
	 .min = HISTORY_HALF_LIFE_MS_MIN,
	 .max = HISTORY_HALF_LIFE_MS_MAX,
	 .text = "what was consumed so long ago counts half of what is consumed now"},
	{.name = "every",
	 .type = CONF_DURATION,
	 .at = offsetof(struct weights_fields, every),
	 .fallback = "1m",
	 .min = WEIGH_MS_MIN,
	 .max = WEIGH_MS_MAX,
	 .text = "how often weights are computed; they are published where one differs by more "
		 "than a "
		 "quarter"},
};

static const struct conf_table weights_table = {
	.title = "`weights`",
	.text = "What keys of weighted levels consumed makes their weights, where the policy says "
		"so: [Fairness](fairness.md#weights-from-history). Needs `gossip`.",
	.options = weights_options,
	.n_options = COUNT(weights_options),
};

static const struct conf_option coord_options[] = {
	{.name = "node",
	 .type = CONF_NAME,
	 .at = offsetof(struct coord_fields, node),
	 .otherwise = "the host's name",
	 .text = "the name of this coordinator, in logs and to Kafka: no two that run may share "
		 "it"},
	{.name = "http",
	 .type = CONF_ADDRESS,
	 .nullable = true,
	 .at = offsetof(struct coord_fields, http),
	 .fallback = "127.0.0.1:7422",
	 .text = "the dashboard, `/healthz`, `/readyz`, `/metrics`; `null`: off. The host is an IP "
		 "address or `localhost`; beyond loopback it needs `auth` with "
		 "a `tokens_file` or `certificates`, or `insecure`"},
	{.name = "auth",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, auth),
	 .table = &auth_table,
	 .text = "who may look"},
	{.name = "tls",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, tls),
	 .table = &tls_http_table,
	 .text = "TLS for HTTP. Absent: none"},
	{.name = "insecure",
	 .type = CONF_BOOL,
	 .at = offsetof(struct coord_fields, insecure),
	 .fallback = "false",
	 .text = "allows HTTP to listen beyond loopback without tokens"},
	{.name = "kafka",
	 .type = CONF_OBJECT,
	 .required = true,
	 .at = offsetof(struct coord_fields, kafka),
	 .table = &kafka_coordinator_table,
	 .text = "where usage is read, and ledger and rollup are written"},
	{.name = "rollup",
	 .type = CONF_DURATION,
	 .at = offsetof(struct coord_fields, rollup),
	 .fallback = "1s",
	 .min = ROLLUP_MS_MIN,
	 .max = ROLLUP_MS_MAX,
	 .text = "how often what was read is committed, and a row of each policy published"},
	{.name = "session_timeout",
	 .type = CONF_DURATION,
	 .at = offsetof(struct coord_fields, session_timeout),
	 .fallback = "10s",
	 .min = SESSION_MS_MIN,
	 .max = SESSION_MS_MAX,
	 .text = "how long nothing is heard of this coordinator until the brokers give what it has "
		 "to others; "
		 "they allow from their `group.min.session.timeout.ms` (6s, if it is not set) on"},
	{.name = "drift",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, drift),
	 .table = &drift_table_options,
	 .text = "comparing what Kafka has counted with the regions' ledgers"},
	{.name = "weights",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, weights),
	 .table = &weights_table,
	 .text = "recomputing weights of policies that say `\"weights\": \"history\"`"},
	{.name = "regions",
	 .type = CONF_RAW,
	 .form = "object of regions",
	 .at = offsetof(struct coord_fields, regions.regions),
	 .table = &coord_region_table,
	 .otherwise = "none: there are no global limits",
	 .text = "the regions between which global limits are shared"},
	{.name = "regions_version",
	 .type = CONF_INT,
	 .at = offsetof(struct coord_fields, regions.version),
	 .fallback = "1",
	 .min = 1,
	 .max = COORD_REGIONS_VERSION_MAX,
	 .text = "as the agents': greater with each change of names, weights or floors"},
	{.name = "floors_before",
	 .type = CONF_LIST,
	 .item = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, regions.floors_before),
	 .otherwise = "none",
	 .text = "the floors of earlier versions, the last one first, `[{ \"eu-west\": 0.1, … }]`: "
		 "at most 8; one at least from `regions_version` 2 on"},
	{.name = "grant",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, grant),
	 .table = &grant_table,
	 .text = "what regions get beyond their floors"},
	{.name = "clock",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, clock),
	 .table = &clock_table,
	 .text = "how far clocks may differ"},
	{.name = "policies",
	 .type = CONF_LIST,
	 .item = CONF_RAW,
	 .form = "objects",
	 .at = offsetof(struct coord_fields, policies),
	 .text = "as the agents': the rollup says their limits, and global ones are shared out"},
	{.name = "gossip",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct coord_fields, gossip),
	 .table = &gossip_table,
	 .text = "by which it agrees with the agents on policies and overrides, as one more node: "
		 "its policies are writes like those of any other's file"},
	{.name = "state_dir",
	 .type = CONF_PATH,
	 .at = offsetof(struct coord_fields, state_dir),
	 .otherwise = "`$STATE_DIRECTORY`, else `$XDG_STATE_HOME/kova-coordinator`, else "
		      "`~/.local/state/kova-coordinator`",
	 .text = "where it keeps what came by gossip; not used without `gossip`"},
};

const struct conf_table coord_table = {
	.title = "The coordinator's configuration",
	.text = "One JSON object, given to `kova-coordinator --config FILE`. Relative paths are "
		"relative to FILE. Unknown fields are errors.",
	.options = coord_options,
	.n_options = COUNT(coord_options),
};

static const struct conf_path tls_path = {.key = "tls"};
static const struct conf_path kafka_path = {.key = "kafka"};
static const struct conf_path policies_path = {.key = "policies"};
/* ---- Global policies ---- */

static void widen(struct coord_policy *p, const struct level_fields *f)
{
	struct slice per = {json_string_value(f->per), json_string_length(f->per)};
	uint64_t ms = 0;

	if (f->limit > p->whole)
		p->whole = (uint32_t)f->limit;
	if (per.ptr != NULL && duration_parse(per, &ms) == KOVA_OK &&
	    ms <= (uint64_t)POLICY_PER_MAX_MS && ms * 1000 > p->window_us)
		p->window_us = ms * 1000;
}

/* What its shares are parts of. */
static void whole_fill(struct conf_reader *r, const struct conf_path *path,
		       const struct policy_fields *f, struct coord_policy *p)
{
	size_t n = json_array_size(f->levels);

	p->whole = 1;
	p->window_us = 0;
	if (f->levels == NULL)
		widen(p, &f->level);
	for (size_t i = 0; i < n; i++) {
		const struct conf_path list = {.up = path, .key = "levels"};
		const struct conf_path item = {.up = &list, .index = i};
		struct level_fields level;

		if (!json_is_object(json_array_get(f->levels, i)))
			continue; /* an error already */
		conf_read(r, &item, json_array_get(f->levels, i), &level_table, &level);
		widen(p, &level);
	}
	if (p->kind == SHARE_RATE)
		p->whole = SHARE_RATE_WHOLE;
}

static bool kind_of(int algorithm, enum share_kind *ret_kind)
{
	switch (algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
	case ALGORITHM_GCRA:
		*ret_kind = SHARE_RATE;
		return true;
	case ALGORITHM_SLIDING_WINDOW:
		*ret_kind = SHARE_WINDOW;
		return true;
	case ALGORITHM_CALENDAR:
		*ret_kind = SHARE_CALENDAR;
		return true;
	default:
		return false;
	}
}

static void global_fill(struct conf_reader *r, const struct conf_path *path,
			const struct policy_fields *f, const struct coord_regions *regions,
			struct coord_policy *p)
{
	p->is_global = true;
	p->loose = f->global == POLICY_LOOSE;
	if (regions->n == 0)
		conf_fail(r, path, "scope", CONF_AT_VALUE,
			  "scope `global` needs `regions`, or `scope` must be `region` or `home`");
	else if (regions->n > ALLOCATOR_REGIONS_MAX)
		conf_fail(r, path, "scope", CONF_AT_VALUE,
			  "scope `global` needs at most %d `regions`, not %zu",
			  ALLOCATOR_REGIONS_MAX, regions->n);
	else if (f->plan != NULL || !kind_of(f->algorithm, &p->kind))
		conf_fail(r, path, "scope", CONF_AT_VALUE,
			  "scope `global` is for `token-bucket` `gcra` `sliding-window` "
			  "`calendar`, and not for a `plan`");
	else
		whole_fill(r, path, f, p);
}

/* ---- Policies ---- */

/* What bounds the policy as a whole. */
static void limit_fill(struct conf_reader *r, const struct conf_path *path,
		       const struct policy_fields *f, struct coord_policy *p)
{
	struct level_fields level = f->level;
	struct plan_fields plan;

	if (f->levels != NULL && json_is_object(json_array_get(f->levels, 0))) {
		const struct conf_path list = {.up = path, .key = "levels"};
		const struct conf_path first = {.up = &list, .index = 0};

		conf_read(r, &first, json_array_get(f->levels, 0), &level_table, &level);
	}
	if (json_is_object(f->plan)) {
		const struct conf_path object = {.up = path, .key = "plan"};

		conf_read(r, &object, f->plan, &plan_table, &plan);
		level.limit = plan.slots;
		level.per = json_object_get(f->plan, "hold");
	}
	p->limit = level.limit > 0 ? (uint64_t)level.limit : 0;
	if (json_is_string(level.per))
		snprintf(p->per, sizeof p->per, "%s", json_string_value(level.per));
	else
		snprintf(p->per, sizeof p->per, "%lldms",
			 (long long)(f->hold > 0 ? f->hold : 0)); /* concurrency */
}

/* Of levels whose weights are those of history. */
static void weights_fill(struct conf_reader *r, const struct conf_path *path,
			 const struct policy_fields *f, struct coord_policy *p)
{
	const struct conf_path list = {.up = path, .key = "levels"};

	for (size_t i = 1; f->weights == WEIGHTS_HISTORY && i < json_array_size(f->levels) &&
			   i < COORD_LEVELS_MAX;
	     i++) {
		const struct conf_path at = {.up = &list, .index = i};
		struct level_fields level;

		if (!json_is_object(json_array_get(f->levels, i)))
			continue;
		conf_read(r, &at, json_array_get(f->levels, i), &level_table, &level);
		if (level.weight != CONF_ABSENT && level.weight <= SHARE_WEIGHT_MAX / WEIGHTS_ONE)
			p->weight[i] = (uint32_t)level.weight * WEIGHTS_ONE;
	}
}

static int compare_policies(const void *a, const void *b)
{
	return strcmp(((const struct coord_policy *)a)->name,
		      ((const struct coord_policy *)b)->name);
}

static void policies_read(struct conf_copier *c, const json_t *list, struct coord_conf *conf)
{
	size_t n = json_array_size(list);

	conf->policies = calloc(n + 1, sizeof *conf->policies);
	c->no_memory |= conf->policies == NULL;
	for (size_t i = 0; i < n && !c->no_memory; i++) {
		const struct conf_path path = {.up = &policies_path, .index = i};
		struct coord_policy *p = &conf->policies[conf->n_policies];
		struct policy_fields f;

		if (!json_is_object(json_array_get(list, i)))
			continue; /* an error already */
		conf_read(c->r, &path, json_array_get(list, i), &policy_table, &f);
		if (f.name == NULL)
			continue;
		snprintf(p->name, sizeof p->name, "%s", f.name);
		limit_fill(c->r, &path, &f, p);
		if (strcmp(policy_scope_names[f.scope], "global") == 0)
			global_fill(c->r, &path, &f, &conf->regions, p);
		else if (f.global >= 0)
			conf_fail(c->r, &path, "global", CONF_AT_KEY,
				  "`global` goes with `scope` `global`");
		weights_fill(c->r, &path, &f, p);
		for (size_t j = 0; j < conf->n_policies; j++)
			if (strcmp(conf->policies[j].name, p->name) == 0)
				conf_fail(c->r, &path, "name", CONF_AT_VALUE,
					  "there is a policy `%s` already", p->name);
		conf->n_policies++;
	}
	if (conf->policies != NULL)
		qsort(conf->policies, conf->n_policies, sizeof *conf->policies, compare_policies);
}

const struct coord_policy *coord_conf_policy(const struct coord_conf *conf, const char *name)
{
	struct coord_policy key;

	snprintf(key.name, sizeof key.name, "%s", name);
	return bsearch(&key, conf->policies, conf->n_policies, sizeof *conf->policies,
		       compare_policies);
}

static void add_errors(const struct conf_reader *r, struct buf *errors)
{
	char text[CONF_TEXT_MAX];

	conf_reader_text(r, text, sizeof text);
	buf_printf(errors, "%s\n", text);
}

kova_status coord_conf_read_policies(const struct coord_conf *conf, const json_t *list,
				     struct coord_policy **ret_policies, size_t *ret_n,
				     struct buf *ret_errors)
{
	struct coord_policy *policies = calloc(json_array_size(list) + 1, sizeof *policies);
	bool no_memory = policies == NULL;
	size_t n = 0;

	for (size_t i = 0; !no_memory && i < json_array_size(list); i++) {
		struct conf_reader r = {0};
		struct conf_copier c = {.r = &r};
		struct coord_conf one = {.regions = conf->regions};
		json_t *alone = json_pack("[O]", json_array_get(list, i));

		no_memory = alone == NULL;
		if (!no_memory)
			policies_read(&c, alone, &one);
		if (r.n_errors > 0)
			add_errors(&r, ret_errors);
		else if (one.n_policies > 0)
			policies[n++] = one.policies[0];
		no_memory |= c.no_memory;
		free(one.policies);
		json_decref(alone);
	}
	if (no_memory) {
		free(policies);
		return KOVA_ENOMEM;
	}
	qsort(policies, n, sizeof *policies, compare_policies);
	*ret_policies = policies;
	*ret_n = n;
	return KOVA_OK;
}

/* ---- The whole ---- */

static const struct conf_path gossip_path = {.key = "gossip"};

/* As agents find theirs, beside it. */
static char *find_state_dir(struct conf_copier *c, const char *said)
{
	char *path = NULL;

	if (said != NULL)
		return conf_copy_path(c, said);
	kova_status status = state_dir_default("kova-coordinator", &path);

	if (status == KOVA_ENOTFOUND)
		conf_fail(c->r, NULL, NULL, CONF_AT_VALUE,
			  "`state_dir` is missing, and there is no $STATE_DIRECTORY, "
			  "$XDG_STATE_HOME or $HOME to find one");
	c->no_memory |= status == KOVA_ENOMEM;
	return path;
}

static void gossip_read(struct conf_copier *c, const struct coord_fields *f, bool given,
			struct coord_conf *conf)
{
	gossip_section_check(c->r, &gossip_path, &f->gossip, NULL);
	gossip_section_fill(c, &gossip_path, &f->gossip, given, &conf->gossip);
	if (given)
		conf->state_dir = find_state_dir(c, f->state_dir);
	conf->policies_of_file =
		f->policies != NULL ? json_incref((json_t *)(uintptr_t)f->policies) : json_array();
	c->no_memory |= conf->policies_of_file == NULL;
}

/* With gossip they are checked as agents check theirs: those will get them. */
static void rules_check(struct conf_copier *c, const struct coord_conf *conf)
{
	const struct rule_lists lists = {.policies = conf->policies_of_file};
	struct rule_set rules;
	kova_status status = KOVA_ECONFIG;

	if (conf->gossip.listen != NULL && c->r->n_errors == 0)
		status = rule_set_read(c->r, &lists, &rules);
	if (status == KOVA_OK)
		rule_set_release(&rules);
	c->no_memory |= status == KOVA_ENOMEM;
}

static char *host_name(struct conf_copier *c)
{
	char name[NAME_BYTES_MAX + 1] = "";

	if (gethostname(name, sizeof name - 1) != 0 || !name_is_valid(slice_of(name)))
		return conf_copy(c, "localhost");
	return conf_copy(c, name);
}

static void margin_check(struct conf_reader *r, const struct grant_fields *f, int64_t max_skew_ms)
{
	static const struct conf_path path = {.key = "grant"};
	uint64_t least_us = allocator_least_margin_us((uint64_t)f->duration * 1000,
						      (uint64_t)max_skew_ms * 1000);
	unsigned long long least_ms = (least_us + 999) / 1000;

	if ((uint64_t)f->margin * 1000 < least_us)
		conf_fail(r, &path, "margin", CONF_AT_VALUE,
			  "`margin` must be at least %llums: 2 × `clock.max_skew` + 1 %% of "
			  "`duration`",
			  least_ms);
}

static kova_status document_read(struct conf_reader *r, const struct conf_document *d, void *conf)
{
	struct coord_conf *ret_conf = conf;
	struct conf_copier c = {.r = r, .file = d->file};
	struct coord_fields f = {0};

	conf_read(r, NULL, d->root, &coord_table, &f);
	auth_section_check_address(r, NULL, "http", f.http, &f.auth, f.insecure);
	tls_section_check(r, &tls_path, &f.tls, json_object_get(d->root, "tls") != NULL);
	kafka_conf_check(r, &kafka_path, &f.kafka, json_object_get(d->root, "kafka") != NULL);
	coord_regions_read(&c, &f.regions, &ret_conf->regions);
	margin_check(r, &f.grant, f.clock.max_skew);
	ret_conf->node = f.node != NULL ? conf_copy(&c, f.node) : host_name(&c);
	ret_conf->http = conf_copy(&c, f.http);
	auth_section_fill(&c, &f.auth, f.tls.client_ca != NULL, &ret_conf->auth);
	tls_section_fill(&c, &tls_path, &f.tls, &ret_conf->tls);
	ret_conf->insecure = f.insecure;
	ret_conf->rollup_ms = (uint64_t)f.rollup;
	ret_conf->session_ms = (uint64_t)f.session_timeout;
	ret_conf->grant_us = (uint64_t)f.grant.duration * 1000;
	ret_conf->margin_us = (uint64_t)f.grant.margin * 1000;
	ret_conf->max_skew_us = (uint64_t)f.clock.max_skew * 1000;
	ret_conf->half_life_ms = (uint64_t)f.weights.half_life;
	ret_conf->weigh_ms = (uint64_t)f.weights.every;
	drift_conf_read(&c, &f.drift, f.regions.regions, &ret_conf->drift);
	kafka_conf_fill(&c, &kafka_path, &f.kafka, &ret_conf->kafka);
	gossip_read(&c, &f, json_object_get(d->root, "gossip") != NULL, ret_conf);
	policies_read(&c, f.policies, ret_conf);
	rules_check(&c, ret_conf);
	if (c.no_memory)
		return KOVA_ENOMEM;
	return r->n_errors > 0 ? KOVA_ECONFIG : KOVA_OK;
}

kova_status coord_conf_load(const char *path, struct coord_conf *ret_conf, struct buf *ret_errors)
{
	struct coord_conf conf = {0};
	kova_status status = conf_file_read(path, document_read, &conf, ret_errors);

	if (status != KOVA_OK)
		coord_conf_release(&conf);
	else
		*ret_conf = conf;
	return status;
}

void coord_conf_release(struct coord_conf *conf)
{
	kafka_conf_release(&conf->kafka);
	gossip_section_release(&conf->gossip);
	json_decref(conf->policies_of_file);
	free(conf->state_dir);
	coord_regions_release(&conf->regions);
	drift_conf_release(&conf->drift);
	free(conf->node);
	free(conf->http);
	auth_section_release(&conf->auth);
	tls_section_release(&conf->tls);
	free(conf->policies);
	*conf = (struct coord_conf){0};
}
