#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

#include "control/catalogue_build.h"
#include "control/policy_stats.h"
#include "control/rule_set.h"
#include "core/rls_key.h"

/* The catalogue of a file's policies and overrides. */
static struct catalogue *build(const char *policies, const char *overrides)
{
	json_t *p = json_loads(policies, 0, NULL), *o = json_loads(overrides, 0, NULL);
	struct conf_reader r = {0};
	struct rule_set rules;

	cr_assert(p != NULL && o != NULL, "%s %s", policies, overrides);
	kova_status status = rule_set_read(&r, &(struct rule_lists){p, o, NULL}, &rules);

	cr_assert_eq(status, KOVA_OK, "%s", r.errors[0].text);
	struct catalogue *c =
		catalogue_new(rules.policies, rules.n_policies, rules.overrides, rules.n_overrides);

	rule_set_release(&rules);
	json_decref(p);
	json_decref(o);
	cr_assert_not_null(c);
	return c;
}

static const struct policy *policy(const struct catalogue *c, const char *name)
{
	const struct policy *p = catalogue_policy(c, slice_of(name));

	cr_assert_not_null(p, "%s", name);
	return p;
}

/* The limit of the one policy in `json`. */
static struct limit limit_of(const char *json)
{
	char list[512];

	snprintf(list, sizeof list, "[%s]", json);
	struct catalogue *c = build(list, "[]");
	struct limit l = policy(c, "p")->levels[0].limit;

	catalogue_unref(c);
	return l;
}

Test(catalogue, names_are_found_whole)
{
	struct catalogue *c = build("[{\"name\":\"ab\",\"limit\":1,\"per\":\"1s\"},"
				    "{\"name\":\"abc\",\"limit\":2,\"per\":\"1s\"}]",
				    "[]");

	cr_expect_eq(policy(c, "ab")->levels[0].limit.limit, 1);
	cr_expect_eq(policy(c, "abc")->levels[0].limit.limit, 2);
	cr_expect_null(catalogue_policy(c, SLICE("a")));
	cr_expect_null(catalogue_policy(c, SLICE("abcd")));
	cr_expect_null(catalogue_policy(c, SLICE("ab\0")));
	cr_expect_null(catalogue_policy(c, SLICE("")));
	cr_expect_null(catalogue_policy(c, (struct slice){0}));
	catalogue_unref(c);
	catalogue_unref(NULL);
}

Test(catalogue, empty)
{
	struct catalogue *c = build("[]", "[]");

	cr_expect_null(catalogue_policy(c, SLICE("a")));
	catalogue_unref(c);
}

Test(catalogue, fields_of_a_policy)
{
	struct catalogue *c =
		build("[{\"name\":\"p\",\"limit\":10,\"per\":\"1s\"},"
		      "{\"name\":\"q\",\"limit\":10,\"per\":\"1s\",\"shadow\":true,\"on_outage\":"
		      "\"deny\","
		      "\"wait\":{\"max_queue\":0,\"max_wait\":\"60s\"},\"scope\":\"region\","
		      "\"durability\":\"none\"}]",
		      "[]");
	const struct policy *p = policy(c, "p"), *q = policy(c, "q");

	cr_expect_str_eq(p->name, "p");
	cr_expect_str_eq(p->levels[0].name, "p", "without levels a refusal names the policy");
	cr_expect(!p->shadow && !p->has_overrides && p->n_levels == 1);
	cr_expect_eq(p->on_outage, OUTAGE_LOCAL);
	cr_expect(p->wait_max_queue == 1000 && p->wait_max_ms == 30000);
	cr_expect(q->shadow && q->on_outage == OUTAGE_DENY);
	cr_expect(q->wait_max_queue == 0 && q->wait_max_ms == 60000);
	cr_expect_eq(p->stats, policy_stats_get(SLICE("p")));
	catalogue_unref(c);
}

