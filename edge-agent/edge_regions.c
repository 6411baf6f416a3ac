#include "edge_regions.h"

#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "core/keyspace.h"
#include "io/redis_section.h"

enum { FAR_TIMEOUT_MS = 1000, WHOLE_PPM = 1000000, DEFAULT_FLOORS_PPM = WHOLE_PPM / 10 };

static const struct conf_path redis_path = {.key = "redis"}, regions_path = {.key = "regions"};

/* ---- One region ---- */

/* Its section `redis`, which is in `value` at `path`. */
static void redis_read(struct conf_copier *c, const struct conf_path *path, const json_t *value,
		       bool is_own, struct redis_conf *ret_redis)
{
	size_t errors = c->r->n_errors;
	struct redis_fields f;

	conf_read(c->r, path, value, &redis_table, &f);
	if (!is_own && f.mode == REDIS_EMBEDDED)
		conf_fail(c->r, path->up, "redis", CONF_AT_VALUE,
			  "the Redis of another region can't be `embedded`: `mode` must be "
			  "`standalone` `sentinel` or `cluster`");
	if (c->r->n_errors == errors)
		redis_section_check(c->r, path, &f);
	if (c->r->n_errors != errors)
		return;
	if (!is_own && json_object_get(value, "timeout") == NULL)
		f.timeout = FAR_TIMEOUT_MS;
	redis_section_fill(c, path, &f, ret_redis);
}

static void own_redis_read(struct conf_copier *c, const struct conf_path *path, const json_t *value,
			   const json_t *root, struct redis_conf *ret_redis)
{
	const json_t *other = json_object_get(root, "redis");

	if (other != NULL && !json_equal(other, value))
		conf_fail(c->r, path->up, "redis", CONF_AT_VALUE,
			  "the Redis of the node's own region is given here and as `redis`, and "
			  "differs: give it once");
	else
		redis_read(c, path, value, true, ret_redis);
}

static void region_read(struct conf_copier *c, const char *name, const json_t *value,
			const json_t *root, bool is_own, struct edge_regions *regions,
			struct redis_conf *ret_redis)
{
	const struct conf_path path = {.up = &regions_path, .key = name};
	const struct conf_path section = {.up = &path, .key = "redis"};
	struct region_conf *region = &regions->of[regions->n];
	struct region_fields f;

	if (!conf_is_named_object(c->r, &regions_path, name, value, "a region",
				  "{ \"redis\": { … }, \"weight\": 1 }"))
		return;
	conf_read(c->r, &path, value, &region_table, &f);
	if (f.redis != NULL && !json_is_object(f.redis))
		conf_fail(c->r, &path, "redis", CONF_AT_VALUE, "`redis` must be an object");
	else if (f.redis != NULL && is_own)
		own_redis_read(c, &section, f.redis, root, ret_redis);
	else if (f.redis != NULL)
		redis_read(c, &section, f.redis, false, &region->redis);
	if (f.dead && f.weight > 0)
		conf_fail(
			c->r, &path, "dead", CONF_AT_VALUE,
			"no key can be at home in a region that is `dead`: its `weight` must be 0");
	region->name = conf_copy(c, name);
	region->is_dead = f.dead;
	region->has_redis = is_own || f.redis != NULL;
	region->floor_ppm =
		(uint32_t)(f.floor != CONF_ABSENT
				   ? f.floor
				   : DEFAULT_FLOORS_PPM / (int64_t)json_object_size(json_object_get(
								  root, "regions")));
	regions->sites[regions->n] = (struct rendezvous_site){
		.hash = rendezvous_hash(slice_of(name)), .weight = (uint32_t)f.weight};
	regions->n++;
}

/* ---- All of them ---- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Their names, in order; at most REGIONS_MAX. */
static size_t names_sort(const json_t *regions, const char *ret_names[REGIONS_MAX])
{
	size_t n = 0;
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)regions, name, value)
		ret_names[n++] = name;
	qsort(ret_names, n, sizeof *ret_names, compare_names);
	return n;
}

static size_t index_of(const struct edge_regions *regions, const char *name)
{
	size_t i = 0;

	while (i < regions->n && strcmp(regions->of[i].name, name) != 0)
		i++;
	return i;
}

/* The weights of an earlier version; a region that it does not name has none. */
static void weights_read(struct conf_reader *r, const struct conf_path *path, const json_t *value,
			 const struct edge_regions *regions, struct rendezvous_site *ret_sites)
{
	uint64_t sum = 0;
	const char *name;
	json_t *weight;

	json_object_foreach((json_t *)(uintptr_t)value, name, weight) {
		size_t i = index_of(regions, name);
		json_int_t n = json_integer_value(weight);

		if (i == regions->n)
			conf_fail(r, path, name, CONF_AT_KEY,
				  "`%.64s` must be one of `regions`: one that keys have left "
				  "stays there with `weight` 0, so that it can be asked",
				  name);
		else if (!json_is_integer(weight) || n < 0 || n > RENDEZVOUS_WEIGHT_MAX)
			conf_fail(r, path, name, CONF_AT_VALUE,
				  "a weight must be a whole number from 0 to %d",
				  RENDEZVOUS_WEIGHT_MAX);
		else
			sum += ret_sites[i].weight = (uint32_t)n;
	}
	if (sum == 0)
		conf_fail(r, path, NULL, CONF_AT_VALUE,
			  "one region at least must have a weight above 0");
}

