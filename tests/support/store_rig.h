/*
 * A Redis store under test on a loop of its own, and a record of each call: it must have ended
 * exactly once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/status.h"
#include "io/redis_store.h"

enum { RIG_CALLS_MAX = 20000 };

struct rig_call {
	unsigned ended; /* callbacks that came: 1 in the end */
	kova_status status;
	char text[64]; /* of the reply: string, status, error; a number in decimal */
	uint64_t begun_ns, ended_ns;
	uint64_t queued_ns; /* of that, ready to run but waiting for a processor */
};

struct store_rig {
	uv_loop_t loop;
	struct redis_store *store;
	struct rig_call *calls;
	size_t n_calls;
	unsigned ups, downs; /* of on_changed */
	char why[256];       /* of the last */
	bool closed;
	void (*on_event)(
		struct store_rig *rig); /* may be NULL; called after each callback and change */
};

void rig_init(struct store_rig *rig);
/* The test fails if the store can't be made. */
void rig_open(struct store_rig *rig, const struct redis_conf *conf);
/* Closes the store if it is open, runs the loop empty, checks that each call ended once, frees. */
void rig_end(struct store_rig *rig);

/*
 * Sends the words of `format`, after printf, separated by single spaces. Returns the call's number.
 */
size_t rig_ask(struct store_rig *rig, uint16_t slot, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Runs the loop for so long. */
void rig_run(struct store_rig *rig, uint64_t ms);
/* Runs the loop until the call has ended; the test fails after 10 s. */
const struct rig_call *rig_wait(struct store_rig *rig, size_t call);
/* Runs the loop until the shard of `slot` is up (or down); the test fails after `patience_ms`. */
void rig_wait_up(struct store_rig *rig, uint16_t slot, bool up, uint64_t patience_ms);
/* ms that a call took. */
double rig_took_ms(const struct rig_call *call);
/* The same without the time for which this thread was ready to run and the machine did others' work. */
double rig_own_ms(const struct rig_call *call);
