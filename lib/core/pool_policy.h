/*
 * A pool's state and what operations do to it, in one process: the twin of lua/pool.lua. The script serves the agents; this one is what
 * the properties are tested on.
 *
 * As with the script, operations come in batches: pool_policy_begin(), the operations at one instant by one definition,
 * pool_policy_end(). Endpoints are known by their id, targets and sessions by their name, from batch to batch.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/pool.h"
#include "core/pool_script.h"
#include "core/status.h"

/* How many a state has room for, of different ones in its whole life; more are a mistake of the caller's. */
enum {
	POOL_POLICY_ENDPOINTS = 64,
	POOL_POLICY_TARGETS = 16, /* and '', no target */
	POOL_POLICY_SESSIONS = 32,
	POOL_POLICY_WAITERS = 64, /* in a tier at a time */
	POOL_POLICY_TICKETS =
		8192, /* neither reported nor forgotten, in serials one after the other */
	POOL_POLICY_EVENTS = 1024, /* in a batch */
};

struct pool_policy;

/* Owned; NULL: out of memory. Nothing happened yet. */
KOVA_MUST_CHECK struct pool_policy *pool_policy_new(void);
void pool_policy_free(struct pool_policy *p);

/*
 * `rule` and `endpoints` are borrowed until the batch ends; ids of at most 255 bytes. `luck`: 0..1, random.
 * What is over by now_us is over: leases, and cooldowns without half-open.
 */
void pool_policy_begin(struct pool_policy *p, const struct pool_rule *rule,
		       const struct pool_endpoint *endpoints, size_t n, uint64_t now_us,
		       double luck);
/* The floor is looked at, as by most operations. */
void pool_policy_end(struct pool_policy *p);
/* What the batch has changed; borrowed until the next one begins. */
const struct pool_event *pool_policy_events(const struct pool_policy *p, size_t *ret_n);

/* What the limits say of the permits that go with an endpoint. */
enum pool_permitted {
	POOL_PERMITTED,        /* they are taken */
	POOL_UNPERMITTED_HERE, /* its own are refused */
	POOL_UNPERMITTED,      /* others are */
};

struct pool_limiter {
	enum pool_permitted (*take)(void *data, uint32_t endpoint);
	void *data;
};

/* The ticket is left empty: it is known by its serial. `limiter`: asked for the permits; NULL: there are none. */
void pool_policy_next(struct pool_policy *p, const struct pool_next_op *op,
		      const struct pool_limiter *limiter, struct pool_given *ret_given);
/* op->ticket is not looked at. */
enum pool_reported pool_policy_report(struct pool_policy *p, uint64_t serial,
				      const struct pool_report_op *op);
/* What a reservation took is given back, as if it had not been. */
void pool_policy_undo(struct pool_policy *p, uint64_t serial);
/* Who waited is gone. */
void pool_policy_leave(struct pool_policy *p, uint64_t waiter);

struct pool_view {
	struct pool_totals totals;
	size_t n;
	struct pool_shown endpoint[POOL_POLICY_ENDPOINTS];
	size_t n_targets; /* of which there is something to tell, in any order */
	struct {
		struct pool_shown_target head;
		struct {
			uint32_t endpoint; /* index */
			uint64_t us;       /* until it may be used there */
		} cooling[POOL_POLICY_ENDPOINTS];
	} target[POOL_POLICY_TARGETS + 1];
	size_t n_probes; /* of a pool that is probed */
	struct {
		uint32_t endpoint; /* index */
		enum pool_probe found;
		uint64_t age_us;
	} probe[POOL_POLICY_ENDPOINTS];
};

void pool_policy_show(struct pool_policy *p, struct pool_view *ret_view);
/* The numbers since they were last told, and each endpoint's tickets; false: `report` µs have not passed since. */
bool pool_policy_numbers(struct pool_policy *p, struct pool_numbers *ret_numbers,
			 uint64_t ret_tickets[static POOL_POLICY_ENDPOINTS]);
/* The operator says that it is to be used again. Returns whether it was disabled. */
bool pool_policy_enable(struct pool_policy *p, uint32_t endpoint);
/* What a probe of the cooldown that began after ticket `began` found. Returns whether there is one. */
bool pool_policy_probe(struct pool_policy *p, uint32_t endpoint, uint64_t began,
		       enum pool_probe found);

struct pool_due {
	uint32_t endpoint; /* index */
	uint64_t began;
};

/*
 * Which endpoints in cooldown are due for a probe, at most `room` of them, those first that wait longest; for the one agent that
 * probes them until ttl_us have passed without it. *ret_more: more are due. False: another does.
 */
bool pool_policy_prober(struct pool_policy *p, const char agent[static POOL_AGENT_BYTES],
			uint64_t ttl_us, uint16_t room, bool *ret_more, size_t *ret_n,
			struct pool_due ret_due[static POOL_POLICY_ENDPOINTS]);
