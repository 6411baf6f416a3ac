/*
 * Two threads. The loop answers HTTP and signals; the other one talks to Kafka, session after session, and may block for as long as the
 * brokers take. It tells its numbers under a lock, and that it has ended by a message.
 *
 *   SIGTERM ──▶ stop is set ──▶ the session commits and leaves the group ──▶ its message ──▶ the loop's handles close
 */
#include "coordinator.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "coord_gossip.h"
#include "drift_watch.h"
#include "http.h"
#include "session.h"
#include "share.h"

enum { SIGNALS = 3, AGAIN_MS = 1000, SLICE_MS = 50, LOG_FLUSH_MS = 1000 };

struct coordinator {
	uv_loop_t loop;
	const char *file;
	struct coord_conf first, *conf; /* conf: &first, or owned */
	struct coord_share share;
	struct http_front *http;
	uv_signal_t signals[SIGNALS];
	uv_timer_t log_timer;
	uv_thread_t thread;
};

/* ---- The thread ---- */

static void on_thread(void *data)
{
	struct coord_share *share = data;

	while (!session_run(share))
		for (int waited = 0; waited < AGAIN_MS && !atomic_load(&share->stop);
		     waited += SLICE_MS)
			usleep(SLICE_MS * 1000);
	mailbox_post(&share->box, &share->ended);
}

/* ---- Ending ---- */

static void close_handles(struct coordinator *c)
{
	http_front_close(c->http);
	coord_gossip_close(c->share.gossip);
	for (int i = 0; i < SIGNALS; i++)
		uv_close((uv_handle_t *)&c->signals[i], NULL);
	uv_close((uv_handle_t *)&c->log_timer, NULL);
	mailbox_close(&c->share.box, NULL, NULL);
}

static void on_ended(struct message *m)
{
	struct coordinator *c =
		(struct coordinator *)((char *)m - offsetof(struct coordinator, share.ended));

	uv_thread_join(&c->thread);
	drift_watch_stop(c->share.drift);
	c->share.drift = NULL;
	close_handles(c);
}

/* ---- Reloading ---- */

static bool same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static void warn_of_restart(const struct coord_conf *was, const struct coord_conf *is)
{
	const struct {
		const char *name;
		bool differs;
	} parts[] = {{"node", !same(was->node, is->node)},
		     {"http", !same(was->http, is->http)},
		     {"tls", (was->tls.cert == NULL) != (is->tls.cert == NULL)},
		     {"rollup", was->rollup_ms != is->rollup_ms},
		     {"session_timeout", was->session_ms != is->session_ms},
		     {"kafka", !same(was->kafka.bootstrap, is->kafka.bootstrap)},
		     {"gossip.listen", !same(was->gossip.listen, is->gossip.listen)},
		     {"gossip.advertise", !same(was->gossip.advertise, is->gossip.advertise)},
		     {"state_dir", !same(was->state_dir, is->state_dir)},
		     {"regions", !coord_regions_are_alike(&was->regions, &is->regions)},
		     {"grant", was->grant_us != is->grant_us || was->margin_us != is->margin_us},
		     {"clock", was->max_skew_us != is->max_skew_us},
		     {"drift", !drift_conf_is_same(&was->drift, &is->drift)}};

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (parts[i].differs)
			log_event(LOG_WARN, "needs_restart",
				  "this is in force after a restart only",
				  LOG_TEXT_FIELD("option", parts[i].name));
}

/* The policies that gossip has agreed on take the place of the file's. */
static void use_agreed(struct coordinator *c, struct coord_conf *conf)
{
	json_t *list = coord_gossip_policies(c->share.gossip);
	struct coord_policy *policies = NULL;
	struct buf errors = {0};
	size_t n = 0;

	if (list == NULL ||
	    coord_conf_read_policies(conf, list, &policies, &n, &errors) != KOVA_OK) {
		log_event(LOG_ERROR, "policies_not_read", "the policies stay as they were",
			  LOG_TEXT_FIELD("why", kova_status_text(KOVA_ENOMEM)));
	} else {
		struct coord_policy *was = conf->policies;

		pthread_mutex_lock(&c->share.lock);
		conf->policies = policies;
		conf->n_policies = n;
		c->share.conf_number++;
		pthread_mutex_unlock(&c->share.lock);
		free(was);
	}
	log_lines("policy_left_out", &errors);
	buf_release(&errors);
	json_decref(list);
}

static void on_agreed(void *data)
{
	struct coordinator *c = data;

	use_agreed(c, c->conf);
}

static void reload(struct coordinator *c)
{
	struct coord_conf *conf = calloc(1, sizeof *conf), *was = c->conf;
	struct buf errors = {0};

	if (conf == NULL || coord_conf_load(c->file, conf, &errors) != KOVA_OK ||
	    (c->http != NULL && http_front_reload(c->http, conf, &errors) != KOVA_OK)) {
		log_event(LOG_ERROR, "reload_failed", "the file is wrong: nothing was changed");
		log_lines("reload_failed", &errors);
		if (conf != NULL)
			coord_conf_release(conf);
		free(conf);
		return;
	}
	warn_of_restart(&c->first, conf);
	if (c->share.gossip != NULL)
		use_agreed(c, conf);
	pthread_mutex_lock(&c->share.lock);
	c->share.conf = c->conf = conf;
	c->share.conf_number++;
	pthread_mutex_unlock(&c->share.lock);
	if (was != &c->first) {
		coord_conf_release(was);
		free(was);
	}
	if (c->share.gossip != NULL)
		coord_gossip_reload(c->share.gossip, conf);
	else
		log_event(LOG_INFO, "reloaded",
			  "the file's policies, tokens and certificates are in force",
			  LOG_INT_FIELD("policies", (int64_t)conf->n_policies));
}

