/*
 * A change: the next state is built beside the one in force, then persisted, then swapped in. Whatever fails on the
 * way, the state in force is as it was.
 */
#include "control/control.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/control_own.h"
#include "control/weights.h"
#include "core/name.h"
#include "core/request_bounds.h"
#include "io/buf_json.h"
#include "io/log.h"

kova_status control_fail(struct control_error *e, kova_status status, const char *text)
{
	snprintf(e->text, sizeof e->text, "%s", text);
	return status;
}

kova_status control_fail_memory(struct control_error *e)
{
	return control_fail(e, KOVA_ENOMEM, kova_status_text(KOVA_ENOMEM));
}

static uint64_t wall_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- Loads of the file ---- */

static kova_status load_file(struct control_load *load)
{
	struct conf_reader r = {0};
	struct rule_set rules;
	kova_status status = rule_set_read(&r, &load->lists, &rules);

	if (status == KOVA_ECONFIG) {
		conf_reader_text(&r, load->error.text, sizeof load->error.text);
		return status;
	}
	if (status == KOVA_OK) {
		status = control_state_merge(load->base, &rules, &load->lists, slice_of(load->node),
					     &load->clock, wall_ms(), &load->next, &load->changed);
		rule_set_release(&rules);
	}
	return status == KOVA_OK ? KOVA_OK : control_fail_memory(&load->error);
}

/* The clock goes on from what it hears; how far ahead that may be, gossip has judged. */
static void hear(struct hlc *clock, struct control_item *const *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)hlc_hear(clock, items[i]->version, hlc_ms(items[i]->version), 0);
}

static kova_status load_items(struct control_load *load)
{
	load->changed = !load->few;
	hear(&load->clock, load->items, load->n_items);
	if (control_state_take(load->base, load->items, load->n_items, &load->next) == KOVA_OK)
		return KOVA_OK;
	return control_fail_memory(&load->error);
}

/* What load->next has that load->base has not, and the other way round. */
static kova_status find_writes(struct control_load *load)
{
	const struct control_state *base = load->base, *next = load->next;

	load->written = malloc((base->n_items + next->n_items + 1) * sizeof *load->written);
	if (load->written == NULL)
		return control_fail_memory(&load->error);
	for (size_t i = 0; i < next->n_items; i++) {
		struct control_item *item = next->items[i];
		struct control_item *was = control_state_find(base, item->id);

		if (was == NULL || (was != item && !control_item_is_same_write(was, item)))
			load->written[load->n_written++] = (struct control_written){item, was};
	}
	for (size_t i = 0; i < base->n_items; i++)
		if (control_state_find(next, base->items[i]->id) == NULL)
			load->written[load->n_written++] =
				(struct control_written){NULL, base->items[i]};
	return KOVA_OK;
}

static kova_status load_make(struct control_load *load)
{
	kova_status status = KOVA_OK;

	if (!load->made)
		status = load->of_file ? load_file(load) : load_items(load);

	return status == KOVA_OK ? find_writes(load) : status;
}

void control_load_release(struct control_load *load)
{
	control_state_unref(load->next);
	free(load->written);
	load->next = NULL;
	load->written = NULL;
	load->n_written = 0;
}

kova_status control_load_run(struct control_load *load)
{
	kova_status status = load_make(load);

	if (status == KOVA_OK && load->changed)
		status = control_store_prepare(load->path, load->next, &load->error);
	if (status != KOVA_OK)
		control_load_release(load);
	return status;
}

static void swap_state(struct control *c, struct control_state **state)
{
	struct control_state *was = c->state;

	c->state = *state;
	*state = was;
	if (c->changed != NULL)
		c->changed(c->changed_data);
}

/* A pool's text as others may read it, in `buf`. */
static struct slice redacted(struct slice text, struct buf *buf)
{
	json_t *item = json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, NULL);
	json_t *shown = item != NULL ? pool_def_redacted(json_object_get(item, "pool")) : NULL;

	if (shown != NULL)
		buf_add_json(buf, shown, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(shown);
	json_decref(item);
	return buf_failed(buf) ? (struct slice){0} : buf_slice(buf);
}

static void tell_of_write(const struct control *c, const struct control_item *before,
			  const struct control_item *after)
{
	struct slice key = {after->id.ptr + 1, after->id.len - 1};
	struct slice policy = slice_cut(&key, '\0');
	enum control_kind kind = control_item_kind(after);
	struct buf shown_before = {0}, shown_after = {0};
	struct control_write w = {
		.kind = control_kind_name(kind),
		.policy = policy,
		.member = control_kind_member(kind),
		.key = key,
		.who = after->who,
		.before = before != NULL ? before->text : (struct slice){0},
		.after = after->text,
	};

	if (c->wrote == NULL)
		return;
	if (kind == CONTROL_POOL) {
		w.before = redacted(w.before, &shown_before);
		w.after = redacted(w.after, &shown_after);
	}
	c->wrote(&w, c->wrote_data);
	buf_release(&shown_before);
	buf_release(&shown_after);
}

