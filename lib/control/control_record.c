/* Items as lines of the state directory's files (control_item.h). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/control_item.h"
#include "core/hash.h"
#include "core/hex.h"
#include "core/name.h"

enum { FRAME_BEFORE = 20, FRAME_AFTER = 1, CHECKSUM_SEED = 0x6b6f7661 }; /* ["16 digits", … ] */

void control_frame_write(struct slice object, struct buf *out)
{
	buf_printf(out, "[\"%016" PRIx64 "\",", hash_bytes(object, CHECKSUM_SEED));
	buf_add_slice(out, object);
	buf_add_text(out, "]\n");
}

kova_status control_frame_read(struct slice line, struct slice *ret_object)
{
	char expected[FRAME_BEFORE + 1];

	if (line.len <= FRAME_BEFORE + FRAME_AFTER || line.ptr[line.len - 1] != ']')
		return KOVA_EPROTO;
	struct slice object = {line.ptr + FRAME_BEFORE, line.len - FRAME_BEFORE - FRAME_AFTER};

	snprintf(expected, sizeof expected, "[\"%016" PRIx64 "\",",
		 hash_bytes(object, CHECKSUM_SEED));
	if (memcmp(line.ptr, expected, FRAME_BEFORE) != 0)
		return KOVA_EPROTO;
	*ret_object = object;
	return KOVA_OK;
}

/* `s` as a JSON string: any bytes of valid UTF-8, which all text that came in as JSON is. */
static void add_json_string(struct buf *out, struct slice s)
{
	buf_add_text(out, "\"");
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.ptr[i];

		if (c < 0x20 || c == '"' || c == '\\')
			buf_printf(out, "\\u%04x", c);
		else
			buf_add(out, &s.ptr[i], 1);
	}
	buf_add_text(out, "\"");
}

/* The id of a deleted item: as the item itself would name it. */
static void add_id(struct buf *out, const struct control_item *item)
{
	enum control_kind kind = control_item_kind(item);
	struct slice id = {item->id.ptr + 1, item->id.len - 1};
	bool named = control_kind_is_named(kind);
	size_t policy = named ? id.len : strlen(id.ptr);

	buf_add_text(out, kind == CONTROL_POOL ? "{\"pool\":" : "");
	buf_add_text(out, named ? "{\"name\":" : "{\"policy\":");
	add_json_string(out, (struct slice){id.ptr, policy});
	if (!named) {
		buf_printf(out, ",\"%s\":", control_kind_member(kind));
		add_json_string(out, (struct slice){id.ptr + policy + 1, id.len - policy - 1});
	}
	buf_add_text(out, kind == CONTROL_POOL ? "}}" : "}");
}

/* What this version can't read, byte by byte. */
static void add_raw(struct buf *out, const struct control_item *item)
{
	const struct slice parts[] = {item->id, item->text, item->in_force};

	for (int i = 0; i < 3; i++) {
		buf_add_text(out, i == 0 ? "[\"" : ",\"");
		for (size_t at = 0; at < parts[i].len; at++)
			buf_printf(out, "%02x", (unsigned char)parts[i].ptr[at]);
		buf_add_text(out, "\"");
	}
	buf_add_text(out, "]");
}

static const char *form_of(const struct control_item *item)
{
	if (item->unread)
		return ",\"raw\":";
	return control_item_is_deleted(item) ? ",\"deleted\":" : ",\"item\":";
}

void control_record_write(const struct control_item *item, struct buf *out)
{
	struct buf object = {0};

	buf_printf(&object,
		   "{\"version\":%" PRIu64 ",\"file\":\"%016" PRIx64 "\",\"who\":", item->version,
		   item->file_hash);
	add_json_string(&object, item->who);
	if (item->writer.len > 0) {
		buf_add_text(&object, ",\"node\":");
		add_json_string(&object, item->writer);
	}
	buf_add_text(&object, form_of(item));
	if (item->unread)
		add_raw(&object, item);
	else if (control_item_is_deleted(item))
		add_id(&object, item);
	else
		buf_add_slice(&object, item->text);
	buf_add_text(&object, "}");
	control_frame_write(buf_slice(&object), out);
	out->failed |= buf_failed(&object);
	buf_release(&object);
}

