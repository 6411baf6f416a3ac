/* What a `redis` section says: checked, and copied. */
#pragma once

#include "io/conf.h"
#include "io/conf_copy.h"
#include "io/redis_store.h"

struct redis_fields {
	int mode; /* enum redis_mode */
	const char *url;
	const char *master;
	const json_t *sentinels, *nodes;
	const char *user, *password_file;
	int64_t timeout, connect_timeout; /* ms */
	const char *ca, *cert, *key;
};

extern const struct conf_table redis_table;

/* By enum redis_mode, NULL-terminated. */
extern const char *const redis_mode_names[];

/* What goes together; `path`: of the section. */
void redis_section_check(struct conf_reader *r, const struct conf_path *path,
			 const struct redis_fields *f);

/* Owned copies; redis_section_release() ends them. */
void redis_section_fill(struct conf_copier *c, const struct conf_path *path,
			const struct redis_fields *f, struct redis_conf *ret_redis);
void redis_section_release(struct redis_conf *redis);
