/*
 * The verdict when the store can't be asked, or its answer is in doubt: what each policy's `on_outage` says, at
 * once. `deny` refuses, `allow` admits, `local` enforces in memory this agent's part of the limit: the limit divided by
 * the most agents seen lately. A local state begins empty with each outage, so an outage that begins or ends
 * releases no burst; together the agents admit at most what the limit allows from then on, beside what the store admitted
 * before. When the store answers again, it is charged with what `local` and `allow` admitted here, before it is asked
 * anything else.
 * The states are the agent's, whatever its number of loops, and the only thing that a loop waits for another for: only in an
 * outage, and for no longer than a decision takes.
 *
 * An adaptive limit goes on as this agent heard of it last, from any of its loops. Where a level has weights, its keys have their
 * shares of what this agent has of the level above; who has asked lately is learned anew with each outage. Beyond OUTAGE_PARENTS
 * such keys above at a time they take what is there first come, first served.
 *
 * Of several policies the strictest speaks: one that denies refuses all.
 */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/adaptive.h"
#include "core/hash.h"
#include "core/keyspace.h"
#include "core/limiter.h"
#include "core/shares.h"
#include "engine.h"
#include "heartbeat.h"
#include "quota.h"

enum {
	OUTAGE_KEYS = 65536,
	OUTAGE_PARENTS = 4096, /* of them, whose children have shares */
	OUTAGE_BUCKETS = 65536,
	ADAPTED_KEYS = 8192
};

/* One check's state while the store is away. */
struct local {
	struct local *next; /* in its bucket */
	struct limit whole;
	struct limit part; /* this agent's, by `agents` */
	unsigned agents;
	uint32_t adapted;          /* the limit that was in force; 0: the whole one */
	unsigned site;             /* whose limit it is a part of */
	uint64_t admitted;         /* costs, since the store went away */
	bool ledger;               /* they are added up in Redis */
	struct script_quota quota; /* of a limit of all regions; `whole` 0: of this one */
	struct limiter_state state;
	struct children *children; /* owned; NULL: of no level with weights */
	size_t name_len;
	char name[];
};

struct children {
	struct shares now, before; /* before: the last take */
};

struct outage {
	pthread_mutex_t lock; /* of all that follows */
	size_t n, n_parents;
	uint64_t full; /* refusals because OUTAGE_KEYS were in use */
	struct local *buckets[OUTAGE_BUCKETS];
	/* Without the lock: of keys with adaptive limits a part of their hash, and the limit. The last of those that meet. */
	_Atomic uint64_t adapted[ADAPTED_KEYS];
};

/* ---- Parts of limits ---- */

/*
 * The part of one of `agents`. A bucket is slowed down and shrunk, to no less than one token; of a window or of permits
 * each has its share of the number, which may be none.
 */
static bool limit_part(const struct limit *whole, unsigned agents, struct limit *ret_part)
{
	*ret_part = *whole;
	switch (whole->algorithm) {
	case ALGORITHM_TOKEN_BUCKET:
	case ALGORITHM_GCRA:
		ret_part->per_us = whole->per_us * agents;
		ret_part->burst = whole->burst / agents > 0 ? whole->burst / agents : 1;
		if (ret_part->per_us > LIMIT_PER_MAX_US) {
			ret_part->per_us = whole->per_us;
			ret_part->limit = whole->limit / agents;
		}
		break;
	default:
		ret_part->limit = whole->limit / agents;
		break;
	}
	return limit_init(ret_part) == KOVA_OK;
}

/* The configuration's part in it of this region: of a limit of all regions its floor; else `whole` is 0. */
static struct script_quota quota_for(const struct request_state *s, const struct check_ref *ref)
{
	if (ref->policy == NULL || ref->policy->scope != SCOPE_GLOBAL)
		return (struct script_quota){0};
	return quota_of(s->engine->regions, ref->policy);
}

/* What this region has of a limit of all regions for certain. */
static void keep_floor(struct limit *l, const struct script_quota *q)
{
	if (q->whole == 0)
		return;
	if (q->floor == 0 || l->algorithm != ALGORITHM_TOKEN_BUCKET) {
		l->limit = l->limit * q->floor / q->whole;
		return;
	}
	l->per_us = l->per_us * q->whole / q->floor;
	l->burst = l->burst * q->floor / q->whole;
	if (l->burst == 0 || l->per_us > LIMIT_PER_MAX_US) { /* hardly anything */
		l->limit = 0;
		l->per_us = LIMIT_PER_MAX_US;
		l->burst = 1;
	}
}

