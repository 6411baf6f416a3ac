#include "io/policy_fields.h"

#include <stddef.h>

#include "core/adaptive.h"
#include "core/breaker.h"
#include "core/request_bounds.h"
#include "core/shares.h"
#include "io/option_table.h"

const char *const policy_algorithm_names[] = {
	[ALGORITHM_TOKEN_BUCKET] = "token-bucket",
	[ALGORITHM_GCRA] = "gcra",
	[ALGORITHM_SLIDING_WINDOW] = "sliding-window",
	[ALGORITHM_SLIDING_COUNTER] = "sliding-counter",
	[ALGORITHM_CALENDAR] = "calendar",
	[ALGORITHM_CONCURRENCY] = "concurrency",
	[ALGORITHM_N] = NULL,
};

const char *const policy_scope_names[] = {"region", "home", "global", NULL};

static const char *const global_names[] = {"strict", "loose", NULL};
static const char *const weights_names[] = {"fixed", "history", NULL};

/* By enum outage_action. */
static const char *const outage_names[] = {"local", "deny", "allow", NULL};

#define LEVEL_OPTIONS(struct_, member_)                                                            \
	{.name = "limit",                                                                          \
	 .type = CONF_INT,                                                                         \
	 .at = offsetof(struct struct_, member_ limit),                                            \
	 .min = 0,                                                                                 \
	 .max = LIMIT_MAX,                                                                         \
	 .text = "how many in `per`, or, for `concurrency`, at once; 0 denies all"},               \
		{.name = "per",                                                                    \
		 .type = CONF_RAW,                                                                 \
		 .at = offsetof(struct struct_, member_ per),                                      \
		 .form = "duration, 1ms–400d; `calendar`: `day` `week` `month`",                   \
		 .text = "what `limit` is for. Weeks begin on Monday. Not for `concurrency`"},     \
	{                                                                                          \
		.name = "burst", .type = CONF_INT, .at = offsetof(struct struct_, member_ burst),  \
		.otherwise = "2 × limit-per-second, at least 1", .min = 1, .max = LIMIT_MAX,       \
		.text = "what can be taken at once from a full bucket; `token-bucket` and `gcra` " \
			"only"                                                                     \
	}

static const struct conf_option level_options[] = {
	{.name = "name",
	 .type = CONF_NAME,
	 .required = true,
	 .at = offsetof(struct level_fields, name),
	 .text = "what a refusal is called: `limited:NAME`"},
	LEVEL_OPTIONS(level_fields, ),
	{.name = "weight",
	 .type = CONF_INT,
	 .at = offsetof(struct level_fields, weight),
	 .otherwise = "none: first come, first served",
	 .min = 1,
	 .max = SHARE_WEIGHT_MAX,
	 .text = "`token-bucket` only, and not of the first level: each key of this level that "
		 "asked lately is guaranteed its weight's part of the level above, and borrows "
		 "what "
		 "the others leave ([Fairness](fairness.md))"},
	{.name = "ceiling",
	 .type = CONF_INT,
	 .at = offsetof(struct level_fields, ceiling),
	 .otherwise = "`limit`",
	 .min = 1,
	 .max = LIMIT_MAX,
	 .text = "with `weight`: the most that a key has in `per`, what it borrows included, "
		 "instead of `limit`"},
	LATER("adaptive"),
};

const struct conf_table level_table = {
	.title = "A policy's `levels`",
	.text = "Level *n* limits the first *n* parts of the key path `a/b/c`, the last level the "
		"rest as well. In "
		"a part `%2F` and `%25` stand for `/` and `%`. A key with fewer parts is checked "
		"on the levels that it "
		"has. A take succeeds on all levels or takes nothing.",
	.options = level_options,
	.n_options = COUNT(level_options),
};

static const struct conf_option plan_options[] = {
	{.name = "slots",
	 .type = CONF_INT,
	 .required = true,
	 .at = offsetof(struct plan_fields, slots),
	 .min = 0,
	 .max = LIMIT_MAX,
	 .text = "how many at once; 0 denies all"},
	{.name = "hold",
	 .type = CONF_DURATION,
	 .required = true,
	 .at = offsetof(struct plan_fields, hold),
	 .min = POLICY_PER_MIN_MS,
	 .max = POLICY_PER_MAX_MS,
	 .text = "after which a slot ends by itself"},
};

