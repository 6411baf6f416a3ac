#include "lease_heat.h"

#include "core/lease.h"

enum {
	HOT_COST = 16, /* asked in each window ... */
	HOT_WINDOWS =
		3, /* ... of so many in a row: a demand, and not a burst, that is worth an entry */
	TICK_US = 1 << 18,
	TICK_MASK = (1 << 13) - 1,
	PAUSE_TICKS = 8, /* longer, and what was counted is over */
	WARM_TICKS =
		3, /* in which it was asked for again: a demand, and not one that comes and goes */
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

static uint32_t ticks_since(uint32_t way, uint32_t tick)
{
	return (tick - way) & TICK_MASK;
}

/* The way of the key with this tag, else the one that was counted least lately. */
static uint32_t *way_of(uint32_t *way, uint32_t tag, uint32_t tick)
{
	uint32_t *oldest = way;

	for (unsigned i = 0; i < LEASE_WARMTH_WAYS; i++) {
		if (way[i] >> 16 == tag)
			return &way[i];
		if (ticks_since(way[i], tick) > ticks_since(*oldest, tick))
			oldest = &way[i];
	}
	*oldest = tag << 16 | (tick & TICK_MASK);
	return oldest;
}

bool lease_warmth_add(struct lease_warmth *h, uint64_t hash, uint64_t now_us)
{
	uint32_t tick = (uint32_t)(now_us / TICK_US);
	uint32_t tag = (uint32_t)(hash >> 48) | 1; /* no key has that of an empty way */
	uint32_t *way = way_of(h->way[hash / LEASE_WARMTH_SETS % LEASE_WARMTH_SETS], tag, tick);
	uint32_t passed = ticks_since(*way, tick), counted = *way >> 13 & 7;

	if (passed > PAUSE_TICKS)
		counted = 0;
	else if (passed > 0)
		counted++;
	*way = tag << 16 | counted << 13 | (tick & TICK_MASK);
	if (counted < WARM_TICKS)
		return false;
	*way = 0;
	return true;
}
