#include "io/pool_fields.h"

#include <stddef.h>

#include "io/option_table.h"

enum { HOUR_MS = 3600000, DAY_MS = 86400000, LEAST_MS = 100 };

static const char *const kinds[] = {"proxy", "key", NULL};
static const char *const selects[] = {"round-robin", "weighted", "least-loaded", NULL};
static const char *const returns[] = {"half-open", "direct", NULL};
static const char *const families[] = {"any", "ipv4", "ipv6", NULL};
static const char *const exits[] = {"any", "same", "rotating", NULL};
static const char *const states[] = {"active", "disabled", NULL};
static const char *const dialects[] = {"none",      "openai", "azure",    "groq",
				       "anthropic", "github", "discord",  "reddit",
				       "twitter",   "ietf",   "2captcha", NULL};

static const struct conf_option cooldown_options[] = {
	{.name = "base",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_cooldown_fields, base),
	 .fallback = "30s",
	 .min = LEAST_MS,
	 .max = DAY_MS,
	 .text = "the first length, doubled on each relapse: a cooldown before `window` successes "
		 "since the last one ended"},
	{.name = "max",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_cooldown_fields, max),
	 .fallback = "15m",
	 .min = LEAST_MS,
	 .max = DAY_MS,
	 .text = "the longest, without jitter"},
	{.name = "jitter",
	 .type = CONF_PART,
	 .at = offsetof(struct pool_cooldown_fields, jitter),
	 .fallback = "0.1",
	 .text = "up to this share of it is added, so that not all return at once; 0: none"},
	{.name = "return",
	 .type = CONF_ENUM,
	 .at = offsetof(struct pool_cooldown_fields, how),
	 .fallback = "half-open",
	 .values = returns,
	 .text = "`half-open`: one ticket at a time; its success makes the endpoint active, its "
		 "failure begins the next cooldown. `direct`: active at once"},
	{.name = "trial",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_cooldown_fields, trial),
	 .otherwise = "the `lease`",
	 .min = LEAST_MS,
	 .max = HOUR_MS,
	 .text = "after which a trial that was not reported frees its place for another"},
	{.name = "ramp",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_cooldown_fields, ramp),
	 .fallback = "0s",
	 .min = 0,
	 .max = HOUR_MS,
	 .text = "`weighted` only: after the return the weight grows from 10 % to 100 % over this "
		 "time"},
};

static const struct conf_table cooldown_table = {
	.title = "A pool's `cooldown`",
	.text = "How long an endpoint is left alone, and how it comes back.",
	.options = cooldown_options,
	.n_options = COUNT(cooldown_options),
};

static const struct conf_option floor_options[] = {
	{.name = "active",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_floor_fields, active),
	 .fallback = "1",
	 .min = 0,
	 .max = POOL_ENDPOINTS_MAX,
	 .text = "fewer than this active (or due for a trial) endpoints: the pool pauses; at most "
		 "the number of endpoints"},
	{.name = "pause",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_floor_fields, pause),
	 .fallback = "30s",
	 .min = LEAST_MS,
	 .max = HOUR_MS,
	 .text = "for so long, or until the floor is reached again. After it the pool serves with "
		 "what it has; the next fall pauses again"},
};

static const struct conf_table floor_table = {
	.title = "A pool's `floor`",
	.text = "Spares the last endpoints, instead of burning them.",
	.options = floor_options,
	.n_options = COUNT(floor_options),
};

static const struct conf_option blame_options[] = {
	{.name = "within",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_blame_fields, within),
	 .fallback = "10s",
	 .min = LEAST_MS,
	 .max = DAY_MS,
	 .text = "how long ago an outcome may be to count"},
	{.name = "min",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_blame_fields, min),
	 .fallback = "3",
	 .min = 1,
	 .max = POOL_ENDPOINTS_MAX,
	 .text = "so many endpoints must have had outcomes on the target"},
	{.name = "share",
	 .type = CONF_PART,
	 .at = offsetof(struct pool_blame_fields, share),
	 .fallback = "0.5",
	 .text = "for at least this share of them most outcomes must be `blocked`, `captcha` or "
		 "`empty`: then the target is at fault, and no endpoint"},
	{.name = "hold",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_blame_fields, hold),
	 .fallback = "30s",
	 .min = LEAST_MS,
	 .max = DAY_MS,
	 .text = "how long such a target is held, unless its Retry-After says"},
	{.name = "max_out",
	 .type = CONF_PART,
	 .at = offsetof(struct pool_blame_fields, max_out),
	 .fallback = "0.5",
	 .text = "at most this share of a tier may be out by such outcomes"},
};

static const struct conf_table blame_table = {
	.title = "A pool's `blame`",
	.text = "Whose fault it is that requests are turned away: an endpoint that was recognised, "
		"or a target that turns everybody away.",
	.options = blame_options,
	.n_options = COUNT(blame_options),
};

