#include "control/weights.h"

#include <stdlib.h>
#include <string.h>

#include "core/request_bounds.h"
#include "core/shares.h"
#include "io/option_table.h"

struct weights_fields {
	const char *policy;
	struct slice parent;
	const json_t *weights;
};

static const struct conf_option options[] = {
	{.name = "policy",
	 .type = CONF_NAME,
	 .required = true,
	 .at = offsetof(struct weights_fields, policy),
	 .text = "whose level the children are of"},
	{.name = "parent",
	 .type = CONF_BYTES,
	 .required = true,
	 .min = 0,
	 .max = REQUEST_KEY_MAX,
	 .at = offsetof(struct weights_fields, parent),
	 .text = "the key path above them"},
	{.name = "weights",
	 .type = CONF_RAW,
	 .required = true,
	 .form = "object",
	 .at = offsetof(struct weights_fields, weights),
	 .text = "by child"},
};

static const struct conf_table table = {
	.title = "Weights",
	.text = "",
	.options = options,
	.n_options = COUNT(options),
};

static const struct conf_path weights_path = {.key = "weights"};

static bool check(struct conf_reader *r, const json_t *value, struct weights_fields *ret_fields)
{
	size_t errors = r->n_errors;
	const char *child;
	json_t *weight;

	if (!json_is_object(value)) {
		conf_fail(r, NULL, NULL, CONF_AT_VALUE, "weights must be an object");
		return false;
	}
	conf_read(r, NULL, value, &table, ret_fields);
	if (r->n_errors == errors && !json_is_object(ret_fields->weights))
		conf_fail(r, NULL, "weights", CONF_AT_VALUE, "`weights` must be an object");
	if (r->n_errors != errors)
		return false;
	json_object_foreach((json_t *)(uintptr_t)ret_fields->weights, child, weight)
		if (!json_is_integer(weight) || json_integer_value(weight) < 1 ||
		    json_integer_value(weight) > SHARE_WEIGHT_MAX)
			conf_fail(r, &weights_path, child, CONF_AT_VALUE,
				  "a weight must be an integer from 1 to %d", SHARE_WEIGHT_MAX);
	return r->n_errors == errors;
}

/* Appends the path to the rule's bytes at `at`. */
static void add_child(struct weights_rule *rule, char *at, struct slice parent, const char *child,
		      uint32_t weight)
{
	size_t len = parent.len + 1 + strlen(child);

	if (parent.len > 0)
		memcpy(at, parent.ptr, parent.len);
	at[parent.len] = '/';
	memcpy(at + parent.len + 1, child, len - parent.len - 1);
	rule->child[rule->n++] = (struct weights_child){{at, len}, weight};
}

struct weights_rule *weights_rule_read(struct conf_reader *r, const json_t *value)
{
	struct weights_fields f;
	size_t bytes = 0, n = 0;
	const char *child;
	json_t *weight;

	if (!check(r, value, &f))
		return NULL;
	json_object_foreach((json_t *)(uintptr_t)f.weights, child, weight) {
		bytes += f.parent.len + 1 + strlen(child);
		n++;
	}
	struct weights_rule *rule = malloc(sizeof *rule + n * sizeof rule->child[0] + bytes);

	if (rule == NULL)
		return NULL;
	char *at = (char *)&rule->child[n];

	*rule = (struct weights_rule){.level = 1};
	atomic_init(&rule->refs, 1);
	strcpy(rule->policy, f.policy);
	for (size_t i = 0; i < f.parent.len; i++)
		rule->level += f.parent.ptr[i] == '/';
	json_object_foreach((json_t *)(uintptr_t)f.weights, child, weight) {
		if (f.parent.len + 1 + strlen(child) > REQUEST_KEY_MAX)
			continue;
		add_child(rule, at, f.parent, child, (uint32_t)json_integer_value(weight));
		at += f.parent.len + 1 + strlen(child);
	}
	return rule;
}

struct weights_rule *weights_rule_ref(struct weights_rule *rule)
{
	atomic_fetch_add_explicit(&rule->refs, 1, memory_order_relaxed);
	return rule;
}

void weights_rule_unref(struct weights_rule *rule)
{
	if (rule != NULL && atomic_fetch_sub_explicit(&rule->refs, 1, memory_order_acq_rel) == 1)
		free(rule);
}
