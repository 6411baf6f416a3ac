#include "take_over.h"

#include "compacted.h"
#include "grants_topic.h"
#include "group_offsets.h"
#include "history_topic.h"
#include "io/clock.h"
#include "io/log.h"
#include "ledger_topic.h"

void take_over_init(struct take_over *t, const struct coord_conf *conf,
		    const struct global_terms *terms, rd_kafka_t *consumer)
{
	*t = (struct take_over){.conf = conf, .terms = terms, .consumer = consumer};
}

/* ---- The thread ---- */

static bool topics_ensure(rd_kafka_t *client)
{
	return ledger_topic_ensure(client) && rows_ensure(client) && history_topic_ensure(client) &&
	       compacted_ensure(client, SHARE_GRANTS_TOPIC,
				compacted_partitions(client, USAGE_TOPIC));
}

static bool read_partition(struct take_over *t, const rd_kafka_topic_partition_t *of)
{
	struct partition *p = partition_new(of->partition, of->offset);

	if (p == NULL) {
		log_event(LOG_ERROR, "session_failed", "a partition can't be taken over",
			  LOG_TEXT_FIELD("why", "out of memory"));
		return false;
	}
	p->next = t->taken.partitions;
	t->taken.partitions = p;
	return partition_rebuild(p, t->conf, t->terms, &t->stop);
}

/*
 * The offsets first, then the ledger: what is committed between the two is then read twice, which changes nothing. The other way
 * it would be missing.
 */
static bool read_all(struct take_over *t)
{
	bool ok = topics_ensure(t->consumer) &&
		  (t->reads->cnt == 0 || group_offsets_find(t->consumer, t->reads, &t->stop));

	for (int i = 0; ok && i < t->reads->cnt; i++) {
		ok = read_partition(t, &t->reads->elems[i]);
		if (ok && t->reads->elems[i].partition == ROWS_PARTITION) {
			t->taken.rows = rows_open(t->conf, &t->stop);
			ok = t->taken.rows != NULL;
		}
	}
	t->taken.n_usage = compacted_partitions(t->consumer, USAGE_TOPIC);
	for (struct grants_anew *a = t->taken.anew; ok && a != NULL; a = a->next)
		ok = grants_anew_read(a, t->conf, t->terms, &t->stop);
	return ok;
}

static void *run(void *data)
{
	struct take_over *t = data;
	uint64_t begun_us = clock_read().boot_us;

	t->failed = !read_all(t);
	t->taken.took_us = clock_read().boot_us - begun_us;
	atomic_store(&t->done, true);
	return NULL;
}

/* ---- The session ---- */

static void list_drop(rd_kafka_topic_partition_list_t **list)
{
	if (*list != NULL)
		rd_kafka_topic_partition_list_destroy(*list);
	*list = NULL;
}

static void partitions_drop(struct partition **list)
{
	while (*list != NULL) {
		struct partition *p = *list;

		*list = p->next;
		partition_free(p);
	}
}

static void anew_drop(struct grants_anew **list)
{
	while (*list != NULL) {
		struct grants_anew *a = *list;

		*list = a->next;
		grants_anew_free(a);
	}
}

void take_over_add(struct take_over *t, const rd_kafka_topic_partition_list_t *list)
{
	if (list->cnt > 0 && t->waits == NULL)
		t->waits = rd_kafka_topic_partition_list_new(list->cnt);
	for (int i = 0; i < list->cnt; i++)
		rd_kafka_topic_partition_list_add(t->waits, list->elems[i].topic,
						  list->elems[i].partition);
}

bool take_over_anew(struct take_over *t, int32_t id)
{
	struct grants_anew *a = grants_anew_new(id);

	if (a == NULL)
		return false;
	a->next = t->waits_anew;
	t->waits_anew = a;
	return true;
}

bool take_over_remove(struct take_over *t, int32_t id)
{
	if (t->waits != NULL && rd_kafka_topic_partition_list_del(t->waits, USAGE_TOPIC, id))
		return true;
	if (t->reads == NULL ||
	    rd_kafka_topic_partition_list_find(t->reads, USAGE_TOPIC, id) == NULL ||
	    rd_kafka_topic_partition_list_find(t->gone, USAGE_TOPIC, id) != NULL)
		return false;
	rd_kafka_topic_partition_list_add(t->gone, USAGE_TOPIC, id);
	return true;
}

size_t take_over_count(const struct take_over *t)
{
	return (size_t)((t->waits != NULL ? t->waits->cnt : 0) +
			(t->reads != NULL ? t->reads->cnt - t->gone->cnt : 0));
}

bool take_over_reads(const struct take_over *t)
{
	return t->reads != NULL;
}

static bool begin(struct take_over *t)
{
	t->reads = t->waits != NULL ? t->waits : rd_kafka_topic_partition_list_new(0);
	t->waits = NULL;
	t->gone = rd_kafka_topic_partition_list_new(t->reads->cnt);
	t->taken = (struct taken){.anew = t->waits_anew};
	t->waits_anew = NULL;
	atomic_store(&t->stop, false);
	atomic_store(&t->done, false);
	if (pthread_create(&t->thread, NULL, run, t) == 0)
		return true;
	log_event(LOG_ERROR, "session_failed", "partitions can't be taken over",
		  LOG_TEXT_FIELD("why", "there can be no thread"));
	list_drop(&t->reads);
	list_drop(&t->gone);
	anew_drop(&t->taken.anew);
	return false;
}

/* What was taken away meanwhile is forgotten. */
static void leave_out_gone(struct take_over *t)
{
	struct partition **at = &t->taken.partitions;

	while (*at != NULL) {
		struct partition *p = *at;

		if (rd_kafka_topic_partition_list_find(t->gone, USAGE_TOPIC, p->id) == NULL) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		if (p->id == ROWS_PARTITION) {
			rows_close(t->taken.rows);
			t->taken.rows = NULL;
		}
		partition_free(p);
	}
}

static void end(struct take_over *t)
{
	pthread_join(t->thread, NULL);
	leave_out_gone(t);
	list_drop(&t->reads);
	list_drop(&t->gone);
}

static void drop_taken(struct take_over *t)
{
	partitions_drop(&t->taken.partitions);
	anew_drop(&t->taken.anew);
	rows_close(t->taken.rows);
	t->taken.rows = NULL;
}

enum take_over_state take_over_step(struct take_over *t, struct taken *ret_taken)
{
	if (t->reads == NULL) {
		if ((t->waits == NULL || t->waits->cnt == 0) && t->waits_anew == NULL)
			return TAKE_OVER_IDLE;
		return begin(t) ? TAKE_OVER_READS : TAKE_OVER_FAILED;
	}
	if (!atomic_load(&t->done))
		return TAKE_OVER_READS;
	end(t);
	if (t->failed) {
		drop_taken(t);
		return TAKE_OVER_FAILED;
	}
	*ret_taken = t->taken;
	t->taken = (struct taken){0};
	return TAKE_OVER_DONE;
}

void take_over_stop(struct take_over *t)
{
	if (t->reads != NULL) {
		atomic_store(&t->stop, true);
		end(t);
		drop_taken(t);
	}
	list_drop(&t->waits);
	anew_drop(&t->waits_anew);
}
