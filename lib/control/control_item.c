#include "control/control_item.h"

#include <stdlib.h>
#include <string.h>

#include "control/weights.h"
#include "core/hash.h"
#include "core/hlc.h"
#include "core/name.h"
#include "io/buf_json.h"

#define TOMBSTONE_MS (UINT64_C(30) * 86400000)

bool control_kind_is_named(enum control_kind kind)
{
	return kind == CONTROL_POLICY || kind == CONTROL_POOL;
}

void control_id_set(struct control_id *id, enum control_kind kind, struct slice policy,
		    struct slice key)
{
	id->bytes[0] = (char)kind;
	memcpy(id->bytes + 1, policy.ptr, policy.len);
	id->len = 1 + policy.len;
	if (control_kind_is_named(kind))
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

void control_id_of_pool(const struct pool_def *pool, struct control_id *ret_id)
{
	control_id_set(ret_id, CONTROL_POOL, slice_of(pool->name), (struct slice){0});
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
	size_t len = parts->id.len + parts->text.len + parts->who.len + parts->writer.len +
		     parts->in_force.len;
	struct control_item *item = malloc(sizeof *item + len);

	if (item == NULL)
		return NULL;
	char *at = item->bytes;

	*item = (struct control_item){.version = parts->version,
				      .file_hash = parts->file_hash,
				      .unread = parts->unread,
				      .id_hash = control_id_hash(parts->id)};
	atomic_init(&item->refs, 1);
	item->id = keep(&at, parts->id);
	item->text = keep(&at, parts->text);
	item->who = keep(&at, parts->who);
	item->writer = keep(&at, parts->writer);
	item->in_force = keep(&at, parts->in_force);
	if (parts->policy != NULL)
		item->policy = policy_rule_ref(parts->policy);
	if (parts->override != NULL)
		item->override = override_rule_ref(parts->override);
	if (parts->pool != NULL)
		item->pool = pool_def_ref(parts->pool);
	if (parts->weights != NULL)
		item->weights = weights_rule_ref(parts->weights);
	return item;
}

struct control_item_parts control_item_parts(const struct control_item *item)
{
	return (struct control_item_parts){.id = item->id,
					   .text = item->text,
					   .who = item->who,
					   .writer = item->writer,
					   .in_force = item->in_force,
					   .unread = item->unread,
					   .version = item->version,
					   .file_hash = item->file_hash,
					   .policy = item->policy,
					   .override = item->override,
					   .pool = item->pool,
					   .weights = item->weights};
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
	pool_def_unref(item->pool);
	weights_rule_unref(item->weights);
	free(item);
}

bool control_item_is_old_deletion(const struct control_item *item, uint64_t now_ms)
{
	return control_item_is_deleted(item) && item->file_hash == 0 &&
	       hlc_ms(item->version) + TOMBSTONE_MS < now_ms;
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

/* ---- What the text says ---- */

void control_item_shut(struct control_item *item)
{
	policy_rule_unref(item->policy);
	override_rule_unref(item->override);
	pool_def_unref(item->pool);
	weights_rule_unref(item->weights);
	item->policy = NULL;
	item->override = NULL;
	item->pool = NULL;
	item->weights = NULL;
	item->unread = true;
}

struct control_item *control_item_held_back(const struct control_item_parts *parts)
{
	struct control_item_parts held = *parts;
	json_t *json = json_loadb(parts->in_force.ptr, parts->in_force.len, JSON_ALLOW_NUL, NULL);

	held.unread = true;
	held.policy = NULL;
	held.override = NULL;
	held.pool = NULL;
	held.weights = NULL;
	/* What can't be read by now is not in force. */
	if (json != NULL)
		(void)!control_rule_read(json, (enum control_kind)parts->id.ptr[0], &held);
	struct control_item *item = control_item_new(&held);

	control_rule_release(&held);
	json_decref(json);
	return item;
}

bool control_item_is_same_write(const struct control_item *a, const struct control_item *b)
{
	return a->version == b->version && slice_equal(a->writer, b->writer) &&
	       slice_equal(a->text, b->text) && slice_equal(a->who, b->who);
}

void control_item_read(const void *item, struct gossip_item *ret_item)
{
	const struct control_item *i = item;

	*ret_item = (struct gossip_item){.id = i->id,
					 .value = i->text,
					 .who = i->who,
					 .writer = i->writer,
					 .stamp = i->version};
}

static struct slice string_member(const json_t *object, const char *name)
{
	const json_t *s = json_object_get(object, name);

	return (struct slice){json_string_value(s), json_string_length(s)};
}

static bool named_id(struct slice name, enum control_kind kind, struct control_id *ret_id)
{
	if (name.ptr == NULL || !name_is_valid(name))
		return false;
	control_id_set(ret_id, kind, name, (struct slice){0});
	return true;
}

bool control_id_of_json(const json_t *value, struct control_id *ret_id)
{
	const json_t *pool = json_object_get(value, "pool");
	struct slice name = string_member(value, "name"), policy = string_member(value, "policy");
	static const enum control_kind kinds[] = {CONTROL_KEY, CONTROL_PREFIX, CONTROL_WEIGHTS};

	if (pool != NULL)
		return named_id(string_member(pool, "name"), CONTROL_POOL, ret_id);
	if (name.ptr != NULL && name_is_valid(name))
		return named_id(name, CONTROL_POLICY, ret_id);
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct slice which = string_member(value, control_kind_member(kinds[i]));

		if (which.ptr == NULL)
			continue;
		if (policy.ptr == NULL || !name_is_valid(policy) || which.len > REQUEST_KEY_MAX)
			return false;
		control_id_set(ret_id, kinds[i], policy, which);
		return true;
	}
	return false;
}

kova_status control_rule_read(const json_t *value, enum control_kind kind,
			      struct control_item_parts *parts)
{
	struct conf_reader r = {0};

