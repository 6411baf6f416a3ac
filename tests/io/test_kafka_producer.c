/*
 * A producer without a broker: its queue is bounded, nothing waits, and each record is told of once. And one whose client
 * librdkafka gives up: another takes its place.
 */
#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "io/kafka_producer.h"

enum { MORE = 100, PATIENCE_MS = 20000 };

static struct {
	unsigned told[KAFKA_QUEUE_RECORDS + MORE];
	unsigned n, delivered, downs;
	bool closed;
} seen;

static void on_told(const char *topic, void *opaque, enum kafka_fate fate, void *data)
{
	cr_assert_str_eq(topic, "t");
	cr_assert_eq(data, &seen);
	++*(unsigned *)opaque;
	seen.n++;
	seen.delivered += fate == KAFKA_DELIVERED;
}

static void on_up(bool up, void *data)
{
	(void)data;
	seen.downs += !up;
}

static void on_closed(void *data)
{
	(void)data;
	seen.closed = true;
}

static struct kafka_producer *producer(uv_loop_t *loop, const struct kafka_conf *conf)
{
	const struct kafka_producer_events events = {on_told, on_up, &seen};
	struct buf error = {0};
	struct kafka_producer *p = kafka_producer_new(loop, conf, "test", &events, &error);

	cr_assert_not_null(p, "%.*s", (int)error.len, error.ptr);
	buf_release(&error);
	return p;
}

static void run_until(uv_loop_t *loop, const bool *flag)
{
	uint64_t until = uv_hrtime() / 1000000 + PATIENCE_MS;

	while (!*flag && uv_hrtime() / 1000000 < until)
		uv_run(loop, UV_RUN_NOWAIT);
	cr_assert(*flag, "it did not happen in time");
}

Test(kafka_producer, without_a_broker)
{
	char bootstrap[] = "127.0.0.1:1";
	const struct kafka_conf conf = {.bootstrap = bootstrap};
	struct kafka_record r = {.topic = "t", .key = SLICE("k"), .value = SLICE("value")};
	uv_loop_t loop;
	unsigned n = 0;

	uv_loop_init(&loop);
	struct kafka_producer *p = producer(&loop, &conf);

	for (; n < KAFKA_QUEUE_RECORDS + MORE; n++) {
		r.opaque = &seen.told[n];
		kova_status status = kafka_produce(p, &r);

		if (status == KOVA_AGAIN)
			break;
		cr_assert_eq(status, KOVA_OK);
	}
	cr_expect_eq(n, KAFKA_QUEUE_RECORDS);
	cr_expect_eq(kafka_producer_pending(p), n);
	for (uint64_t until = uv_hrtime() + UINT64_C(20000000000);
	     seen.downs == 0 && uv_hrtime() < until;)
		uv_run(&loop, UV_RUN_NOWAIT);
	cr_expect_eq(seen.downs, 1);
	cr_expect_not(kafka_producer_counters(p).up);
	cr_expect_eq(seen.n, 0);

	kafka_producer_close(p, 100, on_closed, NULL);
	run_until(&loop, &seen.closed);
	cr_expect_eq(seen.n, n);
	cr_expect_eq(seen.delivered, 0);
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(seen.told[i], 1, "record %u", i);
	cr_expect_eq(uv_loop_close(&loop), 0);
}

/* ---- Brokers that refuse the client: librdkafka's mock of them ---- */

enum { RECORDS = 50, INIT_PRODUCER_ID = 22, REFUSALS = 2 };

static struct {
	struct kafka_producer *producer;
	bool delivered[RECORDS], waits[RECORDS];
	unsigned n_delivered;
} life;

static void on_fate(const char *topic, void *opaque, enum kafka_fate fate, void *data)
{
	size_t i = (size_t)((bool *)opaque - life.waits);

	(void)topic;
	(void)data;
	cr_assert(life.waits[i], "it is told of once each time it is produced");
	life.waits[i] = false;
	cr_assert_not(life.delivered[i]);
	life.delivered[i] = fate == KAFKA_DELIVERED;
	life.n_delivered += fate == KAFKA_DELIVERED;
}

