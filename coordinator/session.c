/*
 * What a coordinator owns is in a book a partition. The books are what was committed and, on top, what was read since. Every
 * `rollup` the difference leaves in one transaction: the ledgers that have changed, what was used (rows.h), and the offsets up to which
 * was read, by the group's metadata. So ledger, rows and offsets are always of one moment, whoever dies when, and a coordinator that
 * is no longer in the group, or whose successor of the same node has begun, is refused by the brokers.
 *
 *   join ──▶ assigned: committed offset, then the ledger up to its end (take_over.h) ──▶ read, commit, read, commit …
 *   revoked: commit, then forget the book. Lost: forget the book.
 *
 * The owner of partition 0 publishes the rows, of what all have told by their transactions.
 *
 * Grants of global quotas leave first in each transaction. What regions have reported is decided upon every GRANT_NS: where no rollup
 * is due, by a transaction of grants alone, with the offsets of the last, for what was counted since is not kept yet.
 *
 * Any failure ends the session: abort, leave, forget everything; the next session begins with what was committed. Nothing is
 * repaired in place.
 */
#include "session.h"

#include <librdkafka/rdkafka.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "coord_gossip.h"
#include "drift_watch.h"
#include "grant_round.h"
#include "group_consumer.h"
#include "history_record.h"
#include "history_topic.h"
#include "io/clock.h"
#include "io/log.h"
#include "ledger_topic.h"
#include "partition.h"
#include "partition_shares.h"
#include "records.h"
#include "rows.h"
#include "schema.h"
#include "take_over.h"
#include "txn.h"

enum {
	BATCH = 2048,
	POLL_MS = 50,
	GRANT_NS = SHARE_ROUND_US * 1000,
	ABORTED_MAX = 150,    /* one after the other: 30 s */
	LATE_MS = 2000,       /* a record may come so late */
	RETIRE_KEYS = 4096,   /* a partition and transaction */
	MANY_LEDGERS = 10000, /* in a transaction: what librdkafka needed for it is given back */
	RETIRE_DAYS = 8,      /* longer than kova.usage.v1 is retained */
	HLC_MS_SHIFT = 11,
};

struct session {
	struct coord_share *share;
	const struct coord_conf *conf;
	rd_kafka_t *consumer;
	struct txn txn;
	rd_kafka_queue_t *queue;
	struct partition *partitions; /* in no order */
	size_t n_partitions;
	struct take_over take_over; /* of further ones */
	struct rows *rows;          /* NULL: another coordinator publishes them */
	struct global_terms terms;
	uint64_t conf_number; /* of the configuration that these are of */
	uint64_t now_us; /* by the steady clock, read after what is being read or decided upon */
	int64_t from_ms; /* since when the books differ from what was committed */
	uint64_t committed_ns;   /* when the last transaction was */
	int n_usage;             /* partitions of kova.usage.v1 */
	uint64_t weigh_ns;       /* when weights are due */
	uint64_t floors_told_us; /* when the log was told that floors differ */
	struct buf weights; /* items that leave once this transaction is committed, a line each */
	bool failed;
	struct coord_numbers numbers;            /* published after each commit */
	uint64_t n_rows, ledger_records, grants; /* of this transaction */
	unsigned n_aborted; /* transactions since the last that was committed */
	rd_kafka_message_t *batch[BATCH];
};

static void fail(struct session *s, const char *what, const char *why)
{
	log_event(LOG_ERROR, "session_failed", what, LOG_TEXT_FIELD("why", why));
	s->failed = true;
}

static void publish_numbers(struct session *s)
{
	s->numbers.partitions = s->n_partitions;
	s->numbers.taking_over = take_over_count(&s->take_over);
	s->numbers.keys = s->numbers.quotas = 0;
	for (const struct partition *p = s->partitions; p != NULL; p = p->next) {
		s->numbers.keys += p->book.n_ledgers;
		s->numbers.quotas += p->grants.n_quotas;
	}
	pthread_mutex_lock(&s->share->lock);
	s->share->numbers = s->numbers;
	pthread_mutex_unlock(&s->share->lock);
}

