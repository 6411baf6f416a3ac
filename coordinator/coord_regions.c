#include "coord_regions.h"

#include <stdlib.h>
#include <string.h>

#include "io/option_table.h"

enum { WHOLE_PPM = 1000000, DEFAULT_FLOORS_PPM = WHOLE_PPM / 10 };

struct region_fields {
	const json_t *redis;
	int64_t weight, floor; /* floor: millionths; CONF_ABSENT */
	bool dead;
};

static const struct conf_option region_options[] = {
	{.name = "weight",
	 .type = CONF_INT,
	 .at = offsetof(struct region_fields, weight),
	 .fallback = "1",
	 .min = 0,
	 .max = WATERFILL_WEIGHT_MAX,
	 .text = "its part of global limits where regions want more than there is, beside the "
		 "weights of the others; 0: its floor and no more"},
	{.name = "floor",
	 .type = CONF_PART,
	 .at = offsetof(struct region_fields, floor),
	 .otherwise = "0.1 ÷ the number of regions",
	 .text = "the part of every global limit that it may always use; together at most 1"},
	{.name = "dead",
	 .type = CONF_BOOL,
	 .at = offsetof(struct region_fields, dead),
	 .fallback = "false",
	 .text = "the operator's word that it is gone and admits nothing any more: nothing is kept "
		 "free for it. Its `weight` and `floor` must be 0"},
	{.name = "redis",
	 .type = CONF_RAW,
	 .form = "object",
	 .at = offsetof(struct region_fields, redis),
	 .otherwise = "none",
	 .text = "as in the agents' configuration: with it the ledgers there are compared with "
		 "Kafka's"},
};

const struct conf_table coord_region_table = {
	.title = "A region",
	.text = "A member of `regions`, which is an object with a member for each region of the "
		"world, by its name. Names, weights, floors and `regions_version` are those of "
		"the agents' configuration: [Home regions](home.md).",
	.options = region_options,
	.n_options = COUNT(region_options),
};

static const struct conf_path regions_path = {.key = "regions"};
static const struct conf_path before_path = {.key = "floors_before"};

/* ---- One region ---- */

static void region_read(struct conf_copier *c, const char *name, const json_t *value,
			int64_t default_ppm, struct coord_regions *regions)
{
	const struct conf_path path = {.up = &regions_path, .key = name};
	struct coord_region *region = &regions->of[regions->n];
	struct region_fields f;

	if (!conf_is_named_object(c->r, &regions_path, name, value, "a region",
				  "{ \"weight\": 1, \"floor\": 0.1 }"))
		return;
	conf_read(c->r, &path, value, &coord_region_table, &f);
	if (f.floor == CONF_ABSENT)
		f.floor = f.dead ? 0 : default_ppm;
	if (f.dead && (f.weight > 0 || f.floor > 0))
		conf_fail(c->r, &path, "dead", CONF_AT_VALUE,
			  "a region that is `dead` has nothing: its `weight` and `floor` must be "
			  "0");
	*region = (struct coord_region){.name = conf_copy(c, name),
					.weight = (uint32_t)f.weight,
					.floor_ppm = (uint32_t)f.floor,
					.before_ppm = (uint32_t)f.floor,
					.is_dead = f.dead};
	regions->n++;
}

static int compare_regions(const void *a, const void *b)
{
	return strcmp(((const struct coord_region *)a)->name,
		      ((const struct coord_region *)b)->name);
}

size_t coord_regions_find(const struct coord_regions *regions, struct slice name)
{
	size_t i = 0;

	while (i < regions->n && !slice_equal(slice_of(regions->of[i].name), name))
		i++;
	return i;
}

/* ---- Earlier floors ---- */

/* A part of 1, in millionths; false: it is none. */
static bool part_of(const json_t *value, uint32_t *ret_ppm)
{
	double part = json_number_value(value);

	if (!json_is_number(value) || !(part >= 0 && part <= 1))
		return false;
	*ret_ppm = (uint32_t)(part * WHOLE_PPM + 0.5);
	return true;
}

