#include "control_item.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/name.h"
#include "io/buf_json.h"

enum { FRAME_BEFORE = 20, FRAME_AFTER = 1, CHECKSUM_SEED = 0x6b6f7661 }; /* ["16 digits", … ] */

void control_id_set(struct control_id *id, enum control_kind kind, struct slice policy,
		    struct slice key)
{
	id->bytes[0] = (char)kind;
	memcpy(id->bytes + 1, policy.ptr, policy.len);
	id->len = 1 + policy.len;
	if (kind == CONTROL_POLICY)
		return;
	id->bytes[id->len++] = '\0';
	memcpy(id->bytes + id->len, key.ptr, key.len);
	id->len += key.len;
}

uint64_t control_id_hash(struct slice id)
{
	return hash_bytes(id, 0);
}

void control_id_of_policy(const struct policy_rule *rule, struct control_id *ret_id)
{
	control_id_set(ret_id, CONTROL_POLICY, slice_of(rule->policy.name), (struct slice){0});
}

void control_id_of_override(const struct override_rule *rule, struct control_id *ret_id)
{
	control_id_set(ret_id, rule->is_prefix ? CONTROL_PREFIX : CONTROL_KEY,
		       slice_of(rule->policy), rule->key);
}

static struct slice keep(char **at, struct slice s)
{
	struct slice kept = {*at, s.len};

	if (s.len > 0)
		memcpy(*at, s.ptr, s.len);
	*at += s.len;
	return kept;
}

struct control_item *control_item_new(const struct control_item_parts *parts)
{
	size_t len = parts->id.len + parts->text.len + parts->who.len;
	struct control_item *item = malloc(sizeof *item + len);

	if (item == NULL)
		return NULL;
	char *at = item->bytes;

	*item = (struct control_item){.version = parts->version,
				      .file_hash = parts->file_hash,
				      .id_hash = control_id_hash(parts->id)};
	atomic_init(&item->refs, 1);
	item->id = keep(&at, parts->id);
	item->text = keep(&at, parts->text);
	item->who = keep(&at, parts->who);
	if (parts->policy != NULL)
		item->policy = policy_rule_ref(parts->policy);
	if (parts->override != NULL)
		item->override = override_rule_ref(parts->override);
	return item;
}

struct control_item_parts control_item_parts(const struct control_item *item)
{
	return (struct control_item_parts){item->id,      item->text,      item->who,
					   item->version, item->file_hash, item->policy,
					   item->override};
}

struct control_item *control_item_ref(struct control_item *item)
{
	atomic_fetch_add_explicit(&item->refs, 1, memory_order_relaxed);
	return item;
}

void control_item_unref(struct control_item *item)
{
	if (item == NULL || atomic_fetch_sub_explicit(&item->refs, 1, memory_order_acq_rel) != 1)
		return;
	policy_rule_unref(item->policy);
	override_rule_unref(item->override);
	free(item);
}

char *control_item_text(const json_t *value)
{
	struct buf text = {0};

	buf_add_json(&text, value, JSON_COMPACT | JSON_SORT_KEYS);
	buf_add(&text, "", 1);
	if (!buf_failed(&text))
		return text.ptr;
	buf_release(&text);
	return NULL;
}

/* ---- Records ---- */

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
	size_t policy = kind == CONTROL_POLICY ? id.len : strlen(id.ptr);

	buf_add_text(out, kind == CONTROL_POLICY ? "{\"name\":" : "{\"policy\":");
	add_json_string(out, (struct slice){id.ptr, policy});
	if (kind != CONTROL_POLICY) {
		buf_add_text(out, kind == CONTROL_KEY ? ",\"key\":" : ",\"prefix\":");
		add_json_string(out, (struct slice){id.ptr + policy + 1, id.len - policy - 1});
	}
	buf_add_text(out, "}");
}

void control_record_write(const struct control_item *item, struct buf *out)
{
	struct buf object = {0};
	bool deleted = control_item_is_deleted(item);

	buf_printf(&object,
		   "{\"version\":%" PRIu64 ",\"file\":\"%016" PRIx64 "\",\"who\":", item->version,
		   item->file_hash);
	add_json_string(&object, item->who);
	buf_add_text(&object, deleted ? ",\"deleted\":" : ",\"item\":");
	if (deleted)
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

/* The id that `value` (a whole item, or of a deleted one its names) says. */
static bool read_id(const json_t *value, struct control_id *ret_id)
{
	struct slice name = string_member(value, "name"), policy = string_member(value, "policy");
	struct slice key = string_member(value, "key"), prefix = string_member(value, "prefix");

	if (name.ptr != NULL && name_is_valid(name)) {
		control_id_set(ret_id, CONTROL_POLICY, name, (struct slice){0});
		return true;
	}
	struct slice which = key.ptr != NULL ? key : prefix;

	if (policy.ptr == NULL || !name_is_valid(policy) || which.ptr == NULL ||
	    which.len > REQUEST_KEY_MAX)
		return false;
	control_id_set(ret_id, key.ptr != NULL ? CONTROL_KEY : CONTROL_PREFIX, policy, which);
	return true;
}

/* Compiles `value` into the rule of its kind. KOVA_ECONFIG: what this version does not accept. */
static kova_status read_rule(const json_t *value, enum control_kind kind,
			     struct control_item_parts *parts)
{
	struct conf_reader r = {0};

	if (kind == CONTROL_POLICY)
		parts->policy = policy_rule_read(&r, NULL, value);
	else
		parts->override = override_rule_read(&r, NULL, value);
	if (parts->policy != NULL || parts->override != NULL)
		return KOVA_OK;
	return r.n_errors > 0 ? KOVA_ECONFIG : KOVA_ENOMEM;
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

	if (file.ptr == NULL || parts.who.ptr == NULL ||
	    !read_id(value != NULL ? value : deleted, &id))
		return KOVA_EPROTO;
	parts.version = (uint64_t)json_integer_value(json_object_get(object, "version"));
	parts.file_hash = strtoull(file.ptr, NULL, 16);
	parts.id = (struct slice){id.bytes, id.len};
	if (value != NULL) {
		status = read_rule(value, (enum control_kind)id.bytes[0], &parts);
		text = control_item_text(value);
		parts.text = text != NULL ? slice_of(text) : (struct slice){0};
		if (text == NULL)
			status = KOVA_ENOMEM;
	}
	struct control_item *item = status == KOVA_OK ? control_item_new(&parts) : NULL;

	policy_rule_unref(parts.policy);
	override_rule_unref(parts.override);
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
