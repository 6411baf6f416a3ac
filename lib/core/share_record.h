/*
 * What a region and the allocator of a global quota tell each other: plain structs, for the codecs to carry. A quota is a
 * policy and a key root; its shares are parts of a whole (share_plan.h). Times are µs of the clock that is named, and no
 * record holds times of two clocks that anybody compares (docs/global.md).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How long a promise to lend binds. */
#define SHARE_LEND_US UINT64_C(30000000)
/* Coordinators grant so often, while there is news. */
#define SHARE_ROUND_US UINT64_C(200000)

/* From the allocator to one region. */
struct share_grant {
	uint64_t
		seq; /* grows with each grant of this region and quota, whoever allocates; from 1 */
	uint64_t clock, t0_us; /* of the report that it answers, echoed */
	uint64_t duration_us;  /* the region may use it until t0 + so much, on its own clock */
	uint32_t whole;        /* of which the amounts here are parts */
	uint32_t parts;        /* the region's share, floor included */
	uint32_t before;       /* the largest earlier grant (or use of one) that may still count */
	uint32_t window;       /* calendar: the window that it is for, echoed */
	uint32_t floor;        /* the floor that the allocator counts for the region ... */
	uint32_t floors;       /* ... and the version of the floors whose rises are in force */
	uint64_t epoch, c0_us; /* of the allocator, and its own time: for promises to echo */
};

/* From a region to the allocator. It was written by one reading of the region's clock and state. */
struct share_report {
	uint64_t clock, t0_us; /* which clock, and what it showed */
	uint64_t seq;          /* grants up to this one are in force here or never will be again */
	bool live; /* grant `seq` is in force at t0; else, and after it, the floor alone */
	uint32_t
		whole; /* of which the amounts here are parts, by the limit that the region knows */
	uint32_t demand; /* parts that the region could use */
	uint32_t used;   /* windows and calendars: of the last window, or of the running one, leases
				  included, what its most used key did; parts, rounded up */
	uint32_t window; /* calendar: the window that t0 is in */
	uint32_t floors; /* version of the floors whose cuts are in force here */
	uint32_t lent;   /* of its floor, by the promise that echoes ... */
	uint64_t lent_epoch, lent_c0_us; /* ... this; 0: none */
	uint32_t floor; /* 1 + millionths that its floor is by its configuration; 0: unsaid */
};
