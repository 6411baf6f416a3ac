#include "txn.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "client.h"
#include "io/log.h"

enum { CALL_MS = 10000, COMMIT_MS = 10000, INIT_MS = 2000, RETRIES = 10, FULL_MS = 10 };

static bool give_up(const char *what, const char *why)
{
	log_event(LOG_ERROR, "session_failed", what, LOG_TEXT_FIELD("why", why));
	return false;
}

/* One step, with what it is given. */
struct call {
	struct txn *txn;
	rd_kafka_t *consumer;
	const rd_kafka_topic_partition_list_t *offsets;
};

/*
 * A group that others join or leave has a new generation before each member knows. One that is a member still owns what it owned until
 * it is asked to give it up.
 */
static bool is_of_before(rd_kafka_resp_err_t code)
{
	return code == RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION ||
	       code == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS;
}

/* Whether the step has succeeded; one that may be tried again is, some times. *ret_code: why it has not. */
static bool try(const char *what, rd_kafka_error_t *(*step)(const struct call *c),
		const struct call *c, rd_kafka_resp_err_t *ret_code)
{
	rd_kafka_error_t *error = step(c);

	for (int i = 0; error != NULL && rd_kafka_error_is_retriable(error) && i < RETRIES &&
			!atomic_load(c->txn->stop);
	     i++) {
		rd_kafka_error_destroy(error);
		error = step(c);
	}
	if (error == NULL)
		return true;
	*ret_code = rd_kafka_error_code(error);
	if (is_of_before(*ret_code))
		log_event(LOG_INFO, "transaction_aborted", what,
			  LOG_TEXT_FIELD("why", rd_kafka_error_string(error)));
	else
		give_up(what, rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return false;
}

static rd_kafka_error_t *init_step(const struct call *c)
{
	return rd_kafka_init_transactions(c->txn->producer, INIT_MS);
}

static rd_kafka_error_t *begin_step(const struct call *c)
{
	return rd_kafka_begin_transaction(c->txn->producer);
}

static rd_kafka_error_t *offsets_step(const struct call *c)
{
	rd_kafka_consumer_group_metadata_t *group = rd_kafka_consumer_group_metadata(c->consumer);
	rd_kafka_error_t *error;

	/*
	 * One that has just learned that it is out has the metadata of nobody, which brokers don't refuse. The library marks the assignment as
	 * lost in the same step, so this comes after the metadata was read.
	 */
	if (rd_kafka_assignment_lost(c->consumer))
		error = rd_kafka_error_new(RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID,
					   "the group goes on without this one");
	else
		error = rd_kafka_send_offsets_to_transaction(c->txn->producer, c->offsets, group,
							     COMMIT_MS);
	rd_kafka_consumer_group_metadata_destroy(group);
	return error;
}

static rd_kafka_error_t *commit_step(const struct call *c)
{
	return rd_kafka_commit_transaction(c->txn->producer, COMMIT_MS);
}

/* ---- From the beginning to the end ---- */

bool txn_open(struct txn *t, const struct coord_conf *conf, const atomic_bool *stop)
{
	char id[sizeof "kova-coordinator." + NAME_BYTES_MAX];
	const struct client_setting settings[] = {
		{"transactional.id", id},          {"transaction.timeout.ms", "30000"},
		{"compression.codec", "lz4"},      {"queue.buffering.max.messages", "200000"},
		{"log.connection.close", "false"}, {"reconnect.backoff.max.ms", "1000"},
	};

	rd_kafka_resp_err_t code;

	snprintf(id, sizeof id, "kova-coordinator.%s", conf->node);
	*t = (struct txn){.node = conf->node, .stop = stop};
	t->producer = client_new(conf, RD_KAFKA_PRODUCER, settings,
				 sizeof settings / sizeof settings[0], NULL, NULL);
	return t->producer != NULL &&
	       try("transactions can't be had", init_step, &(struct call){.txn = t}, &code);
}

bool txn_abort(struct txn *t)
{
	rd_kafka_error_t *error;
	bool ok;

	if (!t->is_begun)
		return true;
	error = rd_kafka_abort_transaction(t->producer, CALL_MS);
	ok = error == NULL;
	if (error != NULL)
		rd_kafka_error_destroy(error);
	t->is_begun = false;
	return ok;
}

void txn_close(struct txn *t)
{
	txn_abort(t);
	if (t->producer != NULL)
		rd_kafka_destroy(t->producer);
	*t = (struct txn){0};
}

bool txn_begin(struct txn *t)
{
	rd_kafka_resp_err_t code;

	t->is_begun = t->is_begun || try("no transaction can be begun", begin_step,
					 &(struct call){.txn = t}, &code);
	return t->is_begun;
}

static rd_kafka_vu_t vu_bytes(rd_kafka_vtype_t type, struct slice bytes)
{
	return (rd_kafka_vu_t){.vtype = type, .u.mem = {(void *)(uintptr_t)bytes.ptr, bytes.len}};
}

static rd_kafka_vu_t vu_header(const char *name, const char *value)
{
	return (rd_kafka_vu_t){.vtype = RD_KAFKA_VTYPE_HEADER,
			       .u.header = {name, value, (ssize_t)strlen(value)}};
}

bool txn_add(struct txn *t, const struct txn_record *r)
{
	const rd_kafka_vu_t vus[] = {
		{.vtype = RD_KAFKA_VTYPE_TOPIC, .u.cstr = r->topic},
		{.vtype = RD_KAFKA_VTYPE_PARTITION, .u.i32 = r->partition},
		vu_bytes(RD_KAFKA_VTYPE_KEY, r->key),
		vu_bytes(RD_KAFKA_VTYPE_VALUE, r->value),
		{.vtype = RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
		vu_header("schema", r->topic),
		vu_header("agent", t->node),
	};
	size_t n = sizeof vus / sizeof vus[0] - (r->has_headers ? 0 : 2);
	rd_kafka_error_t *error = rd_kafka_produceva(t->producer, vus, n);

	for (int i = 0; error != NULL && i < COMMIT_MS / FULL_MS &&
			rd_kafka_error_code(error) == RD_KAFKA_RESP_ERR__QUEUE_FULL;
	     i++) {
		rd_kafka_error_destroy(error);
		rd_kafka_poll(t->producer, FULL_MS);
		error = rd_kafka_produceva(t->producer, vus, n);
	}
	if (error == NULL)
		return true;
	give_up("a record can't be produced", rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	return false;
}

enum txn_result txn_commit(struct txn *t, rd_kafka_t *consumer,
			   const rd_kafka_topic_partition_list_t *offsets)
{
	const struct call call = {t, consumer, offsets};
	rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;

	assert(t->is_begun && offsets->cnt > 0);
	if (!try("the offsets were refused", offsets_step, &call, &code)) {
		if (!is_of_before(code) || rd_kafka_assignment_lost(consumer))
			return TXN_FAILED;
		return txn_abort(t) ? TXN_ABORTED : TXN_FAILED;
	}
	if (!try("the transaction was not committed", commit_step, &call, &code))
		return TXN_FAILED;
	t->is_begun = false;
	return TXN_COMMITTED;
}