static bool is_part_of(const struct request_state *s, const struct local *l,
		       const struct check_ref *ref, uint32_t adapted, unsigned agents)
{
	const struct limit *whole = ref->limit;
	struct script_quota quota = quota_for(s, ref);

	return l->part.algorithm == whole->algorithm && l->agents == agents &&
	       l->adapted == adapted && l->whole.limit == whole->limit &&
	       l->whole.per_us == whole->per_us && l->whole.burst == whole->burst &&
	       l->quota.whole == quota.whole && l->quota.floor == quota.floor;
}

static bool local_begin(const struct request_state *s, struct local *l, const struct check_ref *ref,
			uint32_t adapted, unsigned agents, uint64_t now_us)
{
	struct limit own = *ref->limit;

	l->agents = agents;
	l->whole = *ref->limit;
	l->quota = quota_for(s, ref);
	l->adapted = adapted;
	if (adapted > 0)
		adaptive_bucket_limit(ref->limit, adapted, &own);
	keep_floor(&own, &l->quota);
	if (l->children != NULL)
		*l->children = (struct children){0};
	return limit_part(&own, agents, &l->part) &&
	       limiter_init(&l->state, &l->part, now_us, true);
}

/* ---- Adapted limits ---- */

static _Atomic uint64_t *adapted_place(struct outage *o, uint64_t hash)
{
	return &o->adapted[hash % ADAPTED_KEYS];
}

void outage_learn(struct outage *o, const struct request_state *s, const struct check_ref *ref,
		  uint64_t limit)
{
	char name[KEYSPACE_NAME_MAX];
	uint64_t hash = hash_bytes((struct slice){name, resolve_name(s, ref, name)}, 0);

	atomic_store_explicit(adapted_place(o, hash), (hash & ~(uint64_t)UINT32_MAX) | limit,
			      memory_order_relaxed);
}

/* 0: as the policy says, or not known. */
static uint32_t adapted_limit(struct outage *o, const struct check_ref *ref, struct slice name)
{
	uint64_t hash = hash_bytes(name, 0), known = 0;
	uint32_t limit;

	if (ref->adaptive != NULL)
		known = atomic_load_explicit(adapted_place(o, hash), memory_order_relaxed);
	limit = (uint32_t)known;
	return known >> 32 == hash >> 32 && limit < ref->limit->limit ? limit : 0;
}

/* ---- States ---- */

static bool is_home(const struct check_ref *ref)
{
	return ref->policy != NULL && ref->policy->scope == SCOPE_HOME;
}

static void local_free(struct local *l)
{
	limiter_release(&l->state);
	free(l->children);
	free(l);
}

static struct local *local_find(const struct outage *o, struct slice name)
{
	struct local *l = o->buckets[hash_bytes(name, 0) % OUTAGE_BUCKETS];

	while (l != NULL && !slice_equal((struct slice){l->name, l->name_len}, name))
		l = l->next;
	return l;
}

static struct local *local_new(struct outage *o, struct slice name)
{
	struct local **bucket = &o->buckets[hash_bytes(name, 0) % OUTAGE_BUCKETS], *l;

	if (o->n == OUTAGE_KEYS) {
		o->full++;
		return NULL;
	}
	l = calloc(1, sizeof *l + name.len);
	if (l == NULL)
		return NULL;
	memcpy(l->name, name.ptr, name.len);
	l->name_len = name.len;
	l->next = *bucket;
	*bucket = l;
	o->n++;
	return l;
}

/* The state of this check, begun anew when its limit or the number of agents has changed. */
static struct local *local_get(const struct request_state *s, const struct check_ref *ref,
			       struct slice name, uint64_t now_us)
{
	struct outage *o = s->engine->outage;
	unsigned agents = site_agents(s->site, is_home(ref));
	uint32_t adapted = adapted_limit(o, ref, name);
	struct local *l = local_find(o, name);

	if (l != NULL && is_part_of(s, l, ref, adapted, agents))
		return l;
	if (l == NULL)
		l = local_new(o, name);
	else
		limiter_release(&l->state);
	if (l != NULL) {
		l->site = (unsigned)(s->site - s->engine->sites);
		l->ledger = ref->ledger;
	}
	if (l != NULL && !local_begin(s, l, ref, adapted, agents, now_us)) {
		l->agents = 0; /* of no use: begun again the next time */
		l->state = (struct limiter_state){0};
		return NULL;
	}
	return l;
}

uint64_t outage_full(struct outage *o)
{
	pthread_mutex_lock(&o->lock);
	uint64_t full = o->full;

	pthread_mutex_unlock(&o->lock);
	return full;
}

static void on_charged(kova_status status, const struct script_answer *answer, void *data)
{
	(void)status; /* lost with the store: the next outage's part begins empty all the same */
	(void)answer;
	(void)data;
}

