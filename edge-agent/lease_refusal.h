/* What the region's last refusal of a key is good for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/script.h"
#include "request.h"

enum {
	LEASE_REFUSAL_MAX_US = 250000
}; /* nothing is believed for longer: permits are refunded elsewhere */

/* Two clocks, as one of them may be set, and Redis's with it: what either says is over is over. */
struct lease_instant {
	uint64_t us;      /* CLOCK_BOOTTIME */
	uint64_t wall_us; /* since the epoch */
};

/* All zeros: none. */
struct lease_refusal {
	struct lease_instant until; /* it is believed until then: never when there is room ... */
	uint64_t cost;              /* ... for this cost and more ... */
	enum reason why;            /* ... because it is limited, or held */
	unsigned in_a_row;          /* refusals, one soon after the other */
	uint64_t room_us;           /* wall clock: there is room from then on; UINT64_MAX: never */
	uint64_t full_us;           /* wall clock: all is there again */
	uint64_t remaining;         /* what was left for less, and not spent here since */
};

/* The region, asked for `cost` at `asked_us` (CLOCK_BOOTTIME) or later, refused and `said` so: heard `now`. */
void lease_refusal_hear(struct lease_refusal *r, uint64_t asked_us, struct lease_instant now,
			uint64_t cost, const struct script_answer *said);
bool lease_refusal_is_believed(const struct lease_refusal *r, struct lease_instant now,
			       uint64_t cost);
/* From now until it will fit; -1: never. */
int64_t lease_refusal_wait_us(const struct lease_refusal *r, struct lease_instant now);
/* From now until all is there. */
uint64_t lease_refusal_full_us(const struct lease_refusal *r, struct lease_instant now);
