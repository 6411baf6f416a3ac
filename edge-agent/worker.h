/*
 * One loop of the agent and what lives on it: connections, an engine with its own links to the store. The first worker
 * runs in the main thread; each other one has a thread.
 *
 *   open ──store answers, or it is known that it does not──▶ ready ──drain──▶ draining ──all answered, or late──▶ closed ──▶ gone
 *
 * Made in the main thread; from its start on, a worker is touched on its own loop only, but for what says otherwise.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <uv.h>

#include "agent.h"

struct outage_log;
struct worker;

/* A region's store, as a worker watches it. */
struct worker_site {
	struct worker *worker;
	const char *name;     /* of the region; borrowed */
	unsigned shards_down; /* that can't be asked */
};

struct worker {
	struct agent agent; /* first: the two convert into each other */
	uv_loop_t *loop;    /* of the first: the main thread's; else: */
	uv_loop_t own_loop;
	struct mailbox mailbox;
	uv_timer_t
		timer; /* opening: is the store up? draining: are the connections gone? closing: the errands? */
	uint64_t timer_until_ms, drain_ms;
	struct conn_pool *conns;    /* NULL: none, or gone */
	struct outage_log *outages; /* shared by all */
	struct worker_site *sites;  /* owned, as the engine's */
	unsigned n_sites;
	bool drains;            /* connections may end, before they are closed */
	atomic_bool ready;      /* any thread may look */
	struct message command; /* to its loop */
	struct message report;  /* to the owner's */
	void (*on_closed)(void *data);
	void *closed_data;
	uv_thread_t thread;
	bool has_thread;
};

/* Which shards of the stores loops can't ask, so that the log says it once. For any thread. */
struct outage_log *outage_log_new(void);
void outage_log_free(struct outage_log *o); /* NULL is nothing */

/* The first, on the main thread's loop: what it needs to be drained. False: out of memory or descriptors. */
bool worker_init_first(struct worker *w, uv_loop_t *loop);

/*
 * Opens the worker: `w->agent` has its place among the loops, its configuration, tokens and control plane. `redis`: the own
 * region's. `first`: the
 * worker of index 0, which is open; NULL: this is it. False: it could not be made, and is gone unless it is the first. Its
 * loop is to run (worker_start()), and only worker_drain() closes it.
 */
bool worker_open(struct worker *w, const struct redis_conf *redis, const struct worker *first,
		 struct outage_log *outages);
/* Runs its loop in a thread. False: there can't be one; it is gone then. Not for the first. */
bool worker_start(struct worker *w);

/* Whether the store answers its loop, or it is known that it does not. From any thread. */
bool worker_is_ready(const struct worker *w);

/*
 * From the owner's loop: no more connections; those there are end within the time-out, if the agent was `running`, else at
 * once. `on_closed` comes on the owner's loop when connections, errands and (but of the first) the engine are gone.
 */
void worker_drain(struct worker *w, bool running, void (*on_closed)(void *data), void *data);
/* The first, when all are closed: closes its engine. */
void worker_close_engine(struct worker *first, void (*on_closed)(void *data), void *data);
/* From the owner's loop, after that: its loop ends, and so does its thread, which is waited for. */
void worker_end(struct worker *w);