const struct conf_table plan_table = {
	.title = "A policy's `plan`",
	.text = "A provider's concurrency plan: at most `slots` at once, at a rate of `slots` ÷ "
		"`hold` with a burst of "
		"2 × the rate per second, at least 1. A take's slot ends after `hold`; an acquired "
		"one when it is released, or "
		"after `hold` without renewal.",
	.options = plan_options,
	.n_options = COUNT(plan_options),
};

static const struct conf_option wait_options[] = {
	{.name = "max_queue",
	 .type = CONF_INT,
	 .at = offsetof(struct policy_fields, wait.max_queue) -
	       offsetof(struct policy_fields, wait),
	 .fallback = "1000",
	 .min = 0,
	 .max = 1000000,
	 .text = "callers that may wait for one key, at all agents of the region; 0: nobody waits"},
	{.name = "max_wait",
	 .type = CONF_DURATION,
	 .at = offsetof(struct policy_fields, wait.max_wait) - offsetof(struct policy_fields, wait),
	 .fallback = "30s",
	 .min = 0,
	 .max = 86400000,
	 .text = "a request that asks to wait longer waits this long"},
};

static const struct conf_table wait_table = {
	.title = "A policy's `wait`",
	.text = "Bounds on the callers who ask to wait until they may. Newcomers don't overtake "
		"them.",
	.options = wait_options,
	.n_options = COUNT(wait_options),
};

static const struct conf_option lease_options[] = {
	{.name = "max",
	 .type = CONF_INT,
	 .at = offsetof(struct lease_fields, max),
	 .otherwise = "no bound of its own",
	 .min = 1,
	 .max = LIMIT_MAX,
	 .text = "permits in one lease, at most"},
	{.name = "ttl",
	 .type = CONF_DURATION,
	 .at = offsetof(struct lease_fields, ttl),
	 .fallback = "500ms",
	 .min = 10,
	 .max = 10000,
	 .text = "how long an agent may spend a lease"},
};

const struct conf_table lease_table = {
	.title = "A policy's `lease`",
	.text = "A key that is asked for often is decided in memory, from permits that the agent "
		"took in one call to "
		"Redis; the limit stays exact ([Leases](leases.md)). A crashed agent loses what it "
		"had not spent until "
		"`ttl` is over. `token-bucket`, `sliding-window` and `calendar` only: the others "
		"have none.",
	.options = lease_options,
	.n_options = COUNT(lease_options),
};

static const struct conf_option breaker_options[] = {
	{.name = "failures",
	 .type = CONF_INT,
	 .at = offsetof(struct breaker_fields, failures),
	 .fallback = "5",
	 .min = 1,
	 .max = BREAKER_OF_MAX,
	 .text = "so many failures, at most `of` ..."},
	{.name = "of",
	 .type = CONF_INT,
	 .at = offsetof(struct breaker_fields, of),
	 .fallback = "10",
	 .min = 1,
	 .max = BREAKER_OF_MAX,
	 .text = "... among the last so many outcomes open it"},
	{.name = "open",
	 .type = CONF_DURATION,
	 .at = offsetof(struct breaker_fields, open),
	 .fallback = "30s",
	 .min = 10,
	 .max = 86400000,
	 .text = "for so long every take is refused, and a trial without feedback counts"},
	{.name = "trials",
	 .type = CONF_INT,
	 .at = offsetof(struct breaker_fields, trials),
	 .fallback = "1",
	 .min = 1,
	 .max = BREAKER_TRIALS_MAX,
	 .text = "takes let through after that, until their feedback comes"},
};

const struct conf_table breaker_table = {
	.title = "A policy's `breaker`",
	.text = "Refuses every take of a key whose requests fail elsewhere, as feedback says, "
		"until trials succeed "
		"([Feedback](feedback.md)). A policy with a breaker has no leases.",
	.options = breaker_options,
	.n_options = COUNT(breaker_options),
};

static const char *const adaptive_modes[] = {"aimd", "gradient", NULL};

