/* The global policies that a session shares out: what their shares are parts of, and between whom. A copy of the configuration's. */
#pragma once

#include "coord_conf.h"
#include "core/allocator.h"

struct global_policy {
	char name[NAME_BYTES_MAX + 1];
	struct allocator_terms terms;
};

/* All of it is owned; all zeros: there are no global policies. */
struct global_terms {
	size_t n_regions; /* as in each terms; 0 without global policies */
	struct {
		char name[NAME_BYTES_MAX + 1];
		uint32_t floor_ppm; /* of this version */
		bool is_dead;
	} region[ALLOCATOR_REGIONS_MAX];
	struct global_policy *policies; /* in the bytewise order of their names */
	size_t n;
};

/* The policies of `conf`, shared out as `first`, that of the start, says. KOVA_ENOMEM. */
KOVA_MUST_CHECK kova_status global_terms_copy(const struct coord_conf *conf,
					      const struct coord_conf *first,
					      struct global_terms *ret_terms);
void global_terms_release(struct global_terms *t);

/* Whether shares of both are parts of the same, between the same. */
bool global_terms_are_alike(const struct global_terms *a, const struct global_terms *b);

/* NULL: there is no such global policy. */
const struct global_policy *global_terms_policy(const struct global_terms *t, struct slice name);
/* The index of a region; n_regions: it is none of them. */
size_t global_terms_region(const struct global_terms *t, struct slice name);
