/* How a catalogue comes to be: from compiled policies and overrides (policy_rule.h). */
#pragma once

#include "control/policy_rule.h"
#include "control/pool_def.h"
#include "control/weights.h"

/*
 * A catalogue of these rules, with one reference; it keeps references of its own to the rules. Names of policies differ,
 * as do the overrides' (policy, kind, key). Overrides of a policy that is not there are left out. NULL: out
 * of memory. Cost: some ns a policy, so a change of one item builds the whole anew.
 */
struct catalogue *catalogue_new(struct policy_rule *const *policies, size_t n_policies,
				struct override_rule *const *overrides, size_t n_overrides);

/* While it is being built: its pools, whose names differ; it keeps references of its own. False: out of memory. */
bool catalogue_set_pools(struct catalogue *c, struct pool_def *const *pools, size_t n);

/*
 * Likewise its weights, whose policies and parents differ. Those of a policy that is not there, or whose weights are fixed, say
 * nothing.
 */
bool catalogue_set_weights(struct catalogue *c, struct weights_rule *const *weights, size_t n);
