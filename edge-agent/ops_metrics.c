/* What /metrics says: the totals' numbers get their names. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "core/version.h"
#include "io/conn_metrics.h"
#include "io/tls_metrics.h"
#include "ops.h"
#include "ops_pools.h"
#include "top_metrics.h"

/* ---- policies ---- */

static void write_outcome(struct metrics_writer *w, const char *policy, const char *outcome,
			  uint64_t value)
{
	const struct metric_label labels[] = {{"policy", policy}, {"outcome", outcome}};

	metrics_sample(w, labels, 2, (double)value);
}

static void write_decisions(struct metrics_writer *w, const struct ops_policies *p)
{
	metrics_family(
		w, "kova_decisions", METRIC_COUNTER, NULL,
		"Decisions by policy and outcome. At most 1000 policies have lines of their own, "
		"the others are summed up as (other).");
	for (unsigned i = 0; i < p->n; i++) {
		const char *name = p->of[i].name;
		const struct policy_counts *n = &p->of[i].counts;

		write_outcome(w, name, "allowed", n->allowed);
		write_outcome(w, name, "refused", n->refused);
		write_outcome(w, name, "outage", n->outage);
		write_outcome(w, name, "shadow", n->shadow);
	}
}

/* They add up to the outcome `refused`. */
static void write_refusals(struct metrics_writer *w, const struct ops_policies *p)
{
	metrics_family(w, "kova_refusals", METRIC_COUNTER, NULL,
		       "Decisions that refused, by policy and reason; not those of an outage.");
	for (unsigned i = 0; i < p->n; i++) {
		const struct policy_counts *n = &p->of[i].counts;
		const struct {
			const char *reason;
			uint64_t n;
		} refusals[] = {{"limited", n->refused - n->banned - n->held - n->breaker_open -
						    n->queue_full - n->wait_timeouts},
				{"banned", n->banned},
				{"held", n->held},
				{"breaker_open", n->breaker_open},
				{"queue_full", n->queue_full},
				{"wait_timeout", n->wait_timeouts}};

		for (size_t r = 0; r < sizeof refusals / sizeof refusals[0]; r++) {
			const struct metric_label labels[] = {{"policy", p->of[i].name},
							      {"reason", refusals[r].reason}};

			metrics_sample(w, labels, 2, (double)refusals[r].n);
		}
	}
}

static void write_feedback(struct metrics_writer *w, const struct ops_policies *p)
{
	metrics_family(w, "kova_feedback", METRIC_COUNTER, NULL,
		       "Feedback on requests elsewhere, by policy and outcome.");
	for (unsigned i = 0; i < p->n; i++) {
		write_outcome(w, p->of[i].name, "ok", p->of[i].counts.feedback_ok);
		write_outcome(w, p->of[i].name, "error", p->of[i].counts.feedback_error);
	}
}

/* A counter of each policy that is a family of its own. */
static const struct policy_family {
	const char *name;
	enum metric_type type;
	const char *help;
	size_t counter_at;
} policy_families[] = {
	{"kova_waiters", METRIC_GAUGE, "Callers who wait for their turn.",
	 offsetof(struct policy_counts, waiters)},
	{"kova_waited", METRIC_COUNTER, "Requests that were admitted after waiting.",
	 offsetof(struct policy_counts, waited)},
	{"kova_wait_timeouts", METRIC_COUNTER,
	 "Requests that were refused when their time to wait was up.",
	 offsetof(struct policy_counts, wait_timeouts)},
	{"kova_queue_full", METRIC_COUNTER,
	 "Requests that were refused because max_queue callers waited already.",
	 offsetof(struct policy_counts, queue_full)},
	{"kova_abandoned", METRIC_COUNTER, "Requests whose callers were gone before their answer.",
	 offsetof(struct policy_counts, abandoned)},
	{"kova_feedback_holds", METRIC_COUNTER,
	 "Feedback that held its key: RETRYAFTER, or RESET with nothing remaining.",
	 offsetof(struct policy_counts, feedback_holds)},
	{"kova_breaker_opened", METRIC_COUNTER,
	 "Circuit breakers of keys that feedback through this agent opened.",
	 offsetof(struct policy_counts, breaker_opened)},
	{"kova_breaker_closed", METRIC_COUNTER,
	 "Circuit breakers of keys that feedback through this agent closed.",
	 offsetof(struct policy_counts, breaker_closed)},
	{"kova_adaptive_raised", METRIC_COUNTER,
	 "Adaptive limits of keys that feedback through this agent raised.",
	 offsetof(struct policy_counts, adaptive_raised)},
	{"kova_adaptive_lowered", METRIC_COUNTER,
	 "Adaptive limits of keys that feedback through this agent lowered.",
	 offsetof(struct policy_counts, adaptive_lowered)},
};

