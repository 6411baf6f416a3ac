/* The engine's life: its parts are made here and end here, the last when the region's handles are gone. */
#include "engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "agent.h"
#include "control.h"
#include "engine_life.h"
#include "heartbeat.h"
#include "leases.h"
#include "usage.h"

static void on_catalogue_changed(void *data)
{
	struct engine *e = data;

	leases_return_all(e->leases);
	durables_prepare(e->durables, control_catalogue(e->control));
	waiters_wake(e->waiters, (struct slice){0}, (struct slice){0});
}

static void on_durable_changed(bool up, void *data)
{
	if (up)
		engine_store_up(data);
	else
		engine_store_down(data);
}

struct engine *engine_new(uv_loop_t *loop, struct control *control, struct redis_store *store,
			  const struct redis_conf *conf, struct engine_place place)
{
	struct engine *e = calloc(1, sizeof *e);

	if (e == NULL)
		return NULL;
	e->loop = loop;
	e->control = control;
	e->n_states_max = ENGINE_REQUESTS_MAX;
	e->usage = usage_new(USAGE_KEYS);
	e->first = place.first;
	e->index = place.index;
	e->loops = place.loops;
	e->outage = e->first != NULL ? e->first->outage : outage_new();
	e->leases = leases_new(e);
	if (e->usage != NULL && e->outage != NULL && e->leases != NULL)
		e->waiters = waiters_new(e);
	if (e->waiters != NULL)
		e->durables = durables_new(loop, conf, on_durable_changed, e);
	if (e->durables != NULL)
		e->heartbeat =
			e->first != NULL ? e->first->heartbeat : heartbeat_start(loop, store);
	if (e->heartbeat != NULL)
		e->region = region_new(loop, store, conf);
	if (e->region == NULL) {
		if (e->first == NULL) {
			heartbeat_stop(e->heartbeat);
			outage_free(e->outage);
		}
		durables_free(e->durables);
		waiters_free(e->waiters);
		leases_free(e->leases);
		usage_free(e->usage);
		free(e);
		return NULL;
	}
	region_share(e->region, e->loops);
	control_on_change(control, on_catalogue_changed, e);
	durables_prepare(e->durables, control_catalogue(control));
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
	return durables_have_started(e->durables);
}

void engine_store_up(struct engine *e)
{
	outage_ended(e->outage, e);
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
	return e->n_in_progress == 0 && region_is_idle(e->region) && durables_are_idle(e->durables);
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
	free(e);
	if (on_closed != NULL)
		on_closed(closed_data);
}

void engine_close(struct engine *e, void (*on_closed)(void *data), void *data)
{
	e->parts_open = 2;
	e->on_closed = on_closed;
	e->closed_data = data;
	engine_drain(e);
	e->closing = true;
	control_on_change(e->control, NULL, NULL);
	leases_stop(e->leases);
	/* What is still asked of the store ends now, and its end needs all other parts. */
	durables_close(e->durables, on_part_closed, e);
	region_close(e->region, on_part_closed, e);
	if (e->first == NULL)
		heartbeat_stop(e->heartbeat);
}

void engine_random(struct engine *e, unsigned char *ret_bytes, size_t len)
{
	if (e->random_left < len) {
		ssize_t n = getrandom(e->random_pool, sizeof e->random_pool, 0);

		assert(n == (ssize_t)sizeof e->random_pool); /* never short for so few bytes */
		e->random_left = sizeof e->random_pool;
	}
	e->random_left -= len;
	memcpy(ret_bytes, e->random_pool + e->random_left, len);
}

struct redis_counters engine_redis_counters(const struct engine *e)
{
	struct redis_counters redis = redis_store_counters(region_store(e->region));
	struct region_counters region = {0};

	durables_count(e->durables, &redis, &region);
	return redis;
}

const struct region_clock *engine_clock(const struct engine *e)
{
	return region_clock(e->region);
}

struct region_counters engine_region_counters(const struct engine *e)
{
	struct redis_counters redis = {0};
	struct region_counters region = region_counters(e->region);

	durables_count(e->durables, &redis, &region);
	return region;
}

bool usage_get(const struct engine *e, struct slice policy, struct slice key,
	       struct usage_counts *ret_counts)
{
	leases_count(e->leases, policy, key);
	return usage_find(e->usage, policy, key, ret_counts);
}

uint64_t engine_outage_full(const struct engine *e)
{
	return e->first == NULL ? outage_full(e->outage) : 0;
}

struct engine_health engine_health(const struct engine *e)
{
	const struct redis_store *store = region_store(e->region);
	const struct durable_health durable = durables_health(e->durables);
	struct engine_health h = {.shards = redis_store_shards(store),
				  .durable_shards = durable.shards,
				  .durable_shards_up = durable.shards_up,
				  .waiters = waiters_count(e->waiters),
				  .requests = e->n_in_progress};

	for (unsigned i = 0; i < h.shards; i++)
		h.shards_up += redis_store_up(store, i);
	if (h.shards_up == h.shards && !redis_store_is_whole(store))
		h.shards++; /* the slots that nobody serves */
	return h;
}
