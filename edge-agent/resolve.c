/*
 * From names to checks. A pair is a policy and a key path; each level of the policy that the path reaches is
 * one check (a plan: two), unless an override makes the level unlimited or bans it. The checks of the pairs
 * that share a Cluster slot form a group: one operation of the script.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "control/control.h"
#include "core/divide.h"
#include "core/hash.h"
#include "core/keyspace.h"
#include "edge_regions.h"
#include "engine.h"
#include "quota.h"

static enum resolution refuse_with(struct request_state *s, enum request_error error,
				   const char *message)
{
	struct answer *a = &s->request.answer;

	a->error = error;
	snprintf(a->message, sizeof a->message, "%s", message);
	return RESOLVED_AT_ONCE;
}

static bool checks_grow(struct request_state *s)
{
	uint16_t cap = (uint16_t)(s->cap_checks * 4);
	bool inline_now = s->checks == s->checks_inline;
	struct check_ref *checks = realloc(inline_now ? NULL : s->checks, cap * sizeof *checks);

	if (checks == NULL)
		return false;
	if (inline_now)
		memcpy(checks, s->checks_inline, sizeof s->checks_inline);
	s->checks = checks;
	s->cap_checks = cap;
	return true;
}

static bool checks_add(struct request_state *s, struct check_ref ref)
{
	if (s->n_checks == s->cap_checks && !checks_grow(s))
		return false;
	s->checks[s->n_checks++] = ref;
	return true;
}

void resolve_release(struct request_state *s)
{
	if (s->checks != s->checks_inline)
		free(s->checks);
	if (s->groups != &s->group_inline)
		free(s->groups);
	free(s->own_levels);
	s->own_levels = NULL;
	s->checks = s->checks_inline;
	s->cap_checks = CHECKS_INLINE;
	s->n_checks = 0;
	s->groups = &s->group_inline;
	s->n_groups = 0;
	s->durable = NULL;
	catalogue_unref(s->catalogue);
	s->catalogue = NULL;
}

/* ---- One pair ---- */

static bool holds_permits(const struct level *l)
{
	return l->has_slots || l->limit.algorithm == ALGORITHM_CONCURRENCY;
}

/* No further level of the policy looks at this key. A breaker and feedback concern this one alone. */
static bool is_deepest(const struct policy *p, uint8_t level, struct slice key)
{
	struct slice path;

	return level + 1 == p->n_levels || !keyspace_path(key, level + 1U, p->n_levels, &path);
}

/* What a policy can't do, as text, or NULL. */
static const char *wrong_kind(const struct policy *p, enum request_kind kind)
{
	const struct level *last = &p->levels[p->n_levels - 1];

	switch (kind) {
	case REQUEST_TAKE:
		if (last->limit.algorithm == ALGORITHM_CONCURRENCY)
			return "this policy limits concurrency: use ACQUIRE and RELEASE "
			       "(/v1/acquire, /v1/release)";
		return NULL;
	case REQUEST_ACQUIRE:
	case REQUEST_RELEASE:
	case REQUEST_RENEW:
		if (!holds_permits(last))
			return "this policy has no permits: ACQUIRE, RELEASE and RENEW "
			       "(/v1/acquire, "
			       "…) need a concurrency policy or a plan";
		return NULL;
	default:
		return NULL;
	}
}

static enum resolution banned(struct request_state *s, const struct policy *p, uint8_t pair,
			      const struct override *o, int64_t now_ms)
{
	struct answer *a = &s->request.answer;

	a->allowed = false;
	a->pair = pair;
	a->reason = REASON_BANNED;
	a->retry_after_ms = o->until_ms == INT64_MAX ? -1 : o->until_ms - now_ms;
	a->more_after_ms = a->retry_after_ms;
	memcpy(a->policy, p->name, sizeof a->policy);
	return RESOLVED_AT_ONCE;
}

