/*
 * Whether the ledger of a root in Redis and the sums of its records in Kafka are equal (docs/kafka.md says what both count). They are
 * read at different times, and records are on their way for a while; so they are compared once neither has moved for
 * some time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One root. All zeros: it was not looked at. */
struct drift_root {
	int64_t ledger, kafka;
	uint64_t moved_us; /* when either was seen to be another than before; 0: not looked at */
	int64_t forgotten; /* what Kafka has counted and the ledger has not, as it began later */
	int64_t drift;     /* ledger + forgotten - kafka, when both were at rest last */
	bool known;        /* they were, once */
	bool resting;      /* they are */
};

/*
 * Both were read, within less than `rest_us` of each other. `now_us` is of a steady clock, from 1; both are at rest once neither
 * has moved for `rest_us`: longer than a record is on its way, and than any lease lasts. A ledger that has less than Kafka when
 * both rest for the first time began later (it is gone some days after the root was last used): that is no drift.
 */
void drift_look(struct drift_root *r, int64_t ledger, int64_t kafka, uint64_t now_us,
		uint64_t rest_us);

/* When to say so. All zeros: nothing was said. */
struct drift_alarm {
	int64_t told;
};

/* Whether to say that there is drift: once when it begins to be more than `threshold`, and each time that it has grown by as much again. */
bool drift_alarm_step(struct drift_alarm *a, int64_t drift, uint64_t threshold);
