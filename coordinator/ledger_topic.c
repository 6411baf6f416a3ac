#include "ledger_topic.h"

#include <stdio.h>
#include <string.h>

#include "io/log.h"
#include "records.h"

enum {
	CALL_MS = 10000,
	READ_MS = 60000, /* longer than a transaction may be open */
	POLL_MS = 100,
};

static bool give_up(const char *why)
{
	log_event(LOG_ERROR, "ledger", "the ledger can't be used", LOG_TEXT_FIELD("why", why));
	return false;
}

/* ---- That it is there ---- */

/* −1: it is not known. 0: there is no such topic. */
static int count_partitions(rd_kafka_t *client, const char *name)
{
	rd_kafka_topic_t *topic = rd_kafka_topic_new(client, name, NULL);
	const struct rd_kafka_metadata *m = NULL;
	int n = -1;

	if (topic == NULL)
		return -1;
	if (rd_kafka_metadata(client, 0, topic, &m, CALL_MS) == RD_KAFKA_RESP_ERR_NO_ERROR) {
		const struct rd_kafka_metadata_topic *t = m->topic_cnt == 1 ? m->topics : NULL;

		if (t != NULL && t->err == RD_KAFKA_RESP_ERR_NO_ERROR)
			n = t->partition_cnt;
		else if (t != NULL && t->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
			n = 0;
		rd_kafka_metadata_destroy(m);
	}
	rd_kafka_topic_destroy(topic);
	return n;
}

static bool was_created(rd_kafka_event_t *event, char *ret_why, size_t size)
{
	const rd_kafka_CreateTopics_result_t *result =
		event != NULL ? rd_kafka_event_CreateTopics_result(event) : NULL;
	const rd_kafka_topic_result_t **topics;
	rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__TIMED_OUT;
	size_t n = 0;

	if (event != NULL && rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
		error = rd_kafka_event_error(event);
	else if (result != NULL) {
		topics = rd_kafka_CreateTopics_result_topics(result, &n);
		error = n == 1 ? rd_kafka_topic_result_error(topics[0]) : RD_KAFKA_RESP_ERR__FAIL;
	}
	snprintf(ret_why, size, "it can't be created: %s", rd_kafka_err2str(error));
	return error == RD_KAFKA_RESP_ERR_NO_ERROR ||
	       error == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS;
}

static bool create(rd_kafka_t *client, int partitions)
{
	char why[256] = "";
	rd_kafka_NewTopic_t *topic =
		rd_kafka_NewTopic_new(LEDGER_TOPIC, partitions, -1, why, sizeof why);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	rd_kafka_event_t *event;
	bool ok;

	if (topic == NULL) {
		rd_kafka_queue_destroy(queue);
		return give_up(why);
	}
	rd_kafka_NewTopic_set_config(topic, "cleanup.policy", "compact");
	rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
	event = rd_kafka_queue_poll(queue, CALL_MS);
	ok = was_created(event, why, sizeof why);
	if (event != NULL)
		rd_kafka_event_destroy(event);
	rd_kafka_NewTopic_destroy(topic);
	rd_kafka_queue_destroy(queue);
	return ok || give_up(why);
}

bool ledger_topic_ensure(rd_kafka_t *client)
{
	int usage = count_partitions(client, USAGE_TOPIC);
	int ledger = count_partitions(client, LEDGER_TOPIC);
	char why[128];

	if (usage <= 0 || ledger < 0)
		return give_up("the brokers don't say which partitions there are");
	if (ledger == 0)
		return create(client, usage);
	if (ledger == usage)
		return true;
	snprintf(why, sizeof why,
		 LEDGER_TOPIC " has %d partitions and must have those of " USAGE_TOPIC ": %d",
		 ledger, usage);
	return give_up(why);
}

/* ---- Reading ---- */

static rd_kafka_t *reader_new(const struct coord_conf *conf, const char *isolation)
{
	struct buf error = {0};
	char why[256] = "";
	rd_kafka_conf_t *c = kafka_conf_client(&conf->kafka, conf->node, &error);
	rd_kafka_t *reader = NULL;
	bool ok = c != NULL && kafka_conf_set(c, "group.id", "kova-coordinator-ledger", &error) &&
		  kafka_conf_set(c, "enable.auto.commit", "false", &error) &&
		  kafka_conf_set(c, "enable.partition.eof", "true", &error) &&
		  kafka_conf_set(c, "auto.offset.reset", "earliest", &error) &&
		  kafka_conf_set(c, "log.connection.close", "false", &error) &&
		  kafka_conf_set(c, "isolation.level", isolation, &error);

	if (ok)
		reader = rd_kafka_new(RD_KAFKA_CONSUMER, c, why, sizeof why);
	if (reader == NULL) {
		buf_add(&error, "", 1);
		give_up(ok ? why : buf_failed(&error) ? "out of memory" : error.ptr);
		if (c != NULL)
			rd_kafka_conf_destroy(c);
	}
	buf_release(&error);
	return reader;
}

/*
 * The end of the partition, open transactions included. −1: it is not known. A client that reads only what is committed would be
 * told the end of that.
 */
static int64_t end_of(const struct coord_conf *conf, int32_t id)
{
	rd_kafka_t *client = reader_new(conf, "read_uncommitted");
	int64_t low, high = -1;

	if (client == NULL)
		return -1;
	if (rd_kafka_query_watermark_offsets(client, LEDGER_TOPIC, id, &low, &high, CALL_MS) !=
	    RD_KAFKA_RESP_ERR_NO_ERROR)
		high = -1;
	else if (low == high)
		high = 0; /* nothing is there, whatever was */
	rd_kafka_destroy(client);
	return high;
}

static bool take_over(struct book *book, const rd_kafka_message_t *m)
{
	struct ledger_message message;
	kova_status status;

	if (m->len == 0)
		return true; /* a tombstone */
	status = ledger_message_parse((struct slice){m->payload, m->len}, &message);
	if (status == KOVA_EPROTO)
		return give_up("a record is not of " LEDGER_TOPIC);
	if (status == KOVA_OK) {
		status = book_restore(book, &message.key, &message.ledger);
		ledger_message_release(&message);
	}
	return status == KOVA_OK || give_up("out of memory");
}

/* Up to the offset `end`. */
static bool read_up_to(rd_kafka_t *reader, int64_t end, struct book *book, const atomic_bool *stop)
{
	int64_t at = 0;

	for (unsigned waited = 0; at < end && waited < READ_MS / POLL_MS && !atomic_load(stop);) {
		rd_kafka_message_t *m = rd_kafka_consumer_poll(reader, POLL_MS);
		bool ok = true;

		if (m == NULL) {
			waited++;
			continue;
		}
		if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
			ok = take_over(book, m);
			at = m->offset + 1;
		} else if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
			at = m->offset;
		}
		rd_kafka_message_destroy(m);
		if (!ok)
			return false;
	}
	return at >= end || give_up("it was not read to its end in time");
}

bool ledger_topic_read(const struct coord_conf *conf, int32_t id, struct book *book,
		       const atomic_bool *stop)
{
	int64_t end = end_of(conf, id);
	rd_kafka_topic_partition_list_t *list;
	rd_kafka_t *reader;
	bool ok;

	if (end < 0)
		return give_up("its end is not known");
	if (end == 0)
		return true;
	reader = reader_new(conf, "read_committed");
	if (reader == NULL)
		return false;
	rd_kafka_poll_set_consumer(reader);
	list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_list_add(list, LEDGER_TOPIC, id)->offset =
		RD_KAFKA_OFFSET_BEGINNING;
	ok = rd_kafka_assign(reader, list) == RD_KAFKA_RESP_ERR_NO_ERROR &&
	     read_up_to(reader, end, book, stop);
	rd_kafka_topic_partition_list_destroy(list);
	rd_kafka_consumer_close(reader);
	rd_kafka_destroy(reader);
	return ok;
}
