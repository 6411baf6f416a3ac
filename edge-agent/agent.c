/*
 * An agent's life. Starting, in order: the configuration, tokens, the state directory, the control plane, the
 * store (an embedded one is a child that must be ready first), the engine, the listeners. Ending, on
 * SIGTERM or SIGINT: no new connections, waiters are answered, what is in progress ends, connections close, then
 * engine, store and child. A step that fails on the way up takes the same way down from where it is.
 *
 *   starting ──store ready──▶ running ──signal──▶ draining ──all answered, or late──▶ closing ──▶ gone
 *
 * SIGHUP reads the file again: policies, overrides and tokens are taken over; what needs a new start is named.
 */
#include "agent.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent_run.h"
#include "auth.h"
#include "conn.h"
#include "control.h"
#include "engine_life.h"
#include "front_http.h"
#include "front_resp.h"
#include "io/log.h"
#include "io/redis_child.h"
#include "listener.h"
#include "ops.h"

enum { DRAIN_MS = 5000, DRAIN_POLL_MS = 20, START_POLL_MS = 5, LISTENERS = 3, SIGNALS = 3 };

enum agent_step { AGENT_STARTING, AGENT_RUNNING, AGENT_DRAINING, AGENT_CLOSING };

struct agent_life {
	struct agent agent;
	uv_loop_t loop;
	const char *file;
	enum log_format log_format;
	enum log_level log_level;
	enum agent_step step;
	kova_status status;
	struct redis_child *child; /* embedded mode */
	struct conn_pool *conns;
	struct listener *listeners[LISTENERS];
	uv_signal_t signals[SIGNALS];
	uv_timer_t timer; /* starting: is the store up? draining: are the connections gone? */
	uint64_t timer_until_ms;
	unsigned outages; /* shards that can't be asked now */
	struct {
		uv_work_t work;
		struct edge_conf conf;
		struct buf errors;
		kova_status status;
		bool busy, again;
	} reload;
};

static void stop(struct agent_life *l);

/* Logs each line of `errors` and empties it. */
static void log_lines(const char *event, struct buf *errors)
{
	char *line = errors->ptr;

	buf_add(errors, "", 1);
	if (buf_failed(errors))
		line = NULL;
	for (char *rest = errors->ptr;
	     line != NULL && (line = strtok_r(rest, "\n", &rest)) != NULL;)
		log_event(LOG_ERROR, event, line);
	buf_release(errors);
}

static void fail(struct agent_life *l, kova_status status, const char *message, const char *why)
{
	log_event(LOG_ERROR, "cannot_start", message, LOG_TEXT_FIELD("why", why));
	l->status = status;
	stop(l);
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
}

static void on_engine_closed(void *data)
{
	struct agent_life *l = data;

	l->agent.engine = NULL;
	if (l->child != NULL)
		redis_child_stop(l->child, on_child_stopped, l);
	else
		on_child_stopped(l);
}

static void on_conns_closed(void *data)
{
	struct agent_life *l = data;

	l->conns = NULL;
	if (l->agent.engine != NULL)
		engine_close(l->agent.engine, on_engine_closed, l);
	else
		on_engine_closed(l);
}

static void close_all(struct agent_life *l)
{
	l->step = AGENT_CLOSING;
	uv_timer_stop(&l->timer);
	ops_stop(&l->agent);
	if (l->conns != NULL)
		conn_pool_close(l->conns, on_conns_closed, l);
	else
		on_conns_closed(l);
}

static void on_drain_timer(uv_timer_t *t)
{
	struct agent_life *l = t->data;
	bool late = uv_now(&l->loop) >= l->timer_until_ms;
	bool ended = conn_pool_count(l->conns) == 0 && engine_is_idle(l->agent.engine);

	if (!ended && !late)
		return;
	if (late)
		log_event(LOG_WARN, "drain_cut", "some connections did not end in time",
			  LOG_INT_FIELD("connections", conn_pool_count(l->conns)));
	close_all(l);
}

static void stop_listening(struct agent_life *l)
{
	for (int i = 0; i < LISTENERS; i++) {
		if (l->listeners[i] != NULL)
			listener_stop(l->listeners[i]);
		l->listeners[i] = NULL;
	}
}

static void stop(struct agent_life *l)
{
	if (l->step >= AGENT_DRAINING)
		return;
	if (l->step == AGENT_STARTING) {
		stop_listening(l);
		close_all(l);
		return;
	}
	log_event(LOG_INFO, "draining", "no new connections; answering what is in progress");
	l->step = AGENT_DRAINING;
	l->agent.draining = true;
	stop_listening(l);
	engine_drain(l->agent.engine);
	conn_pool_drain(l->conns);
	/* A call that the store does not answer ends by its own time-out, and its caller is answered then. */
	l->timer_until_ms = uv_now(&l->loop) + DRAIN_MS + l->agent.conf.redis.timeout_ms;
	uv_timer_start(&l->timer, on_drain_timer, 0, DRAIN_POLL_MS);
}

