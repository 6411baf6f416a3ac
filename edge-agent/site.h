/*
 * A region's Redis as one loop asks it: the own region's, and with `regions` each other's that keys are at home in. Links,
 * time-outs, clocks, outages and connections of durable decisions are each site's own.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "durables.h"
#include "region.h"

struct engine;
struct heartbeat;

/* Of decisions: takes that were admitted or refused. */
struct home_counters {
	uint64_t decisions; /* not from leases */
	uint64_t
		far; /* for which another region was asked, those that stood by for a lease included */
};

/* What a site is made of. */
struct site_source {
	const char *name;              /* borrowed; NULL: there are no regions but this one */
	struct redis_store *store;     /* taken; NULL: it can't be reached from here */
	const struct redis_conf *conf; /* borrowed, texts included; NULL without a store */
};

struct site {
	struct engine *engine;
	const char *name;
	bool is_far;               /* another region's */
	struct region *region;     /* NULL: it can't be reached from here */
	struct durables *durables; /* NULL without region */
	/*
	 * Of the agents of all regions, which ask it for keys that are at home there; the first loop's, for all. NULL: there
	 * are no regions, or it can't be reached.
	 */
	struct heartbeat *heartbeat;
};

/*
 * Makes the site of `e`. Its store is the site's from here on, or is being closed: false, out of memory. `first`: the first
 * loop's site of that region; NULL: this is it.
 */
bool site_open(struct site *s, struct engine *e, const struct site_source *source, bool is_far,
	       const struct site *first);
/* Ends everything in progress there. `on_closed` comes once for each of the site_parts(). */
void site_close(struct site *s, bool is_first, void (*on_closed)(void *data), void *data);
unsigned site_parts(const struct site *s);

bool site_is_idle(const struct site *s);

/* Redis's clock there, as region_now_us(); where nothing can be reached, the own region's. */
uint64_t site_now_us(const struct site *s);

/* How many agents share the limits that are kept there, for policies that hold in the region or in the world. */
unsigned site_agents(const struct site *s, bool is_home);

/* How long a lease there is to last where the policy leaves it to us; the site is far. */
uint64_t site_lease_ttl_us(const struct site *s);
/* How long it takes to ask there: 0 in the own region, where it is nothing to reckon with. */
uint64_t site_round_trip_us(const struct site *s);