static struct slice string_member(const json_t *object, const char *name)
{
	const json_t *s = json_object_get(object, name);

	return (struct slice){json_string_value(s), json_string_length(s)};
}

/* Bytes from hexadecimal; the buffer fails when it is none. */
static struct slice read_hex(struct buf *out, const json_t *text)
{
	struct slice s = {json_string_value(text), json_string_length(text)};
	size_t from = out->len;

	if (s.len % 2 != 0)
		out->failed = true;
	for (size_t i = 0; i + 1 < s.len; i += 2) {
		int high = hex_value(s.ptr[i]), low = hex_value(s.ptr[i + 1]);

		out->failed |= high < 0 || low < 0;
		buf_add(out, &(char){(char)(high << 4 | low)}, 1);
	}
	return (struct slice){NULL, out->len - from};
}

/* An item that could not be in force when it was written; perhaps it can by now. */
static kova_status read_raw(const json_t *raw, const struct control_item_parts *known,
			    struct control_item **ret_item)
{
	struct buf bytes = {0};
	struct gossip_item said = {
		.who = known->who, .writer = known->writer, .stamp = known->version};
	struct control_item *read = NULL;

	said.id = read_hex(&bytes, json_array_get(raw, 0));
	said.value = read_hex(&bytes, json_array_get(raw, 1));
	struct slice in_force = read_hex(&bytes, json_array_get(raw, 2));

	said.id.ptr = bytes.ptr;
	said.value.ptr = bytes.ptr + said.id.len;
	in_force.ptr = said.value.ptr + said.value.len;
	kova_status status = buf_failed(&bytes) || said.id.len == 0
				     ? KOVA_EPROTO
				     : control_item_of_gossip(&said, &read);

	if (status == KOVA_OK) {
		struct control_item_parts parts = control_item_parts(read);

		parts.file_hash = known->file_hash;
		parts.in_force = in_force;
		*ret_item =
			read->unread ? control_item_held_back(&parts) : control_item_new(&parts);
		status = *ret_item != NULL ? KOVA_OK : KOVA_ENOMEM;
	}
	control_item_unref(read);
	buf_release(&bytes);
	return status;
}

static kova_status read_object(const json_t *object, struct control_item **ret_item)
{
	const json_t *value = json_object_get(object, "item");
	const json_t *deleted = json_object_get(object, "deleted");
	struct slice file = string_member(object, "file");
	struct control_item_parts parts = {.who = string_member(object, "who")};
	struct control_id id;
	char *text = NULL;
	kova_status status = KOVA_OK;

	const json_t *raw = json_object_get(object, "raw");

	if (file.ptr == NULL || parts.who.ptr == NULL)
		return KOVA_EPROTO;
	parts.version = (uint64_t)json_integer_value(json_object_get(object, "version"));
	parts.file_hash = strtoull(file.ptr, NULL, 16);
	parts.writer = string_member(object, "node");
	if (raw != NULL)
		return read_raw(raw, &parts, ret_item);
	if (!control_id_of_json(value != NULL ? value : deleted, &id))
		return KOVA_EPROTO;
	parts.id = (struct slice){id.bytes, id.len};
	if (value != NULL) {
		status = control_rule_read(value, (enum control_kind)id.bytes[0], &parts);
		text = control_item_text(value);
		parts.text = text != NULL ? slice_of(text) : (struct slice){0};
		if (text == NULL)
			status = KOVA_ENOMEM;
	}
	struct control_item *item = status == KOVA_OK ? control_item_new(&parts) : NULL;

	control_rule_release(&parts);
	free(text);
	if (item == NULL)
		return status == KOVA_OK ? KOVA_ENOMEM : status;
	*ret_item = item;
	return KOVA_OK;
}

kova_status control_record_read(struct slice line, struct control_item **ret_item)
{
	struct slice object;
	kova_status status = control_frame_read(line, &object);

	if (status != KOVA_OK)
		return status;
	json_t *json = json_loadb(object.ptr, object.len, JSON_ALLOW_NUL, NULL);

	status = json != NULL ? read_object(json, ret_item) : KOVA_EPROTO;
	json_decref(json);
	return status;
}