static void write_policy_family(struct metrics_writer *w, const struct ops_policies *p,
				const struct policy_family *family)
{
	metrics_family(w, family->name, family->type, NULL, family->help);
	for (unsigned i = 0; i < p->n; i++) {
		const struct metric_label label = {"policy", p->of[i].name};
		uint64_t value;

		memcpy(&value, (const char *)&p->of[i].counts + family->counter_at, sizeof value);
		metrics_sample(w, &label, 1, (double)value);
	}
}

static void collect_pools(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;

	if (t->pools != NULL)
		ops_pools_write(w, t->pools);
}

static void collect_top(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;

	if (t->top != NULL)
		top_metrics_write(w, t->top);
}

static void collect_policies(struct metrics_writer *w, const void *totals)
{
	const struct ops_policies *p = ((const struct ops_totals *)totals)->policies;

	write_decisions(w, p);
	write_refusals(w, p);
	write_feedback(w, p);
	for (size_t i = 0; i < sizeof policy_families / sizeof policy_families[0]; i++)
		write_policy_family(w, p, &policy_families[i]);
}

/* ---- the store, the engine, latency ---- */

static void collect_store(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	const struct {
		const char *name, *help;
		uint64_t value;
	} counters[] = {
		{"kova_redis_commands", "Commands sent to Redis.", t->redis.commands},
		{"kova_redis_connects", "Connections to Redis that came up.", t->redis.connects},
		{"kova_redis_disconnects", "Connections to Redis that were lost.",
		 t->redis.disconnects},
		{"kova_redis_timeouts", "Calls of Redis without an answer in time.",
		 t->redis.timeouts},
		{"kova_redis_redirects", "MOVED, ASK and TRYAGAIN of a Cluster.",
		 t->redis.redirects},
		{"kova_script_calls", "Calls of the decide script.", t->region.calls},
		{"kova_script_operations", "Operations in those calls.", t->region.operations},
		{"kova_script_loads", "Calls that had to bring the script along.",
		 t->region.script_loads},
		{"kova_lease_decisions", "Decisions from leased permits and remembered refusals.",
		 t->leases.decisions},
		{"kova_leases", "Leases granted to this agent.", t->leases.granted},
		{"kova_leases_returned", "Leases of which something was given back.",
		 t->leases.returned},
		{"kova_redis_out_of_step", "Replies that belonged to another call.",
		 t->region.out_of_step},
		{"kova_clock_skew_refusals",
		 "Calls in which nothing was refilled, because the clocks differ.",
		 t->region.refills_refused},
		{"kova_clock_leaps",
		 "How often a store's clock, or this agent's, was found to have been set.",
		 t->region.clock_leaps},
	};

	for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
		metrics_number(w, counters[i].name, METRIC_COUNTER, NULL, counters[i].help,
			       (double)counters[i].value);
	metrics_number(w, "kova_lease_keys", METRIC_GAUGE, NULL,
		       "Keys that are asked for so often that they may be decided in memory.",
		       (double)t->leases.keys);
}

/* Of the other regions that can be reached from here. */
static void write_far_outages(struct metrics_writer *w, const struct ops_site sites[REGIONS_MAX])
{
	for (unsigned i = 0; i < REGIONS_MAX; i++) {
		char part[REGION_PEER_BYTES];
		const struct metric_label label = {"part", part};

		if (sites[i].shards == 0)
			continue;
		snprintf(part, sizeof part, "redis@%s", sites[i].name);
		metrics_sample(w, &label, 1, sites[i].down > 0);
	}
}

static void collect_home(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	double decisions = (double)(t->home.decisions + t->leases.decisions);
	double far = (double)t->home.far;

	metrics_number(w, "kova_home_far_decisions", METRIC_COUNTER, NULL,
		       "Decisions for which another region was asked.", far);
	metrics_number(w, "kova_home_local_ratio", METRIC_GAUGE, NULL,
		       "The part of all decisions since the start that needed no other region.",
		       decisions > 0 ? 1 - far / decisions : 1);
}