static void tell(struct control *c, const struct control_written *list, size_t n)
{
	if (c->written != NULL)
		c->written(list, n, c->written_data);
}

/* Appends the writes of `load` to the journal: cheaper than a new control.json while they are few. */
static kova_status append_writes(struct control *c, struct control_load *load)
{
	struct control_item **items = malloc((load->n_written + 1) * sizeof *items);
	kova_status status = KOVA_OK;

	if (items == NULL)
		return control_fail_memory(&load->error);
	for (size_t i = 0; i < load->n_written; i++)
		items[i] = load->written[i].item;
	if (load->n_written > 0)
		status = control_store_append(&c->store, items, load->n_written, &load->error);
	free(items);
	return status;
}

kova_status control_load_commit(struct control *c, struct control_load *load)
{
	kova_status status = KOVA_OK;

	if (load->changed)
		status = control_store_commit(&c->store, &load->error);
	else if (load->few)
		status = append_writes(c, load);
	if (status != KOVA_OK)
		return status;
	c->clock = load->clock;
	swap_state(c, &load->next);
	tell(c, load->written, load->n_written);
	for (size_t i = 0; i < load->n_written && load->of_file; i++) {
		const struct control_written *w = &load->written[i];

		if (w->item != NULL && w->item->version > 0)
			tell_of_write(c, w->was, w->item);
	}
	return KOVA_OK;
}

/* As control_reload(), into *load, which is to be released. */
static kova_status reload(struct control *c, struct rule_lists lists, struct control_load *load,
			  struct control_error *ret_error)
{
	*load = (struct control_load){.of_file = true,
				      .lists = lists,
				      .node = c->node,
				      .path = c->store.path,
				      .base = c->state,
				      .clock = c->clock};

	assert(!c->reloading);
	kova_status status = control_load_run(load);

	if (status == KOVA_OK)
		status = control_load_commit(c, load);
	if (status != KOVA_OK)
		*ret_error = load->error;
	return status;
}

kova_status control_reload(struct control *c, struct rule_lists lists,
			   struct control_error *ret_error)
{
	struct control_load load;
	kova_status status = reload(c, lists, &load, ret_error);

	control_load_release(&load);
	return status;
}

/* ---- What can't be here ---- */

/* Why there can't be such a policy here, or NULL. */
static const char *misfit(const struct control *c, const struct policy *p)
{
	if (c->lacks.replicas && p->durability.replicas > 0)
		return "an embedded Redis has no replicas: `durability` must be `none` or `aof`";
	if (c->lacks.regions && p->scope == SCOPE_HOME)
		return "scope `home` needs `regions` in the node's configuration: `scope` must be "
		       "`region`";
	if ((c->lacks.regions || c->lacks.kafka) && p->scope == SCOPE_GLOBAL)
		return "scope `global` needs `regions` and `kafka` in the node's configuration";
	return NULL;
}

const char *control_misfit(const struct control *c, const struct control_item *item)
{
	return item->policy != NULL ? misfit(c, &item->policy->policy) : NULL;
}

/* Before the state is in force: what can't be here is kept and passed on, and what it took the place of is in force. */
static kova_status hold_back(struct control *c)
{
	for (size_t i = 0; i < c->state->n_items; i++) {
		const struct control_item *item = c->state->items[i];
		const char *why = item->unread ? NULL : control_misfit(c, item);

		if (why == NULL)
			continue;
		struct control_item_parts parts = control_item_parts(item);
		struct control_item *held = control_item_held_back(&parts);

		log_event(LOG_WARN, "policy_held_back",
			  "a policy that can't be in force here is kept and passed on",
			  LOG_TEXT_FIELD("policy", parts.policy->policy.name),
			  LOG_TEXT_FIELD("why", why));
		if (held == NULL || control_state_put(c->state, held) != KOVA_OK)
			return KOVA_ENOMEM;
	}
	return KOVA_OK;
}

/* ---- Life ---- */

/* The clock goes on from the newest stamp that is known, whatever the wall clock says now. */
static void clock_set(struct control *c)
{
	for (size_t i = 0; i < c->state->n_items; i++)
		if (c->state->items[i]->version > c->clock.last)
			c->clock.last = c->state->items[i]->version;
}

