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

bool partition_rebuild(struct partition *p, const struct coord_conf *conf,
		       const struct global_terms *terms, const atomic_bool *stop)
{
	if (!ledger_topic_read(conf, p->id, &p->book, stop) ||
	    !history_topic_read(conf, p->id, &p->histories, stop) ||
	    !grants_topic_take_over(conf, p->id, terms, &p->keys, &p->grants, stop))
		return false;
	log_event(LOG_INFO, "partition_assigned", "its ledger and its grants are read",
		  LOG_INT_FIELD("partition", p->id), LOG_INT_FIELD("offset", p->offset),
		  LOG_INT_FIELD("keys", (int64_t)p->book.n_ledgers),
		  LOG_INT_FIELD("quotas", (int64_t)p->grants.n_quotas));
	return true;
}

/* ---- Grants that are read once more ---- */

struct grants_anew *grants_anew_new(int32_t id)
{
	struct grants_anew *a = calloc(1, sizeof *a);

	if (a != NULL)
		a->id = id;
	return a;
}

void grants_anew_free(struct grants_anew *a)
{
	if (a == NULL)
		return;
	granter_release(&a->grants);
	keys_release(&a->keys);
	free(a);
}

bool grants_anew_read(struct grants_anew *a, const struct coord_conf *conf,
		      const struct global_terms *terms, const atomic_bool *stop)
{
	return grants_topic_take_over(conf, a->id, terms, &a->keys, &a->grants, stop);
}

void partition_grants_go(struct partition *p)
{
	granter_release(&p->grants);
	p->away = true;
}

kova_status partition_grants_return(struct partition *p, struct grants_anew *a)
{
	kova_status status = granter_move(&a->grants, &p->keys);

	if (status != KOVA_OK)
		return status;
	p->grants = a->grants;
	a->grants = (struct granter){0};
	p->away = false;
	return KOVA_OK;
}
