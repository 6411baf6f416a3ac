/* The engine's life: its parts are made here and end here, the last when the region's handles are gone. */
#include "engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "control/control.h"
#include "edge_regions.h"
#include "engine_life.h"
#include "handover.h"
#include "heartbeat.h"
#include "leases.h"
#include "usage.h"
#include "usage_feed.h"

static void durables_prepare_all(struct engine *e)
{
	for (unsigned i = 0; i < e->n_sites; i++)
		if (e->sites[i].region != NULL)
			durables_prepare(e->sites[i].durables, control_catalogue(e->control));
}

static void on_catalogue_changed(void *data)
{
	struct engine *e = data;

	leases_return_all(e->leases);
	durables_prepare_all(e);
	waiters_wake(e->waiters, (struct slice){0}, (struct slice){0});
}

/* All stores are taken; false: one of the sites could not be made. */
static bool open_sites(struct engine *e, struct engine_sites sites)
{
	bool opened = e->sites != NULL && (e->handover != NULL || sites.regions == NULL);

	for (unsigned i = 0; i < sites.n; i++) {
		const struct site *first = e->first != NULL ? &e->first->sites[i] : NULL;

		if (opened)
			opened = site_open(&e->sites[i], e, &sites.of[i], i != sites.own, first);
		else if (sites.of[i].store != NULL)
			redis_store_close(sites.of[i].store, NULL, NULL);
	}
	return opened;
}

static void ignore_closed(void *data)
{
	(void)data;
}

static void discard(struct engine *e)
{
	for (unsigned i = 0; e->sites != NULL && i < e->n_sites; i++)
		site_close(&e->sites[i], e->first == NULL, ignore_closed, NULL);
	if (e->first == NULL) {
		heartbeat_stop(e->heartbeat);
		outage_free(e->outage);
	}
	handover_free(e->handover);
	waiters_free(e->waiters);
	leases_free(e->leases);
	usage_free(e->usage);
	free(e->sites);
	free(e);
}

/* By which the agent goes; 0: it has no regions. */
static uint32_t version_of(const struct edge_regions *regions)
{
	return regions != NULL ? (uint32_t)regions->version : 0;
}

struct engine *engine_new(uv_loop_t *loop, struct control *control, struct engine_sites sites,
			  struct engine_place place)
{
	struct redis_store *store = sites.of[sites.own].store;
	struct engine *e = calloc(1, sizeof *e);

	if (e == NULL) {
		open_sites(&(struct engine){0}, sites);
		return NULL;
	}
	e->loop = loop;
	e->control = control;
	e->n_states_max = ENGINE_REQUESTS_MAX;
	e->feed = place.feed;
	if (e->feed != NULL)
		e->feed->control = control;
	e->agent = place.agent;
	e->first = place.first;
	e->index = place.index;
	e->loops = place.loops;
	e->n_sites = sites.n;
	e->regions = sites.regions;
	e->usage = usage_new(USAGE_KEYS, e->feed);
	e->outage = e->first != NULL ? e->first->outage : outage_new();
	e->leases = leases_new(e);
	e->waiters = e->leases != NULL ? waiters_new(e) : NULL;
	e->heartbeat = e->first != NULL ? e->first->heartbeat
					: heartbeat_start(loop, store, HEARTBEAT_REGION, NULL,
							  version_of(sites.regions));
	if (e->usage != NULL && e->outage != NULL && e->waiters != NULL && e->heartbeat != NULL)
		e->sites = calloc(sites.n, sizeof *e->sites);
	if (sites.regions != NULL)
		e->handover = handover_new(e, sites.regions);
	if (!open_sites(e, sites)) {
		discard(e);
		return NULL;
	}
	e->own = &e->sites[sites.own];
	control_on_change(control, on_catalogue_changed, e);
	durables_prepare_all(e);
	return e;
}

void engine_new_batch(struct engine *e)
{
	leases_new_batch(e->leases);
}

struct leases_counters engine_leases_counters(const struct engine *e)
{
	return leases_counters(e->leases);
}

bool engine_has_started(const struct engine *e)
{
	for (unsigned i = 0; i < e->n_sites; i++)
		if (e->sites[i].region != NULL && !durables_have_started(e->sites[i].durables))
			return false;
	return true;
}

void engine_store_up(struct engine *e, unsigned site)
{
	outage_ended(e->outage, &e->sites[site]);
}

void engine_store_down(struct engine *e)
{
	waiters_wake(e->waiters, (struct slice){0}, (struct slice){0});
}

void engine_drain(struct engine *e)
{
	if (!e->draining)
		leases_return_all(e->leases);
	e->draining = true;
	waiters_drain(e->waiters);
}

bool engine_is_idle(const struct engine *e)
{
	for (unsigned i = 0; i < e->n_sites; i++)
		if (!site_is_idle(&e->sites[i]))
			return false;
	return e->n_in_progress == 0;
}

static void on_part_closed(void *data)
{
	struct engine *e = data;

	if (--e->parts_open > 0)
		return;
	void (*on_closed)(void *) = e->on_closed;
	void *closed_data = e->closed_data;

	assert(e->n_in_progress == 0);
	leases_free(e->leases);
	handover_free(e->handover);
	waiters_free(e->waiters);
	if (e->first == NULL)
		outage_free(e->outage);
	usage_free(e->usage);
	while (e->free_states != NULL) {
		struct request_state *s = e->free_states;

		e->free_states = s->next_free;
		free(s);
	}
	buf_release(&e->names);
	free(e->sites);
	free(e);
	if (on_closed != NULL)
		on_closed(closed_data);
}

