#include "io/clock.h"

#include <time.h>

static uint64_t read_us(clockid_t id)
{
	struct timespec t;

	if (clock_gettime(id, &t) != 0)
		return UINT64_MAX / 2;
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct clock_reading clock_read(void)
{
	return (struct clock_reading){.wall_us = read_us(CLOCK_REALTIME),
				      .boot_us = read_us(CLOCK_BOOTTIME)};
}
