/* Another list of endpoints for a pool, in which those that stay keep what the pool says of them. */
#include <stdlib.h>

#include "control/pool_def.h"
#include "core/hash.h"

struct known {
	struct buf identity; /* empty: it has no address */
	uint64_t hash;       /* of the identity */
	json_t *endpoint;
	size_t index; /* in the list */
};

static void identify(const json_t *endpoint, bool is_key, struct buf *out)
{
	const json_t *value = json_is_string(endpoint)
				      ? endpoint
				      : json_object_get(endpoint, is_key ? "key" : "url");
	const char *address = json_string_value(value), *why;
	struct pool_url url;

	if (address == NULL)
		return;
	if (!is_key && pool_url_parse(slice_of(address), &url, &why, &(size_t){0}) == KOVA_OK)
		pool_url_identity(&url, out);
	else
		buf_add_text(out, address);
}

static int compare_known(const void *a, const void *b)
{
	const struct known *x = a, *y = b;
	int order = (x->hash > y->hash) - (x->hash < y->hash);

	return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

static uint64_t hash_of(const struct buf *identity)
{
	return hash_bytes(buf_slice(identity), 0);
}

/* The first of this identity; NULL: there is none. */
static json_t *find(const struct known *known, size_t n, const struct buf *identity)
{
	uint64_t hash = hash_of(identity);
	size_t from = 0, to = n;

	while (from < to) {
		size_t middle = from + (to - from) / 2;

		if (known[middle].hash < hash)
			from = middle + 1;
		else
			to = middle;
	}
	for (; from < n && known[from].hash == hash; from++)
		if (slice_equal(buf_slice(&known[from].identity), buf_slice(identity)))
			return known[from].endpoint;
	return NULL;
}

/* A new reference to `endpoint`, or to `was` with what that says; NULL: out of memory. */
static json_t *with(json_t *was, json_t *endpoint)
{
	if (was == NULL || (!json_is_object(was) && json_is_object(endpoint)))
		return json_incref(endpoint);
	if (json_is_object(endpoint) && json_object_update(was, endpoint) != 0)
		return NULL;
	return json_incref(was);
}

static json_t *merge(const struct known *known, size_t n, const json_t *list, bool is_key)
{
	json_t *merged = json_array(), *endpoint;
	bool failed = merged == NULL;
	size_t i;

	json_array_foreach(list, i, endpoint) {
		struct buf identity = {0};

		identify(endpoint, is_key, &identity);
		json_t *was = identity.len > 0 ? find(known, n, &identity) : NULL;

		failed |= buf_failed(&identity) ||
			  json_array_append_new(merged, with(was, endpoint)) != 0;
		buf_release(&identity);
	}
	if (!failed)
		return merged;
	json_decref(merged);
	return NULL;
}

json_t *pool_endpoints_merge(json_t *was, const json_t *list, bool is_key)
{
	size_t n = json_array_size(was);
	struct known *known = calloc(n + 1, sizeof *known);
	bool failed = known == NULL;
	json_t *merged = NULL;

	for (size_t i = 0; i < n && !failed; i++) {
		known[i] = (struct known){.endpoint = json_array_get(was, i), .index = i};
		identify(known[i].endpoint, is_key, &known[i].identity);
		known[i].hash = hash_of(&known[i].identity);
		failed = buf_failed(&known[i].identity);
	}
	if (!failed) {
		qsort(known, n, sizeof *known, compare_known);
		merged = merge(known, n, list, is_key);
	}
	for (size_t i = 0; i < n && known != NULL; i++)
		buf_release(&known[i].identity);
	free(known);
	return merged;
}
