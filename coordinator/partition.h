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
	struct granter grants; /* `away`: all zeros, and nothing is granted */
	bool away;             /* what was granted is being read again (take_over.h) */
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

/*
 * What was granted in a partition, read once more: an ownership that begins anew, with keys of its own until the partition
 * takes it. All zeros at first.
 */
struct grants_anew {
	struct grants_anew *next;
	int32_t id;
	struct keys keys;
	struct granter grants;
};

/* NULL: out of memory. */
struct grants_anew *grants_anew_new(int32_t id);
void grants_anew_free(struct grants_anew *a); /* NULL is nothing */
/* As partition_rebuild(). */
bool grants_anew_read(struct grants_anew *a, const struct coord_conf *conf,
		      const struct global_terms *terms, const atomic_bool *stop);

/* What was granted is to be read again, for the terms are others, or the ownership is old: it is over. */
void partition_grants_go(struct partition *p);
/* They are back (`a` is emptied): nothing was granted since they went. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status partition_grants_return(struct partition *p, struct grants_anew *a);
