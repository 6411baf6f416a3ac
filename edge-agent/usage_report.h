/*
 * The usage report: every `kafka.report`, what all loops have counted since is added up, and of what changed a record goes to
 * kova.usage.v1 (docs/kafka.md, proto/kova_usage.proto). On the owner's loop; no turn of it does more than a bounded part.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/hlc.h"
#include "io/kafka_producer.h"

#define USAGE_TOPIC "kova.usage.v1"

struct agent;
struct usage_feed;

enum {
	USAGE_REPORT_ROOTS = 65536,     /* that have not arrived, or are remembered */
	USAGE_REPORT_IN_FLIGHT = 16384, /* records at once in the producer's queue */
};

struct usage_report;

/* Who reports; borrowed. */
struct usage_source {
	const char *region, *agent;
	uint64_t epoch; /* of this process: greater than any before */
};

struct usage_report_counters {
	uint64_t unpublished; /* counters whose value is not known to have arrived */
	uint64_t overflows;   /* how often something was counted for other roots of its policy */
	uint64_t lost;        /* costs that were not counted: memory was out */
};

/* Who hears what is added up, beside Kafka: each sum, and when all of a report is told. */
struct usage_listener {
	void (*on_asked)(struct slice policy, struct slice root, uint64_t cost, void *data);
	void (*on_round)(void *data);
	void *data;
};

/* `producer` and `hlc` are borrowed. NULL: out of memory. */
struct usage_report *usage_report_new(uv_loop_t *loop, struct kafka_producer *producer,
				      struct hlc *hlc, const struct usage_source *source,
				      unsigned loops);
/* Before it is started. */
void usage_report_listen(struct usage_report *r, const struct usage_listener *listener);
/* Of loop `i`; borrowed. */
struct usage_feed *usage_report_feed(struct usage_report *r, unsigned i);

/* Begins to report every `every_ms`. `owner` is running. */
void usage_report_start(struct usage_report *r, struct agent *owner, uint64_t every_ms);
/* No loop is visited any more once the tour that is under way is back. */
void usage_report_stop(struct usage_report *r);
/*
 * After that, when no loop counts any more: reports the rest. `on_closed` comes when all has arrived, or `timeout_ms` are over; the report is freed by
 * usage_report_free() when the producer has told of all records.
 */
void usage_report_close(struct usage_report *r, uint64_t timeout_ms, void (*on_closed)(void *data),
			void *data);
/* NULL is nothing. Its handles are closed when the loop has run once more. */
void usage_report_free(struct usage_report *r);

/* The producer tells of a record of USAGE_TOPIC. */
void usage_report_delivered(struct usage_report *r, void *opaque, bool delivered);

struct usage_report_counters usage_report_counters(const struct usage_report *r);
