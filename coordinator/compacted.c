#include "compacted.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/kafka_conf.h"
#include "io/log.h"

enum {
	CALL_MS = 10000,
	READ_MS = 60000, /* longer than a transaction may be open */
	POLL_MS = 100,
	KNOWN_MS = 10000,
	POLLED_MAX = 100000, /* records without waiting */
};

static bool give_up(const char *topic, const char *why)
{
	log_event(LOG_ERROR, "topic", "a topic can't be used", LOG_TEXT_FIELD("topic", topic),
		  LOG_TEXT_FIELD("why", why));
	return false;
}

/* ---- That it is there ---- */

int compacted_partitions(rd_kafka_t *client, const char *topic)
{
	rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
	const struct rd_kafka_metadata *m = NULL;
	int n = -1;

	if (handle == NULL)
		return -1;
	if (rd_kafka_metadata(client, 0, handle, &m, CALL_MS) == RD_KAFKA_RESP_ERR_NO_ERROR) {
		const struct rd_kafka_metadata_topic *t = m->topic_cnt == 1 ? m->topics : NULL;

		if (t != NULL && t->err == RD_KAFKA_RESP_ERR_NO_ERROR)
			n = t->partition_cnt;
		else if (t != NULL && t->err == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
			n = 0;
		rd_kafka_metadata_destroy(m);
	}
	rd_kafka_topic_destroy(handle);
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

static bool create(rd_kafka_t *client, const char *name, int partitions)
{
	char why[256] = "";
	rd_kafka_NewTopic_t *topic = rd_kafka_NewTopic_new(name, partitions, -1, why, sizeof why);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	rd_kafka_event_t *event;
	bool ok;

	if (topic == NULL) {
		rd_kafka_queue_destroy(queue);
		return give_up(name, why);
	}
	rd_kafka_NewTopic_set_config(topic, "cleanup.policy", "compact");
	rd_kafka_CreateTopics(client, &topic, 1, NULL, queue);
	event = rd_kafka_queue_poll(queue, CALL_MS);
	ok = was_created(event, why, sizeof why);
	if (event != NULL)
		rd_kafka_event_destroy(event);
	rd_kafka_NewTopic_destroy(topic);
	rd_kafka_queue_destroy(queue);
	return ok || give_up(name, why);
}

bool compacted_ensure(rd_kafka_t *client, const char *topic, int partitions)
{
	int n = compacted_partitions(client, topic);
	char why[128];

	if (partitions <= 0 || n < 0)
		return give_up(topic, "the brokers don't say which partitions there are");
	if (n == 0)
		return create(client, topic, partitions);
	if (n == partitions)
		return true;
	snprintf(why, sizeof why, "it has %d partitions and must have %d", n, partitions);
	return give_up(topic, why);
}

/* ---- Reading ---- */

static rd_kafka_t *reader_new(const struct coord_conf *conf, const char *topic,
			      const char *isolation)
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
		give_up(topic, ok ? why : buf_failed(&error) ? "out of memory" : error.ptr);
		if (c != NULL)
			rd_kafka_conf_destroy(c);
	}
	buf_release(&error);
	return reader;
}

static bool is_unknown(rd_kafka_resp_err_t error)
{
	return error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
	       error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
	       error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
	       error == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE ||
	       error == RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
}

/*
 * The end of the partition, open transactions included. −1: it is not known. A client that reads only what is committed would be
 * told the end of that.
 */
static int64_t end_of(const struct coord_conf *conf, const char *topic, int32_t partition)
{
	rd_kafka_t *client = reader_new(conf, topic, "read_uncommitted");
	rd_kafka_resp_err_t error;
	int64_t low, high = -1;

	if (client == NULL)
		return -1;
	error = rd_kafka_query_watermark_offsets(client, topic, partition, &low, &high, CALL_MS);
	/* Of a topic that was just made, not every broker knows. */
	for (int waited = 0;
	     error != RD_KAFKA_RESP_ERR_NO_ERROR && is_unknown(error) && waited < KNOWN_MS;
	     waited += POLL_MS) {
		usleep(POLL_MS * 1000);
		error = rd_kafka_query_watermark_offsets(client, topic, partition, &low, &high,
							 CALL_MS);
	}
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		high = -1;
	else if (low == high)
		high = 0; /* nothing is there, whatever was */
	rd_kafka_destroy(client);
	return high;
}

bool compacted_open(struct compacted *c, const struct coord_conf *conf, const char *topic,
		    int32_t partition)
{
	int64_t end = end_of(conf, topic, partition);
	rd_kafka_topic_partition_list_t *list;
	bool ok;

	if (end < 0)
		return give_up(topic, "its end is not known");
	*c = (struct compacted){
		.topic = topic, .reader = reader_new(conf, topic, "read_committed"), .end = end};
	if (c->reader == NULL)
		return false;
	rd_kafka_poll_set_consumer(c->reader);
	list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_list_add(list, topic, partition)->offset =
		RD_KAFKA_OFFSET_BEGINNING;
	ok = rd_kafka_assign(c->reader, list) == RD_KAFKA_RESP_ERR_NO_ERROR;
	rd_kafka_topic_partition_list_destroy(list);
	if (!ok)
		compacted_close(c);
	return ok || give_up(topic, "it can't be read");
}

void compacted_close(struct compacted *c)
{
	if (c->reader == NULL)
		return;
	rd_kafka_consumer_close(c->reader);
	rd_kafka_destroy(c->reader);
	*c = (struct compacted){0};
}

/* The next record, if one comes in time. */
static bool read_one(struct compacted *c, int timeout_ms, compacted_record *on_record, void *data,
		     bool *ret_came)
{
	rd_kafka_message_t *m = rd_kafka_consumer_poll(c->reader, timeout_ms);
	bool ok = true;

	*ret_came = m != NULL;
	if (m == NULL)
		return true;
	if (m->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
		if (m->len > 0)
			ok = on_record((struct slice){m->key, m->key_len},
				       (struct slice){m->payload, m->len}, data);
		c->at = m->offset + 1;
	} else if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
		c->at = m->offset;
	}
	rd_kafka_message_destroy(m);
	return ok;
}

bool compacted_read(struct compacted *c, compacted_record *on_record, void *data,
		    const atomic_bool *stop)
{
	unsigned waited = 0;
	bool came;

	while (c->at < c->end && waited < READ_MS / POLL_MS && !atomic_load(stop)) {
		if (!read_one(c, POLL_MS, on_record, data, &came))
			return false;
		waited += !came;
	}
	return c->at >= c->end || give_up(c->topic, "it was not read to its end in time");
}

bool compacted_poll(struct compacted *c, compacted_record *on_record, void *data)
{
	bool came = true;

	for (int n = 0; came && n < POLLED_MAX; n++)
		if (!read_one(c, 0, on_record, data, &came))
			return false;
	return true;
}
