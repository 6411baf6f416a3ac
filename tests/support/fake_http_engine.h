/*
 * An engine and a control plane that are not there, for tests of the HTTP front: it defines what the
 * front needs of them, so that the linker does not look for the real ones, answers by the policy's
 * name and keeps what was asked for. Include it in one file of a test.
 *
 *   no, never              refused; to be tried again in 1001 ms, never
 *   missing, range, down   no verdict: REQUEST_NO_POLICY, REQUEST_RANGE, REQUEST_UNAVAILABLE
 *   slots                  allowed; a policy of concurrency
 *   later                  stays in progress until fake_answer_later()
 *   others                 allowed
 */
#pragma once

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent.h"
#include "change_log.h"
#include "control/catalogue.h"
#include "control/control.h"
#include "control/control_state.h"
#include "control/gossip_service.h"
#include "engine_life.h"
#include "fake_engine_numbers.h"
#include "request.h"
#include "usage.h"

struct engine {
	char unused;
};

static struct {
	bool full; /* request_new() has none */
	unsigned shards_up;
	unsigned decided, abandoned, in_use;
	struct request *later; /* in progress */
	struct request last;   /* with its texts below */
	char texts[8][1100];
	char changed[256]; /* what was asked of the control plane last */
	kova_status control_status;
} fake;

static struct slice keep(int i, struct slice s)
{
	assert(s.len < sizeof fake.texts[0]);
	if (s.len != 0)
		memcpy(fake.texts[i], s.ptr, s.len);
	return (struct slice){fake.texts[i], s.len};
}

struct request *request_new(struct engine *e)
{
	(void)e;
	if (fake.full)
		return NULL;
	fake.in_use++;
	return calloc(1, sizeof(struct request));
}

void request_free(struct request *r)
{
	fake.in_use--;
	free(r);
}

void request_abandon(struct request *r)
{
	assert(r == fake.later);
	fake.later = NULL;
	fake.abandoned++;
	request_free(r);
}

static bool named(const struct request *r, const char *name)
{
	return r->n_pairs > 0 && slice_equal(r->pairs[0].policy, slice_of(name));
}

static void fill(struct request *r)
{
	struct answer *a = &r->answer;

	*a = (struct answer){.allowed = true,
			     .remaining = 19,
			     .limit = 20,
			     .reset_after_ms = 100,
			     .more_after_ms = 100,
			     .window_s = 2,
			     .policy = "captcha-submit",
			     .hold_ms = 10000,
			     .amount = 3};
	if (named(r, "slots"))
		memcpy(a->policy, "slots", sizeof "slots");
	if (r->want_receipt)
		a->receipt = SLICE("r\"1");
	if (r->kind == REQUEST_ACQUIRE)
		a->permit = SLICE("permit");
	if (named(r, "no") || named(r, "never")) {
		a->allowed = false;
		a->remaining = 0;
		a->retry_after_ms = named(r, "no") ? 1001 : -1;
		a->more_after_ms = named(r, "no") ? 2500 : -1;
		a->receipt = a->permit = (struct slice){NULL, 0};
		a->reason = REASON_LIMITED;
		memcpy(a->level, "tenant", 7);
		a->amount = 0;
	}
	a->error = named(r, "missing") ? REQUEST_NO_POLICY
		   : named(r, "range") ? REQUEST_RANGE
		   : named(r, "down")  ? REQUEST_UNAVAILABLE
				       : REQUEST_NO_ERROR;
	if (a->error != REQUEST_NO_ERROR)
		snprintf(a->message, sizeof a->message, "the engine says so");
}

void decide(struct engine *e, struct request *r)
{
	(void)e;
	fake.decided++;
	fake.last = *r;
	for (int i = 0; i < 2 && i < r->n_pairs; i++) {
		fake.last.pairs[i].policy = keep(2 * i, r->pairs[i].policy);
		fake.last.pairs[i].key = keep(2 * i + 1, r->pairs[i].key);
	}
	fake.last.id = keep(4, r->id);
	fake.last.permit = keep(5, r->permit);
	fake.last.receipt = keep(6, r->receipt);
	fill(r);
	if (named(r, "later"))
		fake.later = r;
	else
		r->on_done(r);
}

static void fake_answer_later(void)
{
	struct request *r = fake.later;

	fake.later = NULL;
	r->on_done(r);
}

size_t answer_reason(const struct answer *a, char ret_text[static 80])
{
	return (size_t)snprintf(ret_text, 80, a->allowed ? "ok" : "limited:%s", a->level);
}

uint64_t engine_outage_full(const struct engine *e)
{
	(void)e;
	return 7;
}

struct engine_health engine_health(const struct engine *e)
{
	(void)e;
	return (struct engine_health){.shards = 3, .shards_up = fake.shards_up};
}

struct redis_counters engine_redis_counters(const struct engine *e)
{
	(void)e;
	return (struct redis_counters){.commands = 7};
}

bool usage_get(const struct engine *e, struct slice policy, struct slice key,
	       struct usage_counts *ret_counts)
{
	(void)e;
	(void)policy;
	*ret_counts = (struct usage_counts){1, 2, 3, 1795996800123};
	return slice_equal(key, SLICE("a/b"));
}

struct catalogue *control_catalogue(const struct control *c)
{
	(void)c;
	return NULL;
}