Test(catalogue, weights_and_ceilings)
{
	struct catalogue *c =
		build("[{\"name\":\"p\",\"levels\":["
		      "{\"name\":\"t\",\"limit\":100,\"per\":\"1s\"},"
		      "{\"name\":\"u\",\"limit\":10,\"per\":\"1s\",\"weight\":2,\"ceiling\":40}]}]",
		      "[{\"policy\":\"p\",\"key\":\"a/b\",\"weight\":5},"
		      "{\"policy\":\"p\",\"prefix\":\"a/x\",\"limit\":3,\"weight\":7},"
		      "{\"policy\":\"p\",\"key\":\"a/y\",\"limit\":4}]");
	const struct policy *p = policy(c, "p");
	const struct level *u = &p->levels[1];
	const struct override *o;

	cr_expect_eq(p->levels[0].weight, 0);
	cr_expect(u->weight == 2 && u->limit.limit == 40 && u->limit.burst == 20);
	o = catalogue_override(c, p, 1, SLICE("a/b"), 0);
	cr_expect(o->level.weight == 5 && o->level.limit.limit == 40, "the limit as it is");
	o = catalogue_override(c, p, 1, SLICE("a/xyz"), 0);
	cr_expect(o->level.weight == 7 && o->level.limit.limit == 3);
	o = catalogue_override(c, p, 1, SLICE("a/y"), 0);
	cr_expect(o->level.weight == 2 && o->level.limit.limit == 4);
	catalogue_unref(c);
}

static struct durability durability_of(const char *value)
{
	char text[160];

	snprintf(text, sizeof text,
		 "[{\"name\":\"p\",\"limit\":10,\"per\":\"1s\",\"durability\":\"%s\"}]", value);
	struct catalogue *c = build(text, "[]");
	struct durability d = policy(c, "p")->durability;

	catalogue_unref(c);
	return d;
}

Test(catalogue, durability)
{
	struct durability d = durability_of("none");

	cr_expect(!d.aof && d.replicas == 0 && !durability_is_wanted(d));
	d = durability_of("aof");
	cr_expect(d.aof && d.replicas == 0 && durability_is_wanted(d));
	d = durability_of("replica:1");
	cr_expect(!d.aof && d.replicas == 1 && durability_is_wanted(d));
	d = durability_both(d, durability_of("replica:10"));
	cr_expect(!d.aof && d.replicas == 10);
	d = durability_both(d, durability_of("aof"));
	cr_expect(d.aof && d.replicas == 10, "what satisfies both");
}

Test(catalogue, policies_by_number)
{
	struct catalogue *c = build("[{\"name\":\"a\",\"limit\":1,\"per\":\"1s\"},"
				    "{\"name\":\"b\",\"limit\":1,\"per\":\"1s\"}]",
				    "[]");

	cr_expect_eq(catalogue_policy_at(c, 0), policy(c, "a"));
	cr_expect_eq(catalogue_policy_at(c, 1), policy(c, "b"));
	cr_expect_null(catalogue_policy_at(c, 2));
	catalogue_unref(c);
}

Test(catalogue, limits_of_all_algorithms)
{
	struct limit l = limit_of("{\"name\":\"p\",\"limit\":10,\"per\":\"7s\",\"burst\":4}");

	cr_expect(l.algorithm == ALGORITHM_TOKEN_BUCKET && l.limit == 10 && l.burst == 4);
	cr_expect_eq(l.per_us, 7000000);
	l = limit_of("{\"name\":\"p\",\"algorithm\":\"gcra\",\"limit\":3,\"per\":\"1m\"}");
	cr_expect(l.algorithm == ALGORITHM_GCRA && l.limit == 3 && l.burst == 1);
	l = limit_of(
		"{\"name\":\"p\",\"algorithm\":\"sliding-window\",\"limit\":3,\"per\":\"1ms\"}");
	cr_expect(l.algorithm == ALGORITHM_SLIDING_WINDOW && l.per_us == 1000);
	l = limit_of(
		"{\"name\":\"p\",\"algorithm\":\"sliding-counter\",\"limit\":3,\"per\":\"400d\"}");
	cr_expect(l.algorithm == ALGORITHM_SLIDING_COUNTER &&
		  l.per_us == UINT64_C(400) * 86400 * 1000000);
	l = limit_of("{\"name\":\"p\",\"algorithm\":\"calendar\",\"limit\":3,\"per\":\"month\","
		     "\"tz\":\"Europe/Berlin\"}");
	cr_expect(l.algorithm == ALGORITHM_CALENDAR && l.limit == 3 && l.edges.n > 100);
	l = limit_of("{\"name\":\"p\",\"algorithm\":\"concurrency\",\"limit\":8,\"hold\":\"10s\"}");
	cr_expect(l.algorithm == ALGORITHM_CONCURRENCY && l.limit == 8 && l.hold_us == 10000000);
}

