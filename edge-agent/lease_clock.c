#include "lease_clock.h"

#include "io/clock.h"

uint64_t lease_clock_now_us(struct lease_clock *c)
{
	struct clock_reading now;

	if (c->is_old) {
		now = clock_read();
		c->wall_leaps += clock_was_set(&c->read, &now);
		c->read = now;
		c->now_us = now.boot_us;
		c->is_old = false;
	}
	return c->now_us;
}

uint64_t lease_clock_wall_us(struct lease_clock *c)
{
	lease_clock_now_us(c);
	return c->read.wall_us;
}