static void collect_engine(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	const struct engine_health health = t->health;
	const struct metric_label redis = {"part", "redis"}, durability = {"part", "durability"},
				  kafka = {"part", "kafka"};

	metrics_family(w, "kova_outage", METRIC_GAUGE, NULL,
		       "1 while this part can not be reached, in whole or for some keys.");
	metrics_sample(w, &redis, 1, health.shards_up < health.shards);
	metrics_sample(w, &durability, 1, health.durable_shards_up < health.durable_shards);
	write_far_outages(w, t->sites);
	if (t->publishes)
		metrics_sample(w, &kafka, 1, !t->publisher.kafka.up);
	metrics_number(w, "kova_redis_shards", METRIC_GAUGE, NULL, "Shards of the store.",
		       health.shards);
	metrics_number(w, "kova_redis_shards_up", METRIC_GAUGE, NULL, "Shards that can be asked.",
		       health.shards_up);
	metrics_number(w, "kova_requests_in_progress", METRIC_GAUGE, NULL,
		       "Requests without an answer, waiters among them.", (double)health.requests);
	metrics_number(w, "kova_outage_keys_full", METRIC_COUNTER, NULL,
		       "Refusals in an outage because too many keys were asked for.",
		       (double)t->outage_full);
}

static void collect_kafka(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	const struct publisher_counters *p = &t->publisher;
	const struct metric_number numbers[] = {
		{"kova_usage_unpublished", METRIC_GAUGE,
		 "Usage counters whose present value is not known to be in Kafka.",
		 p->usage.unpublished},
		{"kova_usage_overflows", METRIC_COUNTER,
		 "How often usage was counted for the other roots of its policy, since too many "
		 "were not published yet.",
		 p->usage.overflows},
		{"kova_usage_lost", METRIC_COUNTER, "Costs that memory was out to count.",
		 p->usage.lost},
		{"kova_events_dropped", METRIC_COUNTER,
		 "Events that were not published: too many waited, or Kafka refused them.",
		 p->events_dropped},
		{"kova_kafka_records", METRIC_COUNTER, "Records that the brokers have.",
		 p->kafka.delivered},
		{"kova_kafka_failures", METRIC_COUNTER,
		 "Records that the brokers are not known to have; they are produced again.",
		 p->kafka.failed},
	};

	if (t->publishes)
		metrics_numbers(w, numbers, sizeof numbers / sizeof numbers[0]);
}

static void collect_traces(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	const struct tracer_counters *s = &t->spans;
	const struct {
		const char *outcome;
		uint64_t value;
	} outcomes[] = {{"exported", s->exported},
			{"dropped", s->dropped},
			{"rejected", s->rejected},
			{"failed", s->failed}};

	if (!t->traces)
		return;
	metrics_family(w, "kova_trace_spans", METRIC_COUNTER, NULL,
		       "Spans by what became of them: the collector has them; there was no room in "
		       "the queue; the collector rejected them; it refused their batch, or did not "
		       "answer for a minute.");
	for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
		const struct metric_label label = {"outcome", outcomes[i].outcome};

		metrics_sample(w, &label, 1, (double)outcomes[i].value);
	}
	metrics_number(w, "kova_trace_spans_queued", METRIC_GAUGE, NULL,
		       "Spans that wait for the collector.", (double)s->queued);
}

static void write_roots(struct metrics_writer *w, const struct ops_totals *t)
{
	static const char *const states[QUOTA_STATES] = {[QUOTA_GRANTED] = "granted",
							 [QUOTA_FLOOR] = "floor",
							 [QUOTA_LENT] = "lent",
							 [QUOTA_CLIPPED] = "clipped"};
	const struct quotas_numbers *q = &t->quotas;

	metrics_family(w, "kova_quota_roots", METRIC_GAUGE, NULL,
		       "Roots of global limits in use, by which share is in force in this region: "
		       "a grant's; the floor; what is not lent of it; no grant's, though it is "
		       "asked for.");
	for (unsigned i = 0; i < q->n_policies; i++)
		for (int state = 0; state < QUOTA_STATES; state++) {
			const struct metric_label labels[] = {{"policy", q->policies[i].name},
							      {"region", t->own_region},
							      {"state", states[state]}};

			metrics_sample(w, labels, 3, (double)q->policies[i].roots[state]);
		}
}

