/*
 * An agent's life. Starting, in order: the configuration, tokens, the state directory, the control plane, the
 * store (an embedded one is a child that must be ready first), the workers (loops with an engine each), the listeners.
 * Ending, on SIGTERM or SIGINT: no new connections, each worker answers who waits, ends what is in progress and closes its
 * connections, then its engine; the first worker's engine, the store and the child are last. A step that fails on the way
 * up takes the same way down from where it is.
 *
 *   starting ──workers ready──▶ running ──signal──▶ ending ──all workers closed──▶ gone
 *
 * SIGHUP reads the file again: policies, overrides, tokens and certificates are taken over; what needs a new start is named.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "agent_gossip.h"
#include "agent_run.h"
#include "change_log.h"
#include "control/control.h"
#include "control/control_state.h"
#include "control/policy_stats.h"
#include "edge_restart.h"
#include "event_kinds.h"
#include "front_grpc.h"
#include "front_http.h"
#include "front_resp.h"
#include "io/auth.h"
#include "io/conn.h"
#include "io/listener.h"
#include "io/log.h"
#include "io/redis_child.h"
#include "io/state_dir.h"
#include "io/tls_use.h"
#include "live.h"
#include "publisher.h"
#include "tour.h"
#include "tracer.h"
#include "worker.h"

enum { START_POLL_MS = 5, LISTENERS = 4, SIGNALS = 3 };

enum agent_step { AGENT_STARTING, AGENT_RUNNING, AGENT_ENDING };

struct agent_life {
	uv_loop_t loop;
	const char *file;
	enum log_format log_format;
	enum log_level log_level;
	enum agent_step step;
	kova_status status;
	struct edge_conf conf;
	struct auth *auth;             /* the owner's; the other loops follow */
	struct tls_tickets *tickets;   /* NULL: there is no TLS */
	struct control *control;       /* likewise */
	struct redis_child *child;     /* embedded mode */
	struct gossip_service *gossip; /* NULL: none */
	struct change_log *changes;
	struct publisher *publisher; /* NULL: there is no Kafka */
	struct tracer *tracer;       /* NULL: nothing is traced */
	struct worker *workers;      /* an array; the first is the owner */
	unsigned n_workers, n_open;
	struct conn_pool **pools; /* of all workers */
	struct outage_log *outages;
	struct live *live;
	struct listener *listeners[LISTENERS];
	uv_signal_t signals[SIGNALS];
	uv_timer_t timer; /* starting: are the workers ready? */
	struct {
		uv_work_t work;
		struct edge_conf conf;
		struct buf errors;
		kova_status status;
		bool busy, again;
		struct tour tour;
		struct control_state *was, *state; /* referenced: in force before, and now */
	} reload;
};

static void stop(struct agent_life *l);

static void fail(struct agent_life *l, kova_status status, const char *message, const char *why)
{
	log_event(LOG_ERROR, "cannot_start", message, LOG_TEXT_FIELD("why", why));
	l->status = status;
	stop(l);
}

/* With `why` that was put together; released. */
static void fail_buf(struct agent_life *l, const char *message, struct buf *why)
{
	buf_add(why, "", 1);
	fail(l, KOVA_EIO, message, buf_failed(why) ? NULL : why->ptr);
	buf_release(why);
}

/* ---- Ending ---- */

