#include "edge_fields.h"

#include <stddef.h>

#include "core/clock_offset.h"
#include "core/rendezvous.h"
#include "edge_regions.h"
#include "io/option_table.h"
#include "io/policy_fields.h"
#include "io/pool_fields.h"

enum { THREADS_MAX = 64 };

static const struct conf_option listen_options[] = {
	{.name = "resp",
	 .type = CONF_ADDRESS,
	 .nullable = true,
	 .at = offsetof(struct listen_fields, resp),
	 .fallback = "localhost:7411",
	 .text = "the Redis protocol. The host is an IP address or `localhost` (127.0.0.1 and, "
		 "where there is IPv6, [::1]); port 0: any free one"},
	{.name = "http",
	 .type = CONF_ADDRESS,
	 .nullable = true,
	 .at = offsetof(struct listen_fields, http),
	 .fallback = "localhost:7412",
	 .text = "HTTP/1.1: the API, administration, health and metrics"},
	{.name = "unix",
	 .type = CONF_PATH,
	 .nullable = true,
	 .at = offsetof(struct listen_fields, unix_path),
	 .otherwise = "off",
	 .text = "the Redis protocol on a unix socket, at most 107 bytes long"},
	{.name = "grpc",
	 .type = CONF_ADDRESS,
	 .nullable = true,
	 .at = offsetof(struct listen_fields, grpc),
	 .otherwise = "`localhost:7413` without `listen`, else off",
	 .text = "gRPC: Envoy's rate limit service, health, reflection"},
};

static const struct conf_table listen_table = {
	.title = "`listen`",
	.text = "Where clients reach the agent; `null` turns a front off. Beyond loopback the "
		"agent needs `auth` with a `tokens_file` or `certificates`, or `insecure`.",
	.options = listen_options,
	.n_options = COUNT(listen_options),
};

static const struct conf_option region_options[] = {
	{.name = "redis",
	 .type = CONF_RAW,
	 .form = "object, as `redis` above",
	 .at = offsetof(struct region_fields, redis),
	 .otherwise = "this node's own region: as `redis`",
	 .text = "its Redis, as this node reaches it; not `embedded` for another region, whose "
		 "`timeout` "
		 "is 1s unless it says another. Without it keys that are at home there are decided "
		 "by `on_outage`"},
	{.name = "weight",
	 .type = CONF_INT,
	 .at = offsetof(struct region_fields, weight),
	 .fallback = "1",
	 .min = 0,
	 .max = RENDEZVOUS_WEIGHT_MAX,
	 .text = "its share of the keys, beside the weights of the others; 0: no key is at home "
		 "there"},
	{.name = "floor",
	 .type = CONF_PART,
	 .at = offsetof(struct region_fields, floor),
	 .otherwise = "0.1 ÷ the number of regions",
	 .text = "the part of every global limit that it may always use ([Global "
		 "quotas](global.md)); together at most 1"},
	{.name = "dead",
	 .type = CONF_BOOL,
	 .at = offsetof(struct region_fields, dead),
	 .fallback = "false",
	 .text = "the operator's word that it is gone and decides nothing any more: keys that were "
		 "at "
		 "home there are not asked for. Its `weight` must be 0"},
};

const struct conf_table region_table = {
	.title = "A region",
	.text = "A member of `regions`, which is an object with a member for each region of the "
		"world, by its name; the same on every node, but for how each Redis is reached. "
		"What it is for: [Home regions](home.md).",
	.options = region_options,
	.n_options = COUNT(region_options),
};

static const struct conf_option clock_options[] = {
	{.name = "max_skew",
	 .type = CONF_DURATION,
	 .at = 0,
	 .fallback = "250ms",
	 .min = CLOCK_SKEW_MIN_MS,
	 .max = CLOCK_SKEW_MAX_MS,
	 .text = "where this agent's clock and Redis's differ by more, for certain, its calls "
		 "refill nothing"},
};

static const struct conf_table clock_table = {
	.title = "`clock`",
	.text = "How far clocks may differ. What happens where they do: [Clocks](clocks.md).",
	.options = clock_options,
	.n_options = COUNT(clock_options),
};