static void write_shares(struct metrics_writer *w, const struct ops_totals *t)
{
	const struct quotas_numbers *q = &t->quotas;

	metrics_family(w, "kova_global_share", METRIC_GAUGE, NULL,
		       "The part of global limits that is in force in this region: the mean over "
		       "the roots that are in use.");
	for (unsigned i = 0; i < q->n_policies; i++) {
		const struct metric_label labels[] = {{"policy", q->policies[i].name},
						      {"region", t->own_region}};

		metrics_sample(w, labels, 2, q->policies[i].share);
	}
	metrics_family(w, "kova_quota_demand_ratio", METRIC_GAUGE, NULL,
		       "The part of global limits that this agent is asked for: the mean over the "
		       "roots that are in use. 1 is all of the limit.");
	for (unsigned i = 0; i < q->n_policies; i++) {
		const struct metric_label labels[] = {{"policy", q->policies[i].name},
						      {"region", t->own_region}};

		metrics_sample(w, labels, 2, q->policies[i].demand);
	}
	write_roots(w, t);
	metrics_family(w, "kova_global_excess_bound_ratio", METRIC_GAUGE, NULL,
		       "Loose limits: the part of the limit by which it may be exceeded because "
		       "this region goes on without news; 0 when it is in touch.");
	for (unsigned i = 0; i < q->n_policies; i++) {
		const struct metric_label label = {"policy", q->policies[i].name};

		if (q->policies[i].loose)
			metrics_sample(w, &label, 1, q->policies[i].excess);
	}
}

static void write_grants(struct metrics_writer *w, const struct grants_numbers *g)
{
	const struct {
		const char *outcome;
		uint64_t n;
	} grants[] = {{"read", g->read}, {"ignored", g->ignored}, {"malformed", g->malformed}};

	metrics_family(w, "kova_grants", METRIC_COUNTER, NULL,
		       "Grants that came: to this region and new; others; records that are none.");
	for (size_t i = 0; i < sizeof grants / sizeof grants[0]; i++) {
		const struct metric_label label = {"outcome", grants[i].outcome};

		metrics_sample(w, &label, 1, (double)grants[i].n);
	}
}

static void collect_shares(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	const struct quotas_numbers *q = &t->quotas;
	const struct metric_number numbers[] = {
		{"kova_quotas", METRIC_GAUGE,
		 "Global quotas, a policy and a root each, that this agent reports.", q->quotas},
		{"kova_quotas_clipped", METRIC_GAUGE,
		 "Of these: asked for here, and without a grant, so that the floor is all there "
		 "is.",
		 q->clipped},
		{"kova_quotas_overflows", METRIC_COUNTER,
		 "How often a quota was not reported, since there was no room for more.",
		 q->overflows},
		{"kova_share_reports", METRIC_COUNTER, "Reports of shares that were produced.",
		 q->reports},
		{"kova_grants_applied", METRIC_COUNTER,
		 "Grants that this agent was the first to tell the region's Redis.", q->applied},
	};

	if (!q->on)
		return;
	write_shares(w, t);
	write_grants(w, &t->grants);
	metrics_numbers(w, numbers, sizeof numbers / sizeof numbers[0]);
}

static void collect_clock(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;

	metrics_family(w, "kova_clock_skew_seconds", METRIC_GAUGE, "seconds",
		       "A store's or another node's clock minus this agent's, as far as calls and "
		       "answers tell.");
	for (unsigned i = 0; i < t->n_skew; i++) {
		const struct metric_label label = {"peer", t->peer[i]};

		if (t->skew[i].known)
			metrics_sample(w, &label, 1, (double)t->skew[i].us / 1e6);
	}
	gossip_numbers_write_skews(w, &t->gossip);
}

static void collect_gossip(struct metrics_writer *w, const void *totals)
{
	gossip_numbers_write(w, &((const struct ops_totals *)totals)->gossip);
}

