/*
 * The simulated world: events in virtual time, clocks that run unevenly and are set, connections that delay, lose and
 * break. One seed, one history. All times are µs; *true* time is the world's own, which nobody in it can read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/timer_heap.h"
#include "dice.h"
#include "mutation.h"

/* ---- Clocks ---- */

struct sim_clock {
	uint64_t from_us; /* true time since which it runs like this */
	uint64_t was_us;  /* what it showed then */
	int64_t ppm;      /* how much faster than true time */
};

uint64_t sim_clock_read(const struct sim_clock *c, uint64_t true_us);
/* From now on it runs `ppm` too fast, and is `step_us` further (or less far) than it was. */
void sim_clock_set(struct sim_clock *c, uint64_t true_us, int64_t ppm, int64_t step_us);

/* ---- Events ---- */

enum { WORLD_LOG_LINES = 4000, WORLD_LOG_BYTES = 160 };

struct world {
	uint64_t now_us;
	struct dice dice;
	enum mutation mutation;
	struct timer_heap events;
	uint64_t n_events;
	bool logging; /* keeps the last lines of the history */
	char (*log)[WORLD_LOG_BYTES];
	uint64_t n_logged;
	char violation[WORLD_LOG_BYTES]; /* the first; "" while there is none */
};

typedef void event_handler(void *owner, void *what);

void world_init(struct world *w, uint64_t seed, enum mutation m, bool logging);
void world_release(struct world *w);

/* Calls on_event(owner, what) at `at_us`, or now if that is past; events of one instant in the order in which they were made. */
void world_at(struct world *w, uint64_t at_us, event_handler *on_event, void *owner, void *what);
/* Runs until `until_us` or a violation. Events that are left stay. */
void world_run(struct world *w, uint64_t until_us);

static inline bool world_has(const struct world *w, enum mutation m)
{
	return w->mutation == m;
}

/* 0..n-1; true one time in n; from 1 to `most` with every order of magnitude alike. */
static inline uint64_t world_below(struct world *w, uint64_t n)
{
	return dice_below(&w->dice, n);
}
static inline bool world_one_in(struct world *w, uint64_t n)
{
	return n > 0 && dice_below(&w->dice, n) == 0;
}
uint64_t world_any_size(struct world *w, uint64_t most);

void world_log(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_violated(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_print_log(const struct world *w);

/* A number from the environment, for tests. */
uint64_t world_option(const char *name, uint64_t otherwise);

/* ---- A connection ---- */

/* Keeps the order of what travels one way; what was on its way when it broke may still arrive, its answer does not. */
struct sim_link {
	uint64_t there_us, back_us; /* when the last message arrives */
	uint64_t generation;        /* a new one each time that it breaks */
};

/* How a network is: 0 for never. */
struct sim_weather {
	uint64_t delay_us;    /* usually up to */
	uint64_t slow_one_in; /* of the messages ... */
	uint64_t slow_us;     /* ... is so late */
	uint64_t lose_one_in; /* of the messages */
};

/* When a message that leaves now arrives. UINT64_MAX: it gets lost. */
uint64_t sim_link_arrival(struct world *w, const struct sim_weather *weather, uint64_t *last_us);