const struct override *catalogue_override(const struct catalogue *c, const struct policy *p,
					  unsigned level, struct slice path, int64_t now_ms)
{
	(void)c;
	(void)p;
	(void)level;
	(void)path;
	(void)now_ms;
	return NULL;
}

const struct policy *catalogue_policy_at(const struct catalogue *c, size_t i)
{
	(void)c;
	(void)i;
	return NULL;
}

const struct policy *catalogue_policy(const struct catalogue *c, struct slice name)
{
	static struct level bucket, slots = {.limit = {.algorithm = ALGORITHM_CONCURRENCY}};
	static const struct policy policy = {.n_levels = 1, .levels = &bucket};
	static const struct policy slots_policy = {.n_levels = 1, .levels = &slots};

	(void)c;
	if (slice_equal(name, SLICE("missing")))
		return NULL;
	return slice_equal(name, SLICE("slots")) ? &slots_policy : &policy;
}

json_t *change_log_list(const struct change_log *l, size_t most)
{
	(void)l;
	(void)most;
	return NULL;
}

/* There is no gossip: these are never asked. */
bool gossip_service_is_skewed(const struct gossip_service *g, int64_t *ret_ms)
{
	(void)g;
	(void)ret_ms;
	return false;
}

json_t *gossip_service_members(const struct gossip_service *g)
{
	(void)g;
	return NULL;
}

void gossip_service_numbers(const struct gossip_service *g, struct gossip_numbers *ret_numbers)
{
	(void)g;
	(void)ret_numbers;
}

struct control_state *control_snapshot(const struct control *c)
{
	(void)c;
	return NULL;
}

void control_state_unref(struct control_state *s)
{
	(void)s;
}

void control_follow(struct control *replica, struct control_state *state)
{
	(void)replica;
	(void)state;
}

json_t *control_policies(const struct control *c)
{
	(void)c;
	return json_pack("{s:[{s:s}]}", "policies", "name", "captcha-submit");
}

json_t *control_overrides(const struct control *c)
{
	(void)c;
	return json_pack("{s:[]}", "overrides");
}

static kova_status change(struct control_error *ret_error)
{
	if (fake.control_status != KOVA_OK)
		snprintf(ret_error->text, sizeof ret_error->text, "`limit` must be \"so\"");
	return fake.control_status;
}

kova_status control_put_policy(struct control *c, struct slice name, const json_t *policy,
			       const char *who, struct control_error *ret_error)
{
	(void)c;
	snprintf(fake.changed, sizeof fake.changed, "put %.*s by %s, %zu members", (int)name.len,
		 name.ptr, who, json_object_size(policy));
	return change(ret_error);
}

kova_status control_delete_policy(struct control *c, struct slice name, const char *who,
				  struct control_error *ret_error)
{
	(void)c;
	snprintf(fake.changed, sizeof fake.changed, "delete %.*s by %s", (int)name.len, name.ptr,
		 who);
	return change(ret_error);
}

kova_status control_put_override(struct control *c, const json_t *override, const char *who,
				 struct control_error *ret_error)
{
	(void)c;
	snprintf(fake.changed, sizeof fake.changed, "override %s by %s",
		 json_string_value(json_object_get(override, "key")), who);
	return change(ret_error);
}

kova_status control_delete_override(struct control *c, struct slice policy, struct slice key,
				    struct slice prefix, const char *who,
				    struct control_error *ret_error)
{
	(void)c;
	snprintf(fake.changed, sizeof fake.changed, "delete %.*s %s %.*s by %s", (int)policy.len,
		 policy.ptr, key.ptr != NULL ? "key" : "prefix",
		 (int)(key.ptr != NULL ? key.len : prefix.len),
		 key.ptr != NULL ? key.ptr : prefix.ptr, who);
	return change(ret_error);
}

/* ---- Pools: there are none, and none can be made ---- */

struct pool_def *catalogue_pool(const struct catalogue *c, struct slice name)
{
	(void)c;
	(void)name;
	return NULL;
}

struct pool_def *catalogue_pool_at(const struct catalogue *c, size_t i)
{
	(void)c;
	(void)i;
	return NULL;
}

kova_status control_put_pool(struct control *c, struct slice name, const json_t *pool,
			     const char *who, struct control_error *ret_error)
{
	(void)c;
	(void)name;
	(void)pool;
	(void)who;
	(void)ret_error;
	return KOVA_ECONFIG;
}

kova_status control_delete_pool(struct control *c, struct slice name, const char *who,
				struct control_error *ret_error)
{
	(void)c;
	(void)name;
	(void)who;
	(void)ret_error;
	return KOVA_ENOTFOUND;
}

kova_status control_put_endpoints(struct control *c, struct slice pool, const json_t *body,
				  const char *who, struct control_error *ret_error)
{
	(void)c;
	(void)pool;
	(void)body;
	(void)who;
	(void)ret_error;
	return KOVA_ENOTFOUND;
}

kova_status control_patch_endpoint(struct control *c, struct slice pool, struct slice id,
				   const json_t *change, const char *who,
				   struct control_error *ret_error)
{
	(void)c;
	(void)pool;
	(void)id;
	(void)change;
	(void)who;
	(void)ret_error;
	return KOVA_ENOTFOUND;
}
