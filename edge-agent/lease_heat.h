/* Which keys without leases are asked for often: a small table by hash, so that two keys may share a count. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEASE_HEAT_SLOTS = 16384 };

struct lease_heat {
	struct {
		uint32_t window, asked;
	} slot[LEASE_HEAT_SLOTS];
};

/* Counts `cost`, asked of the key at `now_us`; whether it has become worth a lease. All zeros: nothing was asked. */
bool lease_heat_add(struct lease_heat *h, uint64_t hash, uint64_t now_us, uint64_t cost);