Test(catalogue, the_default_burst_is_twice_the_rate_and_at_least_one)
{
	static const struct {
		const char *json;
		uint64_t burst;
	} cases[] = {{"\"limit\":10,\"per\":\"1s\"", 20},
		     {"\"limit\":10,\"per\":\"7s\"", 2},
		     {"\"limit\":1,\"per\":\"1m\"", 1},
		     {"\"limit\":0,\"per\":\"1s\"", 1},
		     {"\"limit\":3,\"per\":\"250ms\"", 24},
		     {"\"limit\":1000000000,\"per\":\"1ms\"", 1000000000}};
	char json[128];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		snprintf(json, sizeof json, "{\"name\":\"p\",%s}", cases[i].json);
		cr_expect_eq(limit_of(json).burst, cases[i].burst, "%s", json);
	}
}

Test(catalogue, a_plan_is_a_rate_and_slots)
{
	struct catalogue *c = build("[{\"name\":\"p\",\"plan\":{\"slots\":50,\"hold\":\"10s\"}}]",
				    "[{\"policy\":\"p\",\"key\":\"small\",\"limit\":2}]");
	const struct level *l = &policy(c, "p")->levels[0];

	cr_expect(l->has_slots);
	cr_expect(l->limit.algorithm == ALGORITHM_TOKEN_BUCKET && l->limit.limit == 50 &&
		  l->limit.per_us == 10000000 && l->limit.burst == 10);
	cr_expect(l->slots.algorithm == ALGORITHM_CONCURRENCY && l->slots.limit == 50 &&
		  l->slots.hold_us == 10000000);
	const struct override *o = catalogue_override(c, policy(c, "p"), 0, SLICE("small"), 0);

	cr_assert_not_null(o);
	cr_expect(o->level.has_slots && o->level.slots.limit == 2 && o->level.limit.limit == 2 &&
		  o->level.limit.burst == 1);
	cr_expect_eq(o->level.slots.hold_us, 10000000);
	catalogue_unref(c);
}

/* ---- Overrides ---- */

#define API                                                                                   \
	"[{\"name\":\"api\",\"limit\":100,\"per\":\"1s\"},"                                   \
	"{\"name\":\"tree\",\"levels\":[{\"name\":\"tenant\",\"limit\":1000,\"per\":\"1s\"}," \
	"{\"name\":\"user\",\"limit\":50,\"per\":\"1m\",\"burst\":9}]}]"

/* The limit that binds the path, 0 when no override does. */
static uint64_t bound(const struct catalogue *c, const char *name, unsigned level, const char *path,
		      int64_t now_ms)
{
	const struct override *o =
		catalogue_override(c, policy(c, name), level, slice_of(path), now_ms);

	return o != NULL ? o->level.limit.limit : 0;
}

