/* The policies, overrides and pools of one file, compiled and checked against each other. */
#pragma once

#include "control/policy_rule.h"
#include "control/pool_def.h"

/* JSON arrays, members of the document's root; NULL: none. */
struct rule_lists {
	json_t *policies, *overrides, *pools;
};

/* Owned, in the order of the file. */
struct rule_set {
	struct policy_rule **policies;
	size_t n_policies;
	struct override_rule **overrides;
	size_t n_overrides;
	struct pool_def **pools;
	size_t n_pools;
};

/*
 * Reads `lists`. Errors go to `r`: also for two policies or pools of one name, two overrides of one key, an override whose policy
 * is not there or that does not fit it, a pool whose policies are not there. KOVA_ECONFIG: there were errors; KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status rule_set_read(struct conf_reader *r, const struct rule_lists *lists,
					  struct rule_set *ret_set);
void rule_set_release(struct rule_set *s);
