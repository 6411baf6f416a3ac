/*
 * The wall clock of a process, moved from outside: preloaded (LD_PRELOAD) into an agent or a redis-server by clock.py.
 * $KOVA_CLOCK_FILE is mapped; it holds two numbers of 64 bits: µs to add to the real clock, and, when it is not 0, the
 * time at which the clock stands still. Steady clocks are left alone, as a step of the wall clock leaves them alone.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shift {
	_Atomic int64_t offset_us, frozen_us;
};

static struct shift *shift;

__attribute__((constructor)) static void map_shift(void)
{
	const char *path = getenv("KOVA_CLOCK_FILE");
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at;

	if (fd < 0)
		return;
	at = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		shift = at;
}

static int real_clock(clockid_t id, struct timespec *ret_time)
{
	return (int)syscall(SYS_clock_gettime, id, ret_time);
}

int clock_gettime(clockid_t id, struct timespec *ret_time)
{
	int result = real_clock(id, ret_time);
	int64_t us;

	if (result != 0 || shift == NULL || (id != CLOCK_REALTIME && id != CLOCK_REALTIME_COARSE))
		return result;
	us = shift->frozen_us;
	if (us == 0)
		us = (int64_t)ret_time->tv_sec * 1000000 + ret_time->tv_nsec / 1000 +
		     shift->offset_us;
	ret_time->tv_sec = (time_t)(us / 1000000);
	ret_time->tv_nsec = (long)(us % 1000000) * 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	ret_time->tv_sec = now.tv_sec;
	ret_time->tv_usec = (suseconds_t)(now.tv_nsec / 1000);
	return 0;
}

time_t time(time_t *ret_time)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (ret_time != NULL)
		*ret_time = now.tv_sec;
	return now.tv_sec;
}
