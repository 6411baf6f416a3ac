#include "worker.h"
#include "pool_service.h"
#include "rlqs.h"

#include <assert.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "agent_conns.h"
#include "control/control.h"
#include "engine_life.h"
#include "event_kinds.h"
#include "grpc_task.h"
#include "io/log.h"
#include "io/redis_cluster_map.h"
#include "live.h"

enum { DRAIN_MS = 5000, DRAIN_POLL_MS = 20, START_POLL_MS = 5, ERRANDS_POLL_MS = 2 };

/* ---- Outages ---- */

struct outage_log {
	pthread_mutex_t lock;
	unsigned loops_down[REGIONS_MAX][CLUSTER_NODES_MAX]; /* by site and shard */
};

struct outage_log *outage_log_new(void)
{
	struct outage_log *o = calloc(1, sizeof *o);

	if (o != NULL)
		pthread_mutex_init(&o->lock, NULL);
	return o;
}

void outage_log_free(struct outage_log *o)
{
	if (o == NULL)
		return;
	pthread_mutex_destroy(&o->lock);
	free(o);
}

/* Whether it is the first loop that can't ask the shard, or the last that can again. */
static bool outage_is_news(struct outage_log *o, unsigned site, unsigned shard, bool up)
{
	pthread_mutex_lock(&o->lock);
	unsigned *down = &o->loops_down[site][shard % CLUSTER_NODES_MAX];
	bool is_news = up ? *down > 0 && --*down == 0 : (*down)++ == 0;

	pthread_mutex_unlock(&o->lock);
	return is_news;
}

static void say_outage(struct worker *w, const struct worker_site *site, unsigned shard, bool up,
		       const char *why)
{
	char part[REGION_PEER_BYTES] = "redis";

	if ((size_t)(site - w->sites) != w->agent.conf.regions.own)
		snprintf(part, sizeof part, "redis@%s", site->name);
	if (up)
		log_event(LOG_INFO, "outage_ended", "decisions by the store again",
			  LOG_INT_FIELD("shard", shard), LOG_TEXT_FIELD("region", site->name));
	else
		log_event(LOG_WARN, "outage_begun", "decisions by each policy's on_outage",
			  LOG_INT_FIELD("shard", shard), LOG_TEXT_FIELD("why", why),
			  LOG_TEXT_FIELD("region", site->name));
	event_outage(&w->agent, part, (int)shard, up);
}

static void on_store_changed(unsigned shard, bool up, const char *why, void *data)
{
	struct worker_site *site = data;
	struct worker *w = site->worker;
	unsigned number = (unsigned)(site - w->sites);

	if (up && site->shards_down > 0) {
		site->shards_down--;
		engine_store_up(w->agent.engine, number);
		if (outage_is_news(w->outages, number, shard, true))
			say_outage(w, site, shard, true, NULL);
	} else if (!up) {
		site->shards_down++;
		engine_store_down(w->agent.engine);
		if (outage_is_news(w->outages, number, shard, false))
			say_outage(w, site, shard, false, why);
	}
}

/* ---- Opening ---- */

bool worker_is_ready(const struct worker *w)
{
	return atomic_load(&w->ready);
}

/* Neither answers yet, nor is known to be away. */
static bool is_connecting(const struct worker *w, unsigned site)
{
	struct engine_health own = engine_health(w->agent.engine);
	struct site_health far = engine_site_health(w->agent.engine, site);

	if (w->sites[site].shards_down > 0)
		return false;
	return !engine_site_was_heard(w->agent.engine, site) ||
	       (far.name != NULL ? far.shards_up < far.shards : own.shards_up < own.shards);
}

/* Ready when the stores answer, so that the first request is not decided by on_outage; but not later than it
 * is known that one does not, or than connecting may take. */
static void on_start_timer(uv_timer_t *t)
{
	struct worker *w = t->data;
	bool connecting = !engine_has_started(w->agent.engine);

	for (unsigned i = 0; i < w->n_sites; i++)
		connecting = connecting || is_connecting(w, i);
	if (connecting && uv_now(w->loop) < w->timer_until_ms)
		return;
	uv_timer_stop(t);
	atomic_store(&w->ready, true);
}

/* The stores of the regions that can be reached from here. False: one could not be made; those before it are in `sources`. */
static bool open_stores(struct worker *w, const struct redis_conf *own,
			struct site_source sources[REGIONS_MAX])
{
	const struct edge_regions *regions = &w->agent.conf.regions;

