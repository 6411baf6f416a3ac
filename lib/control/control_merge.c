/* A load of the file, merged into what is there (the rules: control_state_merge() in control_state.h). */
#include <stdlib.h>

#include "control/control_state.h"
#include "core/hash.h"

struct merge {
	const struct control_state *base;
	struct control_state *next;
	struct slice node;
	struct hlc *clock;
	uint64_t now_ms;
	bool changed;
};

/* The hash of what the file says; never 0. */
static uint64_t file_hash(struct slice text)
{
	uint64_t h = hash_bytes(text, 0);

	return h != 0 ? h : 1;
}

static kova_status put_new(struct merge *m, const struct control_item_parts *parts)
{
	struct control_item *item = control_item_new(parts);

	m->changed = true;
	return item != NULL ? control_state_put(m->next, item) : KOVA_ENOMEM;
}

/* An item that stands in the file: `said` has its id, text and rule. */
static kova_status merge_item(struct merge *m, struct control_item_parts *said)
{
	struct control_item *known = control_state_find(m->base, said->id);

	said->file_hash = file_hash(said->text);
	if (known != NULL && known->file_hash == said->file_hash)
		return control_state_put(m->next, control_item_ref(known));
	if (!m->base->file_loaded && known != NULL) {
		/* The file's stamp is 0: what is there wins, but what the file says is remembered. */
		struct control_item_parts kept = control_item_parts(known);

		kept.file_hash = said->file_hash;
		return put_new(m, &kept);
	}
	said->who = SLICE("file");
	said->version = m->base->file_loaded ? hlc_now(m->clock, m->now_ms) : 0;
	if (said->version > 0)
		said->writer = m->node;
	return put_new(m, said);
}

/* An item that does not stand in the file. */
static kova_status merge_absent(struct merge *m, struct control_item *known)
{
	if (control_item_is_old_deletion(known, m->now_ms)) {
		m->changed = true;
		return KOVA_OK;
	}
	if (known->file_hash == 0)
		return control_state_put(m->next, control_item_ref(known));
	struct control_item_parts parts = control_item_parts(known);

	parts.file_hash = 0;
	if (!control_item_is_deleted(known)) {
		parts.text = (struct slice){0};
		parts.policy = NULL;
		parts.override = NULL;
		parts.pool = NULL;
		parts.weights = NULL;
		parts.who = SLICE("file");
		parts.writer = m->node;
		parts.unread = false;
		parts.version = hlc_now(m->clock, m->now_ms);
	}
	return put_new(m, &parts);
}

/* `said` has the rule. */
static kova_status merge_value(struct merge *m, const json_t *value, const struct control_id *id,
			       struct control_item_parts *said)
{
	char *text = control_item_text(value);

	if (text == NULL)
		return KOVA_ENOMEM;
	said->id = (struct slice){id->bytes, id->len};
	said->text = slice_of(text);
	kova_status status = merge_item(m, said);

	free(text);
	return status;
}

static kova_status merge_pool(struct merge *m, struct pool_def *pool, json_t *value)
{
	struct control_item_parts said = {.pool = pool};
	json_t *wrapped = json_pack("{s:O}", "pool", value);
	struct control_id id;

	if (wrapped == NULL)
		return KOVA_ENOMEM;
	control_id_of_pool(pool, &id);
	kova_status status = merge_value(m, wrapped, &id, &said);

	json_decref(wrapped);
	return status;
}

static kova_status merge_file(struct merge *m, const struct rule_set *rules,
			      const struct rule_lists *lists)
{
	kova_status status = KOVA_OK;
	struct control_id id;

	for (size_t i = 0; i < rules->n_policies && status == KOVA_OK; i++) {
		struct control_item_parts said = {.policy = rules->policies[i]};

		control_id_of_policy(rules->policies[i], &id);
		status = merge_value(m, json_array_get(lists->policies, i), &id, &said);
	}
	for (size_t i = 0; i < rules->n_overrides && status == KOVA_OK; i++) {
		struct control_item_parts said = {.override = rules->overrides[i]};

		control_id_of_override(rules->overrides[i], &id);
		status = merge_value(m, json_array_get(lists->overrides, i), &id, &said);
	}
	for (size_t i = 0; i < rules->n_pools && status == KOVA_OK; i++)
		status = merge_pool(m, rules->pools[i], json_array_get(lists->pools, i));
	return status;
}

static kova_status merge_rest(struct merge *m)
{
	kova_status status = KOVA_OK;

	for (size_t i = 0; i < m->base->n_items && status == KOVA_OK; i++) {
		struct control_item *known = m->base->items[i];

		if (control_state_find(m->next, known->id) == NULL)
			status = merge_absent(m, known);
	}
	return status;
}

kova_status control_state_merge(const struct control_state *base, const struct rule_set *rules,
				const struct rule_lists *lists, struct slice node,
				struct hlc *clock, uint64_t now_ms,
				struct control_state **ret_state, bool *ret_changed)
{
	struct merge m = {.base = base, .node = node, .clock = clock, .now_ms = now_ms};

	m.next = control_state_new(rules->n_policies + rules->n_overrides + rules->n_pools +
				   base->n_items);
	if (m.next == NULL)
		return KOVA_ENOMEM;
	m.changed = !base->file_loaded;
	m.next->file_loaded = true;
	if (merge_file(&m, rules, lists) != KOVA_OK || merge_rest(&m) != KOVA_OK ||
	    control_state_finish(m.next) != KOVA_OK) {
		control_state_unref(m.next);
		return KOVA_ENOMEM;
	}
	*ret_state = m.next;
	*ret_changed = m.changed;
	return KOVA_OK;
}
