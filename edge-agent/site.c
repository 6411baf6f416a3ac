#include "site.h"

#include "engine.h"
#include "engine_life.h"
#include "heartbeat.h"

enum {
	FAR_CALLS_IN_FLIGHT = 32, /* while one call is on its way there, many can be carried out */
	FAR_LEASE_TRIPS = 20,     /* a lease lasts for so many round trips, ... */
	FAR_LEASE_MIN_US = 2000000,
	FAR_LEASE_MAX_US = 10000000, /* ... and never longer than Redis allows */
};

static const struct slice everywhere = {"k:agents:home", 13};

/* ---- What is known of it ---- */

bool site_is_idle(const struct site *s)
{
	return s->region == NULL || (region_is_idle(s->region) && durables_are_idle(s->durables));
}

uint64_t site_now_us(const struct site *s)
{
	return region_now_us(s->region != NULL ? s->region : s->engine->own->region);
}

/* What was never heard of there is taken to be as here. */
unsigned site_agents(const struct site *s, bool is_home)
{
	const struct engine *e = s->engine;
	unsigned here = heartbeat_agents(e->heartbeat);

	if (!is_home || e->n_sites == 1)
		return here;
	if (s->heartbeat == NULL || !heartbeat_was_heard(s->heartbeat))
		return here * e->n_sites;
	return heartbeat_agents(s->heartbeat);
}

uint64_t site_round_trip_us(const struct site *s)
{
	return s->is_far && s->region != NULL ? region_round_trip_us(s->region) : 0;
}

uint64_t site_lease_ttl_us(const struct site *s)
{
	uint64_t us = site_round_trip_us(s) * FAR_LEASE_TRIPS;

	if (us < FAR_LEASE_MIN_US)
		us = FAR_LEASE_MIN_US;
	return us < FAR_LEASE_MAX_US ? us : FAR_LEASE_MAX_US;
}

/* ---- Life ---- */

static void on_durable_changed(bool up, void *data)
{
	struct site *s = data;

	if (up)
		engine_store_up(s->engine, (unsigned)(s - s->engine->sites));
	else
		engine_store_down(s->engine);
}

static bool open_heartbeat(struct site *s, const struct site_source *source,
			   const struct site *first)
{
	if (source->name == NULL)
		return true;
	s->heartbeat = first != NULL ? first->heartbeat
				     : heartbeat_start(s->engine->loop, source->store, everywhere,
						       s->engine->regions, 0);
	return s->heartbeat != NULL;
}

bool site_open(struct site *s, struct engine *e, const struct site_source *source, bool is_far,
	       const struct site *first)
{
	*s = (struct site){.engine = e, .name = source->name, .is_far = is_far};
	if (source->store == NULL)
		return true;
	s->durables = durables_new(e->loop, source->conf, on_durable_changed, s);
	if (s->durables != NULL && open_heartbeat(s, source, first))
		s->region = region_new(e->loop, source->store, source->conf);
	if (s->region == NULL) {
		if (first == NULL)
			heartbeat_stop(s->heartbeat);
		durables_free(s->durables);
		redis_store_close(source->store, NULL, NULL);
		*s = (struct site){0};
		return false;
	}
	region_share(s->region, e->loops);
	if (is_far)
		region_is_far(s->region, source->name, FAR_CALLS_IN_FLIGHT);
	return true;
}

unsigned site_parts(const struct site *s)
{
	return s->region != NULL ? 2 : 0;
}

void site_close(struct site *s, bool is_first, void (*on_closed)(void *data), void *data)
{
	if (s->region == NULL)
		return;
	/* What is still asked of the store ends now. */
	durables_close(s->durables, on_closed, data);
	region_close(s->region, on_closed, data);
	if (is_first)
		heartbeat_stop(s->heartbeat);
}
