/* What a `redis` section says: checked, and copied. */
#pragma once

#include "edge_fields.h"
#include "io/conf_copy.h"
#include "io/redis_store.h"

/* What goes together; `path`: of the section. */
void redis_section_check(struct conf_reader *r, const struct conf_path *path,
			 const struct redis_fields *f);

/* Owned copies; redis_section_release() ends them. */
void redis_section_fill(struct conf_copier *c, const struct conf_path *path,
			const struct redis_fields *f, struct redis_conf *ret_redis);
void redis_section_release(struct redis_conf *redis);