static void collect_latency(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	static const char *const names[OPS_PROTOCOLS] = {
		[OPS_HTTP] = "http", [OPS_RESP] = "resp", [OPS_GRPC] = "grpc"};

	metrics_family(w, "kova_request_duration_seconds", METRIC_HISTOGRAM, "seconds",
		       "From a whole request to its answer, waiting included.");
	for (unsigned i = 0; i < OPS_PROTOCOLS; i++) {
		const struct metric_label label = {"protocol", names[i]};

		metrics_histogram(w, &label, 1, &t->latency[i]);
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

static void collect_process(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;
	const double page = (double)sysconf(_SC_PAGESIZE);
	unsigned long virtual_pages, resident_pages;
	struct rlimit files;

	read_memory(&virtual_pages, &resident_pages);
	metrics_number(w, "process_cpu_seconds", METRIC_COUNTER, "seconds",
		       "CPU time, user and system.", cpu_seconds());
	metrics_number(w, "process_start_time_seconds", METRIC_GAUGE, "seconds",
		       "When the process started, since the epoch.", t->started_s);
	metrics_number(w, "process_resident_memory_bytes", METRIC_GAUGE, "bytes",
		       "Resident memory.", (double)resident_pages * page);
	metrics_number(w, "process_virtual_memory_bytes", METRIC_GAUGE, "bytes", "Virtual memory.",
		       (double)virtual_pages * page);
	metrics_number(w, "process_open_fds", METRIC_GAUGE, NULL, "Open file descriptors.",
		       count_open_files());
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		metrics_number(w, "process_max_fds", METRIC_GAUGE, NULL,
			       "File descriptors that may be open.", (double)files.rlim_cur);
}

static void collect_build(struct metrics_writer *w, const void *totals)
{
	const struct metric_label version = {"version", KOVA_VERSION};

	(void)totals;
	metrics_family(w, "kova_build", METRIC_INFO, NULL, "What runs here.");
	metrics_sample(w, &version, 1, 1);
}

/* ---- connections ---- */

static void sample(struct metrics_writer *w, const char *label, const char *value, uint64_t number)
{
	struct metric_label labels[] = {{label, value}};

	metrics_sample(w, labels, 1, (double)number);
}

static void collect_connections(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;

	conn_metrics_write(w, t->connections, t->max_clients, &t->conns);
	metrics_family(w, "kova_grpc_cut", METRIC_COUNTER, NULL,
		       "gRPC calls, and of floods whole connections, ended by the agent.");
	sample(w, "reason", "flood", t->grpc.floods);
	sample(w, "reason", "too_large", t->grpc.too_large);
	sample(w, "reason", "late", t->grpc.late);
}

static void collect_live(struct metrics_writer *w, const void *totals)
{
	const struct live_counters *n = &((const struct ops_totals *)totals)->live;
	const struct metric_number numbers[] = {
		{"kova_stream_viewers", METRIC_GAUGE, "Those who watch /v1/stream now.",
		 n->viewers},
		{"kova_stream_events", METRIC_COUNTER,
		 "Rounds of numbers that were gathered for them; none while nobody watches.",
		 n->events},
		{"kova_stream_skipped", METRIC_COUNTER,
		 "Rounds that one of them was not sent, since the last one was still to be taken.",
		 n->skipped},
		{"kova_stream_cut_off", METRIC_COUNTER,
		 "Of them, those who were cut off as they took nothing for ten rounds.",
		 n->cut_off},
		{"kova_stream_refused", METRIC_COUNTER,
		 "Those who were refused as 64 watched already.", n->refused},
	};

	metrics_numbers(w, numbers, sizeof numbers / sizeof numbers[0]);
}

static void collect_tls(struct metrics_writer *w, const void *totals)
{
	const struct ops_totals *t = totals;

	tls_metrics_write(w, &(struct tls_numbers){.fronts = t->tls_fronts,
						   .expires_s = t->tls_expires_s,
						   .counters = t->conns.tls});
}

static void collect_quotas(struct metrics_writer *w, const void *totals)
{
	rlqs_metrics_write(w, &((const struct ops_totals *)totals)->rlqs);
}

void ops_metrics(const struct ops_totals *t, struct buf *out, bool openmetrics)
{
	static metrics_collector *const collectors[] = {
		collect_build,  collect_policies, collect_store,   collect_engine,
		collect_home,   collect_kafka,    collect_shares,  collect_clock,
		collect_gossip, collect_latency,  collect_process, collect_connections,
		collect_pools,  collect_traces,   collect_live,    collect_tls,
		collect_quotas, collect_top,
	};

	metrics_write(out, openmetrics, collectors, sizeof collectors / sizeof collectors[0], t);
}
