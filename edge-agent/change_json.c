#include "change_json.h"

#include "control/control_item.h"
#include "core/hlc.h"
#include "core/rfc3339.h"

/* What an item says; a pool without its addresses and keys. */
static json_t *text_json(enum control_kind kind, struct slice text)
{
	json_t *json = text.len > 0 ? json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, NULL) : NULL;

	if (kind == CONTROL_POOL && json != NULL) {
		json_t *shown = pool_def_redacted(json_object_get(json, "pool"));

		json_decref(json);
		json = shown;
	}
	return json != NULL ? json : json_null();
}

/*
 * What changes nothing but the stamp is no change; nor is what a fresh node finds in its file. Weights are left out: coordinators
 * write them all the time, and would push out what people did.
 */
static bool is_change(const struct control_written *w)
{
	if (w->item == NULL || w->item->version == 0 || !control_id_is_known(w->item->id) ||
	    control_item_kind(w->item) == CONTROL_WEIGHTS)
		return false;
	return !slice_equal(w->item->text, w->was != NULL ? w->was->text : (struct slice){0});
}

json_t *change_json(const struct control_written *w)
{
	const struct control_item *item = w->item;

	if (!is_change(w))
		return NULL;

	enum control_kind kind = control_item_kind(item);
	struct slice key = {item->id.ptr + 1, item->id.len - 1}, name = slice_cut(&key, '\0');
	char at[RFC3339_TEXT_MAX];

	rfc3339_write((int64_t)hlc_ms(item->version), at);
	json_t *change = json_pack(
		"{s:I,s:s,s:s,s:o,s:o,s:o,s:o,s:o}", "version", (json_int_t)item->version, "at", at,
		"kind", control_kind_name(kind), "name", json_stringn(name.ptr, name.len), "who",
		json_stringn(item->who.ptr, item->who.len), "node",
		json_stringn(item->writer.ptr, item->writer.len), "before",
		text_json(kind, w->was != NULL ? w->was->text : (struct slice){0}), "after",
		text_json(kind, item->text));

	if (!control_kind_is_named(kind) && change != NULL)
		json_object_set_new(change, control_kind_member(kind),
				    json_stringn_nocheck(key.ptr, key.len));
	return change;
}
