#include "live_text.h"

#include <stdlib.h>

#include "core/quote.h"
#include "core/version.h"
#include "io/buf_json.h"
#include "io/clock.h"
#include "members.h"
#include "top_json.h"
#include "usage.h"

enum {
	POLICIES_TOLD = 200, /* those beyond are summed up as `(other)` */
	TOP_TOLD = 10,
};

typedef unsigned long long number;

bool live_numbers_init(struct live_numbers *n)
{
	n->totals.policies = calloc(1, sizeof *n->totals.policies);
	n->top = top_keys_new();
	if (n->totals.policies != NULL && n->top != NULL)
		return true;
	live_numbers_release(n);
	return false;
}

void live_numbers_release(struct live_numbers *n)
{
	free(n->totals.policies);
	top_keys_free(n->top);
}

void live_numbers_add(struct live_numbers *n, struct agent *a)
{
	ops_add(a, &n->totals);
	if (a->engine != NULL)
		top_keys_merge(n->top, usage_get_top(a->engine));
}

/* ---- policies ---- */

static void write_policy(struct buf *out, const char *name, const struct policy_counts *c)
{
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{"allowed", c->allowed},
		{"refused", c->refused},
		{"outage", c->outage},
		{"shadow", c->shadow},
		{"waited", c->waited},
		{"waiting", c->waiters},
		{"queue_full", c->queue_full},
		{"wait_timeout", c->wait_timeouts},
		{"banned", c->banned},
		{"held", c->held},
		{"breaker_open", c->breaker_open},
	};

	buf_printf(out, "{\"policy\":\"%s\"", name);
	for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
		buf_printf(out, ",\"%s\":%llu", counts[i].name, (number)counts[i].value);
	buf_add_text(out, "}");
}

static void write_policies(struct buf *out, const struct ops_policies *p)
{
	unsigned own = p->n < POLICIES_TOLD ? p->n : POLICIES_TOLD;
	struct policy_counts others = {0};

	buf_add_text(out, ",\"policies\":[");
	for (unsigned i = 0; i < own; i++) {
		buf_add_text(out, i > 0 ? "," : "");
		write_policy(out, p->of[i].name, &p->of[i].counts);
	}
	for (unsigned i = own; i < p->n; i++)
		policy_counts_add(&others, &p->of[i].counts);
	if (own < p->n) {
		buf_add_text(out, ",");
		write_policy(out, "(other)", &others);
	}
	buf_add_text(out, "]");
}

/* ---- what it stands on ---- */

static void write_parts(struct buf *out, const struct ops_totals *t)
{
	buf_printf(out, ",\"outages\":{\"redis\":%s,\"durability\":%s",
		   t->health.shards_up < t->health.shards ? "true" : "false",
		   t->health.durable_shards_up < t->health.durable_shards ? "true" : "false");
	if (t->publishes)
		buf_printf(out, ",\"kafka\":%s", t->publisher.kafka.up ? "false" : "true");
	for (unsigned i = 0; i < REGIONS_MAX; i++)
		if (t->sites[i].shards > 0)
			buf_printf(out, ",\"redis@%s\":%s", t->sites[i].name,
				   t->sites[i].down > 0 ? "true" : "false");
	buf_add_text(out, "}");
}

static void write_work(struct buf *out, const struct ops_totals *t)
{
	buf_printf(out,
		   ",\"redis\":{\"commands\":%llu,\"timeouts\":%llu,\"connects\":%llu,"
		   "\"disconnects\":%llu,\"operations\":%llu}",
		   (number)t->redis.commands, (number)t->redis.timeouts, (number)t->redis.connects,
		   (number)t->redis.disconnects, (number)t->region.operations);
	buf_printf(out,
		   ",\"leases\":{\"decisions\":%llu,\"granted\":%llu,\"returned\":%llu,"
		   "\"keys\":%llu}",
		   (number)t->leases.decisions, (number)t->leases.granted,
		   (number)t->leases.returned, (number)t->leases.keys);
	buf_printf(out, ",\"home\":{\"decisions\":%llu,\"far\":%llu}", (number)t->home.decisions,
		   (number)t->home.far);
	buf_printf(out, ",\"connections\":%llu", (number)t->connections);
	if (t->publishes)
		buf_printf(out, ",\"kafka\":{\"unpublished\":%llu,\"events_dropped\":%llu}",
			   (number)t->publisher.usage.unpublished,
			   (number)t->publisher.events_dropped);
}

