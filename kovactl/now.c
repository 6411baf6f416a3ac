#include "now.h"

#include <assert.h>
#include <time.h>

static struct timespec read_clock(clockid_t id)
{
	struct timespec t;

	int r = clock_gettime(id, &t);
	assert(r == 0);
	return t;
}

uint64_t now_monotonic_us(void)
{
	struct timespec t = read_clock(CLOCK_MONOTONIC);

	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

int64_t now_wall_ms(void)
{
	struct timespec t = read_clock(CLOCK_REALTIME);

	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void now_sleep_ms(uint64_t ms)
{
	struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	nanosleep(&t, NULL);
}
