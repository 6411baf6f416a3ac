/*
 * The inside of waiting:
 *
 *   waiters.c      queues and lines: who joins, whose turn it is here, who leaves
 *   wait_names.c   finding them by policy and key path
 *   wait_claims.c  what Redis is told of them, so that turns hold over all agents (lua/turns.lua)
 *   wait_told.c    what a newcomer is told who may not wait
 */
#pragma once

#include "core/fair_queue.h"
#include "engine.h"

enum {
	WAIT_BUCKETS = 8192,
	WAIT_RETRY_MAX_MS = 1000,
	WAIT_PERMIT_RETRY_MS = 50,
	WAIT_COUNT_MS = 1000
};

/* A policy and a key path in a table; first in what is called so, and at its end. */
struct named {
	struct named *next; /* in its bucket */
	uint64_t hash;
	size_t policy_len, path_len;
	char *name; /* policy, path */
};

struct wait_line {
	struct named named;
	bool own;           /* of one queue, which has the line's name */
	uint64_t root_hash; /* of its policy and the first part of its path */
	struct wait_line *next_of_root, **up_of_root; /* in that one's bucket */
	struct timer_entry try_at;                    /* loop ms */
	struct fair_queue flows;
	unsigned n_queues, n_asking;
	unsigned together;              /* how many may ask in one call */
	bool refused;                   /* in this round: those asked behind were refused with it */
	const struct fair_flow *holder; /* of the line's ticket in Redis; only to be compared */
	bool is_known;                  /* flows.now is Redis's: lua/turns.lua */
	bool turns_to_other; /* its next try is for another queue than the one that was refused last ... */
	bool has_turned;       /* ... and this one was */
	struct answer refusal; /* the last one ... */
	uint64_t refused_ms;   /* ... and when it came, loop ms */
};

struct wait_queue {
	struct named named;
	struct wait_line *line;
	struct fair_flow flow; /* of the first who is not asking */
	struct wait_queue *next_aside;
	struct wait_place *first, *last;
	uint32_t n;
	uint64_t counted_ms; /* loop ms, when Redis was told how many they are */
};

struct waiters {
	struct engine *engine;
	uv_timer_t timer;
	struct timer_heap tries, deadlines;
	unsigned n;
	uint64_t count_ms; /* loop ms, when queues of which Redis was not told lately are counted */
	uint64_t loop_id;  /* among all agents' loops */
	uint64_t last_arrival_us; /* Redis's clock */
	struct named *queues[WAIT_BUCKETS], *lines[WAIT_BUCKETS], *own_lines[WAIT_BUCKETS];
	struct wait_line *roots[WAIT_BUCKETS]; /* the lines of both tables, by policy and root */
};

static inline struct slice named_policy(const struct named *n)
{
	return (struct slice){n->name, n->policy_len};
}

static inline struct slice named_path(const struct named *n)
{
	return (struct slice){n->name + n->policy_len, n->path_len};
}

/* ---- wait_names.c ---- */

/* NULL: there is none. */
struct wait_queue *queue_find(const struct waiters *w, struct slice policy, struct slice key);
/* A new one, empty and in no line. NULL: out of memory. */
struct wait_queue *queue_add(struct waiters *w, struct slice policy, struct slice key);
void queue_remove(struct waiters *w, struct wait_queue *q);
/* Found or made; `own`: of one queue. NULL: out of memory. */
struct wait_line *line_get(struct waiters *w, struct slice policy, struct slice path, bool own);
/* The next line of a limit that counts this key or what is above it; *at: 0 at first. NULL: no more. */
struct wait_line *line_above(const struct waiters *w, struct slice policy, struct slice key,
			     size_t *at);
/* The next line of a limit that counts keys of this root, in no order; `after` NULL at first. NULL: no more. */
struct wait_line *line_of_root(const struct waiters *w, struct slice policy, struct slice root,
			       const struct wait_line *after);
void line_free_if_idle(struct waiters *w, struct wait_line *l);

/* ---- wait_claims.c ---- */

/* He comes now. */
void waiter_arrives(struct request_state *s);
/* He leaves: Redis is told, unless it was his turn. Before he is out of his queues. */
void waiter_withdraws(struct request_state *s);
/* Redis is told how many wait in the queue, if it was not lately: unless it hears of them they count no more. */
void queue_count(struct waiters *w, struct wait_queue *q);
/* He is to ask again: under another catalogue than before he may ask for other keys, or for none. */
void waiter_changes(struct request_state *s);
/* Whether he can be told exactly that his time will not be enough, refused as `said`. */
bool waiter_is_in_vain(const struct request_state *s, const struct script_answer *said);
/* Until he asks again after such a refusal, ms. */
uint64_t waiter_retry_ms(const struct request_state *s, int64_t wait_us);
