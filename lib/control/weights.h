/*
 * Weights of the children of one key path, as coordinators find them from what was consumed: a configuration item of its own,
 * `{"policy":P,"parent":PATH,"weights":{"CHILD":n,…}}`. Immutable and reference-counted (by any thread), as policy_rule.h.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>

#include "core/name.h"
#include "io/conf.h"

/* What a `weight` of 1 in a policy or an override is beside these. */
enum { WEIGHTS_ONE = 1000 };

struct weights_child {
	struct slice path; /* the parent's, a '/' and the child, in the rule */
	uint32_t weight;   /* 1..SHARE_WEIGHT_MAX */
};

struct weights_rule {
	atomic_uint refs;
	char policy[NAME_BYTES_MAX + 1];
	unsigned level; /* of the children, by the parts of the parent's path; from 1 */
	size_t n;
	struct weights_child child[];
};

/*
 * What `value` says. NULL: errors were recorded in `r`, or, if none was, memory is out. A child whose path is longer than a key may be is left
 * out: nobody asks for it.
 */
struct weights_rule *weights_rule_read(struct conf_reader *r, const json_t *value);
struct weights_rule *weights_rule_ref(struct weights_rule *rule);
void weights_rule_unref(struct weights_rule *rule); /* NULL is nothing */