/* ---- Partitions ---- */

static struct partition *partition_find(const struct session *s, int32_t id)
{
	struct partition *p = s->partitions;

	while (p != NULL && p->id != id)
		p = p->next;
	return p;
}

static void partition_drop(struct session *s, int32_t id)
{
	struct partition **at = &s->partitions, *p;

	while (*at != NULL && (*at)->id != id)
		at = &(*at)->next;
	p = *at;
	if (p == NULL)
		return;
	*at = p->next;
	s->n_partitions--;
	partition_free(p);
}

/* Who owns the one partition publishes the rows of all. */
static void rows_take(struct session *s, struct rows *rows)
{
	rows_close(s->rows);
	s->rows = rows;
}

/* ---- A transaction ---- */

static bool keep_ledgers(struct session *s)
{
	bool ok = true;

	for (struct partition *p = s->partitions; ok && p != NULL; p = p->next)
		ok = ledger_topic_keep(&s->txn, p->id, &p->book, &s->ledger_records);
	return ok;
}

static bool send_record(const char *topic, struct slice key, struct slice value, void *data)
{
	struct session *s = data;
	const struct txn_record record = {topic, RD_KAFKA_PARTITION_UA, key, value, true};

	return txn_add(&s->txn, &record);
}

/* What was used: to who publishes the rows, and, if that is this one, the rows. */
static bool publish_rows(struct session *s, int64_t to_ms)
{
	bool ok = true;

	for (struct partition *p = s->partitions; ok && p != NULL; p = p->next)
		ok = partition_shares_tell(p, &s->terms) &&
		     rows_tell(&p->book, (uint32_t)p->id, send_record, s) &&
		     (s->rows == NULL || rows_count(s->rows, &p->book, (uint32_t)p->id));
	if (ok && s->rows != NULL) {
		pthread_mutex_lock(&s->share->lock);
		ok = rows_publish(s->rows, s->from_ms, to_ms, s->share->conf, send_record, s,
				  &s->n_rows);
		pthread_mutex_unlock(&s->share->lock);
	}
	if (!ok && !s->failed)
		fail(s, "the rollup can't be written", "the log says why, or memory is out");
	return ok;
}

static bool send_to(int32_t id, const char *topic, struct slice key, struct slice value, void *data)
{
	struct session *s = data;
	const struct txn_record record = {topic, id, key, value, false};

	return txn_add(&s->txn, &record);
}

/* Weights, where they are due, and what they come from. */
static bool keep_histories(struct session *s)
{
	bool due = uv_hrtime() >= s->weigh_ns, ok = true;

	buf_clear(&s->weights);
	pthread_mutex_lock(&s->share->lock);
	for (struct partition *p = s->partitions; due && p != NULL; p = p->next)
		history_topic_weigh(&p->histories, clock_read().wall_us / 1000,
				    s->conf->half_life_ms, s->share->conf, &s->weights);
	pthread_mutex_unlock(&s->share->lock);
	if (due)
		s->weigh_ns = uv_hrtime() + s->conf->weigh_ms * 1000000;
	for (const struct partition *p = s->partitions; ok && p != NULL; p = p->next)
		ok = history_topic_keep(&p->histories, p->id, send_to, s);
	if (!ok && !s->failed)
		fail(s, "what children consumed can't be kept", "out of memory");
	return ok;
}

static void publish_weights(struct session *s)
{
	struct slice rest = buf_slice(&s->weights);

	while (rest.len > 0)
		coord_publish_weights(s->share, slice_cut(&rest, '\n'));
}

static bool grant(struct session *s, struct grant_round *round)
{
	bool ok = true;

	s->now_us = clock_read().boot_us;
	for (struct partition *p = s->partitions; ok && p != NULL; p = p->next)
		ok = p->away || grant_round_partition(round, &p->grants, p->id, s->now_us);
	s->grants = round->n;
	return ok;
}

