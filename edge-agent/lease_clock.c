#include "lease_clock.h"

#include <time.h>

enum { WALL_LEAP_US = 50000 }; /* more than this between two looks is a clock that was set */

static uint64_t boot_us(void)
{
	struct timespec t;

	/* Goes on while the machine sleeps: a lease ends all the same. */
	if (clock_gettime(CLOCK_BOOTTIME, &t) != 0)
		return UINT64_MAX / 2; /* every lease has ended */
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* A wall clock that was set may be Redis's as well. */
static void watch_wall_clock(struct lease_clock *c)
{
	struct timespec t;
	int64_t offset_us;

	if (clock_gettime(CLOCK_REALTIME_COARSE, &t) != 0)
		return;
	offset_us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 - (int64_t)c->now_us;
	if (offset_us - c->wall_offset_us > WALL_LEAP_US ||
	    offset_us - c->wall_offset_us < -WALL_LEAP_US)
		c->wall_leaps++;
	c->wall_offset_us = offset_us;
}

uint64_t lease_clock_now_us(struct lease_clock *c)
{
	if (c->is_old) {
		c->now_us = boot_us();
		c->is_old = false;
		watch_wall_clock(c);
	}
	return c->now_us;
}

uint64_t lease_clock_wall_us(struct lease_clock *c)
{
	uint64_t now_us = lease_clock_now_us(c);
	struct timespec t;

	if (c->wall_read_us != now_us && clock_gettime(CLOCK_REALTIME, &t) == 0) {
		c->wall_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
		c->wall_read_us = now_us;
	}
	return c->wall_us;
}