struct control *control_new(const char *state_dir, const char *node, struct control_lacks lacks,
			    struct rule_lists lists, struct control_error *ret_error)
{
	struct control *c = calloc(1, sizeof *c);

	if (c != NULL)
		c->node = strdup(node);
	if (c == NULL || c->node == NULL) {
		free(c);
		(void)control_fail_memory(ret_error);
		return NULL;
	}
	if (control_store_open(&c->store, state_dir, &c->state, ret_error) != KOVA_OK) {
		free(c->node);
		free(c);
		return NULL;
	}
	c->lacks = lacks;
	clock_set(c);
	if (hold_back(c) != KOVA_OK) {
		(void)control_fail_memory(ret_error);
		control_destroy(c);
		return NULL;
	}
	if (reload(c, lists, &c->first, ret_error) != KOVA_OK) {
		control_destroy(c);
		return NULL;
	}
	return c;
}

struct control_state *control_snapshot(const struct control *c)
{
	return control_state_ref(c->state);
}

struct control *control_replica_new(const struct control *owner)
{
	struct control *c = calloc(1, sizeof *c);

	if (c == NULL)
		return NULL;
	c->is_replica = true;
	c->store.journal = -1;
	c->state = control_snapshot(owner);
	return c;
}

void control_follow(struct control *replica, struct control_state *state)
{
	struct control_state *next = control_state_ref(state);

	assert(replica->is_replica);
	swap_state(replica, &next);
	control_state_unref(next);
}

void control_destroy(struct control *c)
{
	control_load_release(&c->first);
	control_state_unref(c->state);
	control_store_close(&c->store);
	free(c->node);
	free(c);
}

void control_free(struct control *c)
{
	if (c == NULL)
		return;
	c->changed = NULL;
	c->written = NULL;
	if (c->jobs > 0)
		c->closed = true;
	else
		control_destroy(c);
}

struct catalogue *control_catalogue(const struct control *c)
{
	return c->state->catalogue;
}

void control_on_change(struct control *c, void (*changed)(void *data), void *data)
{
	c->changed = changed;
	c->changed_data = data;
}

void control_on_written(struct control *c, control_writes *written, void *data)
{
	c->written = written;
	c->written_data = data;
	if (written != NULL)
		tell(c, c->first.written, c->first.n_written);
	control_load_release(&c->first);
}

bool control_is_busy(const struct control *c)
{
	return c->reloading;
}

/* ---- Changes ---- */

/* A long journal is folded into a new control.json. A failure changes nothing: it is tried at the next change. */
static void journal_fold(struct control *c)
{
	struct control_error ignored;

	if (!control_store_is_long(&c->store) || c->reloading)
		return;
	if (control_store_prepare(c->store.path, c->state, &ignored) != KOVA_OK ||
	    control_store_commit(&c->store, &ignored) != KOVA_OK)
		return;
}

static kova_status apply(struct control *c, struct control_item *item, struct control_error *e)
{
	struct control_written write = {item, control_state_find(c->state, item->id)};
	struct control_state *next;
	kova_status status = control_state_with(c->state, item, &next);

	if (status != KOVA_OK)
		return control_fail_memory(e);
	status = control_store_append(&c->store, &item, 1, e);
	if (status == KOVA_OK) {
		swap_state(c, &next);
		tell(c, &write, 1);
	}
	control_state_unref(next);
	if (status == KOVA_OK)
		journal_fold(c);
	return status;
}

void control_on_write(struct control *c, void (*wrote)(const struct control_write *w, void *data),
		      void *data)
{
	c->wrote = wrote;
	c->wrote_data = data;
}

kova_status control_take(struct control *c, struct control_item *const *items, size_t n,
			 struct control_error *ret_error)
{
	struct control_load load = {
		.items = items, .n_items = n, .few = true, .base = c->state, .clock = c->clock};

	assert(!c->reloading && !c->is_replica);
	kova_status status = control_load_run(&load);

	if (status == KOVA_OK && load.n_written > 0)
		status = control_load_commit(c, &load);
	if (status != KOVA_OK)
		*ret_error = load.error;
	control_load_release(&load);
	if (status == KOVA_OK)
		journal_fold(c);
	return status;
}

/* Writes the item of these parts, stamped now by `who`; what the file said of it stays known. */
kova_status control_change(struct control *c, struct control_item_parts *parts, const char *who,
			   struct control_error *e)
{
	struct control_item *known = control_state_find(c->state, parts->id);

	assert(strlen(who) < CONTROL_WHO_MAX && !c->is_replica);
	parts->who = slice_of(who);
	parts->writer = slice_of(c->node);
	parts->version = hlc_now(&c->clock, wall_ms());
	parts->file_hash = known != NULL ? known->file_hash : 0;
	struct control_item *item = control_item_new(parts);

