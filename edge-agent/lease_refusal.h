/* What the region's last refusal of a key is good for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/script.h"
#include "request.h"

enum {
	LEASE_REFUSAL_MAX_US = 250000
}; /* nothing is believed for longer: permits are refunded elsewhere */

/* All zeros: none. Times are of the leases' clock. */
struct lease_refusal {
	uint64_t until_us;  /* it is believed until then: never when there is room ... */
	uint64_t cost;      /* ... for this cost and more ... */
	enum reason why;    /* ... because it is limited, or held */
	unsigned in_a_row;  /* refusals, one soon after the other */
	uint64_t room_us;   /* there is room from then on at the latest; UINT64_MAX: never */
	uint64_t remaining; /* what was left for less, and not spent here since */
	uint64_t full_us;   /* when all is there again */
};

/* The region, asked for `cost` at `asked_us` or later, refused and `said` so: heard at `now_us`. */
void lease_refusal_hear(struct lease_refusal *r, uint64_t asked_us, uint64_t now_us, uint64_t cost,
			const struct script_answer *said);
bool lease_refusal_is_believed(const struct lease_refusal *r, uint64_t now_us, uint64_t cost);
/* From now until it will fit; -1: never. */
int64_t lease_refusal_wait_us(const struct lease_refusal *r, uint64_t now_us);
