#include "lease_heat.h"

#include "core/lease.h"

enum { HOT_COST = 8 }; /* asked in one window */

bool lease_heat_add(struct lease_heat *h, uint64_t hash, uint64_t now_us, uint64_t cost)
{
	uint32_t window = (uint32_t)(now_us / LEASE_WINDOW_US);
	size_t i = hash / LEASE_HEAT_SLOTS % LEASE_HEAT_SLOTS;

	if (h->slot[i].window != window) {
		h->slot[i].window = window;
		h->slot[i].asked = 0;
	}
	h->slot[i].asked += cost < HOT_COST ? (uint32_t)cost : HOT_COST;
	return h->slot[i].asked >= HOT_COST;
}
