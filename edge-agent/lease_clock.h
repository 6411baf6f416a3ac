/* The clock of leases, and whether the wall clock, which may be Redis's as well, was set meanwhile. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct lease_clock {
	uint64_t now_us;                /* CLOCK_BOOTTIME, when last read */
	bool is_old;                    /* to be read anew: set once a batch of requests */
	uint64_t wall_us, wall_read_us; /* the wall clock, read when now_us was this */
	uint64_t wall_leaps;
	int64_t wall_offset_us; /* wall clock − now_us, when last looked at */
};

uint64_t lease_clock_now_us(struct lease_clock *c);
/* The wall clock, µs since the epoch, read once a batch as well, and only when asked for. */
uint64_t lease_clock_wall_us(struct lease_clock *c);