static void on_signal(uv_signal_t *signal, int number)
{
	struct coordinator *c = signal->data;

	if (number == SIGHUP) {
		reload(c);
	} else if (!atomic_exchange(&c->share.stop, true)) {
		log_event(LOG_INFO, "draining", "what was read is committed, then it ends");
	}
}

/* ---- Beginning ---- */

static void on_log_timer(uv_timer_t *t)
{
	(void)t;
	log_flush();
}

static kova_status cannot_start(const char *what, const char *why)
{
	log_event(LOG_ERROR, "cannot_start", what, LOG_TEXT_FIELD("why", why));
	return KOVA_EIO;
}

static kova_status start_gossip(struct coordinator *c)
{
	struct buf error = {0};

	if (c->conf->gossip.listen == NULL)
		return KOVA_OK;
	c->share.gossip =
		coord_gossip_start(&c->loop, c->conf, &c->share.events, on_agreed, c, &error);
	if (c->share.gossip != NULL)
		use_agreed(c, c->conf);
	else
		log_lines("cannot_start", &error);
	buf_release(&error);
	return c->share.gossip != NULL ? KOVA_OK : KOVA_EIO;
}

static kova_status start_drift(struct coordinator *c)
{
	if (c->conf->drift.n == 0)
		return KOVA_OK;
	c->share.drift = drift_watch_start(&c->first.drift, c->conf->node, &c->share.events);
	return c->share.drift != NULL ? KOVA_OK
				      : cannot_start("the regions' Redis can't be asked",
						     "the log says why, or memory is out");
}

/* Without a thread there is nothing to wait for. */
static kova_status start(struct coordinator *c)
{
	static const int numbers[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};
	struct buf error = {0};
	kova_status status = KOVA_OK;

	uv_timer_init(&c->loop, &c->log_timer);
	uv_timer_start(&c->log_timer, on_log_timer, LOG_FLUSH_MS, LOG_FLUSH_MS);
	/* Before anybody can know that it runs: until then SIGHUP ends it. */
	for (int i = 0; i < SIGNALS; i++) {
		uv_signal_init(&c->loop, &c->signals[i]);
		c->signals[i].data = c;
		uv_signal_start(&c->signals[i], on_signal, numbers[i]);
	}
	if (c->conf->http != NULL) {
		c->http = http_front_open(&c->loop, c->conf, &c->share, &error);
		if (c->http == NULL) {
			buf_add(&error, "", 1);
			status = cannot_start("HTTP can't be served",
					      buf_failed(&error) ? "out of memory" : error.ptr);
		}
	}
	buf_release(&error);
	if (status == KOVA_OK)
		status = start_gossip(c);
	if (status == KOVA_OK)
		status = start_drift(c);
	if (status == KOVA_OK && uv_thread_create(&c->thread, on_thread, &c->share) != 0)
		status = cannot_start("there can be no thread", "out of memory");
	if (status != KOVA_OK) {
		drift_watch_stop(c->share.drift);
		close_handles(c);
	}
	return status;
}

static kova_status run(struct coordinator *c)
{
	kova_status status;

	signal(SIGPIPE, SIG_IGN);
	if (uv_loop_init(&c->loop) != 0)
		return KOVA_ENOMEM;
	if (mailbox_open(&c->share.box, &c->loop) != 0) {
		uv_loop_close(&c->loop);
		return KOVA_ENOMEM;
	}
	pthread_mutex_init(&c->share.lock, NULL);
	coord_events_init(&c->share.events);
	c->share.ended.run = on_ended;
	c->share.first = c->share.conf = c->conf;
	status = start(c);
	uv_run(&c->loop, UV_RUN_DEFAULT);
	uv_loop_close(&c->loop);
	pthread_mutex_destroy(&c->share.lock);
	free(c->share.shares);
	coord_events_release(&c->share.events);
	if (status == KOVA_OK)
		log_event(LOG_INFO, "ended", "all of it is committed, or will be read again");
	return status;
}

kova_status coordinator_run(const char *file, enum log_format format, enum log_level level)
{
	struct coordinator *c = calloc(1, sizeof *c);
	struct buf errors = {0};
	kova_status status = c != NULL ? coord_conf_load(file, &c->first, &errors) : KOVA_ENOMEM;

	if (status != KOVA_OK) {
		log_lines("cannot_start", &errors);
		free(c);
		return status;
	}
	log_setup(format, level, c->first.node);
	c->file = file;
	c->conf = &c->first;
	status = run(c);
	if (c->conf != &c->first) {
		coord_conf_release(c->conf);
		free(c->conf);
	}
	coord_conf_release(&c->first);
	free(c);
	return status;
}