Test(catalogue, the_exact_key_wins_over_the_longest_prefix)
{
	struct catalogue *c = build(API, "[{\"policy\":\"api\",\"prefix\":\"a\",\"limit\":1},"
					 "{\"policy\":\"api\",\"prefix\":\"abc\",\"limit\":3},"
					 "{\"policy\":\"api\",\"prefix\":\"ab\",\"limit\":2},"
					 "{\"policy\":\"api\",\"key\":\"abcd\",\"limit\":4},"
					 "{\"policy\":\"api\",\"key\":\"z\",\"limit\":5}]");

	cr_expect(policy(c, "api")->has_overrides && !policy(c, "tree")->has_overrides);
	cr_expect_eq(bound(c, "api", 0, "a", 0), 1);
	cr_expect_eq(bound(c, "api", 0, "ab", 0), 2);
	cr_expect_eq(bound(c, "api", 0, "abx", 0), 2);
	cr_expect_eq(bound(c, "api", 0, "abcdd", 0), 3);
	cr_expect_eq(bound(c, "api", 0, "abcd", 0), 4);
	cr_expect_eq(bound(c, "api", 0, "z", 0), 5);
	cr_expect_eq(bound(c, "api", 0, "zz", 0), 0);
	cr_expect_eq(bound(c, "tree", 0, "a", 0), 0, "another policy");
	catalogue_unref(c);
}

Test(catalogue, an_override_binds_the_level_of_its_last_part)
{
	struct catalogue *c =
		build(API, "[{\"policy\":\"tree\",\"key\":\"acme\",\"limit\":1},"
			   "{\"policy\":\"tree\",\"key\":\"acme/u\",\"limit\":2},"
			   "{\"policy\":\"tree\",\"key\":\"acme/u/x/y\",\"limit\":3},"
			   "{\"policy\":\"tree\",\"prefix\":\"acme/\",\"limit\":4,\"per\":\"2s\"},"
			   "{\"policy\":\"tree\",\"prefix\":\"b\",\"unlimited\":true}]");
	const struct override *o;

	cr_expect_eq(bound(c, "tree", 0, "acme", 0), 1);
	cr_expect_eq(bound(c, "tree", 1, "acme/u", 0), 2);
	cr_expect_eq(bound(c, "tree", 1, "acme/u/x/y", 0), 3, "the last level takes the rest");
	cr_expect_eq(bound(c, "tree", 1, "acme/v", 0), 4);
	cr_expect_eq(bound(c, "tree", 1, "bcme/v", 0), 0);
	o = catalogue_override(c, policy(c, "tree"), 0, SLICE("bcme"), 0);
	cr_assert_not_null(o);
	cr_expect(o->unlimited && !o->banned);
	o = catalogue_override(c, policy(c, "tree"), 1, SLICE("acme/u"), 0);
	cr_expect_str_eq(o->level.name, "user");
	cr_expect(o->level.limit.per_us == 60000000 && o->level.limit.burst == 1,
		  "per is the policy's, burst the default of the new limit");
	o = catalogue_override(c, policy(c, "tree"), 1, SLICE("acme/v"), 0);
	cr_expect_eq(o->level.limit.per_us, 2000000);
	catalogue_unref(c);
}

Test(catalogue, an_override_that_has_ended_does_not_bind)
{
	struct catalogue *c = build(API, "[{\"policy\":\"api\",\"prefix\":\"ab\",\"limit\":1},"
					 "{\"policy\":\"api\",\"prefix\":\"abc\",\"limit\":2,"
					 "\"until\":\"1970-01-01T00:00:02Z\"},"
					 "{\"policy\":\"api\",\"key\":\"abcd\",\"banned\":true,"
					 "\"until\":\"1970-01-01T00:00:01Z\"}]");
	const struct override *o = catalogue_override(c, policy(c, "api"), 0, SLICE("abcd"), 999);

	cr_expect(o != NULL && o->banned && o->until_ms == 1000);
	cr_expect_eq(bound(c, "api", 0, "abcd", 1000), 2);
	cr_expect_eq(bound(c, "api", 0, "abcd", 2000), 1);
	catalogue_unref(c);
}

