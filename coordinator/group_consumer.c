#include "group_consumer.h"

#include <inttypes.h>
#include <stdio.h>

#include "client.h"

/* librdkafka's; a third of the session at most, as Kafka advises. */
enum { HEARTBEAT_MS = 3000 };

struct user {
	group_rebalance *on_rebalance;
	void *data;
};

static void prepare(rd_kafka_conf_t *c, void *data)
{
	const struct user *user = data;

	rd_kafka_conf_set_rebalance_cb(c, user->on_rebalance);
	rd_kafka_conf_set_opaque(c, user->data);
}

rd_kafka_t *group_consumer_new(const struct coord_conf *conf, group_rebalance *on_rebalance,
			       void *data)
{
	uint64_t third_ms = conf->session_ms / 3;
	struct user user = {on_rebalance, data};
	char session[24], heartbeat[24];

	snprintf(session, sizeof session, "%" PRIu64, conf->session_ms);
	snprintf(heartbeat, sizeof heartbeat, "%" PRIu64,
		 third_ms < HEARTBEAT_MS ? third_ms : HEARTBEAT_MS);
	const struct client_setting settings[] = {
		{"group.id", "kova-coordinator"},
		{"partition.assignment.strategy", "cooperative-sticky"},
		{"enable.auto.commit", "false"},
		{"enable.auto.offset.store", "false"},
		{"auto.offset.reset", "earliest"},
		{"isolation.level", "read_committed"},
		{"session.timeout.ms", session},
		{"heartbeat.interval.ms", heartbeat},
		{"queued.max.messages.kbytes", "16384"},
		{"topic.metadata.refresh.interval.ms", "5000"},
		{"log.connection.close", "false"},
		{"reconnect.backoff.max.ms", "1000"},
	};

	return client_new(conf, RD_KAFKA_CONSUMER, settings, sizeof settings / sizeof settings[0],
			  prepare, &user);
}