static enum resolution add_level(struct request_state *s, const struct policy *p, uint8_t pair,
				 uint8_t index, const struct level *l)
{
	struct check_ref ref = {.policy = p,
				.level = l,
				.limit = &l->limit,
				.level_name = p->levels[index].name,
				.cost = s->request.pairs[pair].cost,
				.pair = pair,
				.level_index = index};
	bool added = true;

	ref.ledger = s->engine->feed != NULL && p->scope != SCOPE_REGION &&
		     (s->n_checks == 0 || s->checks[s->n_checks - 1].pair != pair);
	if (p->has_breaker && is_deepest(p, index, s->request.pairs[pair].key))
		ref.breaker = &p->breaker;
	if (p->has_adaptive && index + 1 == p->n_levels)
		ref.adaptive = &p->adaptive;
	if (s->request.kind != REQUEST_RELEASE && s->request.kind != REQUEST_RENEW)
		added = checks_add(s, ref);
	else if (l->limit.algorithm == ALGORITHM_CONCURRENCY)
		added = checks_add(s, ref);
	if (added && l->has_slots && s->request.kind != REQUEST_FEEDBACK) {
		ref.limit = &l->slots;
		ref.breaker = NULL;
		ref.ledger = false;
		added = checks_add(s, ref);
	}
	s->wants_permit |= holds_permits(l);
	return added ? RESOLVED : refuse_with(s, REQUEST_UNAVAILABLE, "out of memory");
}

/*
 * The level above, whose check was added last, is shared: by this key, or by those who ask for that level itself, as if
 * they were one more key of this one. `l`: NULL, no limit of its own.
 */
static void claim_share(struct request_state *s, uint32_t weight, struct slice path,
			const struct level *l)
{
	struct check_ref *parent = &s->checks[s->n_checks - 1];
	uint64_t most = l != NULL ? limit_capacity(&l->limit) : LIMIT_MAX;

	parent->share =
		(struct share_claim){hash_bytes(path, 0), weight, (uint32_t)(most < 1 ? 1 : most)};
}

/* An operator's override goes before history, that before the policy. */
static uint32_t weight_of(const struct catalogue *c, const struct policy *p, unsigned level,
			  struct slice path, const struct level *l, const struct override *o)
{
	uint32_t weight = 0;

	if (p->weighs_history && (o == NULL || !o->weighted))
		weight = catalogue_weight(c, p, level, path);
	return weight > 0 ? weight : l->weight;
}

/* The check that was added last is that of level `index` of this pair. */
static bool last_is(const struct request_state *s, uint8_t pair, uint8_t index)
{
	const struct check_ref *last = s->n_checks > 0 ? &s->checks[s->n_checks - 1] : NULL;

	return last != NULL && last->pair == pair && last->level_index == index;
}

/* The level with the limit that the request brings; NULL: out of memory. */
static const struct level *own_level(struct request_state *s, uint8_t pair, const struct level *l)
{
	const struct request_pair *q = &s->request.pairs[pair];
	struct level *own;

	if (s->own_levels == NULL)
		s->own_levels = calloc(s->request.n_pairs, sizeof *s->own_levels);
	if (s->own_levels == NULL)
		return NULL;
	own = &s->own_levels[pair];
	*own = *l;
	own->limit.limit = q->own_limit;
	if (l->limit.algorithm != ALGORITHM_CALENDAR)
		own->limit.per_us = (uint64_t)q->own_per_s * 1000000;
	own->limit.burst = q->own_limit > 0 ? q->own_limit : 1;
	return limit_init(&own->limit) == KOVA_OK ? own : l;
}

static enum resolution resolve_pair(struct request_state *s, uint8_t pair)
{
	const struct request_pair *q = &s->request.pairs[pair];
	const struct policy *p = catalogue_policy(s->catalogue, q->policy);
	int64_t now_ms = (int64_t)(site_now_us(s->engine->own) / 1000);