Test(catalogue, keys_are_any_bytes)
{
	json_t *p = json_loads(API, 0, NULL);
	json_t *o = json_loads("[{\"policy\":\"api\",\"key\":\"a\\u0000b\",\"limit\":7},"
			       "{\"policy\":\"api\",\"prefix\":\"\\u0000\",\"limit\":8}]",
			       JSON_ALLOW_NUL, NULL);
	struct conf_reader r = {0};
	struct rule_set rules;

	cr_assert_eq(rule_set_read(&r, &(struct rule_lists){p, o, NULL}, &rules), KOVA_OK);
	json_decref(p);
	json_decref(o);
	struct catalogue *c =
		catalogue_new(rules.policies, rules.n_policies, rules.overrides, rules.n_overrides);

	rule_set_release(&rules); /* the catalogue holds its own references */
	cr_expect_eq(
		catalogue_override(c, policy(c, "api"), 0, SLICE("a\0b"), 0)->level.limit.limit, 7);
	cr_expect_null(catalogue_override(c, policy(c, "api"), 0, SLICE("a\0c"), 0));
	cr_expect_eq(catalogue_override(c, policy(c, "api"), 0, SLICE("\0x"), 0)->level.limit.limit,
		     8);
	catalogue_unref(c);
}

Test(catalogue, an_override_that_its_policy_made_impossible_denies)
{
	json_t *p = json_loads(
		"{\"name\":\"p\",\"algorithm\":\"gcra\",\"limit\":1000,\"per\":\"400d\"}", 0, NULL);
	json_t *o = json_loads("{\"policy\":\"p\",\"key\":\"k\",\"limit\":1,\"burst\":1000000}", 0,
			       NULL);
	struct conf_reader r = {0};
	struct policy_rule *policy_rule = policy_rule_read(&r, NULL, p);
	struct override_rule *rule = override_rule_read(&r, NULL, o);

	cr_assert(policy_rule != NULL && rule != NULL);
	cr_expect_not(override_rule_fits(rule, &policy_rule->policy, &r, NULL));
	struct catalogue *c = catalogue_new(&policy_rule, 1, &rule, 1);

	cr_expect(catalogue_override(c, policy(c, "p"), 0, SLICE("k"), 0)->banned);
	catalogue_unref(c);
	policy_rule_unref(policy_rule);
	override_rule_unref(rule);
	json_decref(p);
	json_decref(o);
}

/* ---- Many ---- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* What the table's lookup finds is what a search of the whole list would find. */
Test(catalogue, random_prefixes_against_a_plain_search)
{
	enum { N = 300 };
	static char keys[N][12];
	struct override_rule *rules[N];
	json_t *p = json_loads("{\"name\":\"p\",\"limit\":1,\"per\":\"1s\"}", 0, NULL);
	struct conf_reader r = {0};
	struct policy_rule *policy_rule = policy_rule_read(&r, NULL, p);
	unsigned seed = 11;
	size_t n = 0;

	for (size_t i = 0; i < N; i++) {
		char key[12] = "";
		size_t len = 1 + (size_t)rand_r(&seed) % 8;
		bool twice = false;

		for (size_t j = 0; j < len; j++)
			key[j] = (char)('a' + rand_r(&seed) % 2);
		for (size_t j = 0; j < n; j++)
			twice |= strcmp(keys[j], key) == 0;
		if (twice)
			continue;
		strcpy(keys[n], key);
		json_t *o = json_pack("{s:s,s:s,s:i}", "policy", "p", "prefix", key, "limit",
				      (int)n + 1);

		rules[n++] = override_rule_read(&r, NULL, o);
		json_decref(o);
	}
	struct catalogue *c = catalogue_new(&policy_rule, 1, rules, n);

	for (int round = 0; round < 5000; round++) {
		char path[12] = "";
		size_t len = (size_t)rand_r(&seed) % 11, best = 0, best_len = 0;

		for (size_t j = 0; j < len; j++)
			path[j] = (char)('a' + rand_r(&seed) % 2);
		for (size_t i = 0; i < n; i++)
			if (strncmp(path, keys[i], strlen(keys[i])) == 0 &&
			    strlen(keys[i]) > best_len) {
				best = i + 1;
				best_len = strlen(keys[i]);
			}
		cr_assert_eq(bound(c, "p", 0, path, 0), best, "%s", path);
	}
	catalogue_unref(c);
	for (size_t i = 0; i < n; i++)
		override_rule_unref(rules[i]);
	policy_rule_unref(policy_rule);
	json_decref(p);
}

