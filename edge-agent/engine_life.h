/* Starting and stopping an engine, and what others may ask of a running one. */
#pragma once

#include <uv.h>

#include "core/bytes.h"
#include "leases.h"
#include "site.h"

struct control;
struct engine;
struct usage_feed;
struct agent;
struct edge_regions;

enum { ENGINE_REQUESTS_MAX = 65536 };

/* Which of an agent's loops an engine is for. All zeros but `loops`: the only one. */
struct engine_place {
	const struct engine
		*first; /* of index 0, which is made first and closed last; NULL: this is it */
	unsigned index, loops;
	struct usage_feed *feed; /* borrowed; NULL: usage is not reported */
	struct agent *agent;     /* of its events; NULL: nobody hears of them */
};

/* The regions as the engine reaches them; without `regions` one without a name. */
struct engine_sites {
	const struct site_source *of; /* in the order of their names */
	unsigned n, own;
	const struct edge_regions *regions; /* borrowed for good; NULL: no `regions` */
};

/* The stores are owned from here on, whatever becomes of it; `control` is borrowed. NULL: out of memory. */
struct engine *engine_new(uv_loop_t *loop, struct control *control, struct engine_sites sites,
			  struct engine_place place);

/* Its connections are there, or it is known that they are not, beside the store's own. */
bool engine_has_started(const struct engine *e);

/* A shard of the store of site number `site` answers again. */
void engine_store_up(struct engine *e, unsigned site);
/* A shard of some store can't be asked: those who wait for it are answered at once, by each policy's on_outage. */
void engine_store_down(struct engine *e);

/* Answers everybody who waits; new requests are refused from now on. */
void engine_drain(struct engine *e);
/* Requests were read from a socket: before they are decided, so that clocks are read after them. */
void engine_new_batch(struct engine *e);
/* Whether nothing is in progress, and nothing is on its way back to the store. */
bool engine_is_idle(const struct engine *e);
/* Frees it; `on_closed` (may be NULL) comes when all handles are gone. Nothing may be in progress
 * whose owner is gone. */
void engine_close(struct engine *e, void (*on_closed)(void *data), void *data);

/* The share of a global quota has grown: those who wait for it ask now. */
void engine_may_have_more(struct engine *e, struct slice policy, struct slice root);
/* The least version of the regions by which an agent of this region goes, as far as is known: at least 1. From any thread. */
uint32_t engine_least_version(const struct engine *e);

/* Tells the feed all usage so far. */
void engine_report_usage(struct engine *e);

struct redis_counters engine_redis_counters(const struct engine *e);
struct leases_counters engine_leases_counters(const struct engine *e);
struct region_counters engine_region_counters(const struct engine *e);
/* The clocks of site number `i`; borrowed; NULL: there is no such site, or it can't be reached. */
const struct region_clock *engine_clock(const struct engine *e, unsigned i);
/* Refusals in an outage because too many keys were asked for to keep them apart; told by the first engine for all. */
uint64_t engine_outage_full(const struct engine *e);

/* What /readyz and INFO say of the store. */
struct engine_health {
	unsigned shards, shards_up;
	unsigned durable_shards, durable_shards_up; /* of the connections of durable decisions */
	uint64_t waiters, requests;                 /* in progress */
	bool is_contradicted;
};
struct engine_health engine_health(const struct engine *e);

/* Another region's Redis, as number `i` of the sites; its name is NULL: there is no such site, or it is the own one. */
struct site_health {
	const char *name; /* borrowed */
	unsigned shards, shards_up;
};
struct site_health engine_site_health(const struct engine *e, unsigned i);

/* Whether the Redis of site `i` has answered; true where none is asked. */
bool engine_site_was_heard(const struct engine *e, unsigned i);

struct home_counters engine_home_counters(const struct engine *e);
