/* What a coordinator knows of one partition of kova.usage.v1: first what was kept of it, then, on top, what was read since. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "book.h"
#include "coord_conf.h"
#include "granter.h"
#include "histories.h"
#include "keys.h"

struct partition {
	struct partition *next;
	int32_t id;
	int64_t offset;   /* the next record's */
	int64_t kept;     /* likewise, of those whose counts are committed */
	int64_t read_ms;  /* when the last record was written */
	struct keys keys; /* of both: */
	struct book book;
	struct granter grants;
	struct histories histories;
};

/* Nothing is known yet. NULL: out of memory. */
struct partition *partition_new(int32_t id, int64_t offset);
void partition_free(struct partition *p); /* NULL is nothing */

/*
 * Reads what was kept, and was granted (as grants_topic_take_over(), whose conditions hold here). `terms` outlive it. Blocks. False: it
 * can't be done, or `stop` is true; the log says why.
 */
bool partition_rebuild(struct partition *p, const struct coord_conf *conf,
		       const struct global_terms *terms, const atomic_bool *stop);

/* What was granted, once more, for `terms` are others, or the ownership is old. Likewise. */
bool partition_grant_anew(struct partition *p, const struct coord_conf *conf,
			  const struct global_terms *terms, const atomic_bool *stop);