static uint16_t name_slot(const struct site *site, struct slice name)
{
	return region_by_slot(site->region) ? keyspace_slot(name) : 0;
}

static uint16_t slot_of(const struct site *site, const struct local *l)
{
	return name_slot(site, (struct slice){l->name, l->name_len});
}

static void charge(const struct site *site, const struct local *l)
{
	struct script_check check = {.limit = &l->whole,
				     .key = {l->name, l->name_len},
				     .ledger = l->ledger,
				     .quota = l->quota.whole > 0 ? &l->quota : NULL,
				     .cost = l->admitted < LIMIT_MAX ? l->admitted : LIMIT_MAX};
	struct script_op op = {.kind = SCRIPT_CHARGE, .checks = &check, .n_checks = 1};

	if (l->admitted > 0)
		region_submit(site->region, slot_of(site, l), &op, 0, on_charged, NULL);
}

/* Takes out those of the shards that are back, as a list. */
static struct local *take_back(struct outage *o, const struct site *site)
{
	const unsigned number = (unsigned)(site - site->engine->sites);
	struct local *back = NULL;

	pthread_mutex_lock(&o->lock);
	for (size_t i = 0; i < OUTAGE_BUCKETS && o->n > 0; i++)
		for (struct local **at = &o->buckets[i], *l; (l = *at) != NULL;) {
			if (l->site != number || !region_up(site->region, slot_of(site, l))) {
				at = &l->next;
				continue;
			}
			*at = l->next;
			o->n--;
			o->n_parents -= l->children != NULL;
			l->next = back;
			back = l;
		}
	pthread_mutex_unlock(&o->lock);
	return back;
}

/* Charged without the lock: a call that fails at once, for want of memory, has others decided here. */
void outage_ended(struct outage *o, const struct site *site)
{
	struct local *l = take_back(o, site);

	while (l != NULL) {
		struct local *next = l->next;

		charge(site, l);
		local_free(l);
		l = next;
	}
}

/* ---- Verdicts ---- */

struct taken {
	struct local *local;
	bool counted_only; /* `allow`: it is charged, and decided nothing */
	uint64_t at_us;
	struct limiter_state before;
};

static enum outage_action action_of(const struct check_ref *ref)
{
	return ref->policy != NULL ? ref->policy->on_outage : OUTAGE_DENY;
}

/* The figures of a state as it is: those of a refusal of one more than `remaining`. */
static void local_look(struct local *l, uint64_t now_us, uint64_t remaining,
		       struct limiter_verdict *ret_said)
{
	struct limiter_verdict said = {.wait_us = VERDICT_NEVER};

	if (remaining < LIMIT_MAX)
		limiter_admit(&l->part, &l->state, now_us, remaining + 1, &said);
	*ret_said = (struct limiter_verdict){.allowed = true,
					     .remaining = remaining,
					     .wait_us = said.wait_us < 0 ? 0 : said.wait_us,
					     .reset_us = said.reset_us};
}

/* By the shares of the level below, where it has weights. */
static void local_admit(struct outage *o, struct local *l, const struct check_ref *ref,
			uint64_t now_us, struct limiter_verdict *ret_said)
{
	if (ref->share.weight > 0 && l->children == NULL && o->n_parents < OUTAGE_PARENTS) {
		l->children = calloc(1, sizeof *l->children);
		o->n_parents += l->children != NULL;
	}
	if (ref->share.weight == 0 || l->children == NULL) {
		limiter_admit(&l->part, &l->state, now_us, ref->cost, ret_said);
		return;
	}
	l->children->before = l->children->now;
	shares_take(&l->children->now, &l->state.bucket, &l->part, now_us, &ref->share, ref->cost,
		    ret_said);
}

static void local_untake(struct local *l, const struct limiter_state *before, uint64_t now_us,
			 uint64_t cost)
{
	limiter_untake(&l->part, &l->state, before, now_us, cost);
	if (l->children != NULL)
		l->children->now = l->children->before;
}

/* Takes from one check, or looks at it (PEEK); *ret_said is filled unless there is no state for it. */
static bool local_take(struct request_state *s, const struct check_ref *ref, struct slice name,
		       struct taken *ret_taken, struct limiter_verdict *ret_said)
{
	uint64_t now_us = site_now_us(s->site);
	struct local *l = local_get(s, ref, name, now_us);

	*ret_taken = (struct taken){.at_us = now_us};
	if (l == NULL)
		return false;
	ret_taken->before = l->state;
	local_admit(s->engine->outage, l, ref, now_us, ret_said);
	if (!ret_said->allowed)
		return false;
	if (s->request.kind == REQUEST_PEEK) {
		local_untake(l, &ret_taken->before, now_us, ref->cost);
		local_look(l, now_us, ret_said->remaining + ref->cost, ret_said);
	} else {
		ret_taken->local = l;
		l->admitted += ref->cost;
	}
	return true;
}

