/*
 * A pool in a private Redis and its twin, told the same at the same instants of a clock of the test's: keys expire by it, too.
 */
#pragma once

#include "core/bucket.h"
#include "core/pool_policy.h"
#include "core/script.h"
#include "redis_client.h"
#include "redis_server.h"

enum { POOL_PAIR_OPS_MAX = 16, POOL_PAIR_HOLDERS_MAX = 64 };

enum pool_op_kind {
	POOL_OP_NEXT,
	POOL_OP_REPORT,
	POOL_OP_UNDO,
	POOL_OP_LEAVE,
	POOL_OP_SHOW,
	POOL_OP_NUMBERS,
	POOL_OP_ENABLE,
	POOL_OP_PROBE,
	POOL_OP_PROBER,
};

/* Token buckets that NEXT takes from, where their limits are given: the endpoint's own, and one that is the same for all. */
struct pool_op_permits {
	const struct limit *own, *common;
	uint64_t own_cost, common_cost;
};

struct pool_op {
	enum pool_op_kind kind;
	struct pool_next_op next; /* without `permits` */
	struct pool_op_permits permits;
	struct pool_report_op report; /* its ticket is that of `serial` */
	uint64_t serial;              /* REPORT, UNDO; of no ticket: one that is made up */
	uint64_t waiter;              /* LEAVE */
	uint32_t endpoint;            /* ENABLE, PROBE */
	uint64_t began;               /* PROBE */
	enum pool_probe found;        /* PROBE */
	const char *agent;            /* PROBER: POOL_AGENT_BYTES */
	uint64_t ttl_us;              /* PROBER */
	uint16_t room;                /* PROBER */
};

struct pool_try {
	uint32_t endpoint;
	bool allowed;
	int64_t wait_us; /* if not */
};

struct pool_op_answer {
	struct pool_given given; /* NEXT; without its ticket */
	size_t n_tries;          /* NEXT: for whose permits were asked */
	struct pool_try try[POOL_TRIES_MAX];
	enum pool_reported reported;
	struct pool_view view;       /* SHOW */
	struct pool_numbers numbers; /* NUMBERS */
	uint64_t tickets[POOL_POLICY_ENDPOINTS];
	bool flag; /* NUMBERS: it was due; ENABLE; PROBE; PROBER */
	bool more; /* PROBER */
	size_t n_due;
	struct pool_due due[POOL_POLICY_ENDPOINTS];
};

struct pool_answers {
	struct pool_op_answer op[POOL_PAIR_OPS_MAX];
	struct pool_event event[POOL_POLICY_EVENTS];
	size_t n_events;
};

struct pool_batch {
	const struct pool_rule *rule;
	const struct pool_endpoint *endpoints;
	size_t n;
	uint64_t now_us; /* later than it is: Redis's own clock ends nothing */
	double luck;
	const struct pool_op *op;
	uint32_t n_ops; /* at most POOL_PAIR_OPS_MAX */
};

struct pool_pair {
	struct redis_server server;
	struct redis_client client;
	struct redis_answer reply; /* of the last batch; the script's answers point into it */
	char sha1[41];
	struct script_batch *batch[POOL_PAIR_OPS_MAX]; /* of each NEXT's permits */
	uint64_t stamp;                                /* of the last of them */
	struct pool_policy *twin;
	struct bucket common;
	struct {
		char name[64];
		struct bucket bucket;
	} own[POOL_PAIR_HOLDERS_MAX];
	size_t n_own;
	char (*ticket)[POOL_TICKET_MAX + 1]; /* by serial, modulo POOL_POLICY_TICKETS */
};

void pool_pair_start(struct pool_pair *p);
void pool_pair_stop(struct pool_pair *p);
/* Nothing happened yet. */
void pool_pair_clear(struct pool_pair *p);

/* Both carry out the batch. Aborts where the script does not answer. */
void pool_pair_run(struct pool_pair *p, const struct pool_batch *b, struct pool_answers *ret_lua,
		   struct pool_answers *ret_c);
/* NULL: they are equal; else what differs first. Borrowed until the next call. */
const char *pool_answers_differ(const struct pool_batch *b, const struct pool_answers *lua,
				const struct pool_answers *c);