static const struct conf_option adaptive_options[] = {
	{.name = "mode",
	 .type = CONF_ENUM,
	 .at = offsetof(struct adaptive_fields, mode),
	 .fallback = "aimd",
	 .values = adaptive_modes,
	 .text = "what lowers the limit: errors; or also latency that grows (`gradient`; needs "
		 "feedback with latency to rise, too)"},
	{.name = "min",
	 .type = CONF_INT,
	 .at = offsetof(struct adaptive_fields, min),
	 .fallback = "1",
	 .min = 1,
	 .max = LIMIT_MAX,
	 .text = "never less than so many per `per`, at most `max`"},
	{.name = "max",
	 .type = CONF_INT,
	 .at = offsetof(struct adaptive_fields, max),
	 .otherwise = "the `limit`",
	 .min = 1,
	 .max = LIMIT_MAX,
	 .text = "never more, at most `limit`; also where a key begins"},
	{.name = "increase",
	 .type = CONF_INT,
	 .at = offsetof(struct adaptive_fields, increase),
	 .otherwise = "`max` ÷ 50, at least 1",
	 .min = 1,
	 .max = LIMIT_MAX,
	 .text = "is added once a `window`, while the limit is used and nothing is wrong"},
	{.name = "decrease",
	 .type = CONF_INT,
	 .at = offsetof(struct adaptive_fields, decrease),
	 .fallback = "20",
	 .min = 1,
	 .max = 99,
	 .text = "per cent that errors take off, once a `window`"},
	{.name = "tolerance",
	 .type = CONF_INT,
	 .at = offsetof(struct adaptive_fields, tolerance),
	 .otherwise = "50",
	 .min = 1,
	 .max = ADAPTIVE_TOLERANCE_MAX,
	 .text = "`gradient` only: per cent by which latency may grow over its lowest before the "
		 "limit falls"},
	{.name = "window",
	 .type = CONF_DURATION,
	 .at = offsetof(struct adaptive_fields, window),
	 .fallback = "1s",
	 .min = (int64_t)(ADAPTIVE_WINDOW_MIN_US / 1000),
	 .max = (int64_t)(ADAPTIVE_WINDOW_MAX_US / 1000),
	 .text = "at most one change up and one down in it: a few times as long as a request "
		 "takes"},
};

const struct conf_table adaptive_table = {
	.title = "A policy's `adaptive`",
	.text = "The limit of a key rises by steps and falls by parts as feedback says, between "
		"`min` and `max`, for every agent alike "
		"([Feedback](feedback.md#adaptive-limit)). A policy with it has no leases.",
	.options = adaptive_options,
	.n_options = COUNT(adaptive_options),
};

static const struct conf_option envoy_options[] = {
	{.name = "domain",
	 .type = CONF_STRING,
	 .required = true,
	 .at = offsetof(struct envoy_fields, domain),
	 .text = "as Envoy's filter names it"},
	{.name = "descriptors",
	 .type = CONF_LIST,
	 .item = CONF_STRING,
	 .required = true,
	 .at = offsetof(struct envoy_fields, descriptors),
	 .text = "1–16 keys: all those of a descriptor's entries, in their order; of a quota "
		 "bucket's id, in any"},
};

const struct conf_table envoy_table = {
	.title = "A policy's `envoy`",
	.text = "Limits the descriptors and quota buckets that have these keys, asked for in this "
		"domain "
		"over gRPC "
		"([gRPC](protocol-grpc.md)). The values of its entries, each whole, are the parts "
		"of the "
		"key path: `/` in them is `%2F` there, `%` is `%25`, and an empty one `%00`. "
		"Several "
		"policies may name the same ones: each of them limits.",
	.options = envoy_options,
	.n_options = COUNT(envoy_options),
};

