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

/*
 * Which keys without leases are warm: asked for again and again, with pauses of two seconds at most. Few keys are told apart by a
 * part of their hash, and those that share it are taken for one.
 */
enum { LEASE_WARMTH_SETS = 65536, LEASE_WARMTH_WAYS = 4 };

struct lease_warmth {
	/* Tag, what was counted and when last: 16, 3 and 13 bits. */
	uint32_t way[LEASE_WARMTH_SETS][LEASE_WARMTH_WAYS];
};

/* Counts a request for the key at `now_us`; whether it is warm. All zeros: nothing was asked. */
bool lease_warmth_add(struct lease_warmth *h, uint64_t hash, uint64_t now_us);

/* Counts `cost`, asked of the key at `now_us`; whether it has become worth an entry. All zeros: nothing was asked. */
bool lease_heat_add(struct lease_heat *h, uint64_t hash, uint64_t now_us, uint64_t cost);
