/*
 * Policies and overrides as their JSON says them, checked and compiled: the pieces a catalogue is built of.
 * Immutable and reference-counted (by any thread), so that a change of one item leaves all others as they are.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdint.h>

#include "control/catalogue.h"
#include "io/conf.h"

struct policy_rule {
	atomic_uint refs;
	struct policy policy; /* levels within this rule; has_overrides is the catalogue's */
	struct buf envoy;     /* what policy.envoy points to ... */
	struct buf envoy_set; /* ... and policy.envoy_set */
	struct level levels[];
};

struct override_rule {
	atomic_uint refs;
	char policy[NAME_BYTES_MAX + 1];
	bool is_prefix;
	bool banned, unlimited;
	int64_t until_ms;                     /* INT64_MAX: for ever */
	int64_t limit, per_ms, burst, weight; /* CONF_ABSENT: not given */
	struct slice key;                     /* within this rule */
	char bytes[];
};

/*
 * What `value`, at `path` in its document, says. NULL: errors were recorded in `r`, or, if none was, memory is
 * out.
 */
struct policy_rule *policy_rule_read(struct conf_reader *r, const struct conf_path *path,
				     const json_t *value);
struct override_rule *override_rule_read(struct conf_reader *r, const struct conf_path *path,
					 const json_t *value);

struct policy_rule *policy_rule_ref(struct policy_rule *rule);
void policy_rule_unref(struct policy_rule *rule); /* NULL is nothing */
struct override_rule *override_rule_ref(struct override_rule *rule);
void override_rule_unref(struct override_rule *rule);

/* The level of `p` that the override binds: by the parts of its key. */
unsigned override_rule_level(const struct override_rule *o, const struct policy *p);

/*
 * Records in `r` what of the override does not fit the policy that it names. Returns whether it fits.
 */
bool override_rule_fits(const struct override_rule *o, const struct policy *p,
			struct conf_reader *r, const struct conf_path *path);

/*
 * The override in force over `p`. A parameter that the policy's algorithm has not is left out. What cannot
 * be (the policy has changed since) denies.
 */
void override_rule_bind(const struct override_rule *o, const struct policy *p,
			struct override *ret_override);

/* For overrides: a rate in `l` whose algorithm is set, `burst` CONF_ABSENT for the default; not initialised yet. */
void policy_set_rate(struct limit *l, int64_t limit, int64_t per_ms, int64_t burst);
/* For overrides: a plan of `slots`, each for `hold_ms` at most. */
KOVA_MUST_CHECK kova_status policy_set_plan(struct level *level, int64_t slots, int64_t hold_ms);