	for (unsigned i = 0; i < w->n_sites; i++) {
		struct site_source *s = &sources[i];
		bool is_own = regions->n == 0 || i == regions->own;

		if (regions->n > 0)
			s->name = regions->of[i].name;
		w->sites[i] = (struct worker_site){.worker = w,
						   .name = is_own ? w->agent.conf.region : s->name};
		if (!is_own && !regions->of[i].has_redis)
			continue;
		s->conf = is_own ? own : &regions->of[i].redis;
		s->store = redis_store_new(w->loop, s->conf, on_store_changed, &w->sites[i]);
		if (s->store == NULL)
			return false;
	}
	return true;
}

static void close_stores(struct site_source sources[REGIONS_MAX])
{
	for (unsigned i = 0; i < REGIONS_MAX; i++)
		if (sources[i].store != NULL)
			redis_store_close(sources[i].store, NULL, NULL);
}

static bool open_engine(struct worker *w, const struct redis_conf *redis,
			const struct worker *first)
{
	const struct edge_regions *regions = &w->agent.conf.regions;
	struct engine_place place = {.first = first != NULL ? first->agent.engine : NULL,
				     .index = w->agent.index,
				     .loops = w->agent.loops,
				     .feed = w->agent.feed,
				     .agent = &w->agent};
	struct site_source sources[REGIONS_MAX] = {{0}};
	struct engine_sites sites = {.of = sources,
				     .n = regions->n > 0 ? (unsigned)regions->n : 1,
				     .own = (unsigned)regions->own,
				     .regions = regions->n > 0 ? regions : NULL};

	w->n_sites = sites.n;
	w->sites = calloc(sites.n, sizeof *w->sites);
	if (w->sites == NULL || !open_stores(w, redis, sources))
		close_stores(sources);
	else
		w->agent.engine = engine_new(w->loop, w->agent.control, sites, place);
	return w->agent.engine != NULL;
}

/* The handles that its messages need. */
static bool open_handles(struct worker *w)
{
	w->timer.data = w;
	w->agent.loop = w->loop;
	w->agent.mailbox = &w->mailbox;
	return uv_timer_init(w->loop, &w->timer) == 0 && mailbox_open(&w->mailbox, w->loop) == 0;
}

bool worker_init_first(struct worker *w, uv_loop_t *loop)
{
	w->loop = loop;
	return open_handles(w);
}

static bool open_loop(struct worker *w)
{
	w->loop = &w->own_loop;
	if (uv_loop_init(w->loop) != 0)
		return false;
	if (open_handles(w))
		return true;
	uv_close((uv_handle_t *)&w->timer, NULL);
	uv_run(w->loop, UV_RUN_DEFAULT);
	uv_loop_close(w->loop);
	return false;
}

static void dispose(struct worker *w);

bool worker_open(struct worker *w, const struct redis_conf *redis, const struct worker *first,
		 struct outage_log *outages)
{
	if (first != NULL && !open_loop(w))
		return false;
	w->outages = outages;
	if (open_engine(w, redis, first))
		w->agent.pools = pool_service_new(&w->agent);
	if (w->agent.pools != NULL)
		w->agent.rlqs = rlqs_new(&w->agent);
	if (w->agent.rlqs != NULL)
		w->conns = agent_conns_new(&w->agent,
					   first != NULL ? conn_pool_max_clients(first->conns) : 0);
	if (w->conns == NULL) {
		if (first != NULL)
			dispose(w);
		return false;
	}
	ops_start(&w->agent, w->conns);
	w->timer_until_ms = uv_now(w->loop) + redis->connect_timeout_ms;
	w->drain_ms = DRAIN_MS + redis->timeout_ms;
	uv_timer_start(&w->timer, on_start_timer, 0, START_POLL_MS);
	return true;
}

static void run_loop(void *data)
{
	struct worker *w = data;

	uv_run(w->loop, UV_RUN_DEFAULT);
}

bool worker_start(struct worker *w)
{
	w->has_thread = uv_thread_create(&w->thread, run_loop, w) == 0;
	if (!w->has_thread)
		dispose(w);
	return w->has_thread;
}

/* ---- Closing ---- */

static void close_handles(struct worker *w)
{
	uv_close((uv_handle_t *)&w->timer, NULL);
	mailbox_close(&w->mailbox, NULL, NULL);
}

static void run_report(struct message *m)
{
	struct worker *w = (struct worker *)((char *)m - offsetof(struct worker, report));

	w->on_closed(w->closed_data);
}

