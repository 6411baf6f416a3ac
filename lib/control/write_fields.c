#include "control/write_fields.h"

/* null for one that is not there. */
static json_t *item_of(struct slice text)
{
	json_t *item = text.len > 0 ? json_loadb(text.ptr, text.len, 0, NULL) : NULL;

	return item != NULL ? item : json_null();
}

static void set_text(json_t *fields, const char *name, struct slice text)
{
	json_t *value = text.len > 0 ? json_stringn(text.ptr, text.len) : NULL;

	if (value != NULL) /* else there is none, or it is no UTF-8 */
		json_object_set_new(fields, name, value);
}

json_t *write_fields(const struct control_write *w)
{
	json_t *fields = json_pack("{s:s, s:o, s:o}", "kind", w->kind, "before", item_of(w->before),
				   "after", item_of(w->after));

	set_text(fields, "name", w->policy);
	if (w->member != NULL)
		set_text(fields, w->member, w->key);
	set_text(fields, "who", w->who);
	return fields;
}
