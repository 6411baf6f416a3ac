/* The clock of leases, and whether the wall clock, which may be Redis's as well, was set meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/clock_offset.h"

struct lease_clock {
	uint64_t now_us; /* CLOCK_BOOTTIME, when last read */
	bool is_old;     /* to be read anew: set once a batch of requests */
	uint64_t wall_leaps;
	struct clock_reading read; /* both clocks then */
};

uint64_t lease_clock_now_us(struct lease_clock *c);
/* The wall clock then, µs since the epoch. */
uint64_t lease_clock_wall_us(struct lease_clock *c);
