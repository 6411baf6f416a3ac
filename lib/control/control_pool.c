/* Administration's changes of pools. A pool's item is {"pool":{…}}. */
#include <stdlib.h>
#include <string.h>

#include "control/control_own.h"
#include "core/name.h"

static const char *no_such_policy(const struct control *c, const char *name)
{
	return name[0] != '\0' && catalogue_policy(c->state->catalogue, slice_of(name)) == NULL
		       ? name
		       : NULL;
}

/* Whether the policies that the pool names are there. */
static kova_status pool_check(const struct control *c, const struct pool_def *def,
			      struct control_error *e)
{
	const char *permit = no_such_policy(c, def->permit);
	const char *target = no_such_policy(c, def->target_policy);

	if (permit == NULL && target == NULL)
		return KOVA_OK;
	snprintf(e->text, sizeof e->text, "`%s`: there is no policy `%s`",
		 permit != NULL ? "permit" : "target_policy", permit != NULL ? permit : target);
	return KOVA_ECONFIG;
}

/* Writes the pool that `named` says. */
static kova_status write_pool(struct control *c, json_t *named, const char *who,
			      struct control_error *e)
{
	struct conf_reader r = {0};
	struct pool_def *def = pool_def_read(&r, NULL, named);
	json_t *item = def != NULL ? json_pack("{s:O}", "pool", named) : NULL;
	char *text = item != NULL ? control_item_text(item) : NULL;
	struct control_id id;
	kova_status status = text != NULL ? pool_check(c, def, e) : control_fail_reader(&r, e);

	if (status == KOVA_OK) {
		control_id_of_pool(def, &id);
		struct control_item_parts parts = {
			.id = {id.bytes, id.len}, .text = slice_of(text), .pool = def};

		status = control_change(c, &parts, who, e);
	}
	pool_def_unref(def);
	json_decref(item);
	free(text);
	return status;
}

kova_status control_put_pool(struct control *c, struct slice name, const json_t *pool,
			     const char *who, struct control_error *ret_error)
{
	json_t *named = NULL;
	kova_status status = control_with_name("pool", pool, name, &named, ret_error);

	if (status == KOVA_OK)
		status = write_pool(c, named, who, ret_error);
	json_decref(named);
	return status;
}

kova_status control_delete_pool(struct control *c, struct slice name, const char *who,
				struct control_error *ret_error)
{
	struct control_id id;

	if (!name_is_valid(name))
		return control_fail(ret_error, KOVA_ENOTFOUND, control_none_of(CONTROL_POOL));
	control_id_set(&id, CONTROL_POOL, name, (struct slice){0});
	return control_delete_item(c, &id, who, ret_error);
}

/* What the pool's item says, a new reference; NULL: there is none. */
static json_t *pool_json(const struct control *c, struct slice name)
{
	struct control_id id;

	if (catalogue_pool(c->state->catalogue, name) == NULL)
		return NULL;
	control_id_set(&id, CONTROL_POOL, name, (struct slice){0});
	const struct control_item *item =
		control_state_find(c->state, (struct slice){id.bytes, id.len});
	struct slice text = item->unread ? item->in_force : item->text;
	json_t *wrapped = json_loadb(text.ptr, text.len, JSON_ALLOW_NUL, NULL);
	json_t *pool = json_incref(json_object_get(wrapped, "pool"));

	json_decref(wrapped);
	return pool;
}

kova_status control_put_endpoints(struct control *c, struct slice pool, const json_t *body,
				  const char *who, struct control_error *ret_error)
{
	const struct pool_def *def = catalogue_pool(c->state->catalogue, pool);
	const json_t *list = json_object_get(body, "endpoints");

	if (def == NULL)
		return control_fail(ret_error, KOVA_ENOTFOUND, control_none_of(CONTROL_POOL));
	if (!json_is_array(list) || json_object_size(body) != 1)
		return control_fail(ret_error, KOVA_ECONFIG,
				    "the body must have `endpoints`, a list, and nothing else");
	json_t *json = pool_json(c, pool);
	json_t *merged = pool_endpoints_merge(json_object_get(json, "endpoints"), list,
					      def->rule.kind == POOL_KEY);
	kova_status status = json_object_set_new(json, "endpoints", merged) == 0
				     ? write_pool(c, json, who, ret_error)
				     : control_fail_memory(ret_error);

	json_decref(json);
	return status;
}

/* Which of the list's endpoints has this id: the first of those with its address. */
static size_t endpoint_index(const json_t *pool, const struct pool_member *m)
{
	json_t *list = json_object_get(pool, "endpoints"), *value;
	size_t i;

	json_array_foreach(list, i, value) {
		const json_t *id = json_object_get(value, "id");
		const json_t *url = json_is_string(value) ? value : json_object_get(value, "url");
		const json_t *key = json_is_string(value) ? value : json_object_get(value, "key");

		if (id != NULL ? strcmp(json_string_value(id), m->id) == 0
			       : (json_is_string(url) &&
				  strcmp(json_string_value(url), m->address) == 0) ||
					 (json_is_string(key) &&
					  strcmp(json_string_value(key), m->address) == 0))
			return i;
	}
	return i;
}

/* Puts `change` into endpoint number `i`, which may be a text alone. */
static kova_status merge_endpoint(json_t *pool, size_t i, bool is_key, const json_t *change)
{
	json_t *list = json_object_get(pool, "endpoints"), *was = json_array_get(list, i);
	json_t *now = json_is_string(was) ? json_pack("{s:O}", is_key ? "key" : "url", was)
					  : json_incref(was);
	bool done = json_object_update(now, (json_t *)(uintptr_t)change) == 0 &&
		    json_array_set(list, i, now) == 0;

	json_decref(now);
	return done ? KOVA_OK : KOVA_ENOMEM;
}

static kova_status check_change(const json_t *change, struct control_error *e)
{
	static const char *const allowed[] = {"state", "weight", "slots", "tier"};
	size_t known = 0;

	for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
		known += json_object_get(change, allowed[i]) != NULL;
	if (known == 0 || known != json_object_size(change))
		return control_fail(
			e, KOVA_ECONFIG,
			"the body must have `state`, `weight`, `slots` or `tier`, and nothing "
			"else");
	return KOVA_OK;
}

kova_status control_patch_endpoint(struct control *c, struct slice pool, struct slice id,
				   const json_t *change, const char *who,
				   struct control_error *ret_error)
{
	struct pool_def *def = catalogue_pool(c->state->catalogue, pool);
	const struct pool_member *m = def != NULL ? pool_def_member(def, id) : NULL;

	if (m == NULL)
		return control_fail(ret_error, KOVA_ENOTFOUND,
				    def == NULL ? control_none_of(CONTROL_POOL)
						: "there is no endpoint of this id in the pool");
	kova_status status = check_change(change, ret_error);

	if (status != KOVA_OK)
		return status;
	json_t *json = pool_json(c, pool);

	if (json == NULL)
		return control_fail_memory(ret_error);
	status = merge_endpoint(json, endpoint_index(json, m), def->rule.kind == POOL_KEY, change);
	status = status == KOVA_OK ? write_pool(c, json, who, ret_error)
				   : control_fail_memory(ret_error);
	json_decref(json);
	return status;
}