static const struct conf_option policy_options[] = {
	{.name = "name",
	 .type = CONF_NAME,
	 .required = true,
	 .at = offsetof(struct policy_fields, name),
	 .text = "by which requests and overrides name it"},
	{.name = "algorithm",
	 .type = CONF_ENUM,
	 .at = offsetof(struct policy_fields, algorithm),
	 .fallback = "token-bucket",
	 .values = policy_algorithm_names,
	 .text = "of all its levels"},
	LEVEL_OPTIONS(policy_fields, level.),
	{.name = "tz",
	 .type = CONF_STRING,
	 .at = offsetof(struct policy_fields, tz),
	 .otherwise = "`UTC`",
	 .text = "`calendar` only: time zone whose days, weeks and months count, by its IANA name"},
	{.name = "hold",
	 .type = CONF_DURATION,
	 .at = offsetof(struct policy_fields, hold),
	 .min = POLICY_PER_MIN_MS,
	 .max = POLICY_PER_MAX_MS,
	 .text = "`concurrency` only, and required there: the longest time a permit lives without "
		 "renewal"},
	{.name = "plan",
	 .type = CONF_RAW,
	 .at = offsetof(struct policy_fields, plan),
	 .table = &plan_table,
	 .form = "object",
	 .text = "a provider's concurrency plan, instead of `limit`, `per` and `burst`"},
	{.name = "levels",
	 .type = CONF_LIST,
	 .item = CONF_OBJECT,
	 .at = offsetof(struct policy_fields, levels),
	 .table = &level_table,
	 .text = "1–8 levels over a key path, instead of `limit`, `per` and `burst`"},
	{.name = "wait",
	 .type = CONF_OBJECT,
	 .at = offsetof(struct policy_fields, wait),
	 .table = &wait_table,
	 .text = "who may wait, and for how long"},
	{.name = "on_outage",
	 .type = CONF_ENUM,
	 .at = offsetof(struct policy_fields, on_outage),
	 .otherwise = "`local`; of `strict` global limits `deny`, and no other",
	 .values = outage_names,
	 .text = "who decides when Redis can't be asked: the agent within a share of the limit, or "
		 "nobody: all "
		 "are refused, or all admitted"},
	{.name = "shadow",
	 .type = CONF_BOOL,
	 .at = offsetof(struct policy_fields, shadow),
	 .fallback = "false",
	 .text = "counts and reports, and never refuses"},
	{.name = "scope",
	 .type = CONF_ENUM,
	 .at = offsetof(struct policy_fields, scope),
	 .fallback = "region",
	 .values = policy_scope_names,
	 .text = "`region`: its limits hold in each region by itself; `home`: in all regions "
		 "together, kept in the region where the key is at home ([Home regions](home.md)), "
		 "needs `regions`; `global`: in all regions together, and each decides by itself "
		 "within a share ([Global quotas](global.md)), needs `regions` and `kafka`; "
		 "`token-bucket`, `gcra`, `sliding-window` and `calendar` only"},
	{.name = "global",
	 .type = CONF_ENUM,
	 .at = offsetof(struct policy_fields, global),
	 .otherwise = "`strict`",
	 .values = global_names,
	 .text = "with scope `global`: whether a region that hears nothing any more goes back to "
		 "its floor, so that the limit is never exceeded, or goes on with what it had "
		 "([Loose](global.md#loose))"},
	{.name = "weights",
	 .type = CONF_ENUM,
	 .at = offsetof(struct policy_fields, weights),
	 .fallback = "fixed",
	 .values = weights_names,
	 .text = "of levels with a `weight`: as they say, or recomputed by the coordinator from "
		 "what each key consumed ([Fairness](fairness.md#weights-from-history))"},
	{.name = "durability",
	 .type = CONF_RAW,
	 .at = offsetof(struct policy_fields, durability),
	 .otherwise = "`none`",
	 .form = "`none` `aof` `replica:N`",
	 .text = "when a decision counts as made: at once; when Redis has it on disk; when N "
		 "replicas (1–10) have it. What is not safe within `redis.timeout` is decided by "
		 "`on_outage`"},
	{.name = "lease",
	 .type = CONF_RAW,
	 .at = offsetof(struct policy_fields, lease),
	 .table = &lease_table,
	 .otherwise = "`auto`",
	 .form = "`auto`, `off` or object",
	 .text = "whether much-used keys are decided in memory. `auto`: under limits of 1000 and "
		 "more a second and at once leases of 200 ms for keys that an agent is asked for "
		 "as often, and small ones that last for seconds for keys that it is asked for "
		 "now and then; `{}`: for all that are worth it; `off`: never, nor are refusals "
		 "remembered"},
	{.name = "breaker",
	 .type = CONF_RAW,
	 .at = offsetof(struct policy_fields, breaker),
	 .table = &breaker_table,
	 .otherwise = "none",
	 .form = "object",
	 .text = "a circuit breaker for each key, fed by feedback"},
	{.name = "adaptive",
	 .type = CONF_RAW,
	 .at = offsetof(struct policy_fields, adaptive),
	 .table = &adaptive_table,
	 .otherwise = "none: the limit is as it says",
	 .form = "object",
	 .text = "`token-bucket` only, not for plans: the limit of each key on the last level "
		 "follows feedback"},
	{.name = "envoy",
	 .type = CONF_RAW,
	 .at = offsetof(struct policy_fields, envoy),
	 .table = &envoy_table,
	 .otherwise = "none: Envoy does not ask for it",
	 .form = "object",
	 .text = "which descriptors of Envoy's rate limit service it limits; not for "
		 "`concurrency`"},
};

