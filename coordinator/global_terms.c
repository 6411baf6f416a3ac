#include "global_terms.h"

#include <stdlib.h>
#include <string.h>

#include "core/share_plan.h"

enum { WHOLE_PPM = 1000000 };

static struct allocator_terms terms_of(const struct coord_conf *conf, const struct coord_policy *p)
{
	struct allocator_terms t = {
		.kind = p->kind,
		.n_regions = (unsigned)conf->regions.n,
		.whole = p->whole,
		.duration_us = conf->grant_us,
		.margin_us = conf->margin_us,
		.window_us = p->window_us,
		.lend_us = SHARE_LEND_US,
		.max_skew_us = conf->max_skew_us,
		.loose = p->loose,
		.floors = conf->regions.version,
	};

	for (size_t i = 0; i < conf->regions.n; i++) {
		const struct coord_region *r = &conf->regions.of[i];

		t.region[i].floor = share_scale_down(r->floor_ppm, WHOLE_PPM, p->whole);
		t.region[i].before = share_scale_down(r->before_ppm, WHOLE_PPM, p->whole);
		t.region[i].weight = r->weight;
	}
	return t;
}

kova_status global_terms_copy(const struct coord_conf *conf, const struct coord_conf *first,
			      struct global_terms *ret_terms)
{
	struct global_terms t = {.policies = calloc(conf->n_policies + 1, sizeof *t.policies)};

	if (t.policies == NULL)
		return KOVA_ENOMEM;
	bool shares = first->regions.n > 0 && first->regions.n <= ALLOCATOR_REGIONS_MAX;

	for (size_t i = 0; shares && i < conf->n_policies; i++)
		if (conf->policies[i].is_global) {
			struct global_policy *p = &t.policies[t.n++];

			memcpy(p->name, conf->policies[i].name, sizeof p->name);
			p->terms = terms_of(first, &conf->policies[i]);
		}
	if (t.n > 0)
		t.n_regions = first->regions.n;
	for (size_t i = 0; i < t.n_regions; i++) {
		strcpy(t.region[i].name, first->regions.of[i].name);
		t.region[i].floor_ppm = first->regions.of[i].floor_ppm;
		t.region[i].is_dead = first->regions.of[i].is_dead;
	}
	*ret_terms = t;
	return KOVA_OK;
}

void global_terms_release(struct global_terms *t)
{
	free(t->policies);
	*t = (struct global_terms){0};
}

static bool terms_are_alike(const struct allocator_terms *a, const struct allocator_terms *b)
{
	bool alike = a->kind == b->kind && a->n_regions == b->n_regions && a->whole == b->whole &&
		     a->duration_us == b->duration_us && a->margin_us == b->margin_us &&
		     a->window_us == b->window_us && a->max_skew_us == b->max_skew_us &&
		     a->loose == b->loose && a->floors == b->floors;

	for (unsigned i = 0; alike && i < a->n_regions; i++)
		alike = a->region[i].floor == b->region[i].floor &&
			a->region[i].before == b->region[i].before &&
			a->region[i].weight == b->region[i].weight;
	return alike;
}

bool global_terms_are_alike(const struct global_terms *a, const struct global_terms *b)
{
	bool alike = a->n == b->n && a->n_regions == b->n_regions;

	for (size_t i = 0; alike && i < a->n_regions; i++)
		alike = strcmp(a->region[i].name, b->region[i].name) == 0 &&
			a->region[i].is_dead == b->region[i].is_dead;
	for (size_t i = 0; alike && i < a->n; i++)
		alike = strcmp(a->policies[i].name, b->policies[i].name) == 0 &&
			terms_are_alike(&a->policies[i].terms, &b->policies[i].terms);
	return alike;
}

static int compare_name(const void *key, const void *item)
{
	const struct slice *name = key;
	const char *other = ((const struct global_policy *)item)->name;
	int order = strncmp(name->ptr, other, name->len);

	return order != 0 ? order : -(int)(other[name->len] != '\0');
}

const struct global_policy *global_terms_policy(const struct global_terms *t, struct slice name)
{
	return t->n == 0 || name.len > NAME_BYTES_MAX
		       ? NULL
		       : bsearch(&name, t->policies, t->n, sizeof *t->policies, compare_name);
}

size_t global_terms_region(const struct global_terms *t, struct slice name)
{
	size_t i = 0;

	while (i < t->n_regions && !slice_equal(slice_of(t->region[i].name), name))
		i++;
	return i;
}
