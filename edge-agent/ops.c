#include "ops.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "agent.h"
#include "conn.h"
#include "core/version.h"
#include "engine_life.h"
#include "io/log.h"
#include "io/metrics.h"
#include "policy_stats.h"

enum { LOG_FLUSH_MS = 1000 };

static struct {
	uint64_t now_us;
	bool fresh; /* now_us was read in this phase of the turn */
	uv_check_t after_poll;
	uv_prepare_t before_poll;
	uv_timer_t log_timer;    /* says what the log has left out */
	double started_s;        /* wall clock */
	struct conn_pool *conns; /* NULL: not registered */
	struct metrics_histogram latency[OPS_PROTOCOLS];
} ops;

/* ---- the clock ---- */

uint64_t ops_now_us(void)
{
	if (!ops.fresh) {
		ops.now_us = uv_hrtime() / 1000;
		ops.fresh = true;
	}
	return ops.now_us;
}

void ops_observe(enum ops_protocol protocol, uint64_t begun_us)
{
	metrics_observe(&ops.latency[protocol], (double)(ops_now_us() - begun_us) / 1e6);
}

static void on_after_poll(uv_check_t *handle)
{
	(void)handle;
	ops.fresh = false;
}

static void on_before_poll(uv_prepare_t *handle)
{
	(void)handle;
	ops.fresh = false;
}

static void on_log_timer(uv_timer_t *handle)
{
	(void)handle;
	log_flush();
}

/* ---- policies ---- */

/* What is shown: a policy each, and the sum of those beyond OPS_POLICIES_MAX. */
struct policies {
	const struct policy_stats *shown[OPS_POLICIES_MAX + 1];
	unsigned n;
	bool has_others;
	struct policy_stats others;
};

static void add_policy(const struct policy_stats *s, void *data)
{
	struct policies *p = data;

	if (p->n < OPS_POLICIES_MAX) {
		p->shown[p->n++] = s;
		return;
	}
	p->has_others = true;
	p->others.allowed += s->allowed;
	p->others.refused += s->refused;
	p->others.outage += s->outage;
	p->others.shadow += s->shadow;
	p->others.waited += s->waited;
	p->others.waiters += s->waiters;
	p->others.queue_full += s->queue_full;
	p->others.wait_timeouts += s->wait_timeouts;
	p->others.abandoned += s->abandoned;
	p->others.feedback_ok += s->feedback_ok;
	p->others.feedback_error += s->feedback_error;
	p->others.feedback_holds += s->feedback_holds;
	p->others.breaker_opened += s->breaker_opened;
	p->others.breaker_closed += s->breaker_closed;
}

static void write_outcome(struct metrics_writer *w, const char *policy, const char *outcome,
			  uint64_t value)
{
	const struct metric_label labels[] = {{"policy", policy}, {"outcome", outcome}};

	metrics_sample(w, labels, 2, (double)value);
}

static void write_decisions(struct metrics_writer *w, const struct policies *p)
{
	metrics_family(
		w, "kova_decisions", METRIC_COUNTER, NULL,
		"Decisions by policy and outcome. At most 1000 policies have lines of their own, "
		"the others are summed up as (other).");
	for (unsigned i = 0; i < p->n; i++) {
		const struct policy_stats *s = p->shown[i];

		write_outcome(w, s->name, "allowed", s->allowed);
		write_outcome(w, s->name, "refused", s->refused);
		write_outcome(w, s->name, "outage", s->outage);
		write_outcome(w, s->name, "shadow", s->shadow);
	}
}

static void write_feedback(struct metrics_writer *w, const struct policies *p)
{
	metrics_family(w, "kova_feedback", METRIC_COUNTER, NULL,
		       "Feedback on requests elsewhere, by policy and outcome.");
	for (unsigned i = 0; i < p->n; i++) {
		write_outcome(w, p->shown[i]->name, "ok", p->shown[i]->feedback_ok);
		write_outcome(w, p->shown[i]->name, "error", p->shown[i]->feedback_error);
	}
}

static void write_policy_family(struct metrics_writer *w, const struct policies *p,
				const char *name, enum metric_type type, const char *help,
				size_t counter_at)
{
	metrics_family(w, name, type, NULL, help);
	for (unsigned i = 0; i < p->n; i++) {
		const struct metric_label label = {"policy", p->shown[i]->name};
		uint64_t value;

		memcpy(&value, (const char *)p->shown[i] + counter_at, sizeof value);
		metrics_sample(w, &label, 1, (double)value);
	}
}