static const struct conf_option escalate_options[] = {
	{.name = "after",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_escalate_fields, after),
	 .fallback = "3",
	 .min = 1,
	 .max = POOL_WINDOW_MAX,
	 .text = "so many signs of recognition, at most `of` ..."},
	{.name = "of",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_escalate_fields, of),
	 .fallback = "10",
	 .min = 1,
	 .max = POOL_WINDOW_MAX,
	 .text = "... among the last so many outcomes on a target in its tier: it starts one tier "
		 "higher"},
	{.name = "hold",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_escalate_fields, hold),
	 .fallback = "10m",
	 .min = LEAST_MS,
	 .max = DAY_MS,
	 .text = "for so long"},
};

static const struct conf_table escalate_table = {
	.title = "A pool's `escalate`",
	.text = "When a target is asked through the next tier: only where endpoints are "
		"recognised. Other failures never escalate.",
	.options = escalate_options,
	.n_options = COUNT(escalate_options),
};

static const struct conf_option session_options[] = {
	{.name = "ttl",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_session_fields, ttl),
	 .fallback = "10m",
	 .min = LEAST_MS,
	 .max = 7 * (int64_t)DAY_MS,
	 .text = "a session that is not used for so long is forgotten"},
	{.name = "exclusive",
	 .type = CONF_BOOL,
	 .at = offsetof(struct pool_session_fields, exclusive),
	 .fallback = "false",
	 .text = "an endpoint that has a session is given to no one else"},
};

static const struct conf_table session_table = {
	.title = "A pool's `sessions`",
	.text = "A session keeps its endpoint.",
	.options = session_options,
	.n_options = COUNT(session_options),
};

static const struct conf_option health_options[] = {
	{.name = "url",
	 .type = CONF_STRING,
	 .required = true,
	 .at = offsetof(struct pool_health_fields, url),
	 .text = "what is got through the endpoint, http:// or https://: status 200, and the first "
		 "IP address in the body counts; never the target"},
	{.name = "every",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_health_fields, every),
	 .fallback = "10s",
	 .min = LEAST_MS,
	 .max = HOUR_MS,
	 .text = "how often each is probed"},
	{.name = "timeout",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_health_fields, timeout),
	 .fallback = "5s",
	 .min = LEAST_MS,
	 .max = HOUR_MS,
	 .text = "what a probe may take, both connections of `exit` together"},
	{.name = "family",
	 .type = CONF_ENUM,
	 .at = offsetof(struct pool_health_fields, family),
	 .fallback = "any",
	 .values = families,
	 .text = "which kind of address that must be"},
	{.name = "exit",
	 .type = CONF_ENUM,
	 .at = offsetof(struct pool_health_fields, exit),
	 .fallback = "any",
	 .values = exits,
	 .text = "`same`, `rotating`: two fresh connections must find one address, or two"},
};

const struct conf_table pool_health_table = {
	.title = "A pool's `health`",
	.text = "Endpoints in cooldown are probed through a fresh connection. With it a cooldown "
		"ends only when its time is over and a probe since its start passed "
		"([Pools](pools.md#active-health)).",
	.options = health_options,
	.n_options = COUNT(health_options),
};

static const struct conf_option endpoint_options[] = {
	{.name = "id",
	 .type = CONF_NAME,
	 .at = offsetof(struct pool_endpoint_fields, id),
	 .otherwise = "`e-` and 8 hexadecimal digits that depend on the address",
	 .text = "unique in the pool; the only name of the endpoint in logs, metrics, topics and "
		 "pages"},
	{.name = "url",
	 .type = CONF_STRING,
	 .at = offsetof(struct pool_endpoint_fields, url),
	 .text = "`proxy`: `scheme://[user[:password]@]host:port`, scheme `http` `https` `socks4` "
		 "`socks4a` `socks5` `socks5h`, or `direct://`. Credentials percent-encoded, IPv6 "
		 "in "
		 "brackets, the port required; `{session}` in the credentials is replaced by the "
		 "session's id"},
	{.name = "key",
	 .type = CONF_STRING,
	 .at = offsetof(struct pool_endpoint_fields, key),
	 .text = "`key`: the provider's key"},
	{.name = "key_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct pool_endpoint_fields, key_file),
	 .text = "`key`: a file that holds it; the end of its line does not count. In a node's "
		 "file only"},
	{.name = "group",
	 .type = CONF_NAME,
	 .at = offsetof(struct pool_endpoint_fields, group),
	 .otherwise = "none",
	 .text = "members of one group share an account: a hold on one is on all"},
	{.name = "weight",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_endpoint_fields, weight),
	 .fallback = "1",
	 .min = 0,
	 .max = POOL_WEIGHT_MAX,
	 .text = "0 drains: nothing new, but its sessions keep it"},
	{.name = "tier",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_endpoint_fields, tier),
	 .fallback = "1",
	 .min = 1,
	 .max = POOL_TIER_MAX,
	 .text = "cheap first"},
	{.name = "slots",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_endpoint_fields, slots),
	 .fallback = "0",
	 .min = 0,
	 .max = POOL_SLOTS_MAX,
	 .text = "at most so many in flight; 0: no bound"},
	{.name = "state",
	 .type = CONF_ENUM,
	 .at = offsetof(struct pool_endpoint_fields, state),
	 .fallback = "active",
	 .values = states,
	 .text = "`disabled` by the operator: nothing but the operator ends that"},
};