void engine_close(struct engine *e, void (*on_closed)(void *data), void *data)
{
	for (unsigned i = 0; i < e->n_sites; i++)
		e->parts_open += site_parts(&e->sites[i]);
	e->on_closed = on_closed;
	e->closed_data = data;
	engine_drain(e);
	e->closing = true;
	control_on_change(e->control, NULL, NULL);
	if (e->feed != NULL)
		e->feed->control = NULL;
	leases_stop(e->leases);
	leases_count_all(e->leases);
	if (e->first == NULL)
		heartbeat_stop(e->heartbeat);
	/* What is still asked of the stores ends now, and its end needs all other parts. The last of them may free it. */
	struct site *sites = e->sites;
	bool is_first = e->first == NULL;

	for (unsigned i = e->n_sites; i-- > 0;)
		site_close(&sites[i], is_first, on_part_closed, e);
}

void engine_random(struct engine *e, unsigned char *ret_bytes, size_t len)
{
	random_take(&e->random, ret_bytes, len);
}

static void count_stores(const struct engine *e, struct redis_counters *ret_redis,
			 struct region_counters *ret_region)
{
	*ret_redis = (struct redis_counters){0};
	*ret_region = (struct region_counters){0};
	for (unsigned i = 0; i < e->n_sites; i++)
		if (e->sites[i].region != NULL) {
			region_count(e->sites[i].region, ret_redis, ret_region);
			durables_count(e->sites[i].durables, ret_redis, ret_region);
		}
}

struct redis_counters engine_redis_counters(const struct engine *e)
{
	struct redis_counters redis;
	struct region_counters region;

	count_stores(e, &redis, &region);
	return redis;
}

const struct region_clock *engine_clock(const struct engine *e, unsigned i)
{
	return i < e->n_sites && e->sites[i].region != NULL ? region_clock(e->sites[i].region)
							    : NULL;
}

struct region_counters engine_region_counters(const struct engine *e)
{
	struct redis_counters redis;
	struct region_counters region;

	count_stores(e, &redis, &region);
	return region;
}

bool usage_get(const struct engine *e, struct slice policy, struct slice key,
	       struct usage_counts *ret_counts)
{
	leases_count(e->leases, policy, key);
	return usage_find(e->usage, policy, key, ret_counts);
}

const struct top_keys *usage_get_top(const struct engine *e)
{
	leases_count_all(e->leases);
	return usage_top(e->usage, (int64_t)(region_now_us(e->own->region) / 1000));
}

void engine_report_usage(struct engine *e)
{
	leases_count_all(e->leases);
	usage_report(e->usage);
}

void engine_may_have_more(struct engine *e, struct slice policy, struct slice root)
{
	waiters_wake_root(e->waiters, policy, root);
}

uint64_t engine_outage_full(const struct engine *e)
{
	return e->first == NULL ? outage_full(e->outage) : 0;
}

static void count_shards(const struct redis_store *store, unsigned *ret_shards, unsigned *ret_up)
{
	*ret_shards = redis_store_shards(store);
	*ret_up = 0;
	for (unsigned i = 0; i < *ret_shards; i++)
		*ret_up += redis_store_up(store, i);
	if (*ret_up == *ret_shards && !redis_store_is_whole(store))
		++*ret_shards; /* the slots that nobody serves */
}

struct engine_health engine_health(const struct engine *e)
{
	struct engine_health h = {.waiters = waiters_count(e->waiters),
				  .requests = e->n_in_progress,
				  .is_contradicted = engine_is_contradicted(e)};

	count_shards(region_store(e->own->region), &h.shards, &h.shards_up);
	for (unsigned i = 0; i < e->n_sites; i++)
		if (e->sites[i].region != NULL) {
			const struct durable_health durable = durables_health(e->sites[i].durables);

			h.durable_shards += durable.shards;
			h.durable_shards_up += durable.shards_up;
		}
	return h;
}

bool engine_site_was_heard(const struct engine *e, unsigned i)
{
	return e->sites[i].heartbeat == NULL || heartbeat_was_heard(e->sites[i].heartbeat);
}

uint32_t engine_least_version(const struct engine *e)
{
	return heartbeat_least_version(e->heartbeat);
}

bool engine_is_contradicted(const struct engine *e)
{
	bool is = false;

	for (unsigned i = 0; i < e->n_sites; i++)
		is = is || (e->sites[i].heartbeat != NULL &&
			    heartbeat_is_contradicted(e->sites[i].heartbeat));
	return is;
}

struct site_health engine_site_health(const struct engine *e, unsigned i)
{
	struct site_health h = {0};

	if (i >= e->n_sites || !e->sites[i].is_far)
		return h;
	h.name = e->sites[i].name;
	if (e->sites[i].region != NULL)
		count_shards(region_store(e->sites[i].region), &h.shards, &h.shards_up);
	return h;
}

struct home_counters engine_home_counters(const struct engine *e)
{
	struct home_counters n = e->home;

	n.far += leases_counters(e->leases).far;
	return n;
}