	if (p == NULL)
		return refuse_with(s, REQUEST_NO_POLICY, "no policy of that name");
	if (p->scope == SCOPE_HOME && s->engine->regions == NULL)
		return refuse_with(s, REQUEST_UNAVAILABLE,
				   "scope `home` needs `regions` in the agent's configuration");
	if (p->scope == SCOPE_GLOBAL && (s->engine->regions == NULL || s->engine->feed == NULL))
		return refuse_with(s, REQUEST_UNAVAILABLE,
				   "scope `global` needs `regions` and `kafka` in the agent's "
				   "configuration");

	const char *wrong = wrong_kind(p, s->request.kind);

	if (wrong != NULL)
		return refuse_with(s, REQUEST_MALFORMED, wrong);
	for (uint8_t i = 0; i < p->n_levels; i++) {
		const struct level *l = &p->levels[i];
		const struct override *o = NULL;
		struct slice path;

		if (!keyspace_path(q->key, i, p->n_levels, &path)) {
			if (l->weight > 0 && last_is(s, pair, (uint8_t)(i - 1)))
				claim_share(s, l->weight, q->key, NULL);
			break;
		}
		if (s->request.kind == REQUEST_FEEDBACK && !is_deepest(p, i, q->key))
			continue;
		if (p->has_overrides)
			o = catalogue_override(s->catalogue, p, i, path, now_ms);
		if (o != NULL && o->banned)
			return banned(s, p, pair, o, now_ms);
		if (o != NULL && !o->unlimited)
			l = &o->level;
		else if (o == NULL && q->own_per_s > 0 && i + 1 == p->n_levels &&
			 (l = own_level(s, pair, l)) == NULL)
			return refuse_with(s, REQUEST_UNAVAILABLE, "out of memory");
		if (l->weight > 0 && last_is(s, pair, (uint8_t)(i - 1)))
			claim_share(s, weight_of(s->catalogue, p, i, path, l, o), path,
				    o != NULL && o->unlimited ? NULL : l);
		if (o != NULL && o->unlimited)
			continue;
		if (add_level(s, p, pair, i, l) != RESOLVED)
			return RESOLVED_AT_ONCE;
	}
	return RESOLVED;
}

/* ---- Where its limits are ---- */

static struct site *site_of(const struct engine *e, const struct catalogue *c,
			    const struct request_pair *q)
{
	const struct policy *p = catalogue_policy(c, q->policy);

	if (p == NULL || p->scope != SCOPE_HOME)
		return e->own;
	return &e->sites[rendezvous_choose(e->regions->sites, e->n_sites,
					   rendezvous_hash(keyspace_root(q->key)))];
}

const struct site *resolve_home(const struct engine *e, const struct request_pair *q)
{
	return e->n_sites > 1 ? site_of(e, control_catalogue(e->control), q) : e->own;
}

bool resolve_is_far(const struct engine *e, const struct request_pair *q)
{
	return resolve_home(e, q)->is_far;
}

/* Two Redises can't take together or not at all. */
static enum resolution refuse_two_sites(struct request_state *s, const struct site *a,
					const struct site *b)
{
	snprintf(s->request.answer.message, sizeof s->request.answer.message,
		 "limits kept in two regions (%.40s, %.40s) can't be taken together", a->name,
		 b->name);
	s->request.answer.error = REQUEST_MALFORMED;
	s->request.answer.allowed = false;
	return RESOLVED_AT_ONCE;
}

static enum resolution resolve_site(struct request_state *s)
{
	const struct request *r = &s->request;

	s->site = s->engine->own;
	if (s->engine->n_sites == 1 || r->kind == REQUEST_THROTTLE)
		return RESOLVED;
	for (uint8_t i = 0; i < r->n_pairs; i++) {
		struct site *site = site_of(s->engine, s->catalogue, &r->pairs[i]);

		if (i > 0 && site != s->site)
			return refuse_two_sites(s, s->site, site);
		s->site = site;
	}
	return RESOLVED;
}

/* ---- Groups ---- */