static void collect_policies(struct metrics_writer *w, void *data)
{
	struct policies *p = calloc(1, sizeof *p);

	(void)data;
	if (p == NULL) {
		w->out->failed = true;
		return;
	}
	policy_stats_each(add_policy, p);
	if (p->has_others) {
		memcpy(p->others.name, "(other)",
		       sizeof "(other)"); /* no policy can be called so */
		p->shown[p->n++] = &p->others;
	}
	write_decisions(w, p);
	write_policy_family(w, p, "kova_waiters", METRIC_GAUGE, "Callers who wait for their turn.",
			    offsetof(struct policy_stats, waiters));
	write_policy_family(w, p, "kova_waited", METRIC_COUNTER,
			    "Requests that were admitted after waiting.",
			    offsetof(struct policy_stats, waited));
	write_policy_family(w, p, "kova_wait_timeouts", METRIC_COUNTER,
			    "Requests that were refused when their time to wait was up.",
			    offsetof(struct policy_stats, wait_timeouts));
	write_policy_family(w, p, "kova_queue_full", METRIC_COUNTER,
			    "Requests that were refused because max_queue callers waited already.",
			    offsetof(struct policy_stats, queue_full));
	write_policy_family(w, p, "kova_abandoned", METRIC_COUNTER,
			    "Requests whose callers were gone before their answer.",
			    offsetof(struct policy_stats, abandoned));
	write_feedback(w, p);
	write_policy_family(
		w, p, "kova_feedback_holds", METRIC_COUNTER,
		"Feedback that held its key: RETRYAFTER, or RESET with nothing remaining.",
		offsetof(struct policy_stats, feedback_holds));
	write_policy_family(w, p, "kova_breaker_opened", METRIC_COUNTER,
			    "Circuit breakers of keys that feedback through this agent opened.",
			    offsetof(struct policy_stats, breaker_opened));
	write_policy_family(w, p, "kova_breaker_closed", METRIC_COUNTER,
			    "Circuit breakers of keys that feedback through this agent closed.",
			    offsetof(struct policy_stats, breaker_closed));
	free(p);
}

/* ---- the store, the engine, latency ---- */

static void write_number(struct metrics_writer *w, const char *name, enum metric_type type,
			 const char *unit, const char *help, double value)
{
	metrics_family(w, name, type, unit, help);
	metrics_sample(w, NULL, 0, value);
}

static void collect_store(struct metrics_writer *w, void *data)
{
	const struct agent *a = data;
	const struct redis_counters redis = engine_redis_counters(a->engine);
	const struct region_counters region = engine_region_counters(a->engine);
	const struct leases_counters leases = engine_leases_counters(a->engine);
	const struct {
		const char *name, *help;
		uint64_t value;
	} counters[] = {
		{"kova_redis_commands", "Commands sent to Redis.", redis.commands},
		{"kova_redis_connects", "Connections to Redis that came up.", redis.connects},
		{"kova_redis_disconnects", "Connections to Redis that were lost.",
		 redis.disconnects},
		{"kova_redis_timeouts", "Calls of Redis without an answer in time.",
		 redis.timeouts},
		{"kova_redis_redirects", "MOVED, ASK and TRYAGAIN of a Cluster.", redis.redirects},
		{"kova_script_calls", "Calls of the decide script.", region.calls},
		{"kova_script_operations", "Operations in those calls.", region.operations},
		{"kova_script_loads", "Calls that had to bring the script along.",
		 region.script_loads},
		{"kova_lease_decisions", "Decisions from leased permits and remembered refusals.",
		 leases.decisions},
		{"kova_leases", "Leases granted to this agent.", leases.granted},
		{"kova_leases_returned", "Leases of which something was given back.",
		 leases.returned},
		{"kova_redis_out_of_step", "Replies that belonged to another call.",
		 region.out_of_step},
	};

	for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
		write_number(w, counters[i].name, METRIC_COUNTER, NULL, counters[i].help,
			     (double)counters[i].value);
}

static void collect_engine(struct metrics_writer *w, void *data)
{
	const struct agent *a = data;
	const struct engine_health health = engine_health(a->engine);
	const struct metric_label redis = {"part", "redis"}, durability = {"part", "durability"};

	metrics_family(w, "kova_outage", METRIC_GAUGE, NULL,
		       "1 while this part can not be reached, in whole or for some keys.");
	metrics_sample(w, &redis, 1, health.shards_up < health.shards);
	metrics_sample(w, &durability, 1, health.durable_shards_up < health.durable_shards);
	write_number(w, "kova_redis_shards", METRIC_GAUGE, NULL, "Shards of the store.",
		     health.shards);
	write_number(w, "kova_redis_shards_up", METRIC_GAUGE, NULL, "Shards that can be asked.",
		     health.shards_up);
	write_number(w, "kova_requests_in_progress", METRIC_GAUGE, NULL,
		     "Requests without an answer, waiters among them.", (double)health.requests);
	write_number(w, "kova_outage_keys_full", METRIC_COUNTER, NULL,
		     "Refusals in an outage because too many keys were asked for.",
		     (double)engine_outage_full(a->engine));
}

static void collect_latency(struct metrics_writer *w, void *data)
{
	static const char *const names[OPS_PROTOCOLS] = {[OPS_HTTP] = "http", [OPS_RESP] = "resp"};

	(void)data;
	metrics_family(w, "kova_request_duration_seconds", METRIC_HISTOGRAM, "seconds",
		       "From a whole request to its answer, waiting included.");
	for (unsigned i = 0; i < OPS_PROTOCOLS; i++) {
		const struct metric_label label = {"protocol", names[i]};

		metrics_histogram(w, &label, 1, &ops.latency[i]);
	}
}

