#include "io/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t id)
{
	struct timespec t;

	if (clock_gettime(id, &t) != 0)
		return UINT64_MAX / 2;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Whoever is made to wait between the two readings, by another process or a quota, would take that for a clock that was set. */
enum { TOGETHER_US = 1000, TRIES = 3 };

struct clock_reading clock_read(void)
{
	struct clock_reading now;
	uint64_t before_us;
	int tries = TRIES;

	do {
		before_us = read_us(CLOCK_BOOTTIME);
		now.wall_us = read_us(CLOCK_REALTIME);
		now.boot_us = read_us(CLOCK_BOOTTIME);
	} while (now.boot_us - before_us > TOGETHER_US && --tries > 0);
	return now;
}