static uint16_t slot_of(const struct request_state *s, uint8_t pair)
{
	char name[KEYSPACE_NAME_MAX];
	const struct request_pair *q = &s->request.pairs[pair];
	size_t len;

	if (s->site->region == NULL || !region_by_slot(s->site->region))
		return 0;
	len = keyspace_receipt(keyspace_root(q->key), (struct slice){0}, name);
	return keyspace_slot((struct slice){name, len});
}

/* The pairs' checks, group by group, the groups in the order of their first pair. */
static enum resolution resolve_groups(struct request_state *s)
{
	uint16_t slots[REQUEST_PAIRS_MAX];
	struct group groups[REQUEST_PAIRS_MAX];
	uint8_t n = s->request.n_pairs, n_groups = 0;
	bool done[REQUEST_PAIRS_MAX] = {false};

	for (uint8_t i = 0; i < n; i++)
		slots[i] = slot_of(s, i);
	for (uint8_t i = 0; i < n; i++) {
		if (done[i])
			continue;

		struct group *g = &groups[n_groups];

		*g = (struct group){
			.state = s, .slot = slots[i], .first_check = s->n_checks, .first_pair = i};
		for (uint8_t j = i; j < n; j++) {
			if (done[j] || slots[j] != slots[i])
				continue;
			done[j] = true;
			if (resolve_pair(s, j) != RESOLVED)
				return RESOLVED_AT_ONCE;
		}
		g->n_checks = (uint16_t)(s->n_checks - g->first_check);
		if (g->n_checks > 0)
			n_groups++;
	}
	if (n_groups > 1) {
		s->groups = malloc(n_groups * sizeof *s->groups);
		if (s->groups == NULL) {
			s->groups = &s->group_inline;
			return refuse_with(s, REQUEST_UNAVAILABLE, "out of memory");
		}
	}
	memcpy(s->groups, groups, n_groups * sizeof *groups);
	s->n_groups = n_groups;
	return RESOLVED;
}

/* By which region the request goes: the one for the strictest of what its policies ask for. */
static enum resolution resolve_durable(struct request_state *s)
{
	struct durability wanted = {0};

	for (uint16_t i = 0; i < s->n_checks; i++)
		wanted = durability_both(wanted, s->checks[i].policy->durability);
	if (!durability_is_wanted(wanted) || s->site->durables == NULL)
		return RESOLVED;
	s->durable = durables_get(s->site->durables, wanted);
	return s->durable != NULL ? RESOLVED : refuse_with(s, REQUEST_UNAVAILABLE, "out of memory");
}

static enum resolution unlimited(struct request_state *s)
{
	struct answer *a = &s->request.answer;

	a->allowed = true;
	a->reason = REASON_OK;
	a->remaining = a->limit = LIMIT_MAX;
	a->amount = s->request.kind != REQUEST_REFUND;
	memcpy(a->policy, s->request.pairs[0].policy.ptr, s->request.pairs[0].policy.len);
	return RESOLVED_AT_ONCE;
}

static enum resolution resolve_throttle(struct request_state *s)
{
	struct check_ref ref = {
		.limit = &s->throttle_limit, .level_name = "", .cost = s->request.pairs[0].cost};
	bool added = checks_add(s, ref);

	assert(added); /* the first check is inline */
	(void)added;
	s->n_groups = 1;
	s->group_inline = (struct group){.state = s, .slot = slot_of(s, 0), .n_checks = 1};
	return RESOLVED;
}

enum resolution resolve(struct request_state *s)
{
	resolve_release(s);
	s->wants_permit = false;
	s->catalogue = catalogue_ref(control_catalogue(s->engine->control));
	if (resolve_site(s) != RESOLVED)
		return RESOLVED_AT_ONCE;
	if (s->request.kind == REQUEST_THROTTLE)
		return resolve_throttle(s);
	if (resolve_groups(s) != RESOLVED)
		return RESOLVED_AT_ONCE;
	return s->n_checks > 0 ? resolve_durable(s) : unlimited(s);
}

/* ---- Operations ---- */