/* ---- the process ---- */

static unsigned count_open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	if (dir == NULL)
		return 0;
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n >= 3 ? n - 3 : 0; /* `.`, `..` and the directory itself */
}

/* Pages of virtual and of resident memory. */
static void read_memory(unsigned long *ret_virtual, unsigned long *ret_resident)
{
	FILE *file = fopen("/proc/self/statm", "re");

	*ret_virtual = *ret_resident = 0;
	if (file == NULL)
		return;
	if (fscanf(file, "%lu %lu", ret_virtual, ret_resident) != 2)
		*ret_virtual = *ret_resident = 0;
	fclose(file);
}

static double cpu_seconds(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) != 0)
		return 0;
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void collect_process(struct metrics_writer *w, void *data)
{
	const double page = (double)sysconf(_SC_PAGESIZE);
	unsigned long virtual_pages, resident_pages;
	struct rlimit files;

	(void)data;
	read_memory(&virtual_pages, &resident_pages);
	write_number(w, "process_cpu_seconds", METRIC_COUNTER, "seconds",
		     "CPU time, user and system.", cpu_seconds());
	write_number(w, "process_start_time_seconds", METRIC_GAUGE, "seconds",
		     "When the process started, since the epoch.", ops.started_s);
	write_number(w, "process_resident_memory_bytes", METRIC_GAUGE, "bytes", "Resident memory.",
		     (double)resident_pages * page);
	write_number(w, "process_virtual_memory_bytes", METRIC_GAUGE, "bytes", "Virtual memory.",
		     (double)virtual_pages * page);
	write_number(w, "process_open_fds", METRIC_GAUGE, NULL, "Open file descriptors.",
		     count_open_files());
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		write_number(w, "process_max_fds", METRIC_GAUGE, NULL,
			     "File descriptors that may be open.", (double)files.rlim_cur);
}

static void collect_build(struct metrics_writer *w, void *data)
{
	const struct metric_label version = {"version", KOVA_VERSION};

	(void)data;
	metrics_family(w, "kova_build", METRIC_INFO, NULL, "What runs here.");
	metrics_sample(w, &version, 1, 1);
}

/* ---- ready ---- */

bool ops_ready(const struct agent *a, struct buf *ret_json)
{
	const struct engine_health health = engine_health(a->engine);
	const bool redis = health.shards_up < health.shards,
		   durability = health.durable_shards_up < health.durable_shards;
	const char *status = a->draining ? "draining" : redis || durability ? "degraded" : "ready";

	buf_printf(ret_json,
		   "{\"status\":\"%s\",\"degraded\":[%s%s%s],"
		   "\"redis\":{\"shards\":%u,\"up\":%u},"
		   "\"waiters\":%llu,\"requests\":%llu}\n",
		   status, redis ? "\"redis\"" : "", redis && durability ? "," : "",
		   durability ? "\"durability\"" : "", health.shards, health.shards_up,
		   (unsigned long long)health.waiters, (unsigned long long)health.requests);
	return !a->draining;
}

/* ---- begin and end ---- */

static metrics_collector *const collectors[] = {
	collect_build,  collect_policies, collect_store,
	collect_engine, collect_latency,  collect_process,
};

enum { N_COLLECTORS = sizeof collectors / sizeof collectors[0] };

/* The loop does not stay alive for these. */
static void start_handles(uv_loop_t *loop)
{
	uv_check_init(loop, &ops.after_poll);
	uv_prepare_init(loop, &ops.before_poll);
	uv_timer_init(loop, &ops.log_timer);
	uv_check_start(&ops.after_poll, on_after_poll);
	uv_prepare_start(&ops.before_poll, on_before_poll);
	uv_timer_start(&ops.log_timer, on_log_timer, LOG_FLUSH_MS, LOG_FLUSH_MS);
	uv_unref((uv_handle_t *)&ops.after_poll);
	uv_unref((uv_handle_t *)&ops.before_poll);
	uv_unref((uv_handle_t *)&ops.log_timer);
}

void ops_register(struct agent *a, struct conn_pool *conns)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	ops.started_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	ops.conns = conns;
	start_handles(a->loop);
	for (unsigned i = 0; i < N_COLLECTORS; i++)
		metrics_register(collectors[i], a);
	metrics_register(conn_pool_collect, conns);
}

void ops_unregister(struct agent *a)
{
	if (ops.conns == NULL)
		return;
	for (unsigned i = 0; i < N_COLLECTORS; i++)
		metrics_unregister(collectors[i], a);
	metrics_unregister(conn_pool_collect, ops.conns);
	ops.conns = NULL;
	uv_close((uv_handle_t *)&ops.after_poll, NULL);
	uv_close((uv_handle_t *)&ops.before_poll, NULL);
	uv_close((uv_handle_t *)&ops.log_timer, NULL);
}
