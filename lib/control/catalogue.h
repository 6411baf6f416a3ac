/*
 * The policies, overrides and pools in force: immutable once built, reference-counted, replaced whole, so that
 * a verdict sees the old ones or the new ones and never a mix.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/adaptive.h"
#include "core/breaker.h"
#include "core/bytes.h"
#include "core/limit.h"
#include "core/name.h"

/* Where a policy's limits hold: in each region by itself, or in the world, kept at each key's home region. */
enum policy_scope { SCOPE_REGION, SCOPE_HOME, SCOPE_GLOBAL };

enum outage_action { OUTAGE_LOCAL, OUTAGE_DENY, OUTAGE_ALLOW };

/* When a decision counts as made, beside being made: on disk; at so many replicas. */
struct durability {
	bool aof;
	uint8_t replicas; /* 0..DURABILITY_REPLICAS_MAX */
};

enum { DURABILITY_REPLICAS_MAX = 10 };

static inline bool durability_is_wanted(struct durability d)
{
	return d.aof || d.replicas > 0;
}

/* What satisfies both. */
static inline struct durability durability_both(struct durability a, struct durability b)
{
	return (struct durability){.aof = a.aof || b.aof,
				   .replicas = a.replicas > b.replicas ? a.replicas : b.replicas};
}

/* What is counted of a policy, kept over reloads (owned by the registry in policy_stats.h). */
struct policy_stats;

struct level {
	char name[NAME_BYTES_MAX + 1]; /* of a policy without levels: the policy's name */
	struct limit limit;
	bool has_slots; /* plan: limit is its bucket, slots its concurrency */
	struct limit slots;
	uint32_t
		weight; /* 1..SHARE_WEIGHT_MAX: of each key among those of the level above; 0: none */
};

struct policy {
	char name[NAME_BYTES_MAX + 1];
	uint8_t n_levels; /* 1..8; the last takes the rest of the key */
	bool shadow;
	bool has_overrides;
	enum policy_scope scope;
	struct {
		bool loose;
		uint32_t whole; /* of which shares are parts, at least 1 */
	} global;               /* scope global */
	bool weighs_history;    /* its levels' weights are recomputed */
	enum outage_action on_outage;
	struct durability durability;
	uint32_t wait_max_queue; /* 0: never wait */
	uint64_t wait_max_ms;
	struct {
		bool off;       /* neither leases nor remembered refusals */
		bool automatic; /* leases for keys that are busy, under limits that are large, alone */
		uint64_t max;    /* permits; 0: no bound */
		uint64_t ttl_us; /* 1 ms..10 s */
	} lease;
	bool has_breaker;
	struct breaker_rule breaker;
	bool has_adaptive; /* the limits of the last level */
	struct adaptive_rule adaptive;
	struct level *levels;
	struct slice
		envoy; /* rls_name_add() of its domain and keys (core/rls_key.h); empty: none */
	struct slice envoy_set; /* the same with the keys in the order of slice_compare() */
	struct policy_stats *stats;
};

struct override {
	bool banned, unlimited;
	int64_t until_ms; /* wall clock, ms since the epoch; INT64_MAX: for ever. An expired one does not bind */
	bool weighted;      /* it says the weight; else the level has that of the policy */
	struct level level; /* unless banned or unlimited; algorithm as that which it replaces */
};

struct catalogue;

struct catalogue *catalogue_ref(struct catalogue *c);
void catalogue_unref(struct catalogue *c); /* NULL is nothing */

/* NULL when there is none of that name. Borrowed while the catalogue is referenced. */
const struct policy *catalogue_policy(const struct catalogue *c, struct slice name);
/* The policy with number `i`, from 0 on without gaps; NULL: there are no more. */
const struct policy *catalogue_policy_at(const struct catalogue *c, size_t i);

/*
 * The policies whose `envoy` is `name`, one a call: with *walk 0 at first, and then as it was left. NULL: there are no
 * more.
 */
const struct policy *catalogue_envoy(const struct catalogue *c, struct slice name, uint64_t *walk);

/* The same of those whose `envoy_set` is `name`. */
const struct policy *catalogue_envoy_set(const struct catalogue *c, struct slice name,
					 uint64_t *walk);

struct pool_def;

/* The pool of that name, or with number `i`, by name in order; NULL: there is none. Borrowed likewise. */
struct pool_def *catalogue_pool(const struct catalogue *c, struct slice name);
struct pool_def *catalogue_pool_at(const struct catalogue *c, size_t i);

/*
 * The override that binds the key path `path` of level `level` of `p` at `now_ms`, or NULL: the exact key
 * wins over the longest prefix. `path` is raw text through that level (keyspace_path()).
 */
const struct override *catalogue_override(const struct catalogue *c, const struct policy *p,
					  unsigned level, struct slice path, int64_t now_ms);

/* The weight that history gives the key path `path` of level `level` of `p`; 0: none. */
uint32_t catalogue_weight(const struct catalogue *c, const struct policy *p, unsigned level,
			  struct slice path);
