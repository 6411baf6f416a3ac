#include "weights.h"

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
	 .text = "the key path above them, empty for the first level"},
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

bool weights_are_valid(struct conf_reader *r, const json_t *value)
{
	struct weights_fields f;
	size_t errors = r->n_errors;
	const char *child;
	json_t *weight;

	if (!json_is_object(value)) {
		conf_fail(r, NULL, NULL, CONF_AT_VALUE, "weights must be an object");
		return false;
	}
	conf_read(r, NULL, value, &table, &f);
	if (r->n_errors == errors && !json_is_object(f.weights))
		conf_fail(r, NULL, "weights", CONF_AT_VALUE, "`weights` must be an object");
	if (r->n_errors != errors)
		return false;
	json_object_foreach((json_t *)(uintptr_t)f.weights, child, weight)
		if (!json_is_integer(weight) || json_integer_value(weight) < 1 ||
		    json_integer_value(weight) > SHARE_WEIGHT_MAX)
			conf_fail(r, &weights_path, child, CONF_AT_VALUE,
				  "a weight must be an integer from 1 to %d", SHARE_WEIGHT_MAX);
	return r->n_errors == errors;
}