	if (item == NULL)
		return control_fail_memory(e);
	if (known != NULL)
		control_item_ref(known); /* the state that it is in may go */
	kova_status status = apply(c, item, e);

	if (status == KOVA_OK)
		tell_of_write(c, known, item);
	control_item_unref(known);
	control_item_unref(item);
	return status;
}

kova_status control_fail_reader(const struct conf_reader *r, struct control_error *e)
{
	if (r->n_errors == 0)
		return control_fail_memory(e);
	conf_reader_text(r, e->text, sizeof e->text);
	return KOVA_ECONFIG;
}

/* `policy` (or pool) with its name, which the body may leave out but not contradict; a new reference. */
kova_status control_with_name(const char *what, const json_t *policy, struct slice name,
			      json_t **ret_named, struct control_error *e)
{
	const json_t *own = json_object_get(policy, "name");
	struct slice said = {json_string_value(own), json_string_length(own)};

	if (!name_is_valid(name) || !json_is_object(policy)) {
		snprintf(e->text, sizeof e->text,
			 name_is_valid(name) ? "a %s must be an object"
					     : "a %s's name must be 1 to 64 characters of "
					       "A-Z a-z 0-9 . _ -",
			 what);
		return KOVA_ECONFIG;
	}
	if (own != NULL && (said.ptr == NULL || !slice_equal(said, name)))
		return control_fail(e, KOVA_ECONFIG,
				    "`name` must be the name in the address, or be left out");
	/* json_copy() would leave out what it has no memory for. The cast: jansson only reads it, but does not say so. */
	json_t *named = json_object();

	if (json_object_update(named, (json_t *)(uintptr_t)policy) != 0 ||
	    json_object_set_new(named, "name", json_stringn(name.ptr, name.len)) != 0) {
		json_decref(named);
		return control_fail_memory(e);
	}
	*ret_named = named;
	return KOVA_OK;
}

kova_status control_put_policy(struct control *c, struct slice name, const json_t *policy,
			       const char *who, struct control_error *ret_error)
{
	struct conf_reader r = {0};
	struct control_id id;
	json_t *named = NULL;
	kova_status status = control_with_name("policy", policy, name, &named, ret_error);

	if (status != KOVA_OK)
		return status;
	struct policy_rule *rule = policy_rule_read(&r, NULL, named);
	char *text = rule != NULL ? control_item_text(named) : NULL;

	json_decref(named);
	const char *why = text != NULL ? misfit(c, &rule->policy) : NULL;

	if (why != NULL) {
		status = control_fail(ret_error, KOVA_ECONFIG, why);
	} else if (text != NULL) {
		control_id_of_policy(rule, &id);
		struct control_item_parts parts = {
			.id = {id.bytes, id.len}, .text = slice_of(text), .policy = rule};

		status = control_change(c, &parts, who, ret_error);
	} else {
		status = control_fail_reader(&r, ret_error);
	}
	policy_rule_unref(rule);
	free(text);
	return status;
}

/* Whether the override goes with the policy that it names. */
static kova_status override_check(const struct control *c, const struct override_rule *rule,
				  struct control_error *e)
{
	const struct policy *p = catalogue_policy(c->state->catalogue, slice_of(rule->policy));
	struct conf_reader r = {0};

	if (p == NULL) {
		snprintf(e->text, sizeof e->text, "`policy`: there is no policy `%s`",
			 rule->policy);
		return KOVA_ECONFIG;
	}
	return override_rule_fits(rule, p, &r, NULL) ? KOVA_OK : control_fail_reader(&r, e);
}

static kova_status put_override(struct control *c, struct override_rule *rule, const char *text,
				const char *who, struct control_error *e)
{
	struct control_id id;
	kova_status status = override_check(c, rule, e);

	if (status != KOVA_OK)
		return status;
	control_id_of_override(rule, &id);
	struct control_item_parts parts = {
		.id = {id.bytes, id.len}, .text = slice_of(text), .override = rule};

	return control_change(c, &parts, who, e);
}

kova_status control_put_override(struct control *c, const json_t *override, const char *who,
				 struct control_error *ret_error)
{
	struct conf_reader r = {0};
	struct override_rule *rule = override_rule_read(&r, NULL, override);
	char *text = rule != NULL ? control_item_text(override) : NULL;
	kova_status status = text != NULL ? put_override(c, rule, text, who, ret_error)
					  : control_fail_reader(&r, ret_error);

	override_rule_unref(rule);
	free(text);
	return status;
}

