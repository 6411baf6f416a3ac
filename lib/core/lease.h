/*
 * When an agent leases permits of a key, and how many: from what was asked for lately. Pure; times are µs of one steady
 * clock of the caller. What makes a lease exact is elsewhere (docs/leases.md): this is only about being fast.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/limit.h"

enum {
	LEASE_WORTH = 20,           /* decisions a lease should be good for, or there is none */
	LEASE_TTL_US = 500000,      /* default; `lease.ttl` */
	LEASE_AUTO_TTL_US = 200000, /* `auto` */
	LEASE_WINDOW_US = 100000,   /* demand is counted in windows of so long */
	LEASE_RENEW_PERCENT = 1,    /* of the requests start the next lease early */
	LEASE_BUSY_RATE = 1000,     /* a second: requests for a key that is busy ... */
	LEASE_BUSY_WINDOWS = 3,     /* ... in so many windows in a row */
	LEASE_WARM_TTL_US =
		125000, /* the shortest lease of a warm key; the others last twice as long each: */
	LEASE_WARM_SPANS = 8,
	LEASE_WARM_MAX = 64, /* permits: more would save little */
	LEASE_WARM_PART =
		16, /* of what a full limit holds, the agents' leases of a warm key together have one */
};

/*
 * What is asked for a key: in the window that runs, and the rate of those before (weight one half each). More than fits is
 * counted as the most that does.
 */
struct lease_demand {
	uint32_t asked;     /* costs, in this window */
	uint16_t requests;  /* in it */
	uint16_t window;    /* its number, since the clock's zero, modulo 2^16 (6553 s) */
	uint32_t rate : 28; /* costs a second */
	uint32_t busy : 4;  /* windows of LEASE_BUSY_RATE before this one; others halve it */
};

/* Counts a request for `cost`, at `now_us`. All zeros: nothing was asked. */
void lease_demand_add(struct lease_demand *d, uint64_t now_us, uint64_t cost);

/* What is asked a second, by the windows before and by this one as far as it is more. */
uint64_t lease_demand_rate(const struct lease_demand *d, uint64_t now_us);

/*
 * Whether the key is busy: so many requests came in each of the LEASE_BUSY_WINDOWS before this one, and some in this. Who was
 * busy for longer may pause for a window or two.
 */
bool lease_demand_is_busy(const struct lease_demand *d, uint64_t now_us);

/* How long nothing was asked, in whole windows. */
uint64_t lease_demand_idle_us(const struct lease_demand *d, uint64_t now_us);

/*
 * The permits to ask for: what the demand will spend in `ttl_us` and a quarter more, at most `max` (0: no bound) and at
 * most the share of `capacity`, what a full bucket holds, that `sharers` leave to each. 0: not worth a lease.
 */
uint64_t lease_size(uint64_t rate, uint64_t ttl_us, uint64_t max, uint64_t capacity,
		    uint32_t sharers);

/*
 * A lease of a warm key, which is asked for too seldom to be worth one of lease_size(): fewer permits, and up to 16 s to spend
 * them. `spent` of the last one in `took_us`; 0 in 0: there was none. Of the demand that shows it covers three quarters of its
 * time, for one that is spent before its end has nothing to give back.
 */
struct lease_warm {
	uint32_t amount; /* 0: not worth a lease */
	uint8_t span;    /* lease_warm_ttl_us() */
};
struct lease_warm lease_warm(uint64_t spent, uint64_t took_us, uint64_t capacity, uint32_t sharers);

static inline uint64_t lease_warm_ttl_us(uint8_t span)
{
	return (uint64_t)LEASE_WARM_TTL_US << span;
}

/*
 * Whether to start the next lease now, so that nobody waits for it: less than a quarter of `granted` is left, or less
 * than a quarter of the time; or, at random, a little before: `random` is uniform.
 */
bool lease_renews(uint64_t left, uint64_t granted, uint64_t left_us, uint64_t ttl_us,
		  uint32_t random);

/*
 * As lease_renews(), where asking takes `ahead_us`, in which `ahead` permits will be spent: so few are left, or so little time;
 * not before half of the lease is over.
 */
bool lease_renews_ahead(uint64_t left, uint64_t granted, uint64_t left_us, uint64_t ahead,
			uint64_t ahead_us);

/* Shortens `ttl_us` by up to a tenth, by the uniform `random`: agents that began together do not end together. */
uint64_t lease_jitter(uint64_t ttl_us, uint32_t random);
