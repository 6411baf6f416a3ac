/*
 * Operations: the agent's own metrics, whether it is ready, and the clock that requests are timed
 * by. Each loop has its own part, which only it touches; the totals are added up loop by loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "control/gossip_service.h"
#include "control/policy_stats.h"
#include "core/buf.h"
#include "edge_regions.h"
#include "engine_life.h"
#include "grants.h"
#include "io/conn.h"
#include "io/grpc_server.h"
#include "io/metrics.h"
#include "io/redis_store.h"
#include "live.h"
#include "publisher.h"
#include "quotas.h"
#include "rlqs.h"
#include "tracer.h"

struct agent;

enum ops_protocol { OPS_HTTP, OPS_RESP, OPS_GRPC, OPS_PROTOCOLS };

/* Policies that have labels of their own in metrics; those beyond are summed up as `(other)`. */
enum { OPS_POLICIES_MAX = 1000 };

/* One loop's part; all zeros at first. */
struct ops {
	uint64_t now_us;
	bool fresh; /* now_us was read in this phase of the turn */
	uv_check_t after_poll;
	uv_prepare_t before_poll;
	uv_timer_t log_timer;    /* says what the log has left out */
	struct conn_pool *conns; /* NULL: not started */
	struct metrics_histogram latency[OPS_PROTOCOLS];
	struct grpc_server_counters grpc;
	struct rlqs_counters rlqs;
	double started_s; /* wall clock */
};

/*
 * Starts the clock of `a`, and has its connections (borrowed until ops_stop()) counted. `a` has its loop, control and
 * engine.
 */
void ops_start(struct agent *a, struct conn_pool *conns);
/*
 * Before the pool is freed and the engine is closed; the loop must run once more. Nothing, if not
 * started.
 */
void ops_stop(struct agent *a);

/*
 * Monotonic µs, read once in a phase of the loop's turn: cheap, and as fine as the batches that are
 * timed.
 */
uint64_t ops_now_us(struct ops *o);
/* A request that was whole at `begun_us` has got its answer. */
void ops_observe(struct ops *o, enum ops_protocol protocol, uint64_t begun_us);

struct ops_policy {
	const char *name;
	struct policy_counts counts;
};

/* A policy each, and the sum of those beyond OPS_POLICIES_MAX. */
struct ops_policies {
	unsigned n;
	struct ops_policy of[OPS_POLICIES_MAX + 1];
};

/* Shards whose clocks metrics tell; those beyond count for /readyz only. */
enum { OPS_CLOCKS_MAX = 64 };

/* Another region's Redis. */
struct ops_site {
	const char *name; /* NULL: there is none of that number */
	unsigned shards, down;
};

struct ops_pools; /* ops_pools.h */
struct top_keys;

/* What the loops add up to. All zeros at first. */
struct ops_totals {
	struct redis_counters redis;
	struct region_counters region;
	struct leases_counters leases;
	struct engine_health health; /* shards: of the store, the same for every loop */
	unsigned shards_down, durable_shards_down;
	struct region_skew skew[OPS_CLOCKS_MAX]; /* as the loop knows it that heard last */
	char peer[OPS_CLOCKS_MAX][REGION_PEER_BYTES];
	unsigned n_skew;
	bool other_clock_differs; /* of a shard beyond those */
	struct ops_site sites[REGIONS_MAX];
	struct home_counters home;
	uint64_t outage_full;
	bool publishes; /* there is a Kafka: */
	struct publisher_counters publisher;
	bool traces; /* there is a collector: */
	struct tracer_counters spans;
	struct quotas_numbers quotas; /* of the owner's, as the rest */
	struct grants_numbers grants;
	const char *own_region; /* its name, for the life of the agent */
	bool draining;
	double started_s;
	struct metrics_histogram latency[OPS_PROTOCOLS];
	struct grpc_server_counters grpc;
	struct rlqs_counters rlqs;
	struct conn_counters conns;
	uint64_t connections, max_clients;
	unsigned tls_fronts;           /* of enum tls_front; that listen */
	int64_t tls_expires_s;         /* of their certificate, since the epoch */
	unsigned loop;                 /* the one that was added last */
	struct gossip_numbers gossip;  /* the owner's */
	struct live_counters live;     /* of all loops together */
	struct ops_policies *policies; /* NULL: they are not asked for */
	struct ops_pools *pools;       /* likewise */
	struct top_keys *top;          /* likewise; whoever asks for it adds it up */
};

/* Adds the numbers of one loop. On that loop. */
void ops_add(const struct agent *a, struct ops_totals *t);

/*
 * The body of /readyz, one JSON object that names what is degraded. True while requests can be
 * answered: by the store, or by each policy's on_outage without it; false when the agent drains.
 */
bool ops_ready(const struct ops_totals *t, struct buf *ret_json);

/* The body of /metrics. `t` has its policies. */
void ops_metrics(const struct ops_totals *t, struct buf *out, bool openmetrics);