static const struct conf_option edge_options[] = {
	{.name = "node",
	 .type = CONF_NAME,
	 .at = offsetof(struct edge_fields, node),
	 .otherwise = "the host's name",
	 .text = "the name of this agent in logs, events and gossip, where no other may have it"},
	{.name = "region",
	 .type = CONF_NAME,
	 .at = offsetof(struct edge_fields, region),
	 .fallback = "local",
	 .text = "the region whose Redis it uses"},
	{.name = "listen",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, listen),
	 .table = &listen_table,
	 .text = "where clients reach it"},
	{.name = "threads",
	 .type = CONF_INT,
	 .at = offsetof(struct edge_fields, threads),
	 .fallback = "1",
	 .min = 1,
	 .max = THREADS_MAX,
	 .text = "event loops, each with its own connections to Redis and its own leases: as many "
		 "as "
		 "there are cores for it"},
	{.name = "auth",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, auth),
	 .table = &auth_table,
	 .text = "who may ask"},
	{.name = "tls",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, tls),
	 .table = &tls_table,
	 .text = "TLS for clients. Absent: none"},
	{.name = "insecure",
	 .type = CONF_BOOL,
	 .at = offsetof(struct edge_fields, insecure),
	 .fallback = "false",
	 .text = "allows to listen beyond loopback without tokens"},
	{.name = "state_dir",
	 .type = CONF_PATH,
	 .at = offsetof(struct edge_fields, state_dir),
	 .otherwise = "`$STATE_DIRECTORY`, else `$XDG_STATE_HOME/kova`, else `~/.local/state/kova`",
	 .text = "what the agent keeps: changes made by administration, the embedded Redis's data"},
	{.name = "redis",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, redis),
	 .table = &redis_table,
	 .text = "the region's Redis"},
	{.name = "regions",
	 .type = CONF_RAW,
	 .form = "object of regions",
	 .at = offsetof(struct edge_fields, regions),
	 .table = &region_table,
	 .otherwise = "none: this one alone",
	 .text = "the regions of the world; `region` must be one of them"},
	{.name = "regions_version",
	 .type = CONF_INT,
	 .at = offsetof(struct edge_fields, regions_version),
	 .fallback = "1",
	 .min = 1,
	 .max = REGIONS_VERSION_MAX,
	 .text = "greater with each change of their names, weights or floors"},
	{.name = "regions_before",
	 .type = CONF_LIST,
	 .item = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, regions_before),
	 .otherwise = "none",
	 .text = "the names and weights of earlier versions, the last one first, `[{ \"eu-west\": "
		 "1, … }]`: "
		 "where keys may have been at home, at most 8 "
		 "([Changing the regions](home.md#changing-the-regions))"},
	{.name = "policies",
	 .type = CONF_LIST,
	 .item = CONF_RAW,
	 .form = "objects",
	 .at = offsetof(struct edge_fields, policies),
	 .table = &policy_table,
	 .text = "the limits"},
	{.name = "overrides",
	 .type = CONF_LIST,
	 .item = CONF_RAW,
	 .form = "objects",
	 .at = offsetof(struct edge_fields, overrides),
	 .table = &override_table,
	 .text = "other limits for some keys"},
	{.name = "kafka",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, kafka),
	 .table = &kafka_agent_table,
	 .text = "where usage and events are published"},
	{.name = "gossip",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, gossip),
	 .table = &gossip_table,
	 .text = "how nodes agree on policies and overrides. Absent: this one stands alone"},
	{.name = "tracing",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, tracing),
	 .table = &tracing_table,
	 .text = "spans of requests for an OpenTelemetry collector. Absent: none"},
	{.name = "pools",
	 .type = CONF_LIST,
	 .item = CONF_RAW,
	 .form = "objects",
	 .at = offsetof(struct edge_fields, pools),
	 .table = &pool_table,
	 .text = "endpoints: proxies, or keys of a provider"},
	{.name = "clock",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct edge_fields, clock),
	 .table = &clock_table,
	 .text = "how far clocks may differ"},
};

const struct conf_table edge_table = {
	.title = "The node's configuration",
	.text = "One JSON object, given to `kova-agent --config FILE`. Relative paths are relative "
		"to FILE. Unknown fields are errors. "
		"Durations are `\"250ms\"` `\"10s\"` `\"5m\"` `\"1h\"` `\"7d\"`.",
	.options = edge_options,
	.n_options = COUNT(edge_options),
};
