/*
 * Calls of the pool script (lua/pool.lua): the definition of a pool, batches of operations on it, and its replies. The layouts are
 * in lua/README.md.
 *
 * A call: pool_call_begin(), then operations, then pool_call_end(). Its reply: pool_reply_init() reads the events' place, then one
 * pool_read_…() an operation, in their order; what is not as it must be fails and stays failed.
 */
#pragma once

#include <stdint.h>

#include "core/buf.h"
#include "core/pool.h"
#include "core/pool_permits.h"
#include "core/pool_probe.h"
#include "core/status.h"

enum {
	POOL_STAMP_BYTES = 8,
	POOL_SECRET_BYTES = 16,
	POOL_AGENT_BYTES = 16,
	POOL_CALL_OPS_MAX = 64,
	POOL_SKIP_MAX = 64,
	POOL_TRIES_MAX = 64, /* endpoints whose permits a NEXT asks for at most */
};

/* Writes the definition, which the script is given with each call, to an empty buffer. The rules are in their ranges. */
void pool_definition_write(const struct pool_rule *rule, const struct pool_endpoint *endpoints,
			   size_t n, struct buf *out);

struct pool_next_op {
	uint8_t tier;                       /* 0: none in particular */
	struct slice target, session;       /* empty: none */
	uint64_t waiter;                    /* who waits, unlike any other anywhere; 0: nobody */
	uint64_t arrival_us;                /* when he came, by Redis's clock; 0: now */
	const uint16_t *skip;               /* endpoints that are passed over */
	size_t n_skip;                      /* at most POOL_SKIP_MAX */
	const struct pool_permits *permits; /* taken with it, or neither; NULL: none */
};

struct pool_report_op {
	struct slice ticket;
	enum pool_outcome outcome;
	uint16_t status;  /* 0: not given */
	uint64_t hint_us; /* how long to stay away; 0: nobody said */
	const struct pool_quota *quotas;
	size_t n_quotas; /* at most POOL_QUOTAS_MAX */
};

/* Begins a batch; operations are appended to `program`. `luck`: 0..1, random. */
void pool_call_begin(struct buf *program, const char stamp[static POOL_STAMP_BYTES], double luck);
void pool_call_next(struct buf *program, const struct pool_next_op *op);
void pool_call_report(struct buf *program, const struct pool_report_op *op);
void pool_call_undo(struct buf *program, uint64_t serial);
/* Who waited is gone. */
void pool_call_leave(struct buf *program, uint64_t waiter);
void pool_call_show(struct buf *program);
void pool_call_numbers(struct buf *program);
void pool_call_enable(struct buf *program, uint32_t endpoint);
/* What a probe found in the cooldown that began after ticket `began`. */
void pool_call_probe(struct buf *program, uint32_t endpoint, uint64_t began, enum pool_probe found);
/* Who probes until ttl_us have passed without it; it takes on at most `room` endpoints. */
void pool_call_prober(struct buf *program, const char agent[static POOL_AGENT_BYTES],
		      uint64_t ttl_us, uint16_t room);
/* Ends it. `secret`: unguessable bytes, for a pool that has none yet. */
void pool_call_end(struct buf *program, uint32_t n_ops,
		   const char secret[static POOL_SECRET_BYTES]);

/* Appends the whole command: EVALSHA, or EVAL with the body. `key`: pool_key_write(). */
void pool_command_write(struct buf *out, bool with_body, struct slice key, struct slice definition,
			struct slice program);
/* Appends the name of the pool's key: its hash tag is that of all its keys. */
void pool_key_write(struct slice pool, struct buf *out);

struct pool_reply {
	struct slice bytes;
	size_t at;
	bool failed;
	uint64_t now_us; /* Redis's clock */
	size_t n_events, events_at, events_left;
};

/* KOVA_EPROTO: it is no reply, or that to another call. */
KOVA_MUST_CHECK kova_status pool_reply_init(struct pool_reply *r, struct slice bytes,
					    const char stamp[static POOL_STAMP_BYTES]);
/* The next event; false: there are no more. May be asked at any time. */
bool pool_reply_event(struct pool_reply *r, struct pool_event *ret_event);

