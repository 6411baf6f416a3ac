/*
 * Operations whose answer counts only when what they wrote is safe (a policy's `durability`). They have a store and a
 * region of their own, since Redis blocks the connection on which WAIT came; nobody else's decisions wait for them.
 *
 * The same key may be asked for through this region and another: Redis carries out one call after the other, whichever
 * connection it came by, so limits stay exact.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "control/catalogue.h"
#include "region.h"

struct durable;

/*
 * `up`: what is safe can be found out again after it could not, and decisions are Redis's again. Otherwise some shard can't
 * be asked from now on.
 */
typedef void durable_changed(bool up, void *data);

/*
 * Starts connecting at once. `conf`: as of redis_store_new(); its texts outlive it. `wanted` asks for something. An
 * embedded Redis has no replicas: where they are wanted it is never up, which is logged. NULL: out of memory.
 */
struct durable *durable_new(uv_loop_t *loop, const struct redis_conf *conf,
			    struct durability wanted, durable_changed *on_changed, void *data);
/* Ends every operation (KOVA_ECLOSED) before it returns; frees itself later, and then calls `on_closed`. */
void durable_close(struct durable *d, void (*on_closed)(void *data), void *data);

/* It is connecting for the first time: wait for that, rather than take it for an outage. Ends within one time-out. */
bool durable_is_starting(const struct durable *d);
/* `on_started` comes once, when that has ended, well or not; not from within. False: out of memory. */
bool durable_when_started(struct durable *d, void (*on_started)(void *data), void *data);

/* Whether operations on `slot` can be asked now. Not while what was written there did not get safe in time. */
bool durable_up(const struct durable *d, uint16_t slot);

/*
 * As region_submit(), but KOVA_OK comes only when what the operation wrote is safe. KOVA_ETIMEDOUT: it is not, or not
 * known, within the store's time-out since now: it may have been carried out. A refusal, which wrote nothing, and a
 * SCRIPT_PEEK need no more than Redis's answer. Answers of one server keep the order of the operations, unless their time is
 * up.
 */
void durable_submit(struct durable *d, uint16_t slot, const struct script_op *op, unsigned n_after,
		    region_answer *on_answer, void *data);
/* As region_submit(), for an operation whose answer nobody waits for. Only where durable_up() was true. */
void durable_submit_unconfirmed(struct durable *d, uint16_t slot, const struct script_op *op,
				region_answer *on_answer, void *data);

/* Nothing is under way. */
bool durable_is_idle(const struct durable *d);

struct durable_health {
	unsigned shards, shards_up;
};
struct durable_health durable_health(const struct durable *d);

/* Adds what this one has counted. */
void durable_count(const struct durable *d, struct redis_counters *redis,
		   struct region_counters *region);
