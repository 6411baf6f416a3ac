/* What the configuration says of a limit in all regions together, as each call of the decide script brings it (core/script.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * A limit in all regions together (docs/global.md): by which share of it this region goes is kept in Redis, in
 * keyspace_quota(). All checks of one policy and root have the same; token buckets, sliding windows (log) and calendars can, without `adaptive`.
 */
struct script_quota {
	uint32_t
		whole; /* of which shares are parts, 1..LIMIT_MAX: share_whole(), of several levels the greatest */
	uint32_t floor;   /* of this region, by the configuration, in parts ... */
	uint32_t floors;  /* ... and the version of the regions' floors, from 1 */
	bool loose;       /* "global": "loose" */
	uint64_t lend_us; /* how long a promise binds; 0: nothing is lent */
	uint64_t
		grant_us; /* how long the next grant may take once demand is told of, at least 1: then the share may be
			   * larger, and no refusal that may be due to that has a longer wait */
};
