#include "ops.h"

#include "ops_pools.h"

#include <string.h>
#include <time.h>

#include "agent.h"
#include "io/log.h"

enum { LOG_FLUSH_MS = 1000, CLIPPED_NAMES_MAX = 8 };

/* ---- the clock ---- */

uint64_t ops_now_us(struct ops *o)
{
	if (!o->fresh) {
		o->now_us = uv_hrtime() / 1000;
		o->fresh = true;
	}
	return o->now_us;
}

void ops_observe(struct ops *o, enum ops_protocol protocol, uint64_t begun_us)
{
	metrics_observe(&o->latency[protocol], (double)(ops_now_us(o) - begun_us) / 1e6);
}

static void on_after_poll(uv_check_t *handle)
{
	struct ops *o = handle->data;

	o->fresh = false;
}

static void on_before_poll(uv_prepare_t *handle)
{
	struct ops *o = handle->data;

	o->fresh = false;
}

static void on_log_timer(uv_timer_t *handle)
{
	(void)handle;
	log_flush();
}

/* ---- totals ---- */

/* Adds up structs of nothing but uint64_t. */
static void add_numbers(void *sums, const void *numbers, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += sizeof(uint64_t)) {
		uint64_t sum, number;

		memcpy(&sum, (char *)sums + at, sizeof sum);
		memcpy(&number, (const char *)numbers + at, sizeof number);
		sum += number;
		memcpy((char *)sums + at, &sum, sizeof sum);
	}
}

#define ADD_NUMBERS(sums, numbers) add_numbers(sums, &(numbers), sizeof *(sums))

/* The loops have the same shards before them: one that any of them can't ask is down. */
static void add_health(struct ops_totals *t, const struct engine_health *h)
{
	struct engine_health *sum = &t->health;
	unsigned down = h->shards - h->shards_up,
		 durable_down = h->durable_shards - h->durable_shards_up;

	if (h->shards > sum->shards)
		sum->shards = h->shards;
	if (h->durable_shards > sum->durable_shards)
		sum->durable_shards = h->durable_shards;
	if (down > t->shards_down)
		t->shards_down = down;
	if (durable_down > t->durable_shards_down)
		t->durable_shards_down = durable_down;
	sum->shards_up = sum->shards - t->shards_down;
	sum->durable_shards_up = sum->durable_shards - t->durable_shards_down;
	sum->waiters += h->waiters;
	sum->requests += h->requests;
	sum->is_contradicted = sum->is_contradicted || h->is_contradicted;
}

/* The place of the clock that is called `peer`; NULL: there are too many. */
static struct region_skew *clock_of(struct ops_totals *t, const char *peer)
{
	unsigned i = 0;

	while (i < t->n_skew && strcmp(t->peer[i], peer) != 0)
		i++;
	if (i == OPS_CLOCKS_MAX)
		return NULL;
	if (i == t->n_skew)
		strcpy(t->peer[t->n_skew++], peer);
	return &t->skew[i];
}

static void add_clock(struct ops_totals *t, const struct region_clock *c)
{
	for (unsigned i = 0; i < c->n_shards; i++) {
		const struct region_skew skew = region_clock_skew(c, i);
		char peer[REGION_PEER_BYTES];
		struct region_skew *sum = clock_of(t, region_clock_peer(c, i, peer));

		if (sum == NULL)
			t->other_clock_differs = t->other_clock_differs || skew.refused;
		else if (skew.heard_us > sum->heard_us)
			*sum = skew;
	}
}

/* The regions' Redises, as add_health(); the own one's clock is among theirs. */
static void add_sites(struct ops_totals *t, const struct engine *e)
{
	for (unsigned i = 0; i < REGIONS_MAX; i++) {
		const struct region_clock *clock = engine_clock(e, i);
		const struct site_health h = engine_site_health(e, i);
		struct ops_site *sum = &t->sites[i];

		if (clock != NULL)
			add_clock(t, clock);
		sum->name = h.name;
		if (h.shards > sum->shards)
			sum->shards = h.shards;
		if (h.shards - h.shards_up > sum->down)
			sum->down = h.shards - h.shards_up;
	}
}

