/* The option tables of policies and overrides, and the structs that they fill (io/conf.h). */
#pragma once

#include "core/limit.h"
#include "io/conf.h"

#define POLICY_PER_MIN_MS ((int64_t)(LIMIT_PER_MIN_US / 1000))
#define POLICY_PER_MAX_MS ((int64_t)(LIMIT_PER_MAX_US / 1000))

struct level_fields {
	const char *name;
	int64_t limit;
	const json_t *per; /* a duration, or a calendar's unit */
	int64_t burst;
	int64_t weight, ceiling; /* of `levels` only */
};

struct plan_fields {
	int64_t slots;
	int64_t hold; /* ms */
};

struct lease_fields {
	int64_t max; /* CONF_ABSENT: no bound */
	int64_t ttl; /* ms */
};

struct breaker_fields {
	int64_t failures, of, trials;
	int64_t open; /* ms */
};

struct adaptive_fields {
	int mode; /* enum adaptive_mode */
	int64_t min, max, increase, decrease, tolerance;
	int64_t window; /* ms */
};

struct envoy_fields {
	const char *domain;
	const json_t *descriptors;
};

struct policy_fields {
	const char *name;
	int algorithm;             /* enum algorithm */
	struct level_fields level; /* name unused */
	const char *tz;
	int64_t hold; /* ms */
	const json_t *plan;
	const json_t *levels;
	int scope;     /* 0: region */
	int global;    /* 0: strict, 1: loose; −1: not given */
	int weights;   /* 0: fixed, 1: history */
	int on_outage; /* enum outage_action; −1: not given */
	struct {
		int64_t max_queue;
		int64_t max_wait; /* ms */
	} wait;
	const json_t *durability;
	const json_t *lease;
	const json_t *breaker;
	const json_t *adaptive;
	const json_t *envoy;
	bool shadow;
};

struct override_fields {
	const char *policy;
	struct slice key, prefix;
	int64_t limit;
	int64_t per; /* ms */
	int64_t burst;
	bool unlimited, banned;
	int64_t until; /* ms since the epoch */
	int64_t weight;
};

extern const struct conf_table policy_table, level_table, plan_table, lease_table, breaker_table,
	adaptive_table, envoy_table, override_table;

/* NULL-terminated, by enum algorithm; by policy_fields.scope. */
extern const char *const policy_algorithm_names[];
extern const char *const policy_scope_names[];

enum { POLICY_STRICT, POLICY_LOOSE }; /* policy_fields.global */