size_t resolve_name(const struct request_state *s, const struct check_ref *ref, char *ret_name)
{
	const struct request_pair *q = &s->request.pairs[ref->pair];
	struct slice path = q->key;

	if (ref->policy == NULL)
		return keyspace_throttle(q->key, ret_name);
	keyspace_path(q->key, ref->level_index, ref->policy->n_levels, &path);
	return keyspace_check(ref->limit->algorithm, q->policy, ref->level_index, path, ret_name);
}

/* Room for every name of the operation at once, so that none moves while another is written. */
static char *names_room(struct request_state *s, const struct group *g)
{
	size_t need = (size_t)(g->n_checks + 2) * KEYSPACE_NAME_MAX + PERMIT_CHARS + s->receipt.len;

	for (uint8_t i = 0; i < s->request.n_pairs; i++)
		need += s->request.pairs[i].policy.len + s->request.pairs[i].key.len + 64;
	buf_clear(&s->engine->names);
	return buf_reserve(&s->engine->names, need);
}

/* The id and, each with its length, all pairs: the same id with other pairs is another request. */
static size_t id_name(const struct request_state *s, const struct group *g, char *ret_name)
{
	const struct request *r = &s->request;
	char *at =
		ret_name + keyspace_id(keyspace_root(r->pairs[g->first_pair].key), r->id, ret_name);

	for (uint8_t i = 0; i < r->n_pairs; i++) {
		const struct request_pair *q = &r->pairs[i];

		at += sprintf(at, "%zu:%zu:%" PRIu64 ":", q->policy.len, q->key.len, q->cost);
		memcpy(at, q->policy.ptr, q->policy.len);
		memcpy(at + q->policy.len, q->key.ptr, q->key.len);
		at += q->policy.len + q->key.len;
	}
	return (size_t)(at - ret_name);
}

static size_t receipt_name(const struct request_state *s, const struct group *g, char *ret_name)
{
	struct slice random = {(const char *)s->random, sizeof s->random};

	return keyspace_receipt(keyspace_root(s->request.pairs[g->first_pair].key), random,
				ret_name);
}

/* What a repeat of the same id is answered beside the numbers: the permit, then the receipt. */
static size_t echo_write(const struct request_state *s, char *ret_echo)
{
	memcpy(ret_echo, s->permit, PERMIT_CHARS);
	if (s->receipt.len > 0)
		memcpy(ret_echo + PERMIT_CHARS, s->receipt.ptr, s->receipt.len);
	return PERMIT_CHARS + s->receipt.len;
}

static const enum script_op_kind script_kind[] = {
	[REQUEST_TAKE] = SCRIPT_TAKE,       [REQUEST_PEEK] = SCRIPT_PEEK,
	[REQUEST_REFUND] = SCRIPT_REFUND,   [REQUEST_ACQUIRE] = SCRIPT_TAKE,
	[REQUEST_RELEASE] = SCRIPT_RELEASE, [REQUEST_RENEW] = SCRIPT_RENEW,
	[REQUEST_THROTTLE] = SCRIPT_TAKE,   [REQUEST_FEEDBACK] = SCRIPT_FEEDBACK,
};

/* For the check `i` of the operation being built. NULL: its limits are this region's alone, or another's. */
static const struct script_quota *quota_for(struct engine *e, const struct policy *p, uint16_t i)
{
	if (p == NULL || p->scope != SCOPE_GLOBAL)
		return NULL;
	e->quotas[i] = quota_of(e->regions, p);
	return &e->quotas[i];
}

