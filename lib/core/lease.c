#include "core/lease.h"

static uint64_t as_rate(uint64_t asked)
{
	return asked * (1000000 / LEASE_WINDOW_US);
}

void lease_demand_add(struct lease_demand *d, uint64_t now_us, uint64_t cost)
{
	uint64_t passed = now_us > d->window_us ? (now_us - d->window_us) / LEASE_WINDOW_US : 0;

	if (passed > 0) {
		d->rate = (d->rate + as_rate(d->asked)) / 2;
		/* Windows in which nothing was asked. */
		d->rate >>= passed - 1 < 63 ? passed - 1 : 63;
		d->window_us = now_us;
		d->asked = 0;
	}
	d->asked += cost;
}

uint64_t lease_demand_rate(const struct lease_demand *d, uint64_t now_us)
{
	uint64_t rate = d->rate;

	if (now_us > d->window_us + 2 * LEASE_WINDOW_US)
		return 0;
	return as_rate(d->asked) > rate ? as_rate(d->asked) : rate;
}

uint64_t lease_size(uint64_t rate, uint64_t ttl_us, uint64_t max, uint64_t capacity,
		    uint32_t sharers)
{
	/* rate <= 2^40 and ttl_us <= 10^7: no overflow. */
	uint64_t bounded = rate < (UINT64_C(1) << 40) ? rate : UINT64_C(1) << 40;
	uint64_t size = bounded * ttl_us / 800000;

	if (size < LEASE_WORTH)
		return 0;
	if (max > 0 && size > max)
		size = max;
	if (size > capacity / (sharers + 1))
		size = capacity / (sharers + 1);
	return size >= LEASE_WORTH ? size : 0;
}

bool lease_renews(uint64_t left, uint64_t granted, uint64_t left_us, uint64_t ttl_us,
		  uint32_t random)
{
	if (left < granted / 4 || left_us < ttl_us / 4)
		return true;
	return (left < granted / 2 || left_us < ttl_us / 2) && random % 100 < LEASE_RENEW_PERCENT;
}

uint64_t lease_jitter(uint64_t ttl_us, uint32_t random)
{
	return ttl_us - ttl_us / 10 * (random % 1024) / 1024;
}
