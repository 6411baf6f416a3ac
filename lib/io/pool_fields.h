/* The option tables of pools, and the structs that they fill (io/conf.h). */
#pragma once

#include "core/pool.h"
#include "core/pool_probe.h"
#include "io/conf.h"

/* Durations in ms, shares in millionths. */
struct pool_cooldown_fields {
	int64_t base, max, jitter;
	int how;       /* 0: half-open, 1: direct */
	int64_t trial; /* CONF_ABSENT: the lease */
	int64_t ramp;
};

struct pool_floor_fields {
	int64_t active, pause;
};

struct pool_blame_fields {
	int64_t within, min, share, hold, max_out;
};

struct pool_escalate_fields {
	int64_t after, of, hold;
};

struct pool_session_fields {
	int64_t ttl;
	bool exclusive;
};

struct pool_health_fields {
	const char *url;
	int64_t every, timeout;
	int family, exit; /* enum pool_family, enum pool_exit */
};

struct pool_fields {
	const char *name;
	int kind, select, dialect;
	int64_t window, threshold;
	struct pool_cooldown_fields cooldown;
	int64_t lease;
	struct pool_floor_fields floor;
	struct pool_blame_fields blame;
	struct pool_escalate_fields escalate;
	const json_t *health; /* NULL: none */
	struct pool_session_fields sessions;
	int64_t report;
	const char *permit, *target_policy; /* NULL: none */
	const json_t *endpoints;            /* NULL: none */
	const char *endpoints_file;         /* NULL: none */
};

struct pool_endpoint_fields {
	const char *id;
	const char *url;
	const char *key, *key_file;
	const char *group;
	int64_t weight, tier, slots;
	int state; /* 0: active, 1: disabled */
};

extern const struct conf_table pool_table, pool_health_table, pool_endpoint_table;
