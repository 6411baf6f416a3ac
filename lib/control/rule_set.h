/* The policies and overrides of one file, compiled and checked against each other. */
#pragma once

#include "policy_rule.h"

/* Owned, in the order of the file. */
struct rule_set {
	struct policy_rule **policies;
	size_t n_policies;
	struct override_rule **overrides;
	size_t n_overrides;
};

/*
 * Reads `policies` and `overrides` (JSON arrays, or NULL: none), members of the document's root. Errors go
 * to `r`: also for two policies of one name, two overrides of one key, an override whose policy is not
 * there or that does not fit it. KOVA_ECONFIG: there were errors; KOVA_ENOMEM.
 */
KOVA_MUST_CHECK kova_status rule_set_read(struct conf_reader *r, const json_t *policies,
					  const json_t *overrides, struct rule_set *ret_set);
void rule_set_release(struct rule_set *s);
