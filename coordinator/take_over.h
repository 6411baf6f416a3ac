/*
 * Partitions on their way to this coordinator, and grants of partitions that are here and are to be known once more: what was kept is
 * read by a thread of its own, for that may take as long as a transaction of the last owner is open. Meanwhile the session goes on with the partitions that it has. The thread takes those
 * that wait, all at once; those that are assigned meanwhile wait for the next turn.
 *
 * All but the thread's function is called by the session's thread.
 */
#pragma once

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "partition.h"
#include "rows.h"

/* What came of it. All of it is the caller's. */
struct taken {
	struct partition *partitions; /* a list */
	struct rows *rows;            /* NULL: ROWS_PARTITION is not among them */
	struct grants_anew *anew;     /* a list: of those of take_over_anew() */
	int n_usage;                  /* partitions of kova.usage.v1 */
	uint64_t took_us;
};

enum take_over_state {
	TAKE_OVER_IDLE,  /* nothing is on its way */
	TAKE_OVER_READS, /* nothing new */
	TAKE_OVER_DONE,
	TAKE_OVER_FAILED, /* the log says why */
};

struct take_over {
	/* Borrowed by the thread: */
	const struct coord_conf *conf;
	const struct global_terms *terms;
	rd_kafka_t *consumer;
	/* The thread's until it is done: */
	rd_kafka_topic_partition_list_t *reads; /* NULL: there is no thread */
	struct taken taken;
	bool failed;
	atomic_bool stop, done;
	pthread_t thread;
	/* The session's: */
	rd_kafka_topic_partition_list_t *waits; /* NULL: none */
	rd_kafka_topic_partition_list_t *gone;  /* of those that are read: not to be taken */
	struct grants_anew *waits_anew;         /* a list */
};

/* All is borrowed until take_over_stop(), and `terms` stay as they are while something is on its way. */
void take_over_init(struct take_over *t, const struct coord_conf *conf,
		    const struct global_terms *terms, rd_kafka_t *consumer);

/* These were assigned. */
void take_over_add(struct take_over *t, const rd_kafka_topic_partition_list_t *list);
/* What was granted in a partition that is here, and whose grants are away, is to be read again. False: out of memory. */
bool take_over_anew(struct take_over *t, int32_t id);
/* Such a one was taken away again. False: it was not on its way. */
bool take_over_remove(struct take_over *t, int32_t id);

/* How many partitions are on their way. */
size_t take_over_count(const struct take_over *t);
/* Whether its thread is at work, if only for some that were taken away again: `conf` and `terms` stay as they are. */
bool take_over_reads(const struct take_over *t);

/* Begins what is to be begun, and ends what has ended. Does not block. *ret_taken: TAKE_OVER_DONE. */
enum take_over_state take_over_step(struct take_over *t, struct taken *ret_taken);

/* Nothing is on its way any more. Blocks until the thread has noticed. */
void take_over_stop(struct take_over *t);