/* Of every partition: up to what is kept by this transaction, or was by one before. */
static rd_kafka_topic_partition_list_t *offsets_of(const struct session *s, bool whole)
{
	rd_kafka_topic_partition_list_t *list =
		rd_kafka_topic_partition_list_new((int)s->n_partitions);

	for (const struct partition *p = s->partitions; p != NULL; p = p->next)
		rd_kafka_topic_partition_list_add(list, USAGE_TOPIC, p->id)->offset =
			whole ? p->offset : p->kept;
	return list;
}

/* Grants, then (in a whole one) ledgers and rows, then the offsets, then the commit. */
static enum txn_result send_all(struct session *s, struct grant_round *round, bool whole,
				int64_t to_ms)
{
	rd_kafka_topic_partition_list_t *offsets;
	enum txn_result result;

	s->n_rows = s->ledger_records = s->grants = 0;
	if (!grant(s, round))
		return TXN_FAILED;
	if (whole && !(txn_begin(&s->txn) && keep_ledgers(s) && keep_histories(s) &&
		       publish_rows(s, to_ms) &&
		       coord_events_send(&s->share->events, s->conf->node, send_record, s)))
		return TXN_FAILED;
	if (!s->txn.is_begun)
		return TXN_COMMITTED;
	offsets = offsets_of(s, whole);
	result = txn_commit(&s->txn, s->consumer, offsets);
	rd_kafka_topic_partition_list_destroy(offsets);
	s->numbers.transactions += result == TXN_COMMITTED;
	if (result == TXN_COMMITTED)
		grant_round_tell(round);
	return result;
}

static enum txn_result transact(struct session *s, bool whole, int64_t to_ms)
{
	struct grant_round round;
	enum txn_result result;

	grant_round_begin(&round, &s->txn, s->share);
	result = send_all(s, &round, whole, to_ms);
	grant_round_end(&round);
	return result;
}

static void settle(struct session *s, int64_t to_ms)
{
	for (struct partition *p = s->partitions; p != NULL; p = p->next) {
		book_settle(&p->book);
		histories_settle(&p->histories);
		p->kept = p->offset;
	}
	publish_weights(s);
	if (s->rows != NULL)
		rows_settle(s->rows);
	coord_events_settle(&s->share->events);
	s->committed_ns = uv_hrtime();
	s->from_ms = to_ms;
}

static void retire(struct session *s, int64_t now_ms)
{
	uint64_t before = (uint64_t)(now_ms - (int64_t)RETIRE_DAYS * 24 * 3600 * 1000)
			  << HLC_MS_SHIFT;

	for (struct partition *p = s->partitions; !s->failed && p != NULL; p = p->next)
		if (book_retire(&p->book, RETIRE_KEYS, before) != KOVA_OK)
			fail(s, "processes that are over can't be retired", "out of memory");
}

/* False: what was to be committed is still to be. */
static bool commit(struct session *s, bool whole)
{
	enum txn_result result;
	int64_t to_ms = (int64_t)(clock_read().wall_us / 1000);

	if (s->n_partitions == 0 || s->failed)
		return true;
	if (whole)
		retire(s, to_ms);
	result = s->failed ? TXN_FAILED : transact(s, whole, to_ms);
	if (result != TXN_COMMITTED) {
		s->numbers.refused++;
		s->failed = s->failed || result == TXN_FAILED || ++s->n_aborted > ABORTED_MAX;
		return false;
	}
	s->n_aborted = 0;
	if (whole) {
		settle(s, to_ms);
		partition_shares_publish(s->partitions, &s->terms, s->share);
	}
	if (s->ledger_records > MANY_LEDGERS)
		malloc_trim(0);
	s->numbers.rows += s->n_rows;
	s->numbers.ledger_records += s->ledger_records;
	s->numbers.grants += s->grants;
	publish_numbers(s);
	return true;
}

