/* The section `drift`: with which Redis, how often, and what is compared with Kafka. */
#pragma once

#include "io/conf_copy.h"
#include "io/redis_store.h"

enum { DRIFT_CONF_REGIONS_MAX = 64 };

/* All of it is owned. */
struct drift_conf {
	struct {
		char *name;
		struct redis_conf redis;
	} of[DRIFT_CONF_REGIONS_MAX]; /* the regions that have a `redis`, in the order of the file */
	size_t n;
	uint64_t every_ms, rest_ms;
	uint64_t threshold; /* tokens */
};

struct drift_fields {
	int64_t every, rest, threshold;
};
extern const struct conf_table drift_table_options;

/* `regions`: the whole section, NULL: there is none. */
void drift_conf_read(struct conf_copier *c, const struct drift_fields *f, const json_t *regions,
		     struct drift_conf *ret_conf);
/* Whether both say the same of `drift`, and of which regions' Redis. */
bool drift_conf_is_same(const struct drift_conf *a, const struct drift_conf *b);
void drift_conf_release(struct drift_conf *conf);
