/*
 * What a coordinator owns is in a book a partition. The books are what was committed and, on top, what was read since. Every
 * `rollup` the difference leaves in one transaction: the ledgers that have changed, what was used (rows.h), and the offsets up to which
 * was read, by the group's metadata. So ledger, rows and offsets are always of one moment, whoever dies when, and a coordinator that
 * is no longer in the group, or whose successor of the same node has begun, is refused by the brokers.
 *
 *   join ──▶ assigned: committed offset, then the ledger up to its end ──▶ read, commit, read, commit …
 *   revoked: commit, then forget the book. Lost: forget the book.
 *
 * The owner of partition 0 publishes the rows, of what all have told by their transactions.
 *
 * Any failure ends the session: abort, leave, forget everything; the next session begins with what was committed. Nothing is
 * repaired in place.
 */
#include "session.h"

#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "book.h"
#include "compacted.h"
#include "coord_gossip.h"
#include "drift_watch.h"
#include "history_record.h"
#include "history_topic.h"
#include "io/clock.h"
#include "io/log.h"
#include "ledger_topic.h"
#include "records.h"
#include "rows.h"

enum {
	BATCH = 2048,
	POLL_MS = 50,
	CALL_MS = 10000,
	COMMIT_MS = 10000,
	INIT_MS = 2000,
	RETRIES = 10,
	FULL_MS = 10,
	LATE_MS = 2000,      /* a record may come so late */
	RETIRE_SLOTS = 4096, /* a partition and transaction */
	RETIRE_DAYS = 8,     /* longer than kova.usage.v1 is retained */
	HLC_MS_SHIFT = 11,
};

struct partition {
	struct partition *next;
	int32_t id;
	int64_t offset;  /* the next record's */
	int64_t read_ms; /* when the last record was written */
	struct book book;
	struct histories histories;
};

struct session {
	struct coord_share *share;
	const struct coord_conf *conf;
	rd_kafka_t *consumer, *producer;
	rd_kafka_queue_t *queue;
	struct partition *partitions; /* in no order */
	size_t n_partitions;
	struct rows *rows;     /* NULL: another coordinator publishes them */
	int64_t from_ms;       /* since when the books differ from what was committed */
	uint64_t committed_ns; /* when the last transaction was */
	int n_usage;           /* partitions of kova.usage.v1 */
	uint64_t weigh_ns;     /* when weights are due */
	struct buf weights; /* items that leave once this transaction is committed, a line each */
	bool failed;
	struct coord_numbers numbers;    /* published after each commit */
	uint64_t n_rows, ledger_records; /* of this transaction */
	rd_kafka_message_t *batch[BATCH];
};

static int64_t now_ms(void)
{
	return (int64_t)(clock_read().wall_us / 1000);
}

static void fail(struct session *s, const char *what, const char *why)
{
	log_event(LOG_ERROR, "session_failed", what, LOG_TEXT_FIELD("why", why));
	s->failed = true;
}