const struct conf_table policy_table = {
	.title = "`policies`",
	.text = "A list of policies: each a limit, by name.",
	.options = policy_options,
	.n_options = COUNT(policy_options),
};

static const struct conf_option override_options[] = {
	{.name = "policy",
	 .type = CONF_NAME,
	 .required = true,
	 .at = offsetof(struct override_fields, policy),
	 .text = "whose limit it changes"},
	{.name = "key",
	 .type = CONF_BYTES,
	 .at = offsetof(struct override_fields, key),
	 .min = 1,
	 .max = REQUEST_KEY_MAX,
	 .text = "the key path that it binds, as requests spell it; with levels, the level of its "
		 "last part"},
	{.name = "prefix",
	 .type = CONF_BYTES,
	 .at = offsetof(struct override_fields, prefix),
	 .min = 1,
	 .max = REQUEST_KEY_MAX,
	 .text = "instead of `key`: every key path that begins so, on the level of its last part "
		 "(`acme/`: the "
		 "second level below `acme`)"},
	{.name = "limit",
	 .type = CONF_INT,
	 .at = offsetof(struct override_fields, limit),
	 .min = 0,
	 .max = LIMIT_MAX,
	 .text = "as of a policy; of a plan: its slots"},
	{.name = "per",
	 .type = CONF_DURATION,
	 .at = offsetof(struct override_fields, per),
	 .otherwise = "the policy's",
	 .min = POLICY_PER_MIN_MS,
	 .max = POLICY_PER_MAX_MS,
	 .text = "as of a policy; not for `calendar`, `concurrency` and plans"},
	{.name = "burst",
	 .type = CONF_INT,
	 .at = offsetof(struct override_fields, burst),
	 .otherwise = "2 × limit-per-second, at least 1",
	 .min = 1,
	 .max = LIMIT_MAX,
	 .text = "`token-bucket` and `gcra` only"},
	{.name = "unlimited",
	 .type = CONF_BOOL,
	 .at = offsetof(struct override_fields, unlimited),
	 .fallback = "false",
	 .text = "instead of `limit`: no limit on this level"},
	{.name = "banned",
	 .type = CONF_BOOL,
	 .at = offsetof(struct override_fields, banned),
	 .fallback = "false",
	 .text = "instead of `limit`: every request is refused"},
	{.name = "until",
	 .type = CONF_TIME,
	 .at = offsetof(struct override_fields, until),
	 .otherwise = "for ever",
	 .text = "when it ends"},
	{.name = "weight",
	 .type = CONF_INT,
	 .at = offsetof(struct override_fields, weight),
	 .otherwise = "the policy's",
	 .min = 1,
	 .max = SHARE_WEIGHT_MAX,
	 .text = "of a level that has one; with `limit` or, the limit as it is, by itself"},
};

const struct conf_table override_table = {
	.title = "`overrides`",
	.text = "A list of overrides: each gives one key, or the keys with a prefix, another limit "
		"than their policy's. The "
		"exact key wins over the longest prefix, that over the policy. One of `key` and "
		"`prefix`, and one of `limit`, "
		"`unlimited` and `banned`, or `weight`, must be given.",
	.options = override_options,
	.n_options = COUNT(override_options),
};