static void write_latency(struct buf *out, const struct ops_totals *t)
{
	static const char *const names[OPS_PROTOCOLS] = {
		[OPS_HTTP] = "http", [OPS_RESP] = "resp", [OPS_GRPC] = "grpc"};

	buf_add_text(out, ",\"latency\":{\"bounds_ms\":[");
	for (unsigned i = 0; i < METRICS_BUCKETS; i++)
		buf_printf(out, "%s%g", i > 0 ? "," : "", metrics_bound_s(i) * 1000);
	buf_add_text(out, "]");
	for (unsigned i = 0; i < OPS_PROTOCOLS; i++) {
		buf_printf(out, ",\"%s\":[", names[i]);
		for (unsigned b = 0; b <= METRICS_BUCKETS; b++)
			buf_printf(out, "%s%llu", b > 0 ? "," : "",
				   (number)t->latency[i].bucket[b]);
		buf_add_text(out, "]");
	}
	buf_add_text(out, "}");
}

static void write_clocks(struct buf *out, const struct ops_totals *t)
{
	bool first = true;

	buf_add_text(out, ",\"clocks\":[");
	for (unsigned i = 0; i < t->n_skew; i++) {
		if (!t->skew[i].known)
			continue;
		buf_printf(out, "%s{\"peer\":\"%s\",\"skew_ms\":%.1f,\"differs\":%s}",
			   first ? "" : ",", t->peer[i], (double)t->skew[i].us / 1e3,
			   t->skew[i].refused ? "true" : "false");
		first = false;
	}
	buf_add_text(out, "]");
}

static void write_quotas(struct buf *out, const struct quotas_numbers *q)
{
	buf_add_text(out, ",\"quotas\":[");
	for (unsigned i = 0; i < q->n_policies; i++) {
		const struct quotas_policy *p = &q->policies[i];

		buf_printf(out,
			   "%s{\"policy\":\"%s\",\"share\":%.6g,\"demand\":%.6g,\"excess\":%.6g,"
			   "\"loose\":%s,\"granted\":%llu,\"floor\":%llu,\"lent\":%llu,"
			   "\"clipped\":%llu}",
			   i > 0 ? "," : "", p->name, p->share, p->demand, p->excess,
			   p->loose ? "true" : "false", (number)p->roots[QUOTA_GRANTED],
			   (number)p->roots[QUOTA_FLOOR], (number)p->roots[QUOTA_LENT],
			   (number)p->roots[QUOTA_CLIPPED]);
	}
	buf_add_text(out, "]");
}

static void write_head(struct buf *out, const struct live_numbers *n, const struct agent *owner)
{
	buf_printf(out, "{\"at\":%llu,\"node\":", (number)(clock_read().wall_us / 1000));
	quote_json(out, slice_of(owner->conf.node));
	buf_add_text(out, ",\"region\":");
	quote_json(out, slice_of(owner->conf.region));
	buf_printf(out,
		   ",\"version\":\"" KOVA_VERSION "\",\"started\":%llu,\"config\":%llu,"
		   "\"viewers\":%u,\"health\":",
		   (number)(n->totals.started_s * 1000), (number)n->config, n->viewers);
	(void)ops_ready(&n->totals, out);
	out->len -= out->len > 0 && !buf_failed(out); /* an event's data is one line */
}

void live_text_stats(const struct live_numbers *n, const struct agent *owner, struct buf *out)
{
	buf_add_text(out, "event: stats\ndata: ");
	write_head(out, n, owner);
	write_policies(out, n->totals.policies);
	write_parts(out, &n->totals);
	write_work(out, &n->totals);
	write_latency(out, &n->totals);
	write_clocks(out, &n->totals);
	write_quotas(out, &n->totals.quotas);
	buf_add_text(out, "}\n\n");
}

/* ---- keys, pools, members ---- */

void live_text_top(const struct live_numbers *n, struct buf *out)
{
	buf_printf(out, "event: top\ndata: {\"at\":%llu,", (number)(clock_read().wall_us / 1000));
	top_json_write(n->top, (struct slice){NULL, 0}, TOP_TOLD, out);
	buf_add_text(out, "}\n\n");
}

void live_text_pools(struct live_pools *pools, struct buf *out)
{
	buf_add_text(out, "event: pools\ndata: {\"pools\":");
	live_pools_write(pools, out);
	buf_add_text(out, "}\n\n");
}

void live_text_members(const struct agent *owner, struct buf *out)
{
	const char *address =
		owner->ops.conns != NULL ? conn_pool_address(owner->ops.conns, "http") : "";
	json_t *members = owner->gossip != NULL ? gossip_service_members(owner->gossip)
						: members_alone(&owner->conf, address);

	buf_add_text(out, "event: members\ndata: ");
	buf_add_json(out, members, JSON_COMPACT);
	buf_add_text(out, "\n\n");
	json_decref(members);
}

void live_text_events(const struct recent *events, struct buf *out)
{
	buf_add_text(out, "event: events\ndata: ");
	recent_write(events, 0, out);
	buf_add_text(out, "\n\n");
}
