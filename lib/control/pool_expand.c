/* What files that a pool's definition names hold, put in their place; and what of a definition others may see. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/pool_def.h"
#include "io/file.h"

enum { FILE_BYTES_MAX = 16 << 20 };

/* jansson only reads it, but does not say so. */
static json_t *copy_of(const json_t *value)
{
	return json_deep_copy((json_t *)(uintptr_t)value);
}

static bool add_line(struct conf_copier *c, json_t *endpoints, struct slice line,
		     const char **ret_why, size_t *ret_at)
{
	struct buf url = {0};
	kova_status status = pool_line_parse(line, &url, ret_why, ret_at);

	if (status == KOVA_ENOMEM ||
	    (url.len > 0 &&
	     json_array_append_new(endpoints, json_stringn(url.ptr, url.len)) != 0)) {
		c->no_memory = true;
		status = KOVA_ENOMEM;
	}
	buf_release(&url);
	return status != KOVA_EPROTO;
}

static void add_lines(struct conf_copier *c, const struct conf_path *path, const char *file,
		      struct slice text, json_t *endpoints)
{
	const char *why = "";
	size_t number = 0, at = 0;

	while (text.len > 0 && !c->no_memory) {
		struct slice line = slice_cut(&text, '\n');

		number++;
		if (!add_line(c, endpoints, line, &why, &at))
			conf_fail(c->r, path, "endpoints_file", CONF_AT_VALUE,
				  "`endpoints_file`: %s:%zu:%zu: %s", file, number, at + 1, why);
	}
}

static void expand_file(struct conf_copier *c, const struct conf_path *path, json_t *pool)
{
	const char *name = json_string_value(json_object_get(pool, "endpoints_file"));
	const char *kind = json_string_value(json_object_get(pool, "kind"));
	json_t *endpoints = json_object_get(pool, "endpoints");
	struct buf text = {0};

	if (name == NULL)
		return;
	if (kind != NULL && strcmp(kind, "key") == 0) {
		conf_fail(c->r, path, "endpoints_file", CONF_AT_KEY,
			  "only a `proxy` pool has an `endpoints_file`");
		return;
	}
	char *resolved = conf_copy_file(c, path, "endpoints_file", name);

	if (endpoints == NULL) {
		endpoints = json_array();
		if (json_object_set_new(pool, "endpoints", endpoints) != 0)
			c->no_memory = true;
	}
	if (resolved != NULL && json_is_array(endpoints)) {
		kova_status status = file_read(resolved, FILE_BYTES_MAX, &text);

		if (status == KOVA_OK)
			add_lines(c, path, name, buf_slice(&text), endpoints);
		else if (status == KOVA_EIO)
			conf_fail(c->r, path, "endpoints_file", CONF_AT_VALUE,
				  "`endpoints_file`: %s: %s", name, strerror(errno));
		else if (status == KOVA_ENOMEM)
			c->no_memory = true;
	}
	if (text.ptr != NULL)
		explicit_bzero(text.ptr, text.len);
	buf_release(&text);
	free(resolved);
	json_object_del(pool, "endpoints_file");
}

static void expand_key(struct conf_copier *c, const struct conf_path *at, json_t *endpoint)
{
	const char *file = json_string_value(json_object_get(endpoint, "key_file"));

	if (file == NULL)
		return;
	if (json_object_get(endpoint, "key") != NULL) {
		conf_fail(c->r, at, "key_file", CONF_AT_KEY,
			  "`key` and `key_file` exclude each other");
		return;
	}
	char *key = conf_copy_secret(c, at, "key_file", file);

	if (key != NULL && key[0] != '\0' &&
	    json_object_set_new(endpoint, "key", json_string(key)) != 0)
		conf_fail(c->r, at, "key_file", CONF_AT_VALUE,
			  "`key_file`: the first line of the file must be UTF-8");
	conf_secret_free(key);
	json_object_del(endpoint, "key_file");
}

json_t *pool_def_expand(struct conf_copier *c, const struct conf_path *path, const json_t *value)
{
	const struct conf_path list = {.up = path, .key = "endpoints"};
	json_t *pool = copy_of(value), *endpoint;
	size_t i;

	if (pool == NULL || !json_is_object(pool))
		return pool;
	json_array_foreach(json_object_get(pool, "endpoints"), i, endpoint) {
		const struct conf_path at = {.up = &list, .index = i};

		if (json_is_object(endpoint))
			expand_key(c, &at, endpoint);
	}
	expand_file(c, path, pool);
	return pool;
}

static json_t *redacted_endpoint(json_t *endpoint)
{
	static const char *const secrets[] = {"url", "key", "key_file"};
	json_t *shown = json_is_object(endpoint) ? json_copy(endpoint) : json_string("…");

	for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
		if (json_is_object(shown) && json_object_get(shown, secrets[i]) != NULL)
			json_object_set_new(shown, secrets[i], json_string("…"));
	return shown;
}

/* The URL of a service may have a token in it. */
static bool redact_health(json_t *pool)
{
	json_t *health = json_object_get(pool, "health");

	if (!json_is_object(health))
		return true;
	health = json_copy(health);
	return json_object_set_new(health, "url", json_string("…")) == 0 &&
	       json_object_set_new(pool, "health", health) == 0;
}

json_t *pool_def_redacted(const json_t *value)
{
	json_t *pool = json_copy((json_t *)(uintptr_t)value), *shown = json_array(), *endpoint;
	size_t i;

	json_array_foreach(json_object_get(pool, "endpoints"), i, endpoint)
		json_array_append_new(shown, redacted_endpoint(endpoint));
	if (json_object_set_new(pool, "endpoints", shown) == 0 && redact_health(pool))
		return pool;
	json_decref(pool);
	return NULL;
}