static void publish_numbers(struct session *s)
{
	s->numbers.partitions = s->n_partitions;
	s->numbers.keys = 0;
	for (const struct partition *p = s->partitions; p != NULL; p = p->next)
		s->numbers.keys += p->book.n_quotas;
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

static void partition_add(struct session *s, int32_t id, int64_t offset)
{
	struct partition *p = calloc(1, sizeof *p);

	if (p == NULL) {
		fail(s, "a partition can't be taken over", "out of memory");
		return;
	}
	*p = (struct partition){.next = s->partitions, .id = id, .offset = offset};
	s->partitions = p;
	s->n_partitions++;
	if (!ledger_topic_read(s->conf, id, &p->book, &s->share->stop) ||
	    !history_topic_read(s->conf, id, &p->histories, &s->share->stop))
		s->failed = true;
	log_event(LOG_INFO, "partition_assigned", "its ledger is read",
		  LOG_INT_FIELD("partition", id), LOG_INT_FIELD("offset", offset),
		  LOG_INT_FIELD("keys", (int64_t)p->book.n_quotas));
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
	book_release(&p->book);
	histories_release(&p->histories);
	free(p);
}

/* Who owns the one partition publishes the rows of all. */
static void rows_take(struct session *s, bool own)
{
	if (own && s->rows == NULL) {
		s->rows = rows_open(s->conf, &s->share->stop);
		s->failed |= s->rows == NULL;
	} else if (!own) {
		rows_close(s->rows);
		s->rows = NULL;
	}
}

/* ---- A transaction ---- */

/* Whether the call has succeeded; one that may be tried again is, some times. */
static bool in_transaction(struct session *s, const char *what,
			   rd_kafka_error_t *(*call)(struct session *s))
{
	rd_kafka_error_t *error = call(s);

	for (int i = 0; error != NULL && rd_kafka_error_is_retriable(error) && i < RETRIES &&
			!atomic_load(&s->share->stop);
	     i++) {
		rd_kafka_error_destroy(error);
		error = call(s);
	}
	if (error == NULL)
		return true;
	fail(s, what, rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return false;
}

static rd_kafka_error_t *call_init(struct session *s)
{
	return rd_kafka_init_transactions(s->producer, INIT_MS);
}

static rd_kafka_error_t *call_begin(struct session *s)
{
	return rd_kafka_begin_transaction(s->producer);
}

/* Of every partition: a transaction without an offset would not be refused to one that is out of the group. */
static rd_kafka_error_t *call_send_offsets(struct session *s)
{
	rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(s->consumer);

	/*
	 * One that has just learned that it is out has the metadata of nobody, which brokers don't refuse. The library marks the assignment as
	 * lost in the same step, so this comes after the metadata was read.
	 */
	if (rd_kafka_assignment_lost(s->consumer)) {
		rd_kafka_consumer_group_metadata_destroy(group);
		return rd_kafka_error_new(RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
					  "the group goes on without this one");
	}
	rd_kafka_topic_partition_list_t *list =
		rd_kafka_topic_partition_list_new((int)s->n_partitions);
	rd_kafka_error_t *error;

	for (const struct partition *p = s->partitions; p != NULL; p = p->next)
		rd_kafka_topic_partition_list_add(list, USAGE_TOPIC, p->id)->offset = p->offset;
	error = rd_kafka_send_offsets_to_transaction(s->producer, list, group, COMMIT_MS);
	rd_kafka_topic_partition_list_destroy(list);
	rd_kafka_consumer_group_metadata_destroy(group);
	return error;
}

static rd_kafka_error_t *call_commit(struct session *s)
{
	return rd_kafka_commit_transaction(s->producer, COMMIT_MS);
}

/* Waits for room in the producer's queue. */
static bool produce(struct session *s, const rd_kafka_vu_t *vus, size_t n)
{
	rd_kafka_error_t *error = rd_kafka_produceva(s->producer, vus, n);

	for (int i = 0; error != NULL && i < COMMIT_MS / FULL_MS &&
			rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__QUEUE_FULL;
	     i++) {
		rd_kafka_error_destroy(error);
		rd_kafka_poll(s->producer, FULL_MS);
		error = rd_kafka_produceva(s->producer, vus, n);
	}
	if (error == NULL)
		return true;
	fail(s, "a record can't be produced", rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return false;
}

static rd_kafka_vu_t vu_bytes(rd_kafka_vtype_t type, struct slice bytes)
{
	return (rd_kafka_vu_t){.vtype = type, .u.mem = {(void *)(uintptr_t)bytes.ptr, bytes.len}};
}

static rd_kafka_vu_t vu_topic(const char *topic)
{
	return (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = topic};
}

static rd_kafka_vu_t vu_header(const char *name, const char *value)
{
	return (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADER,
			       .u.header = {name, value, (ssize_t)strlen(value)}};
}

static const rd_kafka_vu_t vu_copy = {.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY};

static bool keep_ledger(struct session *s, const struct partition *p, const struct book_quota *q,
			struct buf *key_bytes, struct buf *value)
{
	const struct book_key key = book_key_of(&p->book, q);

	buf_clear(key_bytes);
	buf_clear(value);
	ledger_key_write(&key, key_bytes);
	if (ledger_value_write(&key, &q->ledger, value) != KOVA_OK || buf_failed(key_bytes)) {
		fail(s, "a ledger can't be written", "out of memory");
		return false;
	}
	const rd_kafka_vu_t vus[] = {
		vu_topic(LEDGER_TOPIC),
		{.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = p->id},
		vu_bytes(RD_KAFKA_VTYPE_KEY, buf_slice(key_bytes)),
		vu_bytes(RD_KAFKA_VTYPE_VALUE, buf_slice(value)),
		vu_copy,
	};

	s->ledger_records++;
	return produce(s, vus, sizeof vus / sizeof vus[0]);
}

static bool keep_ledgers(struct session *s)
{
	struct buf key = {0}, value = {0};
	bool ok = true;

	for (const struct partition *p = s->partitions; p != NULL; p = p->next)
		for (const struct book_quota *q = p->book.changed; ok && q != NULL;
		     q = q->next_changed)
			ok = keep_ledger(s, p, q, &key, &value);
	buf_release(&key);
	buf_release(&value);
	return ok;
}

static bool send_record(const char *topic, struct slice key, struct slice value, void *data)
{
	struct session *s = data;
	const rd_kafka_vu_t vus[] = {
		vu_topic(topic),
		vu_bytes(RD_KAFKA_VTYPE_KEY, key),
		vu_bytes(RD_KAFKA_VTYPE_VALUE, value),
		vu_header("schema", topic),
		vu_header("agent", s->conf->node),
		vu_copy,
	};

	return produce(s, vus, sizeof vus / sizeof vus[0]);
}

/* What was used: to who publishes the rows, and, if that is this one, the rows. */
static bool publish_rows(struct session *s, int64_t to_ms)
{
	bool ok = true;

	for (const struct partition *p = s->partitions; ok && p != NULL; p = p->next)
		ok = rows_tell(&p->book, (uint32_t)p->id, send_record, s) &&
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
	const rd_kafka_vu_t vus[] = {
		vu_topic(topic),
		{.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = id},
		vu_bytes(RD_KAFKA_VTYPE_KEY, key),
		vu_bytes(RD_KAFKA_VTYPE_VALUE, value),
		vu_copy,
	};

	return produce(s, vus, sizeof vus / sizeof vus[0]);
}

/* Weights, where they are due, and what they come from. */
static bool keep_histories(struct session *s)
{
	bool due = uv_hrtime() >= s->weigh_ns, ok = true;

	buf_clear(&s->weights);
	pthread_mutex_lock(&s->share->lock);
	for (struct partition *p = s->partitions; due && p != NULL; p = p->next)
		history_topic_weigh(&p->histories, (uint64_t)now_ms(), s->conf->half_life_ms,
				    s->share->conf, &s->weights);
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

static void commit(struct session *s)
{
	int64_t to_ms = now_ms();
	uint64_t before = (uint64_t)(to_ms - (int64_t)RETIRE_DAYS * 24 * 3600 * 1000)
			  << HLC_MS_SHIFT;

	if (s->n_partitions == 0 || s->failed)
		return;
	s->n_rows = s->ledger_records = 0;
	for (struct partition *p = s->partitions; p != NULL; p = p->next)
		book_retire(&p->book, RETIRE_SLOTS, before);
	if (!in_transaction(s, "no transaction can be begun", call_begin) || !keep_ledgers(s) ||
	    !keep_histories(s) || !publish_rows(s, to_ms) ||
	    !coord_events_send(&s->share->events, s->conf->node, send_record, s) ||
	    !in_transaction(s, "the offsets were refused", call_send_offsets) ||
	    !in_transaction(s, "the transaction was not committed", call_commit))
		return;
	for (struct partition *p = s->partitions; p != NULL; p = p->next) {
		book_settle(&p->book);
		histories_settle(&p->histories);
	}
	publish_weights(s);
	if (s->rows != NULL)
		rows_settle(s->rows);
	coord_events_settle(&s->share->events);
	s->committed_ns = uv_hrtime();
	s->from_ms = to_ms;
	s->numbers.transactions++;
	s->numbers.rows += s->n_rows;
	s->numbers.ledger_records += s->ledger_records;
	publish_numbers(s);
}

/* ---- Who owns what ---- */

/* Where to go on; the first record there is where nobody has committed. */
static bool find_offsets(struct session *s, rd_kafka_topic_partition_list_t *list)
{
	rd_kafka_resp_err_t error = rd_kafka_committed(s->consumer, list, COMMIT_MS);

	for (int i = 0; error == RD_KAFKA_RESP_ERR_NO_ERROR && i < list->cnt; i++) {
		rd_kafka_topic_partition_t *p = &list->elems[i];
		int64_t high;

		error = p->err;
		if (error == RD_KAFKA_RESP_ERR_NO_ERROR && p->offset < 0)
			error = rd_kafka_query_watermark_offsets(
				s->consumer, p->topic, p->partition, &p->offset, &high, CALL_MS);
	}
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return true;
	fail(s, "the group's offsets are not known", rd_kafka_err2str(error));
	return false;
}

static bool incremental(struct session *s, rd_kafka_error_t *error)
{
	if (error == NULL)
		return true;
	fail(s, "the assignment can't be followed", rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return false;
}

/*
 * The offsets first, then the ledger: what is committed between the two is then read twice, which changes nothing. The other way
 * it would be missing.
 */
static void on_assigned(struct session *s, rd_kafka_topic_partition_list_t *list)
{
	if (list->cnt > 0 && !s->failed && ledger_topic_ensure(s->consumer) &&
	    rows_ensure(s->consumer) && history_topic_ensure(s->consumer) && find_offsets(s, list))
		for (int i = 0; i < list->cnt && !s->failed; i++)
			partition_add(s, list->elems[i].partition, list->elems[i].offset);
	else if (list->cnt > 0)
		s->failed = true;
	s->n_usage = compacted_partitions(s->consumer, USAGE_TOPIC);
	if (!s->failed)
		rows_take(s, partition_find(s, ROWS_PARTITION) != NULL);
	if (incremental(s, rd_kafka_incremental_assign(s->consumer, list)) && !s->failed) {
		s->numbers.joined = true;
		publish_numbers(s);
	}
}

static void on_revoked(struct session *s, rd_kafka_topic_partition_list_t *list)
{
	if (rd_kafka_assignment_lost(s->consumer))
		log_event(
			LOG_WARN, "partitions_lost",
			"the group went on without this one: what was not committed is forgotten");
	else
		commit(s);
	for (int i = 0; i < list->cnt; i++)
		partition_drop(s, list->elems[i].partition);
	rows_take(s, partition_find(s, ROWS_PARTITION) != NULL && !s->failed);
	incremental(s, rd_kafka_incremental_unassign(s->consumer, list));
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

/* What the record is; without a header it is usage. */
static bool has_schema(const rd_kafka_message_t *m, const char *schema)
{
	rd_kafka_headers_t *headers;
	const void *value;
	size_t len;

	return rd_kafka_message_headers(m, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR &&
	       rd_kafka_header_get_last(headers, "schema", &value, &len) ==
		       RD_KAFKA_RESP_ERR_NO_ERROR &&
	       slice_equal((struct slice){value, len}, slice_of(schema));
}

static void read_message(struct session *s, const rd_kafka_message_t *m)
{
	struct partition *p = partition_find(s, m->partition);
	const struct slice value = {m->payload, m->len};
	kova_status status;

	if (p == NULL || m->offset < p->offset)
		return; /* fetched before it was revoked */
	p->offset = m->offset + 1;
	p->read_ms = rd_kafka_message_timestamp(m, NULL);
	s->numbers.records++;
	status = has_schema(m, CHILDREN_SCHEMA) ? read_child(s, p, value) : read_usage(p, value);
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
	if (p->read_ms > now_ms() - LATE_MS)
		return true;
	return rd_kafka_get_watermark_offsets(s->consumer, USAGE_TOPIC, p->id, &low, &high) ==
		       RD_KAFKA_RESP_ERR_NO_ERROR &&
	       high >= 0 && p->offset >= high;
}

/* The partition of a root's records: agents leave the choice to librdkafka. */
static const struct partition *partition_of_root(const struct session *s, struct slice policy,
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
	const struct partition *p = partition_of_root(s, q->policy, q->root);

	if (p == NULL) {
		q->answer = DRIFT_NOT_OURS;
		return;
	}
	q->answer = is_current(s, p) ? DRIFT_OURS : DRIFT_LATER;
	q->apart = is_global(s, q->policy);
	q->kafka = book_used(&p->book, q->policy, q->root, q->apart ? q->region : NULL).admitted;
}

/* ---- Beginning and ending ---- */

struct setting {
	const char *name, *value;
};

/* A client of the settings; NULL: it can't be. Takes `c`. */
static rd_kafka_t *client_new(struct session *s, rd_kafka_type_t type, rd_kafka_conf_t *c,
			      const struct setting *settings, size_t n, struct buf *error)
{
	rd_kafka_t *client = NULL;
	char why[256] = "";
	bool ok = c != NULL;

	for (size_t i = 0; ok && i < n; i++)
		ok = kafka_conf_set(c, settings[i].name, settings[i].value, error);
	if (ok)
		client = rd_kafka_new(type, c, why, sizeof why);
	if (client != NULL)
		return client;
	if (c != NULL)
		rd_kafka_conf_destroy(c);
	buf_add(error, "", 1);
	fail(s, "there can be no client",
	     ok                  ? why
	     : buf_failed(error) ? "out of memory"
				 : error->ptr);
	return NULL;
}

static rd_kafka_t *producer_new(struct session *s)
{
	char id[sizeof "kova-coordinator." + NAME_BYTES_MAX];
	const struct setting settings[] = {
		{"transactional.id", id},          {"transaction.timeout.ms", "30000"},
		{"compression.codec", "lz4"},      {"queue.buffering.max.messages", "200000"},
		{"log.connection.close", "false"}, {"reconnect.backoff.max.ms", "1000"},
	};
	struct buf error = {0};

	snprintf(id, sizeof id, "kova-coordinator.%s", s->conf->node);
	rd_kafka_t *client = client_new(s, RD_KAFKA_PRODUCER,
					kafka_conf_client(&s->conf->kafka, s->conf->node, &error),
					settings, sizeof settings / sizeof settings[0], &error);
	buf_release(&error);
	return client;
}

static rd_kafka_t *consumer_new(struct session *s)
{
	static const struct setting settings[] = {
		{"group.id", "kova-coordinator"},
		{"partition.assignment.strategy", "cooperative-sticky"},
		{"enable.auto.commit", "false"},
		{"enable.auto.offset.store", "false"},
		{"auto.offset.reset", "earliest"},
		{"isolation.level", "read_committed"},
		{"session.timeout.ms", "10000"},
		{"topic.metadata.refresh.interval.ms", "5000"},
		{"log.connection.close", "false"},
		{"reconnect.backoff.max.ms", "1000"},
	};
	struct buf error = {0};
	rd_kafka_conf_t *c = kafka_conf_client(&s->conf->kafka, s->conf->node, &error);

	if (c != NULL) {
		rd_kafka_conf_set_rebalance_cb(c, on_rebalance);
		rd_kafka_conf_set_opaque(c, s);
	}
	rd_kafka_t *client = client_new(s, RD_KAFKA_CONSUMER, c, settings,
					sizeof settings / sizeof settings[0], &error);

	buf_release(&error);
	return client;
}

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

static void work(struct session *s)
{
	uint64_t every_ns = s->conf->rollup_ms * 1000000, due_ns = uv_hrtime() + every_ns;

	s->from_ms = now_ms();
	while (!s->failed && !atomic_load(&s->share->stop)) {
		read_batch(s);
		drift_watch_answer(s->share->drift, look_up, s);
		if (uv_hrtime() < due_ns)
			continue;
		commit(s);
		due_ns = uv_hrtime() + every_ns;
	}
	commit(s);
}

static void leave(struct session *s)
{
	rd_kafka_error_t *error;

	if (s->failed && s->producer != NULL) {
		error = rd_kafka_abort_transaction(s->producer, CALL_MS);
		if (error != NULL) /* there is none, or it is refused: that is as good */
			rd_kafka_error_destroy(error);
	}
	if (s->consumer != NULL) {
		rd_kafka_consumer_close(s->consumer);
		if (s->queue != NULL)
			rd_kafka_queue_destroy(s->queue);
		rd_kafka_destroy(s->consumer);
	}
	if (s->producer != NULL)
		rd_kafka_destroy(s->producer);
	while (s->partitions != NULL)
		partition_drop(s, s->partitions->id);
	rows_take(s, false);
	buf_release(&s->weights);
	s->numbers.joined = false;
	s->numbers.failures += s->failed;
	publish_numbers(s);
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
	s->producer = producer_new(s);
	if (s->producer != NULL)
		s->consumer = consumer_new(s);
	if (s->consumer != NULL && in_transaction(s, "transactions can't be had", call_init))
		join(s);
	if (!s->failed)
		work(s);
	leave(s);
	stopped = atomic_load(&share->stop);
	free(s);
	return stopped;
}