static void add_latency(struct metrics_histogram *sum, const struct metrics_histogram *h)
{
	for (unsigned i = 0; i <= METRICS_BUCKETS; i++)
		sum->bucket[i] += h->bucket[i];
	sum->sum_s += h->sum_s;
}

static void add_connections(struct ops_totals *t, const struct conn_pool *conns)
{
	const struct conn_counters n = conn_pool_counters(conns);

	ADD_NUMBERS(&t->conns, n);
	t->connections += conn_pool_count(conns);
	t->max_clients = conn_pool_max_clients(conns);
}

static void add_certificate(struct ops_totals *t, const struct agent *a)
{
	const struct edge_conf *conf = &a->conf;

	if (a->tls == NULL)
		return;
	t->tls_fronts = conf->tls.fronts & ((conf->listen_resp != NULL ? TLS_FRONT_RESP : 0U) |
					    (conf->listen_http != NULL ? TLS_FRONT_HTTP : 0U) |
					    (conf->listen_grpc != NULL ? TLS_FRONT_GRPC : 0U));
	t->tls_expires_s = tls_server_expires_s(a->tls);
}

static void add_policy(const struct policy_stats *s, unsigned i, void *data)
{
	struct ops_totals *t = data;
	struct ops_policies *p = t->policies;
	struct ops_policy *at = &p->of[i < OPS_POLICIES_MAX ? i : OPS_POLICIES_MAX];
	const struct policy_counts *n = policy_counts_of(s, t->loop);

	at->name = i < OPS_POLICIES_MAX ? s->name : "(other)"; /* no policy can be called so */
	if (p->n < OPS_POLICIES_MAX + 1 && p->n <= i)
		p->n++;
	policy_counts_add(&at->counts, n);
}

void ops_add(const struct agent *a, struct ops_totals *t)
{
	if (a->engine == NULL) /* its loop has ended its work */
		return;
	const struct redis_counters redis = engine_redis_counters(a->engine);
	const struct region_counters region = engine_region_counters(a->engine);
	const struct leases_counters leases = engine_leases_counters(a->engine);
	const struct engine_health health = engine_health(a->engine);
	const struct home_counters home = engine_home_counters(a->engine);

	ADD_NUMBERS(&t->redis, redis);
	ADD_NUMBERS(&t->region, region);
	ADD_NUMBERS(&t->leases, leases);
	add_health(t, &health);
	ADD_NUMBERS(&t->home, home);
	add_sites(t, a->engine);
	t->outage_full += engine_outage_full(a->engine);
	if (a->publisher != NULL) {
		t->publishes = true;
		t->publisher = publisher_counters(a->publisher);
		if (publisher_quotas(a->publisher) != NULL) {
			quotas_numbers(publisher_quotas(a->publisher), &t->quotas);
			t->grants = grants_numbers(publisher_grants(a->publisher));
		}
	}
	if (a->tracer != NULL && a->owner == NULL) {
		t->traces = true;
		t->spans = tracer_counters(a->tracer);
	}
	t->own_region = a->conf.region;
	t->draining = t->draining || a->draining;
	t->started_s = a->ops.started_s;
	for (unsigned i = 0; i < OPS_PROTOCOLS; i++)
		add_latency(&t->latency[i], &a->ops.latency[i]);
	ADD_NUMBERS(&t->grpc, a->ops.grpc);
	ADD_NUMBERS(&t->rlqs, a->ops.rlqs);
	if (a->ops.conns != NULL)
		add_connections(t, a->ops.conns);
	add_certificate(t, a);
	t->loop = a->index;
	if (a->live != NULL)
		t->live = live_counters(a->live);
	if (a->gossip != NULL)
		gossip_service_numbers(a->gossip, &t->gossip);
	if (t->policies != NULL)
		policy_stats_each(add_policy, t);
	if (t->pools != NULL)
		ops_pools_add(a, t->pools);
}