static void floors_read(struct conf_reader *r, const struct conf_path *path, const json_t *floors,
			struct coord_regions *regions)
{
	const char *name;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)floors, name, value) {
		size_t i = coord_regions_find(regions, slice_of(name));
		uint32_t ppm;

		if (i == regions->n)
			conf_fail(r, path, name, CONF_AT_KEY,
				  "`%.64s` must be one of `regions`: one that goes stays there "
				  "with `weight` and `floor` 0, until it has nothing any more",
				  name);
		else if (!part_of(value, &ppm))
			conf_fail(r, path, name, CONF_AT_VALUE,
				  "a floor must be a number from 0 to 1");
		else if (ppm > regions->of[i].before_ppm && !regions->of[i].is_dead)
			regions->of[i].before_ppm = ppm;
	}
}

static void before_read(struct conf_reader *r, const json_t *list, struct coord_regions *regions)
{
	size_t n = json_array_size(list);

	if (n > COORD_FLOORS_BEFORE_MAX)
		conf_fail(r, NULL, "floors_before", CONF_AT_VALUE,
			  "`floors_before` must hold at most %d versions", COORD_FLOORS_BEFORE_MAX);
	else if (n >= regions->version)
		conf_fail(r, NULL, "floors_before", CONF_AT_VALUE,
			  "`regions_version` must be greater than that of each version in "
			  "`floors_before`: at least %zu",
			  n + 1);
	else if (n == 0 && regions->version > 1)
		conf_fail(r, NULL, "regions_version", CONF_AT_VALUE,
			  "from version 2 on `floors_before` must say the floors of those before, "
			  "as [{ \"eu-west\": 0.1 }], also where they were the same");
	for (size_t i = 0; i < n && i < COORD_FLOORS_BEFORE_MAX; i++) {
		const struct conf_path item = {.up = &before_path, .index = i};

		if (json_is_object(json_array_get(list, i)))
			floors_read(r, &item, json_array_get(list, i), regions);
	}
}

/* ---- All of them ---- */

static void sums_check(struct conf_reader *r, const struct coord_regions *regions)
{
	uint64_t floors = 0;

	for (size_t i = 0; i < regions->n; i++)
		floors += regions->of[i].floor_ppm;
	if (floors > WHOLE_PPM)
		conf_fail(r, NULL, "regions", CONF_AT_VALUE,
			  "the floors of all regions must add up to at most 1, not %u.%06u",
			  (unsigned)(floors / WHOLE_PPM), (unsigned)(floors % WHOLE_PPM));
}

void coord_regions_read(struct conf_copier *c, const struct coord_regions_fields *f,
			struct coord_regions *ret_regions)
{
	size_t n = json_object_size(f->regions), errors = c->r->n_errors;
	const char *name;
	json_t *value;

	ret_regions->version = (uint32_t)f->version;
	if (f->regions == NULL)
		return;
	if (!json_is_object(f->regions) || n == 0 || n > COORD_REGIONS_MAX) {
		conf_fail(c->r, NULL, "regions", CONF_AT_VALUE,
			  "`regions` must be an object with 1 to %d members, each a region",
			  COORD_REGIONS_MAX);
		return;
	}
	ret_regions->of = calloc(n, sizeof *ret_regions->of);
	c->no_memory |= ret_regions->of == NULL;
	if (ret_regions->of == NULL)
		return;
	json_object_foreach((json_t *)(uintptr_t)f->regions, name, value)
		region_read(c, name, value, DEFAULT_FLOORS_PPM / (int64_t)n, ret_regions);
	if (c->no_memory || c->r->n_errors != errors)
		return;
	qsort(ret_regions->of, ret_regions->n, sizeof *ret_regions->of, compare_regions);
	sums_check(c->r, ret_regions);
	before_read(c->r, f->floors_before, ret_regions);
}

bool coord_regions_are_alike(const struct coord_regions *a, const struct coord_regions *b)
{
	bool alike = a->n == b->n && a->version == b->version;

	for (size_t i = 0; alike && i < a->n; i++) {
		const struct coord_region *x = &a->of[i], *y = &b->of[i];

		alike = strcmp(x->name, y->name) == 0 && x->weight == y->weight &&
			x->floor_ppm == y->floor_ppm && x->before_ppm == y->before_ppm &&
			x->is_dead == y->is_dead;
	}
	return alike;
}

void coord_regions_release(struct coord_regions *regions)
{
	for (size_t i = 0; i < regions->n; i++)
		free(regions->of[i].name);
	free(regions->of);
	*regions = (struct coord_regions){0};
}