	if (kind == CONTROL_WEIGHTS)
		parts->weights = weights_rule_read(&r, value);
	else if (kind == CONTROL_POLICY)
		parts->policy = policy_rule_read(&r, NULL, value);
	else if (kind == CONTROL_POOL)
		parts->pool = pool_def_read(&r, NULL, json_object_get(value, "pool"));
	else
		parts->override = override_rule_read(&r, NULL, value);
	if (parts->policy != NULL || parts->override != NULL || parts->pool != NULL ||
	    parts->weights != NULL)
		return KOVA_OK;
	return r.n_errors > 0 ? KOVA_ECONFIG : KOVA_ENOMEM;
}

void control_rule_release(struct control_item_parts *parts)
{
	policy_rule_unref(parts->policy);
	override_rule_unref(parts->override);
	pool_def_unref(parts->pool);
	weights_rule_unref(parts->weights);
}

const char *control_kind_name(enum control_kind kind)
{
	switch (kind) {
	case CONTROL_POLICY:
		return "policy";
	case CONTROL_WEIGHTS:
		return "weights";
	case CONTROL_POOL:
		return "pool";
	default:
		return "override";
	}
}

const char *control_kind_member(enum control_kind kind)
{
	switch (kind) {
	case CONTROL_KEY:
		return "key";
	case CONTROL_PREFIX:
		return "prefix";
	case CONTROL_WEIGHTS:
		return "parent";
	default:
		return NULL;
	}
}

bool control_id_is_known(struct slice id)
{
	struct slice rest = slice_after(id, 1);

	if (id.len == 0)
		return false;
	if (control_kind_is_named((enum control_kind)id.ptr[0]))
		return name_is_valid(rest);
	if (control_kind_member((enum control_kind)id.ptr[0]) == NULL ||
	    slice_index(rest, '\0') == rest.len)
		return false;
	return name_is_valid(slice_cut(&rest, '\0')) && rest.len <= REQUEST_KEY_MAX;
}

static bool is_printable(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.ptr[i] < 0x20 || text.ptr[i] > 0x7e)
			return false;
	return true;
}

/* Records are lines: JSON that goes over several is kept byte by byte. */
static bool is_one_line(struct slice text)
{
	return slice_index(text, '\n') == text.len;
}

/* Whether `said` is about what its id names, and if so the rule of it. KOVA_ECONFIG: it is nothing that we know. */
static kova_status read_said(const struct gossip_item *said, struct control_item_parts *parts)
{
	json_t *json = json_loadb(said->value.ptr, said->value.len, JSON_ALLOW_NUL, NULL);
	struct control_id id;
	kova_status status = KOVA_ECONFIG;

	if (is_one_line(said->value) && json_is_object(json) && control_id_of_json(json, &id) &&
	    slice_equal((struct slice){id.bytes, id.len}, said->id))
		status = control_rule_read(json, (enum control_kind)id.bytes[0], parts);
	json_decref(json);
	return status;
}

kova_status control_item_of_gossip(const struct gossip_item *said, struct control_item **ret_item)
{
	struct control_item_parts parts = {.id = said->id,
					   .text = said->value,
					   .who = said->who,
					   .writer = said->writer,
					   .version = said->stamp};
	kova_status status = control_id_is_known(said->id) ? KOVA_OK : KOVA_ECONFIG;

	if (said->who.len >= CONTROL_WHO_MAX || !is_printable(said->who))
		return KOVA_EPROTO;
	if (status == KOVA_OK && said->value.len > 0)
		status = read_said(said, &parts);
	parts.unread = status == KOVA_ECONFIG;
	struct control_item *item = status != KOVA_ENOMEM ? control_item_new(&parts) : NULL;

	control_rule_release(&parts);
	if (item == NULL)
		return KOVA_ENOMEM;
	*ret_item = item;
	return KOVA_OK;
}