static void close_handle(uv_handle_t *h)
{
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

static void on_child_stopped(void *data)
{
	struct agent_life *l = data;

	l->child = NULL;
	for (int i = 0; i < SIGNALS; i++)
		close_handle((uv_handle_t *)&l->signals[i]);
	close_handle((uv_handle_t *)&l->timer);
	worker_end(&l->workers[0]);
}

static void on_published(void *data)
{
	struct agent_life *l = data;

	for (unsigned i = 1; i < l->n_workers; i++)
		worker_end(&l->workers[i]);
	if (l->child != NULL)
		redis_child_stop(l->child, on_child_stopped, l);
	else
		on_child_stopped(l);
}

static void on_traced(void *data)
{
	struct agent_life *l = data;

	l->workers[0].agent.publisher = NULL;
	publisher_close(l->publisher, on_published, l);
}

/* No loop works any more. */
static void on_engine_closed(void *data)
{
	struct agent_life *l = data;

	l->workers[0].agent.tracer = NULL;
	tracer_close(l->tracer, on_traced, l);
}

static void on_worker_closed(void *data)
{
	struct agent_life *l = data;

	if (--l->n_open == 0)
		worker_close_engine(&l->workers[0], on_engine_closed, l);
}

static void stop_listening(struct agent_life *l)
{
	for (int i = 0; i < LISTENERS; i++) {
		if (l->listeners[i] != NULL)
			listener_stop(l->listeners[i]);
		l->listeners[i] = NULL;
	}
}

/* Others hear that it leaves; what comes from now on comes to nobody. */
static void on_gossip_closed(void *data)
{
	struct agent_life *l = data;

	if (--l->n_open == 0)
		worker_close_engine(&l->workers[0], on_engine_closed, l);
}

static void stop_gossip(struct agent_life *l)
{
	if (l->gossip == NULL)
		return;
	l->n_open++;
	gossip_service_close(l->gossip, on_gossip_closed, l);
	l->gossip = l->workers[0].agent.gossip = NULL;
}

static void stop(struct agent_life *l)
{
	bool running = l->step == AGENT_RUNNING;

	if (l->step == AGENT_ENDING)
		return;
	if (running)
		log_event(LOG_INFO, "draining",
			  "no new connections; answering what is in progress");
	l->step = AGENT_ENDING;
	uv_timer_stop(&l->timer);
	stop_listening(l);
	if (l->publisher != NULL)
		publisher_stop(l->publisher);
	l->n_open = l->n_workers;
	stop_gossip(l);
	for (unsigned i = 0; i < l->n_workers; i++)
		worker_drain(&l->workers[i], running, on_worker_closed, l);
}

/* ---- Reload ---- */

static void use_tls(struct agent_life *l, struct tls_server *tls)
{
	tls_use(&l->workers[0].agent.tls, tls);
	tls_use_log(tls);
}

static void reload(struct agent_life *l);

static struct agent_life *life_of_tour(struct tour *t)
{
	return (struct agent_life *)((char *)t - offsetof(struct agent_life, reload.tour));
}

/* The file may have changed once more meanwhile. */
static void reload_ended(struct agent_life *l)
{
	bool again = l->reload.again;

	l->reload.busy = l->reload.again = false;
	if (again)
		reload(l);
}

/* One more loop has the tokens and policies of the owner. */
static void visit_follow(struct tour *t, struct agent *a)
{
	struct agent_life *l = life_of_tour(t);

	if (a->owner == NULL)
		return;
	if (auth_follow(a->auth, l->auth) != KOVA_OK)
		log_event(LOG_ERROR, "reload_failed", "out of memory: new tokens are not known",
			  LOG_INT_FIELD("loop", a->index));
	tls_use(&a->tls, tls_server_ref(l->workers[0].agent.tls));
	control_follow(a->control, l->reload.state);
}

/* In a thread, and not on the loop that happens to be the last to let go: a large state takes its time. */
static void release_was(uv_work_t *work)
{
	struct agent_life *l = work->data;

	control_state_unref(l->reload.was);
}

static void on_was_released(uv_work_t *work, int cancelled)
{
	(void)cancelled; /* nobody cancels */
	reload_ended(work->data);
}

static void on_followed(struct tour *t)
{
	struct agent_life *l = life_of_tour(t);

	control_state_unref(l->reload.state);
	if (l->reload.status == KOVA_OK)
		log_event(LOG_INFO, "reloaded", "policies and overrides are in force");
	uv_queue_work(&l->loop, &l->reload.work, release_was, on_was_released);
}

static void on_reloaded(kova_status status, const struct control_error *error, void *data)
{
	struct agent_life *l = data;

	l->reload.status = status;
	if (status != KOVA_OK)
		log_event(LOG_ERROR, "reload_failed",
			  "policies and overrides stay as they were; tokens and the "
			  "certificate are the file's",
			  LOG_TEXT_FIELD("why", error->text));
	if (l->step != AGENT_RUNNING) {
		control_state_unref(l->reload.was);
		reload_ended(l);
		return;
	}
	l->reload.state = control_snapshot(l->control);
	tour_start(&l->reload.tour, &l->workers[0].agent, visit_follow, on_followed);
}

/* The secrets; and a node whose clock is off takes no changes, from its file as little as from elsewhere. */
static bool gossip_reload(struct agent_life *l, const struct edge_conf *conf)
{
	int64_t skew_ms;

	if (l->gossip == NULL)
		return true;
	if (!gossip_service_is_skewed(l->gossip, &skew_ms))
		return gossip_service_reload(l->gossip, conf->gossip.secret_file,
					     &l->reload.errors) == KOVA_OK;
	buf_printf(&l->reload.errors,
		   "clock_skew: this node's clock is %lld ms behind the median of its peers; it "
		   "takes no changes until they agree\n",
		   (long long)skew_ms);
	return false;
}

/* In a thread: a large file takes its time, and verdicts go on meanwhile. */
static void read_again(uv_work_t *work)
{
	struct agent_life *l = work->data;

	l->reload.status = edge_conf_load(l->file, &l->reload.conf, &l->reload.errors);
}

/* Keys would have another home here than where their state is. */
static kova_status homes_check(struct agent_life *l, const struct edge_conf *conf)
{
	if (edge_regions_are_alike(&l->conf.regions, &conf->regions))
		return KOVA_OK;
	buf_printf(&l->reload.errors,
		   "%s: the names, weights, floors and `dead` of `regions`, `regions_version` and "
		   "`regions_before` can't change while the agent runs: start it again; with other "
		   "weights or floors, with a greater `regions_version` and the weights of now "
		   "first in `regions_before`\n",
		   l->file);
	return KOVA_ECONFIG;
}

/* What listens stays as it is, whatever the file says now. */
static kova_status listeners_check(struct agent_life *l, const struct edge_conf *conf)
{
	for (int i = 0; i < LISTENERS; i++)
		if (l->listeners[i] != NULL &&
		    !auth_section_suits(&conf->auth, conf->insecure,
					listener_address(l->listeners[i]), &l->reload.errors))
			return KOVA_ECONFIG;
	return KOVA_OK;
}

static void on_read_again(uv_work_t *work, int cancelled)
{
	struct agent_life *l = work->data;
	struct edge_conf *conf = &l->reload.conf;

	if (l->reload.status == KOVA_OK)
		l->reload.status = homes_check(l, conf);
	if (l->reload.status == KOVA_OK && l->step == AGENT_RUNNING)
		l->reload.status = listeners_check(l, conf);
	if (cancelled != 0 || l->reload.status != KOVA_OK || l->step != AGENT_RUNNING) {
		log_lines("reload_failed", &l->reload.errors);
		log_event(LOG_ERROR, "reload_failed", "nothing was changed");
		edge_conf_release(conf);
		reload_ended(l);
		return;
	}
	const struct auth_terms terms = auth_section_terms(&conf->auth);
	struct tls_server *tls = NULL;
	bool good = tls_use_open(&conf->tls, l->tickets, &tls, &l->reload.errors) &&
		    gossip_reload(l, conf) &&
		    auth_reload(l->auth, &terms, &l->reload.errors) == KOVA_OK;

	if (good) {
		edge_restart_warn(&l->conf, conf);
		if (tls != NULL)
			use_tls(l, tls);
		l->reload.was = control_snapshot(l->control);
		control_reload_async(l->control, &l->loop, conf->lists, on_reloaded, l);
	}
	edge_conf_release(conf);
	if (!good) {
		tls_server_unref(tls);
		log_lines("reload_failed", &l->reload.errors);
		reload_ended(l);
	}
}

static void reload(struct agent_life *l)
{
	if (l->step != AGENT_RUNNING)
		return;
	if (l->reload.busy) {
		l->reload.again = true;
		return;
	}
	l->reload.busy = true;
	l->reload.work.data = l;
	uv_queue_work(&l->loop, &l->reload.work, read_again, on_read_again);
}

static void on_signal(uv_signal_t *h, int number)
{
	struct agent_life *l = h->data;

	if (number == SIGHUP)
		reload(l);
	else
		stop(l);
}

/* ---- Starting ---- */

static bool listen_on(struct agent_life *l, int i, const char *address,
		      const struct front_ops *front)
{
	static const char *const options[LISTENERS] = {"resp", "http", "grpc", "unix"};
	static const unsigned tls_fronts[LISTENERS] = {TLS_FRONT_RESP, TLS_FRONT_HTTP,
						       TLS_FRONT_GRPC};
	bool tls = (l->conf.tls.fronts & tls_fronts[i]) != 0;
	struct buf error = {0};

	if (address == NULL)
		return true;
	buf_printf(&error, "`listen.%s`: ", options[i]);
	l->listeners[i] = listener_start(l->workers[0].conns, address, front, tls, &error);
	if (l->listeners[i] == NULL) {
		fail_buf(l, "cannot listen", &error);
		return false;
	}
	buf_release(&error);
	log_event(LOG_INFO, "listening", "ready for clients", LOG_TEXT_FIELD("front", front->name),
		  LOG_TEXT_FIELD("address", listener_address(l->listeners[i])),
		  LOG_TEXT_FIELD_IF(tls, "tls", "yes"));
	if (!tls && auth_required(l->auth))
		tls_use_warn(options[i], address);
	return true;
}

/* A path without a slash is one too. */
static bool listen_on_unix(struct agent_life *l, int i, const char *path)
{
	struct buf address = {0};
	bool listens = true;

	if (path == NULL)
		return true;
	buf_printf(&address, "unix:%s", path);
	buf_add(&address, "", 1);
	if (buf_failed(&address)) {
		fail(l, KOVA_ENOMEM, "cannot listen", path);
		listens = false;
	} else {
		listens = listen_on(l, i, address.ptr, &front_resp);
	}
	buf_release(&address);
	return listens;
}

static bool start_gossip(struct agent_life *l)
{
	struct buf error = {0};

	if (l->conf.gossip.listen == NULL)
		return true;
	l->gossip = agent_gossip_start(&l->workers[0].agent, &error);
	l->workers[0].agent.gossip = l->gossip;
	if (l->gossip == NULL) {
		log_lines("cannot_listen", &error);
		return false;
	}
	log_event(LOG_INFO, "listening", "ready for other nodes", LOG_TEXT_FIELD("front", "gossip"),
		  LOG_TEXT_FIELD("address", gossip_service_address(l->gossip)));
	return true;
}

static void open_fronts(struct agent_life *l)
{
	const struct edge_conf *conf = &l->conf;

	if (!start_gossip(l)) {
		fail(l, KOVA_EIO, "cannot listen", conf->gossip.listen);
		return;
	}
	if (!listen_on(l, 0, conf->listen_resp, &front_resp) ||
	    !listen_on(l, 1, conf->listen_http, &front_http) ||
	    !listen_on(l, 2, conf->listen_grpc, &front_grpc) ||
	    !listen_on_unix(l, 3, conf->listen_unix))
		return;
	l->step = AGENT_RUNNING;
	if (l->publisher != NULL)
		publisher_start(l->publisher, &l->workers[0].agent);
	if (conf->insecure && !auth_required(l->auth))
		log_event(LOG_WARN, "insecure",
			  "INSECURE: anybody who reaches this agent may use and administer it");
	log_event(LOG_INFO, "started", "the agent is running",
		  LOG_INT_FIELD("threads", l->n_workers));
}

static void on_start_timer(uv_timer_t *t)
{
	struct agent_life *l = t->data;

	for (unsigned i = 0; i < l->n_workers; i++)
		if (!worker_is_ready(&l->workers[i]))
			return;
	uv_timer_stop(t);
	open_fronts(l);
}

/* A loop beside the owner's: its own tokens and policies, which follow the owner's. */
static bool start_worker(struct agent_life *l, const struct redis_conf *redis, unsigned i)
{
	struct worker *w = &l->workers[i];
	struct buf error = {0};

	w->agent.auth = auth_new(&(struct auth_terms){0}, &error);
	w->agent.tls = tls_server_ref(l->workers[0].agent.tls);
	buf_release(&error);
	w->agent.control = control_replica_new(l->control);
	return w->agent.auth != NULL && auth_follow(w->agent.auth, l->auth) == KOVA_OK &&
	       w->agent.control != NULL && worker_open(w, redis, &l->workers[0], l->outages) &&
	       worker_start(w);
}

static void on_written(const struct control_written *list, size_t n, void *data)
{
	struct agent_life *l = data;

	change_log_add(l->changes, list, n);
	event_config_seen(&l->workers[0].agent, list, n);
	if (l->gossip != NULL)
		gossip_service_written(l->gossip, list, n);
}

static bool start_control(struct agent_life *l)
{
	const struct edge_conf *conf = &l->conf;
	struct control_error error;
	struct control_lacks lacks = {.replicas = conf->redis.mode == REDIS_EMBEDDED,
				      .regions = conf->regions.n == 0,
				      .kafka = conf->kafka.bootstrap == NULL};

	l->control = control_new(conf->state_dir, conf->node, lacks, conf->lists, &error);
	if (l->control == NULL) {
		fail(l, KOVA_ECONFIG, "the control plane did not start", error.text);
		return false;
	}
	l->workers[0].agent.control = l->control;
	l->changes = l->workers[0].agent.changes = change_log_new(conf->state_dir);
	if (l->changes == NULL) {
		fail(l, KOVA_ENOMEM, "the control plane did not start",
		     kova_status_text(KOVA_ENOMEM));
		return false;
	}
	control_on_written(l->control, on_written, l);
	return true;
}

/* False: it can't be made; the log says why. */
static bool start_publisher(struct agent_life *l)
{
	struct buf error = {0};

	if (l->conf.kafka.bootstrap == NULL)
		return true;
	l->publisher = publisher_new(&l->loop, &l->conf, &l->workers[0].agent.hlc, &error);
	if (l->publisher == NULL) {
		log_lines("kafka", &error);
		return false;
	}
	l->workers[0].agent.publisher = l->publisher;
	control_on_write(l->control, event_config, &l->workers[0].agent);
	for (unsigned i = 0; i < l->conf.threads; i++)
		l->workers[i].agent.feed = publisher_feed(l->publisher, i);
	buf_release(&error);
	return true;
}

/* False: out of memory. */
static bool start_tracer(struct agent_life *l)
{
	if (l->conf.tracing.endpoint == NULL)
		return true;
	l->tracer = tracer_new(&l->loop, &l->conf);
	for (unsigned i = 0; i < l->conf.threads; i++)
		l->workers[i].agent.tracer = l->tracer;
	return l->tracer != NULL;
}

static bool start_workers(struct agent_life *l, const struct redis_conf *redis)
{
	if (!worker_open(&l->workers[0], redis, NULL, l->outages))
		return false;
	l->pools[0] = l->workers[0].conns;
	for (; l->n_workers < l->conf.threads; l->n_workers++) {
		if (!start_worker(l, redis, l->n_workers))
			return false;
		l->pools[l->n_workers] = l->workers[l->n_workers].conns;
	}
	if (l->n_workers > 1)
		conn_pool_spread(l->pools[0], l->pools, l->n_workers);
	return true;
}

/* What the state directory keeps is read and written once it is ours: an embedded redis-server has its lock. */
static void start_serving(struct agent_life *l, const struct redis_conf *redis)
{
	if (!start_control(l))
		return;
	if (!start_publisher(l))
		fail(l, KOVA_EIO, "there can be no client of Kafka", "see the lines before");
	else if (!start_tracer(l))
		fail(l, KOVA_ENOMEM, "nothing can be traced", kova_status_text(KOVA_ENOMEM));
	else if (start_workers(l, redis))
		uv_timer_start(&l->timer, on_start_timer, 0, START_POLL_MS);
	else
		fail(l, KOVA_EIO, "the store can't be used, or memory or open files are out",
		     "see the lines before");
}

static void on_child_ready(kova_status status, const char *detail, void *data)
{
	struct agent_life *l = data;

	if (l->step != AGENT_STARTING)
		return;
	if (status != KOVA_OK) {
		fail(l, status, "the embedded redis-server did not start", detail);
		return;
	}

	struct redis_conf redis = l->conf.redis;

	redis.url = (char *)redis_child_url(l->child);
	start_serving(l, &redis);
}

static void start_store(struct agent_life *l)
{
	const struct redis_conf *redis = &l->conf.redis;

	if (redis->mode != REDIS_EMBEDDED) {
		start_serving(l, redis);
		return;
	}
	l->child = redis_child_start(&l->loop, l->conf.state_dir, on_child_ready, l);
	if (l->child == NULL)
		fail(l, KOVA_EIO, "the embedded redis-server did not start",
		     "see the lines before");
}

/* False: the log says why. */
static bool start_tls(struct agent_life *l)
{
	struct buf error = {0};
	struct tls_server *tls = NULL;

	if (l->conf.tls.cert == NULL)
		return true;
	l->tickets = tls_tickets_new(NULL);
	if (l->tickets != NULL && tls_use_open(&l->conf.tls, l->tickets, &tls, &error)) {
		use_tls(l, tls);
		return true;
	}
	l->status = KOVA_ECONFIG;
	log_lines("configuration", &error);
	return false;
}

static bool load(struct agent_life *l)
{
	struct buf errors = {0};
	kova_status status = edge_conf_load(l->file, &l->conf, &errors);

	if (status != KOVA_OK) {
		log_lines("configuration", &errors);
		l->status = status;
		return false;
	}
	log_setup(l->log_format, l->log_level, l->conf.node);
	const struct auth_terms terms = auth_section_terms(&l->conf.auth);

	l->auth = auth_new(&terms, &errors);
	if (l->auth == NULL) {
		log_lines("configuration", &errors);
		l->status = KOVA_ECONFIG;
		return false;
	}
	return true;
}

/* The places of the loops, in a ring; the first is the owner. */
static bool make_workers(struct agent_life *l)
{
	unsigned n = l->conf.threads;

	l->status = KOVA_ENOMEM;
	l->workers = calloc(n, sizeof *l->workers);
	l->pools = calloc(n, sizeof(struct conn_pool *));
	l->outages = outage_log_new();
	if (l->workers == NULL || l->pools == NULL || l->outages == NULL ||
	    !policy_stats_set_loops(n) || !worker_init_first(&l->workers[0], &l->loop))
		return false;
	for (unsigned i = 0; i < n; i++) {
		struct agent *a = &l->workers[i].agent;

		a->index = i;
		a->loops = n;
		a->conf = l->conf;
		a->owner = i > 0 ? &l->workers[0].agent : NULL;
		a->next = n > 1 ? &l->workers[(i + 1) % n].agent : NULL;
	}
	l->live = live_new(&l->workers[0].agent);
	if (l->live == NULL)
		return false;
	for (unsigned i = 0; i < n; i++)
		l->workers[i].agent.live = l->live;
	l->workers[0].agent.auth = l->auth;
	l->n_workers = 1;
	l->status = KOVA_OK;
	return true;
}

static void start(struct agent_life *l)
{
	const char *state_dir = l->conf.state_dir;
	struct buf why = {0};

	if (state_dir_make(state_dir)) {
		start_store(l);
		return;
	}
	buf_printf(&why, "`state_dir` %s: %s", state_dir, strerror(errno));
	fail_buf(l, "the state directory can't be made", &why);
}

static void run(struct agent_life *l)
{
	static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

	uv_timer_init(&l->loop, &l->timer);
	l->timer.data = l;
	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(&l->loop, &l->signals[i]);
		l->signals[i].data = l;
		uv_signal_start(&l->signals[i], on_signal, numbers[i]);
	}
	start(l);
	uv_run(&l->loop, UV_RUN_DEFAULT);
	log_event(LOG_INFO, "ended", "the agent has ended");
}