/* ---- Who owns what ---- */

static bool incremental(struct session *s, rd_kafka_error_t *error)
{
	if (error == NULL)
		return true;
	fail(s, "the assignment can't be followed", rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return false;
}

/* To librdkafka they are assigned when what was kept of them is known: it would begin to read. */
static void on_assigned(struct session *s, rd_kafka_topic_partition_list_t *list)
{
	rd_kafka_topic_partition_list_t *none = rd_kafka_topic_partition_list_new(0);

	take_over_add(&s->take_over, list);
	incremental(s, rd_kafka_incremental_assign(s->consumer, none));
	rd_kafka_topic_partition_list_destroy(none);
	if (take_over_count(&s->take_over) == 0)
		s->numbers.joined = true;
	publish_numbers(s);
}

/* Of a partition that was taken away meanwhile nobody wants them any more, also if it came again. */
static void on_grants(struct session *s, struct grants_anew *anew)
{
	while (anew != NULL) {
		struct grants_anew *a = anew;
		struct partition *p = partition_find(s, a->id);

		anew = a->next;
		if (!s->failed && p != NULL && p->away && partition_grants_return(p, a) != KOVA_OK)
			fail(s, "what was granted can't be kept", "out of memory");
		grants_anew_free(a);
	}
}

/* What was on its way is here: from now on it is read, by the offsets that belong to it. */
static void on_taken(struct session *s, struct taken *taken)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);

	s->n_usage = taken->n_usage;
	s->numbers.take_over_us = taken->took_us;
	while (taken->partitions != NULL) {
		struct partition *p = taken->partitions;

		taken->partitions = p->next;
		p->next = s->partitions;
		s->partitions = p;
		s->n_partitions++;
		rd_kafka_topic_partition_list_add(list, USAGE_TOPIC, p->id)->offset = p->offset;
	}
	on_grants(s, taken->anew);
	if (taken->rows != NULL)
		rows_take(s, taken->rows);
	if (incremental(s, rd_kafka_incremental_assign(s->consumer, list)))
		s->numbers.joined = true;
	rd_kafka_topic_partition_list_destroy(list);
	publish_numbers(s);
}

static void follow_take_over(struct session *s)
{
	struct taken taken;
	enum take_over_state state = take_over_step(&s->take_over, &taken);

	if (state == TAKE_OVER_DONE)
		on_taken(s, &taken);
	else if (state == TAKE_OVER_FAILED)
		s->failed = true;
}

static void on_revoked(struct session *s, rd_kafka_topic_partition_list_t *list)
{
	rd_kafka_topic_partition_list_t *had = rd_kafka_topic_partition_list_new(list->cnt);

	if (rd_kafka_assignment_lost(s->consumer))
		log_event(
			LOG_WARN, "partitions_lost",
			"the group went on without this one: what was not committed is forgotten");
	else
		commit(s, true);
	for (int i = 0; i < list->cnt; i++) {
		int32_t id = list->elems[i].partition;

		if (take_over_remove(&s->take_over, id))
			continue;
		partition_drop(s, id);
		rd_kafka_topic_partition_list_add(had, USAGE_TOPIC, id);
	}
	if (partition_find(s, ROWS_PARTITION) == NULL || s->failed)
		rows_take(s, NULL);
	incremental(s, rd_kafka_incremental_unassign(s->consumer, had));
	rd_kafka_topic_partition_list_destroy(had);
	publish_numbers(s);
}

static void on_rebalance(rd_kafka_t *consumer, rd_kafka_resp_err_t error,
			 rd_kafka_topic_partition_list_t *list, void *opaque)
{
	struct session *s = opaque;

	if (error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS)
		on_assigned(s, list);
	else if (error == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS)
		on_revoked(s, list);
	else
		rd_kafka_assign(consumer, NULL);
}

/* ---- Reading ---- */

