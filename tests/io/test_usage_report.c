/* What the loops counted reaches (librdkafka's mock of) Kafka when the agent ends, also what was too much for one report. */
#include <criterion/criterion.h>
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <uv.h>

#include "usage_feed.h"
#include "usage_report.h"

enum { MORE = 100, COST = 3, CLOSE_MS = 20000 };

static struct {
	struct usage_report *report;
	struct kafka_producer *producer;
	unsigned delivered;
	bool gone;
} world;

static void on_fate(const char *topic, void *opaque, enum kafka_fate fate, void *data)
{
	(void)data;
	cr_assert_str_eq(topic, USAGE_TOPIC);
	world.delivered += fate == KAFKA_DELIVERED;
	usage_report_delivered(world.report, opaque, fate == KAFKA_DELIVERED);
}

static void on_producer_closed(void *data)
{
	(void)data;
	usage_report_free(world.report);
	world.gone = true;
}

static void on_report_closed(void *data)
{
	(void)data;
	cr_expect_eq(usage_report_counters(world.report).unpublished, 0);
	kafka_producer_close(world.producer, 0, on_producer_closed, NULL);
}

static void count_roots(struct usage_feed *feed, unsigned n)
{
	const struct tally_counts counts = {.admitted = COST};
	char key[16];

	for (unsigned i = 0; i < n; i++) {
		int len = snprintf(key, sizeof key, "r%u/k", i);

		usage_feed_add(feed, SLICE("p"), (struct slice){key, (size_t)len}, &counts);
	}
}

Test(usage_report, more_roots_than_a_feed_has_room_for)
{
	char why[256];
	rd_kafka_t *mock = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof why);
	rd_kafka_mock_cluster_t *brokers = rd_kafka_mock_cluster_new(mock, 1);
	const struct kafka_conf conf = {.bootstrap =
						(char *)rd_kafka_mock_cluster_bootstraps(brokers)};
	const struct kafka_producer_events events = {.on_fate = on_fate};
	const struct usage_source source = {.region = "eu", .agent = "n", .epoch = 1};
	struct hlc hlc = {0};
	struct buf error = {0};
	uv_loop_t loop;

	uv_loop_init(&loop);
	world.producer = kafka_producer_new(&loop, &conf, "n", &events, &error);
	world.report = usage_report_new(&loop, world.producer, &hlc, &source, 2);
	count_roots(usage_report_feed(world.report, 0), USAGE_FEED_ROOTS + MORE);
	count_roots(usage_report_feed(world.report, 1), MORE);
	usage_feed_swap(usage_report_feed(world.report,
					  1)); /* one that was handed over, and one that was not */
	usage_report_feed(world.report, 0)->lost = 5;
	usage_report_feed(world.report, 1)->handed_lost += 2;

	usage_report_stop(world.report);
	usage_report_close(world.report, CLOSE_MS, on_report_closed, NULL);
	cr_expect_eq(usage_report_counters(world.report).unpublished, USAGE_FEED_ROOTS + 1);
	cr_expect_gt(usage_report_counters(world.report).overflows, 0);
	cr_expect_eq(usage_report_counters(world.report).lost, 7);
	while (!world.gone)
		uv_run(&loop, UV_RUN_ONCE);
	cr_expect_eq(world.delivered, USAGE_FEED_ROOTS + 1);

	uv_run(&loop, UV_RUN_DEFAULT);
	cr_expect_eq(uv_loop_close(&loop), 0);
	buf_release(&error);
	rd_kafka_mock_cluster_destroy(brokers);
	rd_kafka_destroy(mock);
}