static void before_read(struct conf_copier *c, const json_t *list, struct edge_regions *regions)
{
	static const struct conf_path path = {.key = "regions_before"};

	if (json_array_size(list) > REGIONS_BEFORE_MAX) {
		conf_fail(c->r, NULL, "regions_before", CONF_AT_VALUE,
			  "`regions_before` must hold at most %d versions", REGIONS_BEFORE_MAX);
		return;
	}
	if (json_array_size(list) >= regions->version)
		conf_fail(c->r, NULL, "regions_before", CONF_AT_VALUE,
			  "`regions_version` must be greater than that of each version in "
			  "`regions_before`: at least %zu",
			  json_array_size(list) + 1);
	for (size_t i = 0; i < json_array_size(list) && !c->no_memory; i++) {
		const struct conf_path item = {.up = &path, .index = i};
		struct rendezvous_site *sites = calloc(regions->n, sizeof *sites);

		c->no_memory |= sites == NULL;
		for (size_t j = 0; sites != NULL && j < regions->n; j++)
			sites[j].hash = regions->sites[j].hash;
		if (sites == NULL)
			continue;
		regions->before[regions->n_before++] = sites;
		if (json_is_object(json_array_get(list, i)))
			weights_read(c->r, &item, json_array_get(list, i), regions, sites);
	}
}

static void sums_check(struct conf_reader *r, const struct edge_regions *regions)
{
	uint64_t weights = 0, floors = 0;

	for (size_t i = 0; i < regions->n; i++) {
		weights += regions->sites[i].weight;
		floors += regions->of[i].floor_ppm;
	}
	if (weights == 0)
		conf_fail(r, NULL, "regions", CONF_AT_VALUE,
			  "one region at least must have a `weight` above 0");
	if (floors > WHOLE_PPM)
		conf_fail(r, NULL, "regions", CONF_AT_VALUE,
			  "the floors of all regions must add up to at most 1, not %u.%06u",
			  (unsigned)(floors / WHOLE_PPM), (unsigned)(floors % WHOLE_PPM));
}

static bool shape_is_right(struct conf_reader *r, const struct edge_fields *f)
{
	size_t n = json_object_size(f->regions);

	if (!json_is_object(f->regions) || n == 0 || n > REGIONS_MAX)
		conf_fail(r, NULL, "regions", CONF_AT_VALUE,
			  "`regions` must be an object with 1 to %d members, each a region",
			  REGIONS_MAX);
	else if (f->region == NULL || json_object_get(f->regions, f->region) == NULL)
		conf_fail(r, NULL, "regions", CONF_AT_VALUE,
			  "`region`, which is `%s`, must be one of `regions`",
			  f->region != NULL ? f->region : "");
	else
		return true;
	return false;
}

void edge_regions_read(struct conf_copier *c, const struct edge_fields *f, const json_t *root,
		       struct edge_regions *ret_regions, struct redis_conf *ret_redis)
{
	const char *names[REGIONS_MAX];
	const json_t *own;
	size_t errors = c->r->n_errors;

	if (f->regions != NULL && shape_is_right(c->r, f)) {
		size_t n = names_sort(f->regions, names);

		ret_regions->of = calloc(n, sizeof *ret_regions->of);
		ret_regions->sites = calloc(n, sizeof *ret_regions->sites);
		c->no_memory |= ret_regions->of == NULL || ret_regions->sites == NULL;
		for (size_t i = 0; i < n && !c->no_memory; i++) {
			bool is_own = strcmp(names[i], f->region) == 0;

			if (is_own)
				ret_regions->own = ret_regions->n;
			region_read(c, names[i], json_object_get(f->regions, names[i]), root,
				    is_own, ret_regions, ret_redis);
		}
		ret_regions->version = (uint64_t)f->regions_version;
		if (c->r->n_errors == errors && !c->no_memory) {
			sums_check(c->r, ret_regions);
			before_read(c, f->regions_before, ret_regions);
		}
	}
	own = f->region != NULL ? json_object_get(f->regions, f->region) : NULL;
	if (json_object_get(own, "redis") == NULL)
		redis_section_fill(c, &redis_path, &f->redis, ret_redis);
}

static bool weights_are_alike(const struct rendezvous_site *a, const struct rendezvous_site *b,
			      size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (a[i].weight != b[i].weight)
			return false;
	return true;
}

bool edge_regions_are_alike(const struct edge_regions *a, const struct edge_regions *b)
{
	if (a->n != b->n || a->version != b->version || a->n_before != b->n_before)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->of[i].name, b->of[i].name) != 0 ||
		    a->of[i].is_dead != b->of[i].is_dead ||
		    a->of[i].floor_ppm != b->of[i].floor_ppm)
			return false;
	for (size_t i = 0; i < a->n_before; i++)
		if (!weights_are_alike(a->before[i], b->before[i], a->n))
			return false;
	return weights_are_alike(a->sites, b->sites, a->n);
}

uint64_t edge_regions_digest(const struct rendezvous_site *sites, size_t n)
{
	uint64_t digest = HASH_FNV_INIT;

	for (size_t i = 0; i < n; i++)
		if (sites[i].weight > 0)
			digest = hash_mix(hash_mix(digest ^ sites[i].hash) ^ sites[i].weight);
	return digest;
}

size_t edge_regions_home(const struct edge_regions *regions, struct slice key)
{
	return rendezvous_choose(regions->sites, regions->n, rendezvous_hash(keyspace_root(key)));
}

void edge_regions_release(struct edge_regions *regions)
{
	for (size_t i = 0; i < regions->n; i++) {
		redis_section_release(&regions->of[i].redis);
		free(regions->of[i].name);
	}
	for (size_t i = 0; i < regions->n_before; i++)
		free(regions->before[i]);
	free(regions->of);
	free(regions->sites);
	*regions = (struct edge_regions){0};
}