static void release(struct agent_life *l)
{
	for (unsigned i = 1; l->workers != NULL && i < l->conf.threads; i++) {
		control_free(l->workers[i].agent.control);
		auth_free(l->workers[i].agent.auth);
	}
	for (unsigned i = 0; l->workers != NULL && i < l->conf.threads; i++)
		tls_server_unref(l->workers[i].agent.tls);
	tls_tickets_free(l->tickets);
	control_free(l->control);
	change_log_free(l->changes);
	auth_free(l->auth);
	for (unsigned i = 0; l->workers != NULL && i < l->conf.threads; i++)
		free(l->workers[i].sites);
	outage_log_free(l->outages);
	live_free(l->live);
	free(l->pools);
	free(l->workers);
	edge_conf_release(&l->conf);
	uv_loop_close(&l->loop);
	free(l);
}

kova_status agent_run(const char *file, enum log_format format, enum log_level level)
{
	struct agent_life *l = calloc(1, sizeof *l);

	if (l == NULL || uv_loop_init(&l->loop) != 0) {
		free(l);
		return KOVA_ENOMEM;
	}
	signal(SIGPIPE, SIG_IGN);
	l->file = file;
	l->log_format = format;
	l->log_level = level;
	if (load(l) && make_workers(l) && start_tls(l))
		run(l);

	kova_status status = l->status;

	release(l);
	return status;
}