bool resolve_operation(struct request_state *s, struct group *g, struct script_op *ret_op)
{
	struct engine *e = s->engine;
	const struct request *r = &s->request;
	char *at = names_room(s, g);
	size_t len;

	if (at == NULL)
		return false;
	*ret_op = (struct script_op){.kind = script_kind[r->kind], .n_checks = g->n_checks};
	for (uint16_t i = 0; i < g->n_checks; i++) {
		const struct check_ref *ref = &s->checks[g->first_check + i];

		len = resolve_name(s, ref, at);
		e->scratch[i] =
			(struct script_check){.limit = ref->limit,
					      .key = {at, len},
					      .cost = ref->cost,
					      .shadow = ref->policy != NULL && ref->policy->shadow,
					      .breaker = ref->breaker,
					      .adaptive = ref->adaptive,
					      .ledger = ref->ledger,
					      .quota = quota_for(e, ref->policy, i),
					      .share = ref->share};
		at += len;
	}
	ret_op->checks = e->scratch;
	if (request_takes(r) && r->id.len > 0 && g == &s->groups[0]) {
		len = id_name(s, g, at);
		ret_op->id_key = (struct slice){at, len};
		at += len;
		len = echo_write(s, at);
		ret_op->echo = (struct slice){at, len};
		at += len;
	}
	if (r->kind == REQUEST_REFUND || (request_takes(r) && r->want_receipt))
		ret_op->receipt_key = (struct slice){at, receipt_name(s, g, at)};
	if (r->kind == REQUEST_THROTTLE && r->throttle.quantity == 0)
		ret_op->kind = SCRIPT_PEEK;
	ret_op->amount = r->refund_amount < 0 ? UINT64_MAX : (uint64_t)r->refund_amount;
	if (r->kind == REQUEST_FEEDBACK) {
		ret_op->ok = !r->feedback.failed;
		ret_op->congested = r->feedback.congested;
		ret_op->latency_us = r->feedback.latency_ms * 1000;
		ret_op->hold_us = r->feedback.hold_us;
		ret_op->amount = r->feedback.has_remaining ? r->feedback.remaining : UINT64_MAX;
		return true;
	}
	if (r->kind == REQUEST_RELEASE || r->kind == REQUEST_RENEW)
		ret_op->permit = r->permit;
	else if (s->wants_permit)
		ret_op->permit = (struct slice){s->permit, sizeof s->permit};
	return true;
}

bool resolve_give_back(struct request_state *s, struct group *g, struct script_op *ret_op)
{
	struct slice permit = {s->permit, sizeof s->permit};

	if (!resolve_operation(s, g, ret_op))
		return false;
	ret_op->kind = SCRIPT_GIVE;
	ret_op->id_key = ret_op->receipt_key = (struct slice){0};
	ret_op->permit = s->wants_permit ? permit : (struct slice){0};
	ret_op->stamp_us = g->answer.now_us;
	return true;
}

/* ---- Answers ---- */

static int64_t ms_up(int64_t us)
{
	return us < 0 ? -1 : (int64_t)divide_up((uint64_t)us, 1000);
}

/* What the caller is shown: a plan's numbers are those of its bucket. */
static const struct limit *shown_limit(const struct check_ref *ref)
{
	return ref->level != NULL && ref->level->has_slots ? &ref->level->limit : ref->limit;
}

void resolve_answer(struct answer *a, const struct check_ref *ref, const struct script_answer *said,
		    bool allowed)
{
	const struct limit *shown = shown_limit(ref);
	struct limit adapted;

	if (said->limit > 0 && said->limit <= shown->limit && ref->adaptive != NULL) {
		adaptive_bucket_limit(shown, (uint32_t)said->limit, &adapted);
		shown = &adapted;
	}
	a->allowed = allowed;
	a->limit = limit_capacity(shown);
	a->remaining = said->remaining < a->limit ? said->remaining : a->limit;
	a->retry_after_ms = allowed ? 0 : ms_up(said->wait_us);
	a->more_after_ms = ms_up(said->wait_us);
	a->reset_after_ms = ms_up((int64_t)said->reset_us);
	a->window_s = divide_up(limit_horizon_us(shown), 1000000);
	a->rate = shown->limit;
	a->per_us = shown->per_us;
	a->pair = ref->pair;
	if (ref->policy != NULL)
		memcpy(a->policy, ref->policy->name, sizeof a->policy);
	if (!allowed)
		snprintf(a->level, sizeof a->level, "%s", ref->level_name);
}
