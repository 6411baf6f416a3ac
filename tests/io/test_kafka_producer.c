/* A producer without a broker: its queue is bounded, nothing waits, and each record is told of once. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <uv.h>

#include "io/kafka_producer.h"

enum { MORE = 100, PATIENCE_MS = 20000 };

static struct {
	unsigned told[KAFKA_QUEUE_RECORDS + MORE];
	unsigned n, delivered, downs;
	bool closed;
} seen;

static void on_delivered(const char *topic, void *opaque, bool delivered, void *data)
{
	cr_assert_str_eq(topic, "t");
	cr_assert_eq(data, &seen);
	++*(unsigned *)opaque;
	seen.n++;
	seen.delivered += delivered;
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
	const struct kafka_producer_events events = {on_delivered, on_up, &seen};
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
