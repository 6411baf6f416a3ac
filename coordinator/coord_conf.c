/*
 * File → JSON → the fields of the option tables → what goes together → owned strings, as an agent's. Of a policy the
 * coordinator wants the name and the limit; the rest is read by the same tables, and what goes together the agents check.
 */
#include "coord_conf.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/duration.h"
#include "io/conf_copy.h"
#include "io/option_table.h"
#include "io/policy_fields.h"

enum { ROLLUP_MS_MIN = 100, ROLLUP_MS_MAX = 60000 };

struct coord_fields {
	const char *node, *http;
	struct kafka_fields kafka;
	int64_t rollup; /* ms */
	const json_t *regions, *policies;
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
	 .text = "`/healthz`, `/readyz`, `/metrics`; `null`: off. The host is an IP address or "
		 "`localhost`"},
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
	{.name = "regions",
	 .type = CONF_RAW,
	 .form = "object of regions",
	 .at = offsetof(struct coord_fields, regions),
	 .otherwise = "those that report",
	 .text = "as an agent's; a coordinator that grants nothing needs no more than their names"},
	{.name = "policies",
	 .type = CONF_LIST,
	 .item = CONF_RAW,
	 .form = "objects",
	 .at = offsetof(struct coord_fields, policies),
	 .text = "as the agents': the rollup says their limits"},
	LATER("gossip"),
	LATER("grant"),
	LATER("clock"),
};

const struct conf_table coord_table = {
	.title = "The coordinator's configuration",
	.text = "One JSON object, given to `kova-coordinator --config FILE`. Relative paths are "
		"relative to FILE. Unknown fields are errors.",
	.options = coord_options,
	.n_options = COUNT(coord_options),
};

static const struct conf_path kafka_path = {.key = "kafka"};
static const struct conf_path policies_path = {.key = "policies"};
static const struct conf_path regions_path = {.key = "regions"};

static void regions_check(struct conf_reader *r, const json_t *regions)
{
	const char *name;
	json_t *value;

	if (regions == NULL)
		return;
	if (!json_is_object(regions)) {
		conf_fail(r, NULL, "regions", CONF_AT_VALUE,
			  "`regions` must be an object, each member a region");
		return;
	}
	json_object_foreach((json_t *)(uintptr_t)regions, name, value) {
		if (!name_is_valid(slice_of(name)))
			conf_fail(
				r, &regions_path, name, CONF_AT_KEY,
				"a region's name must be 1 to 64 characters of A-Z a-z 0-9 . _ -");
		else if (!json_is_object(value))
			conf_fail(r, &regions_path, name, CONF_AT_VALUE, "`%s` must be an object",
				  name);
	}
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
		if (strcmp(policy_scope_names[f.scope], "global") == 0)
			conf_fail(c->r, &path, "scope", CONF_AT_VALUE,
				  "scope `global` is not available yet: `scope` must be `region` "
				  "or `home`");
		snprintf(p->name, sizeof p->name, "%s", f.name);
		limit_fill(c->r, &path, &f, p);
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

/* ---- The whole ---- */

static char *host_name(struct conf_copier *c)
{
	char name[NAME_BYTES_MAX + 1] = "";

	if (gethostname(name, sizeof name - 1) != 0 || !name_is_valid(slice_of(name)))
		return conf_copy(c, "localhost");
	return conf_copy(c, name);
}

static kova_status document_read(struct conf_reader *r, const struct conf_document *d, void *conf)
{
	struct coord_conf *ret_conf = conf;
	struct conf_copier c = {.r = r, .file = d->file};
	struct coord_fields f;

	conf_read(r, NULL, d->root, &coord_table, &f);
	kafka_conf_check(r, &kafka_path, &f.kafka, json_object_get(d->root, "kafka") != NULL);
	regions_check(r, f.regions);
	ret_conf->node = f.node != NULL ? conf_copy(&c, f.node) : host_name(&c);
	ret_conf->http = conf_copy(&c, f.http);
	ret_conf->rollup_ms = (uint64_t)f.rollup;
	kafka_conf_fill(&c, &kafka_path, &f.kafka, &ret_conf->kafka);
	policies_read(&c, f.policies, ret_conf);
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
	free(conf->node);
	free(conf->http);
	free(conf->policies);
	*conf = (struct coord_conf){0};
}