const struct conf_table pool_endpoint_table = {
	.title = "A pool's `endpoints`",
	.text = "An object, or just a URL (`proxy`) or a key (`key`) as a string. The same address "
		"twice is one endpoint, with a warning; one `id` for two addresses is an error.",
	.options = endpoint_options,
	.n_options = COUNT(endpoint_options),
};

static const struct conf_option pool_options[] = {
	{.name = "name",
	 .type = CONF_NAME,
	 .required = true,
	 .at = offsetof(struct pool_fields, name),
	 .text = "by which requests name it; also its label in metrics and topics"},
	{.name = "kind",
	 .type = CONF_ENUM,
	 .at = offsetof(struct pool_fields, kind),
	 .fallback = "proxy",
	 .values = kinds,
	 .text = "the members of a `key` pool are secrets for a provider, not addresses"},
	{.name = "select",
	 .type = CONF_ENUM,
	 .at = offsetof(struct pool_fields, select),
	 .fallback = "round-robin",
	 .values = selects,
	 .text = "`round-robin`: exactly even. `weighted`: smooth; the weight is multiplied by the "
		 "success rate of the window. `least-loaded`: fewest in flight ÷ weight, ties in "
		 "turn"},
	{.name = "window",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_fields, window),
	 .fallback = "10",
	 .min = 2,
	 .max = POOL_WINDOW_MAX,
	 .text = "last outcomes remembered of each endpoint"},
	{.name = "threshold",
	 .type = CONF_INT,
	 .at = offsetof(struct pool_fields, threshold),
	 .fallback = "5",
	 .min = 2,
	 .max = POOL_WINDOW_MAX,
	 .text = "failures among them that start a cooldown; at most `window`"},
	{.name = "cooldown",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct pool_fields, cooldown),
	 .table = &cooldown_table,
	 .text = "how long, and how it ends"},
	{.name = "lease",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_fields, lease),
	 .fallback = "2m",
	 .min = LEAST_MS,
	 .max = DAY_MS,
	 .text = "after which a ticket is in flight no more by itself"},
	{.name = "floor",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct pool_fields, floor),
	 .table = &floor_table,
	 .text = "how many must be active"},
	{.name = "blame",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct pool_fields, blame),
	 .table = &blame_table,
	 .text = "whose fault a `blocked`, `captcha` or `empty` is"},
	{.name = "escalate",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct pool_fields, escalate),
	 .table = &escalate_table,
	 .text = "when the next tier is used"},
	{.name = "health",
	 .type = CONF_RAW,
	 .at = offsetof(struct pool_fields, health),
	 .table = &pool_health_table,
	 .otherwise = "none",
	 .form = "object",
	 .text = "active probes of endpoints in cooldown"},
	{.name = "sessions",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct pool_fields, sessions),
	 .table = &session_table,
	 .text = "who keeps an endpoint"},
	{.name = "report",
	 .type = CONF_DURATION,
	 .at = offsetof(struct pool_fields, report),
	 .fallback = "60s",
	 .min = LEAST_MS,
	 .max = HOUR_MS,
	 .text = "how often the five numbers are told"},
	{.name = "dialect",
	 .type = CONF_ENUM,
	 .at = offsetof(struct pool_fields, dialect),
	 .fallback = "none",
	 .values = dialects,
	 .text = "how the provider's headers are read; never guessed"},
	{.name = "permit",
	 .type = CONF_NAME,
	 .at = offsetof(struct pool_fields, permit),
	 .otherwise = "none",
	 .text = "a policy of which each ticket takes 1 too, by the endpoint's `group` or else "
		 "`id`; an endpoint whose permit is refused is passed over"},
	{.name = "target_policy",
	 .type = CONF_NAME,
	 .at = offsetof(struct pool_fields, target_policy),
	 .otherwise = "none",
	 .text = "a policy of which each ticket with a target takes 1 too, by the target; a target "
		 "that is held is held there too"},
	{.name = "endpoints",
	 .type = CONF_LIST,
	 .item = CONF_RAW,
	 .form = "objects or strings",
	 .at = offsetof(struct pool_fields, endpoints),
	 .table = &pool_endpoint_table,
	 .text = "at most 20 000, those of `endpoints_file` included"},
	{.name = "endpoints_file",
	 .type = CONF_PATH,
	 .at = offsetof(struct pool_fields, endpoints_file),
	 .otherwise = "none",
	 .text = "`proxy`, and in a node's file only: one a line, a URL, `host:port`, "
		 "`host:port:user:password` or `user:password@host:port` (then http); `#` begins a "
		 "comment"},
};

const struct conf_table pool_table = {
	.title = "`pools`",
	.text = "A list of pools of endpoints ([Pools](pools.md)).",
	.options = pool_options,
	.n_options = COUNT(pool_options),
};