/* Generous bounds: what is checked is that nothing grows with the square, on any machine, under sanitizers. */
Test(catalogue, fifty_thousand_policies_and_a_hundred_thousand_overrides, .timeout = 50)
{
	enum { POLICIES = 50000, OVERRIDES = 100000 };
	json_t *p = json_array(), *o = json_array();
	struct conf_reader r = {0};
	struct rule_set rules;
	char name[32];

	for (int i = 0; i < POLICIES; i++) {
		snprintf(name, sizeof name, "policy-%d", i);
		json_array_append_new(
			p, json_pack("{s:s,s:i,s:s}", "name", name, "limit", i, "per", "1s"));
	}
	for (int i = 0; i < OVERRIDES; i++) {
		snprintf(name, sizeof name, "key-%d", i);
		json_array_append_new(o,
				      json_pack("{s:s,s:s,s:i}", "policy", "policy-1",
						i % 2 == 0 ? "key" : "prefix", name, "limit", i));
	}
	uint64_t start = now_ns();

	cr_assert_eq(rule_set_read(&r, &(struct rule_lists){p, o, NULL}, &rules), KOVA_OK);
	struct catalogue *c =
		catalogue_new(rules.policies, rules.n_policies, rules.overrides, rules.n_overrides);
	uint64_t built = now_ns();

	for (int i = 0; i < POLICIES; i++) {
		snprintf(name, sizeof name, "policy-%d", i);
		cr_assert_eq(policy(c, name)->levels[0].limit.limit, (uint64_t)i);
	}
	for (int i = 1; i < OVERRIDES; i++) {
		snprintf(name, sizeof name, "key-%d", i);
		cr_assert_eq(bound(c, "policy-1", 0, name, 0), (uint64_t)i);
	}
	uint64_t found = now_ns();

	cr_log_info("built in %.0f ms, %d lookups in %.0f ms", (double)(built - start) / 1e6,
		    POLICIES + OVERRIDES, (double)(found - built) / 1e6);
	cr_expect_lt(built - start, UINT64_C(5000000000));
	cr_expect_lt(found - built, UINT64_C(5000000000));
	catalogue_unref(c);
	rule_set_release(&rules);
	json_decref(p);
	json_decref(o);
}

/* ---- The registry of counters ---- */

static void count(const struct policy_stats *s, unsigned i, void *data)
{
	size_t *n = data;

	(void)i;
	if (strncmp(s->name, "stats-", 6) == 0)
		(*n)++;
}

Test(catalogue, counters_outlive_their_policy)
{
	char name[32];
	size_t n = 0;
	struct policy_stats *first = policy_stats_get(SLICE("stats-0"));

	policy_counts_of(first, 0)->allowed = 5;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof name, "stats-%d", i);
		cr_expect_str_eq(policy_stats_get(slice_of(name))->name, name);
	}
	cr_expect_eq(policy_stats_get(SLICE("stats-0")), first);
	cr_expect_eq(policy_counts_of(first, 0)->allowed, 5);
	policy_stats_each(count, &n);
	cr_expect_eq(n, 1000);
}

Test(catalogue, each_loop_has_its_counters)
{
	struct policy_stats *early = policy_stats_get(SLICE("stats-early")), *late;

	cr_assert(policy_stats_set_loops(3));
	late = policy_stats_get(SLICE("stats-late"));
	for (unsigned i = 0; i < 3; i++) {
		policy_counts_of(early, i)->allowed = i + 1;
		policy_counts_of(late, i)->allowed = i + 1;
	}
	for (unsigned i = 0; i < 3; i++) {
		cr_expect_eq(policy_counts_of(early, i)->allowed, i + 1);
		cr_expect_eq(policy_counts_of(late, i)->allowed, i + 1);
		cr_expect_eq((uintptr_t)policy_counts_of(late, i) % CACHE_LINE_BYTES, 0);
	}
}

