/* Which keys without leases are asked for often. Keys that share a slot are taken for one, which only costs an entry now
 * and then. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { LEASE_HEAT_SLOTS = 16384 };

struct lease_heat {
	struct lease_heat_slot {
		uint32_t window, asked;
		uint32_t in_a_row; /* windows before this one in which enough was asked */
	} slot[LEASE_HEAT_SLOTS];
};

/* Counts `cost`, asked of the key at `now_us`; whether it has become worth an entry. All zeros: nothing was asked. */
bool lease_heat_add(struct lease_heat *h, uint64_t hash, uint64_t now_us, uint64_t cost);