struct pool_given {
	enum pool_pause pause; /* POOL_NOT_PAUSED: there is an endpoint */
	int64_t retry_us;      /* −1: no time is known */
	int64_t firm_us;   /* so long nothing but a new definition changes that; −1: for ever */
	uint32_t endpoint; /* index */
	uint8_t tier;
	bool moved, trial;
	uint16_t moves; /* of the session: its id is new with each */
	uint64_t serial;
	struct slice ticket;
};

enum pool_reported { POOL_NO_TICKET, POOL_COUNTED, POOL_NOT_COUNTED };

/* What is known of one endpoint. */
struct pool_shown {
	bool disabled, cooling; /* disabled: by the third unknown key, not by the operator */
	uint64_t returns_us;
	uint8_t cooldowns; /* in a row */
	uint8_t outcomes, failures;
	uint64_t in_flight, tickets, held_us;
	size_t n_quotas;
	struct {
		struct slice name;
		int64_t limit, left;
		uint64_t reset_us;
	} quota[POOL_QUOTAS_MAX];
};

struct pool_numbers {
	uint64_t from_us, to_us;
	uint64_t cooldowns, cooled_us;
	uint64_t active_min, tickets, above, good, back;
};

struct pool_totals {
	struct pool_numbers numbers;   /* since the last report */
	uint64_t cooldowns, cooled_us; /* since ever */
	enum pool_pause pause;         /* of a call without target and session */
	int64_t retry_us;
};

struct pool_shown_target {
	struct slice name;
	uint8_t tier;
	uint64_t held_us;
	size_t n_cooling; /* that many pool_read_cooling() follow */
};

/* All return whether it was there. */
/*
 * NEXT: for how many endpoints permits were asked, in vain but for the last where one is given; each with what the limiter answered (a
 * reply to the program in its pool_permits, of one operation); and what was given. POOL_LIMITED: the last try's refusal is the reason.
 * Else those before were passed over, and the pause is of what is left.
 */
bool pool_read_tries(struct pool_reply *r, size_t *ret_tries);
bool pool_read_try(struct pool_reply *r, uint32_t *ret_endpoint, struct slice *ret_reply);
bool pool_read_given(struct pool_reply *r, struct pool_given *ret_given);
bool pool_read_reported(struct pool_reply *r, enum pool_reported *ret_reported);
/*
 * SHOW: totals with the number of endpoints, each endpoint, the number of targets, each target with what cools there, and, of a
 * pool that is probed, the number of probes, and each.
 */
bool pool_read_totals(struct pool_reply *r, struct pool_totals *ret_totals, size_t *ret_endpoints);
bool pool_read_shown(struct pool_reply *r, struct pool_shown *ret_shown);
bool pool_read_targets(struct pool_reply *r, size_t *ret_targets);
bool pool_read_target(struct pool_reply *r, struct pool_shown_target *ret_target);
bool pool_read_cooling(struct pool_reply *r, uint32_t *ret_endpoint, uint64_t *ret_us);
bool pool_read_probes(struct pool_reply *r, size_t *ret_probes);
/* The last probe of an endpoint, and how long ago it ended. */
bool pool_read_probe(struct pool_reply *r, uint32_t *ret_endpoint, enum pool_probe *ret_found,
		     uint64_t *ret_age_us);
/* NUMBERS: *ret_due, and then the numbers, and so many pool_read_tickets(). */
bool pool_read_numbers(struct pool_reply *r, bool *ret_due, struct pool_numbers *ret_numbers,
		       size_t *ret_endpoints);
bool pool_read_tickets(struct pool_reply *r, uint64_t *ret_tickets);
/* ENABLE, PROBE: whether it was disabled, whether it counted. */
bool pool_read_flag(struct pool_reply *r, bool *ret_flag);
/*
 * PROBER: whether it is us, whether more are due than it takes on, and how many it is given: so many pool_read_cooling(), with the
 * ticket after which that began.
 */
bool pool_read_prober(struct pool_reply *r, bool *ret_is_us, bool *ret_more, size_t *ret_due);