/* ---- Reload ---- */

static void warn_if_changed(const char *option, const char *was, const char *is)
{
	if ((was == NULL) != (is == NULL) || (was != NULL && strcmp(was, is) != 0))
		log_event(LOG_WARN, "reload_needs_restart",
			  "this option takes effect with the next start",
			  LOG_TEXT_FIELD("option", option));
}

static void warn_of_restart(const struct edge_conf *was, const struct edge_conf *is)
{
	warn_if_changed("node", was->node, is->node);
	warn_if_changed("region", was->region, is->region);
	warn_if_changed("listen.resp", was->listen_resp, is->listen_resp);
	warn_if_changed("listen.http", was->listen_http, is->listen_http);
	warn_if_changed("listen.unix", was->listen_unix, is->listen_unix);
	warn_if_changed("state_dir", was->state_dir, is->state_dir);
	warn_if_changed("redis.url", was->redis.url, is->redis.url);
	warn_if_changed("redis.master", was->redis.master, is->redis.master);
}

static void reload(struct agent_life *l);

/* The file may have changed once more meanwhile. */
static void reload_ended(struct agent_life *l)
{
	bool again = l->reload.again;

	l->reload.busy = l->reload.again = false;
	if (again)
		reload(l);
}

static void on_reloaded(kova_status status, const struct control_error *error, void *data)
{
	struct agent_life *l = data;

	if (status == KOVA_OK)
		log_event(LOG_INFO, "reloaded", "policies and overrides are in force");
	else
		log_event(LOG_ERROR, "reload_failed", "nothing was changed",
			  LOG_TEXT_FIELD("why", error->text));
	reload_ended(l);
}

/* In a thread: a large file takes its time, and verdicts go on meanwhile. */
static void read_again(uv_work_t *work)
{
	struct agent_life *l = work->data;

	l->reload.status = edge_conf_load(l->file, &l->reload.conf, &l->reload.errors);
}