static void collect(struct slice name, void *data)
{
	struct buf *names = data;

	buf_add_slice(names, name);
	buf_add_text(names, " ");
}

Test(policy_stats, news_of_feedback_are_told_once_and_what_others_say_is_none)
{
	struct policy_stats *here = policy_stats_get(SLICE("here"));
	struct policy_stats *there = policy_stats_get(SLICE("there"));
	unsigned before = policy_stats_with_feedback();
	struct buf names = {0};

	policy_stats_feedback(here, true);
	policy_stats_feedback(here, true);
	policy_stats_feedback(policy_stats_find(SLICE("there")), false);
	cr_expect(policy_stats_has_feedback(here) && policy_stats_has_feedback(there));
	cr_expect_eq(policy_stats_with_feedback(), before + 2);
	policy_stats_take_news(collect, &names);
	policy_stats_take_news(collect, &names);
	cr_expect(slice_equal(buf_slice(&names), SLICE("here ")));
	cr_expect_null(policy_stats_find(SLICE("nowhere")));
	buf_release(&names);
}

/* ---- Envoy ---- */

static struct buf envoy_name(const char *domain, const char *key)
{
	struct buf name = {0};

	rls_name_add(&name, slice_of(domain));
	rls_name_add(&name, slice_of(key));
	return name;
}

/* How many policies limit the key, and that they are all among `names`. */
static int count_envoy(const struct catalogue *c, const char *domain, const char *key,
		       const char *names)
{
	struct buf name = envoy_name(domain, key);
	const struct policy *p;
	uint64_t walk = 0;
	int n = 0;

	for (; (p = catalogue_envoy(c, buf_slice(&name), &walk)) != NULL; n++)
		cr_expect_not_null(strstr(names, p->name), "%s", p->name);
	buf_release(&name);
	return n;
}

Test(catalogue, policies_of_a_descriptor)
{
	struct catalogue *c = build("[{\"name\":\"p\",\"limit\":1,\"per\":\"1s\"},"
				    "{\"name\":\"q\",\"limit\":1,\"per\":\"1s\",\"envoy\":{"
				    "\"domain\":\"edge\",\"descriptors\":[\"a\"]}},"
				    "{\"name\":\"r\",\"limit\":1,\"per\":\"1h\",\"envoy\":{"
				    "\"domain\":\"edge\",\"descriptors\":[\"a\"]}},"
				    "{\"name\":\"s\",\"limit\":1,\"per\":\"1h\",\"envoy\":{"
				    "\"domain\":\"edge\",\"descriptors\":[\"a\",\"b\"]}}]",
				    "[]");

	cr_expect_eq(count_envoy(c, "edge", "a", "q r"), 2);
	cr_expect_eq(count_envoy(c, "edge", "b", ""), 0);
	cr_expect_eq(count_envoy(c, "edg", "ea", ""), 0);
	cr_expect_eq(count_envoy(c, "other", "a", ""), 0);
	catalogue_unref(c);
}

Test(catalogue, many_policies_of_descriptors)
{
	struct buf json = {0};

	for (int i = 0; i < 500; i++)
		buf_printf(&json,
			   "%c{\"name\":\"p%d\",\"limit\":1,\"per\":\"1s\",\"envoy\":{\"domain\":"
			   "\"d\","
			   "\"descriptors\":[\"k%d\"]}}",
			   i == 0 ? '[' : ',', i, i % 100);
	buf_add(&json, "]", 2);
	struct catalogue *c = build(json.ptr, "[]");

	cr_expect_eq(count_envoy(c, "d", "k7", "p7 p107 p207 p307 p407"), 5);
	catalogue_unref(c);
	buf_release(&json);
}
