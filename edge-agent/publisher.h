/*
 * What an agent publishes to Kafka, usage, events and reports of shares, by one producer; and with `regions` what it reads there,
 * grants. On the owner's loop.
 *
 * Each start of an agent has an *epoch* of its own, greater than any before: µs since 1970, or one more than the last, which the
 * state directory remembers.
 */
#pragma once

#include <stdint.h>
#include <uv.h>

#include "edge_conf.h"
#include "events.h"
#include "io/kafka_producer.h"
#include "usage_report.h"

struct publisher;
struct grants;
struct quotas;

struct publisher_counters {
	struct usage_report_counters usage;
	struct kafka_producer_counters kafka;
	uint64_t events_dropped;
};

/*
 * `conf` (borrowed) has a Kafka; its state directory is there. `hlc` (borrowed): the agent's. NULL: it can't be made; *ret_error
 * says why, without secrets.
 */
struct publisher *publisher_new(uv_loop_t *loop, const struct edge_conf *conf, struct hlc *hlc,
				struct buf *ret_error);
/* What loop `i` counts into; borrowed. */
struct usage_feed *publisher_feed(struct publisher *p, unsigned i);
struct events *publisher_events(struct publisher *p);
/* NULL: there are no `regions`. */
struct quotas *publisher_quotas(struct publisher *p);
struct grants *publisher_grants(struct publisher *p);

/* The owner runs. */
void publisher_start(struct publisher *p, struct agent *owner);
/* The agent ends: no loop is visited any more. */
void publisher_stop(struct publisher *p);
/*
 * After that, when nothing is counted any more and no event comes: publishes the rest, for PUBLISHER_CLOSE_MS at most, and frees the publisher. `on_closed` comes
 * when it is gone. NULL is nothing: it comes at once.
 */
void publisher_close(struct publisher *p, void (*on_closed)(void *data), void *data);
enum { PUBLISHER_CLOSE_MS = 5000 };

struct publisher_counters publisher_counters(const struct publisher *p);
