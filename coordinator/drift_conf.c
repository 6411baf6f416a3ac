#include "drift_conf.h"

#include <stdlib.h>
#include <string.h>

#include "core/name.h"
#include "io/option_table.h"
#include "io/redis_section.h"

enum {
	EVERY_MS_MIN = 100,
	EVERY_MS_MAX = 86400000,
	REST_MS_MIN = 1000,
	REST_MS_MAX = 3600000,
	REGION_TIMEOUT_MS = 1000,
};
#define THRESHOLD_MAX 1000000000000000

static const struct conf_option options[] = {
	{.name = "every",
	 .type = CONF_DURATION,
	 .at = offsetof(struct drift_fields, every),
	 .fallback = "1m",
	 .min = EVERY_MS_MIN,
	 .max = EVERY_MS_MAX,
	 .text = "the pause between two rounds through the regions' ledgers"},
	{.name = "rest",
	 .type = CONF_DURATION,
	 .at = offsetof(struct drift_fields, rest),
	 .fallback = "15s",
	 .min = REST_MS_MIN,
	 .max = REST_MS_MAX,
	 .text = "how long neither count of a root may have moved before they are compared: more "
		 "than two of the agents' `report`, and than their leases last (10s at most)"},
	{.name = "threshold",
	 .type = CONF_INT,
	 .at = offsetof(struct drift_fields, threshold),
	 .fallback = "1000",
	 .min = 0,
	 .max = THRESHOLD_MAX,
	 .text = "tokens: a policy's drift in a region beyond it is an event, and each time that "
		 "it "
		 "has grown by as much again"},
};

const struct conf_table drift_table_options = {
	.title = "`drift`",
	.text = "Comparing what Kafka has counted with the ledgers in the Redis of `regions`. "
		"Without a "
		"region that has a `redis` nothing is compared.",
	.options = options,
	.n_options = COUNT(options),
};

static const struct conf_path regions_path = {.key = "regions"};

static void region_read(struct conf_copier *c, const char *name, const json_t *value,
			struct drift_conf *conf)
{
	const struct conf_path region = {.up = &regions_path, .key = name};
	const struct conf_path path = {.up = &region, .key = "redis"};
	size_t errors = c->r->n_errors;
	struct redis_fields f;

	if (!json_is_object(value)) {
		conf_fail(c->r, &region, "redis", CONF_AT_VALUE,
			  "`redis` must be an object, as in the agents' configuration");
		return;
	}
	conf_read(c->r, &path, value, &redis_table, &f);
	if (json_object_get(value, "timeout") == NULL)
		f.timeout = REGION_TIMEOUT_MS;
	if (c->r->n_errors == errors && f.mode == REDIS_EMBEDDED)
		conf_fail(c->r, &path, json_object_get(value, "mode") != NULL ? "mode" : NULL,
			  CONF_AT_VALUE,
			  "`mode` must be `standalone`, `sentinel` or `cluster`: an embedded Redis "
			  "is "
			  "its agent's alone");
	redis_section_check(c->r, &path, &f);
	if (c->r->n_errors != errors || conf->n == DRIFT_CONF_REGIONS_MAX)
		return;
	conf->of[conf->n].name = conf_copy(c, name);
	redis_section_fill(c, &path, &f, &conf->of[conf->n].redis);
	conf->n++;
}

void drift_conf_read(struct conf_copier *c, const struct drift_fields *f, const json_t *regions,
		     struct drift_conf *ret_conf)
{
	const char *name;
	json_t *region;

	ret_conf->every_ms = (uint64_t)f->every;
	ret_conf->rest_ms = (uint64_t)f->rest;
	ret_conf->threshold = (uint64_t)f->threshold;
	json_object_foreach((json_t *)(uintptr_t)regions, name, region) {
		const json_t *redis = json_object_get(region, "redis");

		if (redis != NULL && name_is_valid(slice_of(name)))
			region_read(c, name, redis, ret_conf);
	}
}

bool drift_conf_is_same(const struct drift_conf *a, const struct drift_conf *b)
{
	bool same = a->n == b->n && a->every_ms == b->every_ms && a->rest_ms == b->rest_ms &&
		    a->threshold == b->threshold;

	for (size_t i = 0; same && i < a->n; i++)
		same = strcmp(a->of[i].name, b->of[i].name) == 0;
	return same;
}

void drift_conf_release(struct drift_conf *conf)
{
	for (size_t i = 0; i < conf->n; i++) {
		free(conf->of[i].name);
		redis_section_release(&conf->of[i].redis);
	}
	*conf = (struct drift_conf){0};
}