const char *control_none_of(enum control_kind kind)
{
	if (kind == CONTROL_POOL)
		return "there is no pool of this name";
	return kind == CONTROL_POLICY ? "there is no policy of this name"
				      : "there is no such override";
}

kova_status control_delete_item(struct control *c, const struct control_id *id, const char *who,
				struct control_error *e)
{
	struct control_item_parts parts = {.id = {id->bytes, id->len}};
	const struct control_item *known = control_state_find(c->state, parts.id);

	if (known == NULL || control_item_is_deleted(known))
		return control_fail(e, KOVA_ENOTFOUND,
				    control_none_of((enum control_kind)id->bytes[0]));
	return control_change(c, &parts, who, e);
}

kova_status control_delete_policy(struct control *c, struct slice name, const char *who,
				  struct control_error *ret_error)
{
	struct control_id id;

	if (!name_is_valid(name))
		return control_fail(ret_error, KOVA_ENOTFOUND, "there is no policy of this name");
	control_id_set(&id, CONTROL_POLICY, name, (struct slice){0});
	return control_delete_item(c, &id, who, ret_error);
}

kova_status control_delete_override(struct control *c, struct slice policy, struct slice key,
				    struct slice prefix, const char *who,
				    struct control_error *ret_error)
{
	bool is_key = key.ptr != NULL;
	struct slice bytes = is_key ? key : prefix;
	struct control_id id;

	assert(is_key != (prefix.ptr != NULL));
	if (!name_is_valid(policy) || bytes.len > REQUEST_KEY_MAX)
		return control_fail(ret_error, KOVA_ENOTFOUND, "there is no such override");
	control_id_set(&id, is_key ? CONTROL_KEY : CONTROL_PREFIX, policy, bytes);
	return control_delete_item(c, &id, who, ret_error);
}

kova_status control_put_weights(struct control *c, const json_t *value, const char *who,
				struct control_error *ret_error)
{
	struct conf_reader r = {0};
	struct control_id id;

	struct weights_rule *rule = weights_rule_read(&r, value);

	if (rule == NULL)
		return r.n_errors > 0 ? control_fail_reader(&r, ret_error)
				      : control_fail_memory(ret_error);
	char *text = control_item_text(value);

	if (text == NULL || !control_id_of_json(value, &id)) {
		weights_rule_unref(rule);
		free(text);
		return control_fail_memory(ret_error);
	}
	struct control_item_parts parts = {
		.id = {id.bytes, id.len}, .text = slice_of(text), .weights = rule};
	const struct control_item *known = control_state_find(c->state, parts.id);
	kova_status status = KOVA_OK;

	if (parts.text.len > GOSSIP_VALUE_MAX)
		status = control_fail(ret_error, KOVA_ERANGE,
				      "weights may have 1 MiB of JSON at most");
	else if (known == NULL || !slice_equal(known->text, parts.text))
		status = control_change(c, &parts, who, ret_error);
	weights_rule_unref(rule);
	free(text);
	return status;
}

/* ---- What is there ---- */

json_t *control_policies_in_force(const struct control *c)
{
	json_t *list = json_array();

	for (size_t i = 0; i < c->state->n_items; i++) {
		const struct control_item *item = c->state->items[i];
		struct slice text = item->unread ? item->in_force : item->text;

		if (item->policy == NULL)
			continue;
		if (json_array_append_new(
			    list, json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, NULL)) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *item_json(const struct control_item *item)
{
	json_t *json = json_loadb(item->text.ptr, item->text.len, JSON_ALLOW_NUL, NULL);

	if (json == NULL ||
	    json_object_set_new(json, "version", json_integer((json_int_t)item->version)) != 0 ||
	    json_object_set_new(json, "who", json_stringn(item->who.ptr, item->who.len)) != 0) {
		json_decref(json);
		return NULL;
	}
	return json;
}

static json_t *list_items(const struct control *c, const char *name, const char *kind)
{
	const struct control_state *s = c->state;
	json_t *list = json_array();

	for (size_t i = 0; i < s->n_items; i++) {
		const struct control_item *item = s->items[i];

		if (control_item_is_deleted(item) || item->unread ||
		    strcmp(control_kind_name(control_item_kind(item)), kind) != 0)
			continue;
		if (json_array_append_new(list, item_json(item)) != 0) {
			json_decref(list);
			return NULL;
		}
	}
	return json_pack("{s:o}", name, list);
}

json_t *control_policies(const struct control *c)
{
	return list_items(c, "policies", "policy");
}

json_t *control_overrides(const struct control *c)
{
	return list_items(c, "overrides", "override");
}