static void closed(struct worker *w)
{
	if (w->on_closed == NULL) {
		close_handles(w);
		return;
	}
	w->report.run = run_report;
	mailbox_post(agent_owner(&w->agent)->mailbox, &w->report);
}

static void on_engine_closed(void *data)
{
	struct worker *w = data;

	closed(w);
}

/* Tours of other loops may still come by, and find no engine: parts of one that is closing are gone already. */
static struct engine *take_engine(struct worker *w)
{
	struct engine *engine = w->agent.engine;

	w->agent.engine = NULL;
	return engine;
}

/* Nobody is connected any more who could ask. */
static void close_pools(struct worker *w)
{
	pool_service_close(w->agent.pools);
	w->agent.pools = NULL;
	rlqs_close(w->agent.rlqs);
	w->agent.rlqs = NULL;
	rls_spare_release(&w->agent);
}

/* What is on its way from here comes back here, and may look at the engine. */
static void on_errands_timer(uv_timer_t *t)
{
	struct worker *w = t->data;
	struct engine *engine;

	if (w->agent.tours > 0)
		return;
	uv_timer_stop(t);
	close_pools(w);
	engine = w->agent.owner != NULL ? take_engine(w) : NULL;
	if (engine != NULL)
		engine_close(engine, on_engine_closed, w);
	else
		closed(w);
}

static void on_conns_closed(void *data)
{
	struct worker *w = data;

	w->conns = NULL;
	uv_timer_start(&w->timer, on_errands_timer, 0, ERRANDS_POLL_MS);
}

static void close_all(struct worker *w)
{
	ops_stop(&w->agent);
	if (w->agent.owner == NULL && w->agent.live != NULL)
		live_stop(w->agent.live);
	if (w->conns != NULL)
		conn_pool_close(w->conns, on_conns_closed, w);
	else
		on_conns_closed(w);
}

/* Closes one whose loop no thread runs. */
static void dispose(struct worker *w)
{
	w->on_closed = NULL;
	close_all(w);
	uv_run(w->loop, UV_RUN_DEFAULT);
	uv_loop_close(w->loop);
}

static void on_drain_timer(uv_timer_t *t)
{
	struct worker *w = t->data;
	bool late = uv_now(w->loop) >= w->timer_until_ms;
	bool ended = conn_pool_count(w->conns) == 0 && engine_is_idle(w->agent.engine) &&
		     pool_service_is_idle(w->agent.pools);

	if (!ended && !late)
		return;
	if (late)
		log_event(LOG_WARN, "drain_cut", "some connections did not end in time",
			  LOG_INT_FIELD("connections", conn_pool_count(w->conns)));
	uv_timer_stop(t);
	close_all(w);
}

static void drain(struct worker *w)
{
	w->agent.draining = true;
	engine_drain(w->agent.engine);
	pool_service_drain(w->agent.pools);
	conn_pool_drain(w->conns);
	/* A call that the store does not answer ends by its own time-out, and its caller is answered then. */
	w->timer_until_ms = uv_now(w->loop) + w->drain_ms;
	uv_timer_start(&w->timer, on_drain_timer, 0, DRAIN_POLL_MS);
}

static struct worker *worker_of_command(struct message *m)
{
	return (struct worker *)((char *)m - offsetof(struct worker, command));
}

static void run_drain(struct message *m)
{
	struct worker *w = worker_of_command(m);

	uv_timer_stop(&w->timer);
	if (w->drains)
		drain(w);
	else
		close_all(w);
}

void worker_drain(struct worker *w, bool running, void (*on_closed)(void *data), void *data)
{
	w->drains = running;
	w->on_closed = on_closed;
	w->closed_data = data;
	w->command.run = run_drain;
	mailbox_post(&w->mailbox, &w->command);
}

void worker_close_engine(struct worker *first, void (*on_closed)(void *data), void *data)
{
	struct engine *engine = take_engine(first);

	if (engine != NULL)
		engine_close(engine, on_closed, data);
	else
		on_closed(data);
}

static void run_end(struct message *m)
{
	close_handles(worker_of_command(m));
}

void worker_end(struct worker *w)
{
	if (!w->has_thread) {
		close_handles(w);
		return;
	}
	w->command.run = run_end;
	mailbox_post(&w->mailbox, &w->command);
	uv_thread_join(&w->thread);
	int r = uv_loop_close(w->loop);

	assert(r == 0);
}