static kova_status read_usage(struct partition *p, struct slice value)
{
	struct usage_message usage;
	kova_status status = usage_message_parse(value, &usage);

	if (status != KOVA_OK)
		return status;
	status = book_read(&p->book, &usage.key, &usage.record);
	usage_message_release(&usage);
	return status;
}

static kova_status read_child(struct session *s, struct partition *p, struct slice value)
{
	struct child_message child;
	kova_status status = child_message_parse(value, &child);

	if (status != KOVA_OK)
		return status;
	status = histories_read(&p->histories, &child.usage, s->conf->half_life_ms);
	child_message_release(&child);
	return status;
}

/* Said once in each time for which nothing is granted. */
static void on_other_floor(struct session *s, const struct share_report_message *m)
{
	s->numbers.floors_differ++;
	if (s->now_us < s->floors_told_us + GRANTER_FLOORS_US)
		return;
	s->floors_told_us = s->now_us;
	log_event(LOG_ERROR, "floors_differ",
		  "the region has another floor by its configuration than by this one, of the same "
		  "regions_version: nothing is granted",
		  LOG_TEXT_FIELD("region", m->quota.region.ptr),
		  LOG_INT_FIELD("floor_ppm", m->report.floor - 1));
}

/* Of a policy or region that is none here: its share stays its floor. */
static kova_status read_report(struct session *s, struct partition *p, struct slice value)
{
	struct share_report_message m;
	kova_status status = share_report_parse(value, &m);

	if (status != KOVA_OK)
		return status;
	s->numbers.reports++;
	status = p->away ? KOVA_OK : granter_report(&p->grants, &m.quota, &m.report, s->now_us);
	if (status == KOVA_ECONFIG)
		on_other_floor(s, &m);
	share_report_release(&m);
	s->numbers.unshared += status == KOVA_ENOTFOUND;
	return status == KOVA_ENOMEM ? status : KOVA_OK;
}

static kova_status read_value(struct session *s, struct partition *p, const rd_kafka_message_t *m)
{
	const struct slice value = {m->payload, m->len};

	switch (schema_of(m)) {
	case SCHEMA_USAGE:
		return read_usage(p, value);
	case SCHEMA_CHILDREN:
		return read_child(s, p, value);
	case SCHEMA_SHARE:
		return read_report(s, p, value);
	default:
		s->numbers.foreign++;
		return KOVA_OK;
	}
}

static void read_message(struct session *s, const rd_kafka_message_t *m)
{
	struct partition *p = partition_find(s, m->partition);
	kova_status status;

	if (p == NULL || m->offset < p->offset)
		return; /* fetched before it was revoked */
	p->offset = m->offset + 1;
	p->read_ms = rd_kafka_message_timestamp(m, NULL);
	s->numbers.records++;
	status = read_value(s, p, m);
	if (status == KOVA_EPROTO) {
		s->numbers.malformed++;
		log_event(LOG_WARN, "malformed", "a record is not of " USAGE_TOPIC,
			  LOG_INT_FIELD("partition", m->partition),
			  LOG_INT_FIELD("offset", m->offset));
	} else if (status != KOVA_OK) {
		fail(s, "a record can't be counted", kova_status_text(status));
	}
}

