/* The coordinator's section `regions`: between whom global limits are shared, and which floors they have and had. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/allocator.h"
#include "core/limit.h"
#include "io/conf_copy.h"

enum { COORD_FLOORS_BEFORE_MAX = 8, COORD_REGIONS_MAX = 64, COORD_REGIONS_VERSION_MAX = 1000000 };

struct coord_region {
	char *name;
	uint32_t weight; /* 0..WATERFILL_WEIGHT_MAX */
	uint32_t
		floor_ppm; /* millionths of every global limit; of all together at most 1 000 000 */
	uint32_t before_ppm; /* the most that it was in any version */
	bool is_dead;
};

/* All of it is owned; all zeros: there is no such section. */
struct coord_regions {
	struct coord_region *of; /* in the bytewise order of their names */
	size_t n;
	uint32_t version; /* of names, weights and floors, as the agents' */
};

/* What the tables fill. */
struct coord_regions_fields {
	const json_t *regions, *floors_before; /* NULL: not given */
	int64_t version;
};

/* A member of `regions`. */
extern const struct conf_table coord_region_table;

void coord_regions_read(struct conf_copier *c, const struct coord_regions_fields *f,
			struct coord_regions *ret_regions);
void coord_regions_release(struct coord_regions *regions);

/* The index of a region; `n`: it is none of them. */
size_t coord_regions_find(const struct coord_regions *regions, struct slice name);

bool coord_regions_are_alike(const struct coord_regions *a, const struct coord_regions *b);