/* ---- ready ---- */

static bool clock_differs(const struct ops_totals *t)
{
	bool differs = t->other_clock_differs;

	for (unsigned i = 0; i < t->n_skew; i++)
		differs = differs || t->skew[i].refused;
	return differs;
}

/* Of global limits, those of which the region has no grant though they are asked for: some of their names. */
static void write_clipped(const struct quotas_numbers *q, struct buf *to)
{
	unsigned said = 0;

	buf_printf(to, ",\"clipped\":[");
	for (unsigned i = 0; i < q->n_policies && said < CLIPPED_NAMES_MAX; i++)
		if (q->policies[i].roots[QUOTA_CLIPPED] > 0)
			buf_printf(to, "%s\"%s\"", said++ > 0 ? "," : "", q->policies[i].name);
	buf_printf(to, "]");
}

bool ops_ready(const struct ops_totals *t, struct buf *ret_json)
{
	const struct engine_health *health = &t->health;
	const struct {
		const char *name;
		bool is_degraded;
	} parts[] = {{"redis", t->shards_down > 0},
		     {"kafka", t->publishes && !t->publisher.kafka.up},
		     {"durability", t->durable_shards_down > 0},
		     {"regions", health->is_contradicted},
		     {"clock", clock_differs(t)}};
	struct buf names = {0};

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (parts[i].is_degraded)
			buf_printf(&names, "%s\"%s\"", names.len > 0 ? "," : "", parts[i].name);
	for (unsigned i = 0; i < REGIONS_MAX; i++)
		if (t->sites[i].down > 0)
			buf_printf(&names, "%s\"redis@%s\"", names.len > 0 ? "," : "",
				   t->sites[i].name);
	if (t->quotas.clipped > 0)
		buf_printf(&names, "%s\"share@%s\"", names.len > 0 ? "," : "", t->own_region);
	buf_printf(ret_json,
		   "{\"status\":\"%s\",\"degraded\":[%.*s],"
		   "\"redis\":{\"shards\":%u,\"up\":%u},"
		   "\"waiters\":%llu,\"requests\":%llu",
		   t->draining     ? "draining"
		   : names.len > 0 ? "degraded"
				   : "ready",
		   (int)names.len, names.len > 0 ? names.ptr : "", health->shards,
		   health->shards_up, (unsigned long long)health->waiters,
		   (unsigned long long)health->requests);
	if (t->quotas.clipped > 0)
		write_clipped(&t->quotas, ret_json);
	buf_printf(ret_json, "}\n");
	buf_release(&names);
	return !t->draining;
}

/* ---- begin and end ---- */

/* The loop does not stay alive for these. */
static void start_handles(struct ops *o, uv_loop_t *loop)
{
	uv_check_init(loop, &o->after_poll);
	uv_prepare_init(loop, &o->before_poll);
	uv_timer_init(loop, &o->log_timer);
	o->after_poll.data = o->before_poll.data = o;
	uv_check_start(&o->after_poll, on_after_poll);
	uv_prepare_start(&o->before_poll, on_before_poll);
	uv_timer_start(&o->log_timer, on_log_timer, LOG_FLUSH_MS, LOG_FLUSH_MS);
	uv_unref((uv_handle_t *)&o->after_poll);
	uv_unref((uv_handle_t *)&o->before_poll);
	uv_unref((uv_handle_t *)&o->log_timer);
}

void ops_start(struct agent *a, struct conn_pool *conns)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	a->ops.started_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	a->ops.conns = conns;
	start_handles(&a->ops, a->loop);
}

void ops_stop(struct agent *a)
{
	struct ops *o = &a->ops;

	if (o->conns == NULL)
		return;
	o->conns = NULL;
	uv_close((uv_handle_t *)&o->after_poll, NULL);
	uv_close((uv_handle_t *)&o->before_poll, NULL);
	uv_close((uv_handle_t *)&o->log_timer, NULL);
}
