/*
 * Compares the ledgers in the regions' Redis with what this coordinator's books come to (core/drift.h), in a thread of its own: it walks through each
 * Redis in small steps, so that the rest of what that does hardly notices, and asks the thread that has the books.
 */
#pragma once

#include "coord_events.h"
#include "core/buf.h"
#include "core/bytes.h"
#include "drift_conf.h"
#include "io/metrics.h"

struct drift_watch;

enum drift_answer {
	DRIFT_OURS,     /* `kafka` says it */
	DRIFT_NOT_OURS, /* another coordinator has its partition */
	DRIFT_LATER,    /* what is in the topic was not read yet */
};

struct drift_query {
	struct slice policy, root;
	const char *region; /* in whose Redis the ledger is */
	/* The answer: */
	enum drift_answer answer;
	bool apart; /* `kafka` is of this region alone, as the ledger is; else of all regions */
	uint64_t kafka;
};
typedef void drift_look_up(struct drift_query *q, void *data);

/*
 * Starts. `conf`, which has some region with a Redis, and `events` outlive it; `node` is copied. NULL: out of memory, or a region's Redis
 * can't be one; the log says why.
 */
struct drift_watch *drift_watch_start(const struct drift_conf *conf, const char *node,
				      struct coord_events *events);
/* Waits until the thread has ended. NULL is nothing. */
void drift_watch_stop(struct drift_watch *w);

/* By the thread that has the books, as often as it can: answers what is asked. NULL is nothing. */
void drift_watch_answer(struct drift_watch *w, drift_look_up *look_up, void *data);

/* Any thread: the metrics, and `"redis@REGION"` of each that can't be reached, with commas before, or not before the first. NULL is nothing. */
void drift_watch_collect(struct drift_watch *w, struct metrics_writer *m);
void drift_watch_degraded(struct drift_watch *w, bool first, struct buf *out);
