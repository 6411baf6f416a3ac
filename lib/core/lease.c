#include "core/lease.h"

enum { RATE_MAX = (1 << 28) - 1, BUSY_MAX = 15 };

static uint64_t as_rate(uint64_t asked)
{
	return asked * (1000000 / LEASE_WINDOW_US);
}

static uint64_t windows_since(const struct lease_demand *d, uint64_t now_us)
{
	return (uint16_t)(now_us / LEASE_WINDOW_US - d->window);
}

static void close_window(struct lease_demand *d, uint64_t passed)
{
	uint64_t rate = (d->rate + as_rate(d->asked)) / 2;
	bool is_busy = as_rate(d->requests) >= LEASE_BUSY_RATE;
	unsigned busy = is_busy ? d->busy + 1U : d->busy / 2U;

	/* Windows in which nothing was asked. */
	rate >>= passed - 1 < 63 ? passed - 1 : 63;
	d->rate = (uint32_t)(rate < RATE_MAX ? rate : RATE_MAX) & RATE_MAX;
	busy = (busy < BUSY_MAX ? busy : BUSY_MAX) >> (passed - 1 < 4 ? passed - 1 : 4);
	d->busy = busy & BUSY_MAX;
}

void lease_demand_add(struct lease_demand *d, uint64_t now_us, uint64_t cost)
{
	uint64_t passed = windows_since(d, now_us);

	if (passed > 0) {
		close_window(d, passed);
		d->window = (uint16_t)(now_us / LEASE_WINDOW_US);
		d->asked = d->requests = 0;
	}
	if (d->requests < UINT16_MAX)
		d->requests++;
	d->asked = cost < UINT32_MAX - d->asked ? d->asked + (uint32_t)cost : UINT32_MAX;
}

uint64_t lease_demand_rate(const struct lease_demand *d, uint64_t now_us)
{
	uint64_t rate = d->rate;

	if (windows_since(d, now_us) > 2)
		return 0;
	return as_rate(d->asked) > rate ? as_rate(d->asked) : rate;
}

bool lease_demand_is_busy(const struct lease_demand *d, uint64_t now_us)
{
	return windows_since(d, now_us) == 0 && d->busy >= LEASE_BUSY_WINDOWS;
}

uint64_t lease_demand_idle_us(const struct lease_demand *d, uint64_t now_us)
{
	return windows_since(d, now_us) * LEASE_WINDOW_US;
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

struct lease_warm lease_warm(uint64_t spent, uint64_t took_us, uint64_t capacity, uint32_t sharers)
{
	const uint8_t longest = LEASE_WARM_SPANS - 1;
	uint64_t most = capacity / LEASE_WARM_PART / sharers, amount = LEASE_WORTH;
	struct lease_warm lease = {.span = longest};

	most = most < LEASE_WARM_MAX ? most : LEASE_WARM_MAX;
	spent = spent < LIMIT_MAX ? spent : LIMIT_MAX;
	took_us = took_us > 0 ? took_us : 1;
	if (spent > 0)
		amount = spent * (lease_warm_ttl_us(longest) / 4 * 3) / took_us;
	if (amount < LEASE_WORTH || most < LEASE_WORTH)
		return lease;
	lease.amount = (uint32_t)(amount < most ? amount : most);
	while (spent > 0 && lease.span > 0 &&
	       spent * (lease_warm_ttl_us(lease.span - 1) / 4 * 3) / took_us >= lease.amount)
		lease.span--;
	return lease;
}

bool lease_renews(uint64_t left, uint64_t granted, uint64_t left_us, uint64_t ttl_us,
		  uint32_t random)
{
	if (left < granted / 4 || left_us < ttl_us / 4)
		return true;
	return (left < granted / 2 || left_us < ttl_us / 2) && random % 100 < LEASE_RENEW_PERCENT;
}

bool lease_renews_ahead(uint64_t left, uint64_t granted, uint64_t left_us, uint64_t ahead,
			uint64_t ahead_us)
{
	return left_us <= ahead_us || left <= (ahead < granted / 2 ? ahead : granted / 2);
}

uint64_t lease_jitter(uint64_t ttl_us, uint32_t random)
{
	return ttl_us - ttl_us / 10 * (random % 1024) / 1024;
}
