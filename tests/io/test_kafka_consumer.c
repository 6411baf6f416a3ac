/*
 * A consumer of librdkafka's mock of brokers: each record comes once, in the order of its partition; that all was read is said once;
 * and it can be closed at any moment, with brokers or without.
 */
#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "io/kafka_consumer.h"

enum { PARTITIONS = 3, RECORDS = 2000, TAIL = 50, PATIENCE_MS = 20000 };

static struct {
	unsigned n, last[PARTITIONS], n_at_caught_up, caught_up, tombstones;
	bool closed;
} seen;

/* The key is the partition, the value counts from 1. */
static void on_record(const struct kafka_consumed *r, void *data)
{
	char text[16] = "";
	unsigned partition = (unsigned)(r->key.ptr[0] - '0');

	cr_assert_eq(data, &seen);
	cr_assert_eq(r->key.len, 1);
	cr_assert_lt(partition, PARTITIONS);
	cr_expect_gt(r->timestamp_ms, INT64_C(1500000000000));
	seen.n++;
	if (r->value.len == 0) {
		seen.tombstones++;
		return;
	}
	cr_assert_lt(r->value.len, sizeof text);
	memcpy(text, r->value.ptr, r->value.len);
	cr_assert_eq((unsigned)atoi(text), ++seen.last[partition]);
}

static void on_caught_up(void *data)
{
	(void)data;
	seen.caught_up++;
	seen.n_at_caught_up = seen.n;
}

static void on_closed(void *data)
{
	(void)data;
	seen.closed = true;
}

static struct kafka_consumer *consumer_of(uv_loop_t *loop, const char *bootstrap, unsigned tail)
{
	static struct kafka_conf conf;
	const struct kafka_consumer_events events = {on_record, on_caught_up, &seen};
	struct buf error = {0};

	memset(&seen, 0, sizeof seen);
	conf = (struct kafka_conf){.bootstrap = (char *)(uintptr_t)bootstrap};
	uv_loop_init(loop);
	struct kafka_consumer *c =
		kafka_consumer_new(loop, &conf, "test", "t", tail, &events, &error);

	cr_assert_not_null(c, "%.*s", (int)error.len, error.ptr);
	buf_release(&error);
	return c;
}

static struct kafka_consumer *consumer(uv_loop_t *loop, const char *bootstrap)
{
	return consumer_of(loop, bootstrap, 0);
}

static void run_until(uv_loop_t *loop, const unsigned *number, unsigned least)
{
	uint64_t until = uv_hrtime() / 1000000 + PATIENCE_MS;

	while (*number < least && uv_hrtime() / 1000000 < until)
		uv_run(loop, UV_RUN_NOWAIT);
	cr_assert_geq(*number, least, "it did not happen in time");
}

static void close_consumer(uv_loop_t *loop, struct kafka_consumer *c)
{
	uint64_t until = uv_hrtime() / 1000000 + PATIENCE_MS;
	unsigned n = seen.n;

	kafka_consumer_close(c, on_closed, NULL);
	while (!seen.closed && uv_hrtime() / 1000000 < until)
		uv_run(loop, UV_RUN_NOWAIT);
	cr_assert(seen.closed);
	cr_expect_eq(seen.n, n);
	cr_expect_eq(uv_loop_close(loop), 0);
}

static void produce(rd_kafka_t *client, int partition, const char *value)
{
	char key[] = {(char)('0' + partition)};
	const rd_kafka_vu_t fields[] = {
		{RD_KAFKA_VTYPE_TOPIC, .u.cstr = "t"},
		{RD_KAFKA_VTYPE_PARTITION, .u.i32 = partition},
		{RD_KAFKA_VTYPE_KEY, .u.mem = {key, sizeof key}},
		{RD_KAFKA_VTYPE_VALUE,
		 .u.mem = {(void *)(uintptr_t)value, value != NULL ? strlen(value) : 0}},
		{RD_KAFKA_VTYPE_MSGFLAGS, .u.i = RD_KAFKA_MSG_F_COPY},
	};
	rd_kafka_error_t *error =
		rd_kafka_produceva(client, fields, sizeof fields / sizeof fields[0]);

	cr_assert_null(error);
}

