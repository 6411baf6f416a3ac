#include "lease_heat.h"

#include "core/lease.h"

enum {
	HOT_COST = 16, /* asked in each window ... */
	HOT_WINDOWS =
		3, /* ... of so many in a row: a demand, and not a burst, that is worth an entry */
};

bool lease_heat_add(struct lease_heat *h, uint64_t hash, uint64_t now_us, uint64_t cost)
{
	uint32_t window = (uint32_t)(now_us / LEASE_WINDOW_US);
	struct lease_heat_slot *s = &h->slot[hash / LEASE_HEAT_SLOTS % LEASE_HEAT_SLOTS];

	if (s->window != window) {
		s->in_a_row = s->window + 1 == window && s->asked >= HOT_COST ? s->in_a_row + 1 : 0;
		s->window = window;
		s->asked = 0;
	}
	s->asked += cost < HOT_COST ? (uint32_t)cost : HOT_COST;
	return s->asked >= HOT_COST && s->in_a_row >= HOT_WINDOWS - 1;
}
