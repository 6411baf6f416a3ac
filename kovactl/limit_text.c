#include "limit_text.h"

static void add_value(struct buf *b, const json_t *value)
{
	if (json_is_integer(value))
		buf_add_int(b, json_integer_value(value));
	else if (json_is_string(value))
		buf_add_text(b, json_string_value(value));
	else
		buf_add_text(b, "?");
}

static void slots_text(struct buf *b, const json_t *plan)
{
	add_value(b, json_object_get(plan, "slots"));
	buf_add_text(b, " slots of ");
	add_value(b, json_object_get(plan, "hold"));
}

static void rate_text(struct buf *b, const json_t *item)
{
	const json_t *hold = json_object_get(item, "hold");
	const json_t *per = json_object_get(item, "per");
	const json_t *burst = json_object_get(item, "burst");

	buf_add_text(b, per == NULL && hold == NULL ? "limit " : "");
	add_value(b, json_object_get(item, "limit"));
	if (per != NULL) {
		buf_add_text(b, " per ");
		add_value(b, per);
	}
	if (hold != NULL) {
		buf_add_text(b, " at once, at most ");
		add_value(b, hold);
		buf_add_text(b, " each");
	}
	if (burst != NULL) {
		buf_add_text(b, ", burst ");
		add_value(b, burst);
	}
}

static void levels_text(struct buf *b, const json_t *levels)
{
	json_t *level;
	size_t i;

	for (i = 0; i < json_array_size(levels); i++) {
		level = json_array_get(levels, i);
		if (i > 0)
			buf_add_text(b, "; ");
		add_value(b, json_object_get(level, "name"));
		buf_add_text(b, " ");
		limit_text(b, level);
	}
}

static void share_text(struct buf *b, const json_t *item)
{
	static const char *const fields[] = {"weight", "ceiling"};

	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		const json_t *value = json_object_get(item, fields[i]);

		if (value == NULL)
			continue;
		if (json_object_get(item, "limit") != NULL)
			buf_add_text(b, ", ");
		buf_printf(b, "%s ", fields[i]);
		add_value(b, value);
	}
}

void limit_text(struct buf *b, const json_t *item)
{
	if (json_is_true(json_object_get(item, "banned")))
		buf_add_text(b, "banned");
	else if (json_is_true(json_object_get(item, "unlimited")))
		buf_add_text(b, "unlimited");
	else if (json_object_get(item, "levels") != NULL)
		levels_text(b, json_object_get(item, "levels"));
	else if (json_object_get(item, "plan") != NULL)
		slots_text(b, json_object_get(item, "plan"));
	else if (json_object_get(item, "limit") != NULL)
		rate_text(b, item);
	share_text(b, item);
}

const char *limit_algorithm(const json_t *policy)
{
	const char *name = json_string_value(json_object_get(policy, "algorithm"));

	if (json_object_get(policy, "plan") != NULL)
		return "plan";
	return name != NULL ? name : "token-bucket";
}
