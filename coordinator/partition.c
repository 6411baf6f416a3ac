#include "partition.h"

#include <stdlib.h>

#include "grants_topic.h"
#include "history_topic.h"
#include "io/log.h"
#include "ledger_topic.h"

struct partition *partition_new(int32_t id, int64_t offset)
{
	struct partition *p = calloc(1, sizeof *p);

	if (p == NULL)
		return NULL;
	p->id = id;
	p->offset = p->kept = offset;
	book_init(&p->book, &p->keys);
	return p;
}

void partition_free(struct partition *p)
{
	if (p == NULL)
		return;
	keys_release(&p->keys);
	book_release(&p->book);
	granter_release(&p->grants);
	histories_release(&p->histories);
	free(p);
}

bool partition_grant_anew(struct partition *p, const struct coord_conf *conf,
			  const struct global_terms *terms, const atomic_bool *stop)
{
	granter_release(&p->grants);
	return grants_topic_take_over(conf, p->id, terms, &p->keys, &p->grants, stop);
}

bool partition_rebuild(struct partition *p, const struct coord_conf *conf,
		       const struct global_terms *terms, const atomic_bool *stop)
{
	if (!ledger_topic_read(conf, p->id, &p->book, stop) ||
	    !history_topic_read(conf, p->id, &p->histories, stop) ||
	    !partition_grant_anew(p, conf, terms, stop))
		return false;
	log_event(LOG_INFO, "partition_assigned", "its ledger and its grants are read",
		  LOG_INT_FIELD("partition", p->id), LOG_INT_FIELD("offset", p->offset),
		  LOG_INT_FIELD("keys", (int64_t)p->book.n_ledgers),
		  LOG_INT_FIELD("quotas", (int64_t)p->grants.n_quotas));
	return true;
}