/* Values `from`..`to` in each partition. */
static void produce_values(rd_kafka_t *client, unsigned from, unsigned to)
{
	char text[16];

	for (unsigned i = from; i <= to; i++)
		for (int p = 0; p < PARTITIONS; p++) {
			snprintf(text, sizeof text, "%u", i);
			produce(client, p, text);
		}
	cr_assert_eq(rd_kafka_flush(client, PATIENCE_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
}

struct mock {
	rd_kafka_t *owner, *producer;
	rd_kafka_mock_cluster_t *brokers;
};

static struct mock mock_open(void)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	struct mock m;
	char why[256];

	m.owner = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);
	m.brokers = rd_kafka_mock_cluster_new(m.owner, 1);
	rd_kafka_mock_topic_create(m.brokers, "t", PARTITIONS, 1);
	rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(m.brokers),
			  why, sizeof why);
	m.producer = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
	return m;
}

static void mock_close(struct mock *m)
{
	rd_kafka_destroy(m->producer);
	rd_kafka_mock_cluster_destroy(m->brokers);
	rd_kafka_destroy(m->owner);
}

Test(kafka_consumer, each_record_once_and_in_order)
{
	struct mock m = mock_open();
	uv_loop_t loop;

	produce_values(m.producer, 1, RECORDS);
	produce(m.producer, 0, NULL);
	rd_kafka_flush(m.producer, PATIENCE_MS);
	struct kafka_consumer *c = consumer(&loop, rd_kafka_mock_cluster_bootstraps(m.brokers));

	run_until(&loop, &seen.caught_up, 1);
	cr_expect_eq(seen.n_at_caught_up, PARTITIONS * RECORDS + 1);
	produce_values(m.producer, RECORDS + 1, RECORDS + 10);
	run_until(&loop, &seen.n, PARTITIONS * (RECORDS + 10) + 1);
	cr_expect_eq(seen.tombstones, 1);
	cr_expect_eq(seen.caught_up, 1);
	cr_expect_eq(kafka_consumer_counters(c).records, seen.n);
	cr_expect(kafka_consumer_counters(c).caught_up);
	close_consumer(&loop, c);
	mock_close(&m);
}

Test(kafka_consumer, no_more_than_the_end)
{
	struct mock m = mock_open();
	uv_loop_t loop;

	produce_values(m.producer, 1, RECORDS);
	struct kafka_consumer *c =
		consumer_of(&loop, rd_kafka_mock_cluster_bootstraps(m.brokers), TAIL);

	for (unsigned p = 0; p < PARTITIONS; p++)
		seen.last[p] = RECORDS - TAIL;
	run_until(&loop, &seen.caught_up, 1);
	cr_expect_eq(seen.n_at_caught_up, PARTITIONS * TAIL);
	produce_values(m.producer, RECORDS + 1, RECORDS + 10);
	run_until(&loop, &seen.n, PARTITIONS * (TAIL + 10));
	close_consumer(&loop, c);
	mock_close(&m);
}

/* Fewer are there than are asked for. */
Test(kafka_consumer, an_end_that_is_all)
{
	struct mock m = mock_open();
	uv_loop_t loop;

	produce_values(m.producer, 1, TAIL / 2);
	struct kafka_consumer *c =
		consumer_of(&loop, rd_kafka_mock_cluster_bootstraps(m.brokers), TAIL);

	run_until(&loop, &seen.caught_up, 1);
	cr_expect_eq(seen.n, PARTITIONS * (TAIL / 2));
	close_consumer(&loop, c);
	mock_close(&m);
}

/* Before it has asked, while it asks, while records come. */
Test(kafka_consumer, closed_at_any_moment)
{
	struct mock m = mock_open();

	produce_values(m.producer, 1, RECORDS);
	for (unsigned turn = 0; turn < 12; turn++) {
		uv_loop_t loop;
		struct kafka_consumer *c =
			consumer(&loop, rd_kafka_mock_cluster_bootstraps(m.brokers));

		run_until(&loop, &seen.n, turn < 4 ? 0 : 1U << (turn - 4));
		for (unsigned i = 0; i < turn * turn && turn < 4; i++)
			uv_run(&loop, UV_RUN_NOWAIT);
		close_consumer(&loop, c);
	}
	mock_close(&m);
}

Test(kafka_consumer, without_a_broker)
{
	uv_loop_t loop;
	struct kafka_consumer *c = consumer(&loop, "127.0.0.1:1");
	uint64_t until = uv_hrtime() + UINT64_C(3000000000);

	while (uv_hrtime() < until)
		uv_run(&loop, UV_RUN_ONCE);
	cr_expect_not(kafka_consumer_counters(c).caught_up);
	close_consumer(&loop, c);
	kafka_consumer_close(NULL, NULL, NULL);
}