/*
 * What `allow` admits while the store is away is charged as well; of more keys than there is room for it is not, nor what it
 * admits because a decision of the store did not get safe.
 */
static void count_allowed(struct request_state *s, const struct check_ref *ref, struct slice name,
			  struct taken *ret_taken)
{
	const struct site *site = s->site;
	struct local *l = NULL;

	if (s->request.kind != REQUEST_PEEK &&
	    (site->region == NULL || !region_up(site->region, name_slot(site, name))))
		l = local_get(s, ref, name, site_now_us(site));
	*ret_taken = (struct taken){.local = l, .counted_only = true};
	if (l != NULL)
		l->admitted += ref->cost;
}

static void untake(const struct request_state *s, struct taken *taken, uint16_t n)
{
	while (n-- > 0) {
		struct local *l = taken[n].local;

		if (l == NULL)
			continue;
		if (!taken[n].counted_only)
			local_untake(l, &taken[n].before, taken[n].at_us, s->checks[n].cost);
		l->admitted -= s->checks[n].cost;
	}
}

static void answer_local(struct answer *a, const struct check_ref *ref,
			 const struct limiter_verdict *said, uint32_t adapted, bool allowed)
{
	struct script_answer as_script = {.remaining = said->remaining,
					  .wait_us = said->wait_us,
					  .reset_us = said->reset_us,
					  .limit = adapted};

	resolve_answer(a, ref, &as_script, allowed);
}

/* All checks of `local` policies or none; those of `allow` are counted. */
static bool take_local(struct request_state *s, struct taken *taken)
{
	struct answer *a = &s->request.answer;
	bool allowed = true;
	uint16_t i;

	for (i = 0; i < s->n_checks && allowed; i++) {
		const struct check_ref *ref = &s->checks[i];
		struct limiter_verdict said = {.wait_us = (int64_t)HEARTBEAT_MS * 1000};
		char text[KEYSPACE_NAME_MAX];
		struct slice name = {text, 0};

		taken[i] = (struct taken){0};
		if (action_of(ref) == OUTAGE_DENY)
			continue;
		name.len = resolve_name(s, ref, text);
		if (action_of(ref) == OUTAGE_ALLOW) {
			count_allowed(s, ref, name, &taken[i]);
			continue;
		}
		allowed = local_take(s, ref, name, &taken[i], &said) || ref->policy->shadow;
		if (!allowed || a->policy[0] == '\0' || said.remaining < a->remaining)
			answer_local(a, ref, &said, adapted_limit(s->engine->outage, ref, name),
				     allowed);
	}
	if (!allowed)
		untake(s, taken, i);
	return allowed;
}

static bool denied(const struct request_state *s, const struct check_ref **ret_ref)
{
	for (uint16_t i = 0; i < s->n_checks; i++)
		if (action_of(&s->checks[i]) == OUTAGE_DENY && !s->checks[i].policy->shadow) {
			*ret_ref = &s->checks[i];
			return true;
		}
	return false;
}

void outage_decide(struct request_state *s)
{
	struct answer *a = &s->request.answer;
	const struct check_ref *ref = &s->checks[0];
	struct limiter_verdict unknown = {.wait_us = (int64_t)HEARTBEAT_MS * 1000 / 2};

	memset(a->policy, 0, sizeof a->policy);
	if (denied(s, &ref)) {
		answer_local(a, ref, &unknown, 0, false);
	} else {
		struct taken *taken = malloc(s->n_checks * sizeof *taken);

		pthread_mutex_lock(&s->engine->outage->lock);
		bool allowed = taken != NULL && take_local(s, taken);

		pthread_mutex_unlock(&s->engine->outage->lock);
		if (a->policy[0] == '\0') /* no local check: `allow`, or memory is out */
			answer_local(a, ref, &unknown, 0, allowed);
		free(taken);
	}
	a->reason = REASON_OUTAGE;
}

/* ---- Life ---- */

struct outage *outage_new(void)
{
	struct outage *o = calloc(1, sizeof *o);

	if (o != NULL)
		pthread_mutex_init(&o->lock, NULL);
	return o;
}

void outage_free(struct outage *o)
{
	if (o == NULL)
		return;
	for (size_t i = 0; i < OUTAGE_BUCKETS; i++)
		while (o->buckets[i] != NULL) {
			struct local *l = o->buckets[i];

			o->buckets[i] = l->next;
			local_free(l);
		}
	pthread_mutex_destroy(&o->lock);
	free(o);
}