static void on_read_again(uv_work_t *work, int cancelled)
{
	struct agent_life *l = work->data;
	struct edge_conf *conf = &l->reload.conf;

	if (cancelled != 0 || l->reload.status != KOVA_OK || l->step != AGENT_RUNNING) {
		log_lines("reload_failed", &l->reload.errors);
		log_event(LOG_ERROR, "reload_failed", "nothing was changed");
		if (l->reload.status == KOVA_OK)
			edge_conf_release(conf);
		reload_ended(l);
		return;
	}
	bool tokens_ok =
		auth_reload(l->agent.auth, conf->tokens_file, &l->reload.errors) == KOVA_OK;

	if (tokens_ok) {
		warn_of_restart(&l->agent.conf, conf);
		control_reload_async(l->agent.control, &l->loop, conf->policies, conf->overrides,
				     on_reloaded, l);
	}
	edge_conf_release(conf);
	if (!tokens_ok) {
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
	struct buf error = {0};

	if (address == NULL)
		return true;
	l->listeners[i] = listener_start(l->conns, address, front, &error);
	if (l->listeners[i] == NULL) {
		log_lines("cannot_listen", &error);
		fail(l, KOVA_EIO, "cannot listen", address);
		return false;
	}
	log_event(LOG_INFO, "listening", "ready for clients", LOG_TEXT_FIELD("front", front->name),
		  LOG_TEXT_FIELD("address", listener_address(l->listeners[i])));
	return true;
}

static void on_store_changed(unsigned shard, bool up, const char *why, void *data)
{
	struct agent_life *l = data;

	if (up && l->outages > 0) {
		l->outages--;
		engine_store_up(l->agent.engine);
		log_event(LOG_INFO, "outage_ended", "decisions by the store again",
			  LOG_INT_FIELD("shard", shard));
	} else if (!up) {
		l->outages++;
		engine_store_down(l->agent.engine);
		log_event(LOG_WARN, "outage_begun", "decisions by each policy's on_outage",
			  LOG_INT_FIELD("shard", shard), LOG_TEXT_FIELD("why", why));
	}
}

static bool start_engine(struct agent_life *l, const struct redis_conf *redis)
{
	struct redis_store *store = redis_store_new(&l->loop, redis, on_store_changed, l);

	if (store == NULL)
		return false;
	l->agent.engine = engine_new(&l->loop, l->agent.control, store, redis);
	if (l->agent.engine != NULL)
		return true;
	redis_store_close(store, NULL, NULL);
	return false;
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

static void open_fronts(struct agent_life *l)
{
	const struct edge_conf *conf = &l->agent.conf;

	if (!listen_on(l, 0, conf->listen_resp, &front_resp) ||
	    !listen_on(l, 1, conf->listen_http, &front_http) ||
	    !listen_on_unix(l, 2, conf->listen_unix))
		return;
	l->step = AGENT_RUNNING;
	if (conf->insecure)
		log_event(LOG_WARN, "insecure",
			  "INSECURE: anybody who reaches this agent may use and administer it");
	log_event(LOG_INFO, "started", "the agent is running");
}

/* The fronts open when the store answers, so that the first request is not decided by on_outage; but not later than it
 * is known that it does not, or than connecting may take. */
static void on_start_timer(uv_timer_t *t)
{
	struct agent_life *l = t->data;
	struct engine_health health = engine_health(l->agent.engine);

	if (((health.shards_up < health.shards && l->outages == 0) ||
	     !engine_has_started(l->agent.engine)) &&
	    uv_now(&l->loop) < l->timer_until_ms)
		return;
	uv_timer_stop(t);
	open_fronts(l);
}

static void start_serving(struct agent_life *l, const struct redis_conf *redis)
{
	if (!start_engine(l, redis)) {
		fail(l, KOVA_EIO, "the store can't be used", "see the lines before");
		return;
	}
	l->conns = conn_pool_new(&l->agent, 0);
	if (l->conns == NULL) {
		fail(l, KOVA_ENOMEM, "no connections can be served", kova_status_text(KOVA_ENOMEM));
		return;
	}
	ops_start(&l->agent, l->conns);
	l->timer_until_ms = uv_now(&l->loop) + redis->connect_timeout_ms;
	uv_timer_start(&l->timer, on_start_timer, 0, START_POLL_MS);
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

	struct redis_conf redis = l->agent.conf.redis;

	redis.url = (char *)redis_child_url(l->child);
	start_serving(l, &redis);
}

static void start_store(struct agent_life *l)
{
	const struct redis_conf *redis = &l->agent.conf.redis;

	if (redis->mode != REDIS_EMBEDDED) {
		start_serving(l, redis);
		return;
	}
	control_refuse_replicas(l->agent.control);
	l->child = redis_child_start(&l->loop, l->agent.conf.state_dir, on_child_ready, l);
	if (l->child == NULL)
		fail(l, KOVA_EIO, "the embedded redis-server did not start",
		     "see the lines before");
}

/* As `mkdir -p`, the last part readable by us only. */
static bool make_state_dir(const char *path)
{
	char *copy = strdup(path);
	bool made = copy != NULL;

	for (char *slash = copy; made && (slash = strchr(slash + 1, '/')) != NULL;) {
		*slash = '\0';
		made = mkdir(copy, 0755) == 0 || errno == EEXIST;
		*slash = '/';
	}
	if (made)
		made = mkdir(path, 0700) == 0 || errno == EEXIST;
	free(copy);
	return made;
}

static bool load(struct agent_life *l)
{
	struct buf errors = {0};
	kova_status status = edge_conf_load(l->file, &l->agent.conf, &errors);

	if (status != KOVA_OK) {
		log_lines("configuration", &errors);
		l->status = status;
		return false;
	}
	log_setup(l->log_format, l->log_level, l->agent.conf.node);
	l->agent.auth = auth_new(l->agent.conf.tokens_file, &errors);
	if (l->agent.auth == NULL) {
		log_lines("configuration", &errors);
		l->status = KOVA_ECONFIG;
		return false;
	}
	return true;
}

static void start(struct agent_life *l)
{
	const struct edge_conf *conf = &l->agent.conf;
	struct control_error error;

	if (!make_state_dir(conf->state_dir)) {
		fail(l, KOVA_EIO, "the state directory can't be made", strerror(errno));
		return;
	}
	l->agent.control = control_new(conf->state_dir, conf->policies, conf->overrides, &error);
	if (l->agent.control == NULL) {
		fail(l, KOVA_ECONFIG, "the control plane did not start", error.text);
		return;
	}
	start_store(l);
}

kova_status agent_run(const char *file, enum log_format format, enum log_level level)
{
	static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
	struct agent_life *l = calloc(1, sizeof *l);

	if (l == NULL || uv_loop_init(&l->loop) != 0) {
		free(l);
		return KOVA_ENOMEM;
	}
	signal(SIGPIPE, SIG_IGN);
	l->file = file;
	l->log_format = format;
	l->log_level = level;
	l->agent.loop = &l->loop;
	if (load(l)) {
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

	kova_status status = l->status;

	control_free(l->agent.control);
	auth_free(l->agent.auth);
	edge_conf_release(&l->agent.conf);
	uv_loop_close(&l->loop);
	free(l);
	return status;
}