static void produce_missing(void)
{
	struct kafka_record r = {.topic = "t", .key = SLICE("k"), .value = SLICE("value")};

	for (size_t i = 0; i < RECORDS; i++) {
		r.opaque = &life.waits[i];
		if (!life.delivered[i] && !life.waits[i])
			life.waits[i] = kafka_produce(life.producer, &r) == KOVA_OK;
	}
}

static rd_kafka_t *mock_client(void)
{
	char why[256];
	rd_kafka_t *client = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);

	cr_assert_not_null(client, "%s", why);
	return client;
}

static struct kafka_producer *life_of(uv_loop_t *loop, const struct kafka_conf *conf)
{
	const struct kafka_producer_events events = {.on_fate = on_fate};
	struct buf error = {0};

	memset(&life, 0, sizeof life);
	seen.closed = false;
	uv_loop_init(loop);
	life.producer = kafka_producer_new(loop, conf, "test", &events, &error);
	cr_assert_not_null(life.producer, "%.*s", (int)error.len, error.ptr);
	buf_release(&error);
	return life.producer;
}

static void refuse_clients(rd_kafka_mock_cluster_t *brokers, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		rd_kafka_mock_push_request_errors(brokers, INIT_PRODUCER_ID, 1,
						  RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED);
}

Test(kafka_producer, another_client_when_one_is_given_up)
{
	rd_kafka_t *mock = mock_client();
	rd_kafka_mock_cluster_t *brokers = rd_kafka_mock_cluster_new(mock, 1);
	const struct kafka_conf conf = {.bootstrap =
						(char *)rd_kafka_mock_cluster_bootstraps(brokers)};
	uv_loop_t loop;
	uint64_t begun = uv_hrtime();

	refuse_clients(brokers, REFUSALS);
	life_of(&loop, &conf);
	while (life.n_delivered < RECORDS) {
		produce_missing();
		uv_run(&loop, UV_RUN_NOWAIT);
		cr_assert_lt(uv_hrtime() - begun, UINT64_C(1000000) * PATIENCE_MS);
	}
	/* As long as the brokers refuse, clients do not come one upon the other. */
	cr_expect_geq(uv_hrtime() - begun, UINT64_C(1000000000) * REFUSALS);

	kafka_producer_close(life.producer, 1000, on_closed, NULL);
	run_until(&loop, &seen.closed);
	cr_expect_eq(uv_loop_close(&loop), 0);
	rd_kafka_mock_cluster_destroy(brokers);
	rd_kafka_destroy(mock);
}

/* At each moment of the replacing, which takes about a second. */
Test(kafka_producer, closed_while_a_client_is_replaced)
{
	rd_kafka_t *mock = mock_client();
	rd_kafka_mock_cluster_t *brokers = rd_kafka_mock_cluster_new(mock, 1);
	const struct kafka_conf conf = {.bootstrap =
						(char *)rd_kafka_mock_cluster_bootstraps(brokers)};

	refuse_clients(brokers, 100);
	for (unsigned turns = 0; turns < 8; turns++) {
		uint64_t begun = uv_hrtime();
		uv_loop_t loop;

		life_of(&loop, &conf);
		produce_missing();
		while (kafka_producer_counters(life.producer).up) {
			uv_run(&loop, UV_RUN_NOWAIT);
			cr_assert_lt(uv_hrtime() - begun, UINT64_C(1000000) * PATIENCE_MS);
		}
		for (unsigned i = 0; i < turns * turns; i++)
			uv_run(&loop, UV_RUN_NOWAIT);
		kafka_producer_close(life.producer, 0, on_closed, NULL);
		run_until(&loop, &seen.closed);
		for (size_t i = 0; i < RECORDS; i++)
			cr_assert_not(life.waits[i]);
		cr_expect_eq(uv_loop_close(&loop), 0);
	}
	rd_kafka_mock_cluster_destroy(brokers);
	rd_kafka_destroy(mock);
}