static void on_message_error(struct session *s, const rd_kafka_message_t *m)
{
	char why[256];

	if (rd_kafka_fatal_error(s->consumer, why, sizeof why) != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail(s, "the consumer is out", why);
	else
		log_event(LOG_WARN, "kafka_error", rd_kafka_message_errstr(m),
			  LOG_TEXT_FIELD("code", rd_kafka_err2name(m->err)));
}

static void read_batch(struct session *s)
{
	ssize_t n = rd_kafka_consume_batch_queue(s->queue, POLL_MS, s->batch, BATCH);

	s->now_us = clock_read().boot_us;
	for (ssize_t i = 0; i < n; i++) {
		if (s->batch[i]->err != RD_KAFKA_RESP_ERR_NO_ERROR)
			on_message_error(s, s->batch[i]);
		else if (!s->failed)
			read_message(s, s->batch[i]);
		rd_kafka_message_destroy(s->batch[i]);
	}
}

/* ---- What is asked of the books ---- */

/* Whether all that was written until some seconds ago was read. */
static bool is_current(const struct session *s, const struct partition *p)
{
	uint64_t patience_ns = 3 * s->conf->rollup_ms * 1000000 + (uint64_t)LATE_MS * 1000000;
	int64_t low, high;

	if (uv_hrtime() - s->committed_ns > patience_ns)
		return false; /* the brokers may be away */
	if (p->read_ms > (int64_t)(clock_read().wall_us / 1000) - LATE_MS)
		return true;
	return rd_kafka_get_watermark_offsets(s->consumer, USAGE_TOPIC, p->id, &low, &high) ==
		       RD_KAFKA_RESP_ERR_NO_ERROR &&
	       high >= 0 && p->offset >= high;
}

/* The partition of a root's records: agents leave the choice to librdkafka. */
static struct partition *partition_of_root(const struct session *s, struct slice policy,
					   struct slice root)
{
	char key[NAME_BYTES_MAX + 1 + BOOK_ROOT_MAX];

	if (s->n_usage <= 0)
		return NULL;
	memcpy(key, policy.ptr, policy.len);
	key[policy.len] = '/';
	if (root.len > 0)
		memcpy(key + policy.len + 1, root.ptr, root.len);
	return partition_find(s, rd_kafka_msg_partitioner_consistent(NULL, key,
								     policy.len + 1 + root.len,
								     s->n_usage, NULL, NULL));
}

static bool is_global(struct session *s, struct slice policy)
{
	char name[NAME_BYTES_MAX + 1] = "";
	const struct coord_policy *p;
	bool global;

	memcpy(name, policy.ptr, policy.len);
	pthread_mutex_lock(&s->share->lock);
	p = coord_conf_policy(s->share->conf, name);
	global = p != NULL && p->is_global;
	pthread_mutex_unlock(&s->share->lock);
	return global;
}

static void look_up(struct drift_query *q, void *data)
{
	struct session *s = data;
	struct usage_counts used;
	struct partition *p = partition_of_root(s, q->policy, q->root);

	if (p == NULL) {
		q->answer = DRIFT_NOT_OURS;
		return;
	}
	q->answer = is_current(s, p) ? DRIFT_OURS : DRIFT_LATER;
	q->apart = is_global(s, q->policy);
	if (book_used(&p->book, q->policy, q->root, q->apart ? q->region : NULL, &used) == KOVA_OK)
		q->kafka = used.admitted;
	else
		q->answer = DRIFT_LATER;
}

/* ---- Beginning and ending ---- */

static void join(struct session *s)
{
	rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
	rd_kafka_resp_err_t error;

	rd_kafka_topic_partition_list_add(topics, USAGE_TOPIC, RD_KAFKA_PARTITION_UA);
	rd_kafka_poll_set_consumer(s->consumer);
	s->queue = rd_kafka_queue_get_consumer(s->consumer);
	error = rd_kafka_subscribe(s->consumer, topics);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		fail(s, "the group can't be joined", rd_kafka_err2str(error));
	rd_kafka_topic_partition_list_destroy(topics);
}

/* The policies of now. */
static bool terms_read(struct session *s, struct global_terms *ret_terms)
{
	kova_status status;

	pthread_mutex_lock(&s->share->lock);
	s->conf_number = s->share->conf_number;
	status = global_terms_copy(s->share->conf, s->conf, ret_terms);
	pthread_mutex_unlock(&s->share->lock);
	if (status != KOVA_OK)
		fail(s, "the policies can't be read", kova_status_text(status));
	return status == KOVA_OK;
}

static bool conf_is_another(const struct session *s)
{
	pthread_mutex_lock(&s->share->lock);
	bool another = s->conf_number != s->share->conf_number;

	pthread_mutex_unlock(&s->share->lock);
	return another;
}

/*
 * What one would find that takes over now is read by the take-over's thread. Whatever was granted has been committed or has ended the
 * session, and until it is read nothing more is granted there; reports of that time are as if they had not come: the next ones do.
 */
static void begin_anew(struct session *s, bool all)
{
	for (struct partition *p = s->partitions; !s->failed && p != NULL; p = p->next) {
		if (p->away || (!all && s->now_us <= p->grants.base_us + GRANTER_OLD_US))
			continue;
		partition_grants_go(p);
		if (!take_over_anew(&s->take_over, p->id))
			fail(s, "what was granted can't be read again", "out of memory");
	}
}

/* Where global policies have changed, and where it is time. */
static void follow_conf(struct session *s)
{
	struct global_terms terms, was = s->terms;

	if (take_over_reads(&s->take_over))
		return; /* its thread goes by the terms */
	begin_anew(s, false);
	if (s->failed || !conf_is_another(s) || !terms_read(s, &terms))
		return;
	if (global_terms_are_alike(&terms, &was)) {
		global_terms_release(&terms);
		return;
	}
	s->terms = terms;
	begin_anew(s, true);
	global_terms_release(&was);
}

static void work(struct session *s)
{
	uint64_t every_ns = s->conf->rollup_ms * 1000000, due_ns = uv_hrtime() + every_ns;
	uint64_t grants_due_ns = uv_hrtime() + GRANT_NS;

	s->from_ms = (int64_t)(clock_read().wall_us / 1000);
	while (!s->failed && !atomic_load(&s->share->stop)) {
		read_batch(s);
		follow_take_over(s);
		drift_watch_answer(s->share->drift, look_up, s);
		bool whole = uv_hrtime() >= due_ns;

		if (!whole && uv_hrtime() < grants_due_ns)
			continue;
		follow_conf(s);
		bool done = commit(s, whole);

		grants_due_ns = uv_hrtime() + GRANT_NS;
		if (whole)
			due_ns = done ? uv_hrtime() + every_ns : grants_due_ns;
	}
	commit(s, true);
}

static void leave(struct session *s)
{
	take_over_stop(&s->take_over);
	if (s->failed)
		txn_abort(&s->txn);
	if (s->consumer != NULL) {
		rd_kafka_consumer_close(s->consumer);
		if (s->queue != NULL)
			rd_kafka_queue_destroy(s->queue);
		rd_kafka_destroy(s->consumer);
	}
	txn_close(&s->txn);
	while (s->partitions != NULL)
		partition_drop(s, s->partitions->id);
	rows_take(s, NULL);
	buf_release(&s->weights);
	s->numbers.joined = false;
	s->numbers.failures += s->failed;
	publish_numbers(s);
}

/* Transactions first: they wait for those of one before of the same name. */
static void begin(struct session *s)
{
	s->failed = !terms_read(s, &s->terms) || !txn_open(&s->txn, s->conf, &s->share->stop);
	if (s->failed)
		return;
	s->consumer = group_consumer_new(s->conf, on_rebalance, s);
	s->failed = s->consumer == NULL;
	take_over_init(&s->take_over, s->conf, &s->terms, s->consumer);
	if (!s->failed)
		join(s);
}

bool session_run(struct coord_share *share)
{
	struct session *s = calloc(1, sizeof *s);
	bool stopped;

	if (s == NULL)
		return false;
	s->share = share;
	s->conf = share->first;
	pthread_mutex_lock(&share->lock);
	s->numbers = share->numbers;
	pthread_mutex_unlock(&share->lock);
	begin(s);
	if (!s->failed)
		work(s);
	leave(s);
	stopped = atomic_load(&share->stop);
	global_terms_release(&s->terms);
	free(s);
	return stopped;
}
