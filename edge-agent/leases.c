/*
 * A key that is asked for often gets an entry. The happy path: a request finds a lease with permits left and is
 * answered; one that finds none asks for a lease and waits for it, with all that come meanwhile; while a lease is being
 * spent the next is asked for before it is dry. Shortly before its end what is left goes back. An entry that nobody asked
 * for lately goes.
 *
 * Failures: the region refuses: remembered, and those who were pending are refused or, if they may wait, start over the
 * ordinary way. The region can't be asked: each pending request is in doubt, as if it had asked itself. The agent was
 * stopped and goes on after the lease's end: the clock is read after the requests were, so nothing ended is spent. The
 * catalogue changed: leases go back, and the next request begins anew.
 */
#include "leases.h"

#include <assert.h>
#include <stdlib.h>

#include "control.h"
#include "core/hash.h"
#include "core/lease.h"
#include "engine.h"
#include "heartbeat.h"
#include "lease_answer.h"
#include "lease_clock.h"
#include "lease_heat.h"
#include "lease_refusal.h"
#include "lease_terms.h"
#include "usage.h"

enum {
	BUCKETS = 16384,
	ENTRIES_MAX = 65536,
	RETURN_BEFORE_US = 10000, /* what is left goes back so long before the end */
	IDLE_US = 1000000,        /* an entry goes when nobody asked for so long */
};

/* One lease. All zeros: none. */
struct held {
	uint64_t left, granted;
	uint64_t ends_us, ttl_us;
	unsigned char id[SCRIPT_LEASE_ID_BYTES];
};

struct lease_entry {
	struct lease_entry *next; /* in its bucket */
	struct leases *leases;
	uint64_t hash;
	struct catalogue *catalogue; /* referenced; NULL: nothing is known of the key */
	const struct policy *policy;
	const struct limit *shown; /* what remaining and limit are those of */
	const char *shown_level;
	struct {
		const struct limit *limit;
		const char *level_name;
	} checks[LEASE_CHECKS_MAX]; /* of the lease that is asked for */
	uint8_t n_checks;
	struct held spent, next_one; /* the lease being spent, and the one after it */
	struct held asked;           /* while `asking`; good for this cost at least: */
	uint64_t asked_cost;
	bool asking;
	bool dropped;                       /* while `asking`: what is granted goes back */
	struct request_state *first, *last; /* pending */
	struct lease_demand demand;
	struct timer_entry timer;
	uint64_t used_us;
	uint64_t beyond;  /* remaining in Redis beside the leases, when last heard */
	uint64_t full_us; /* when it is full again, as last heard */
	struct lease_refusal refusal;
	uint64_t leaps;             /* clock_leaps() of the time that all this is from */
	uint64_t admitted, refused; /* costs that usage does not know yet */
	size_t policy_len, key_len;
	char name[]; /* policy, key */
};

struct leases {
	struct engine *engine;
	uv_timer_t timer;
	struct timer_heap timers;
	struct lease_clock clock;
	bool stopped;
	uint32_t random;
	unsigned n;
	struct leases_counters counters;
	struct lease_entry *buckets[BUCKETS];
	struct lease_heat heat;
};

/* ---- Clock and chance ---- */

void leases_new_batch(struct leases *w)
{
	w->clock.is_old = true;
}

static uint64_t now_us(struct leases *w)
{
	return lease_clock_now_us(&w->clock);
}

/* Leases and refusals from before a leap of a clock, Redis's or ours, are not relied on. */
static uint64_t clock_leaps(const struct leases *w)
{
	return w->clock.wall_leaps + region_clock_leaps(w->engine->region);
}

/* xorshift (Marsaglia): only spreads renewals. */
static uint32_t random_32(struct leases *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 17;
	w->random ^= w->random << 5;
	return w->random;
}

/* ---- Entries ---- */

static struct slice entry_policy(const struct lease_entry *e)
{
	return (struct slice){e->name, e->policy_len};
}

static struct slice entry_key(const struct lease_entry *e)
{
	return (struct slice){e->name + e->policy_len, e->key_len};
}

static uint64_t hash_of(struct slice policy, struct slice key)
{
	return hash_bytes(key, hash_bytes(policy, 0));
}

static struct lease_entry *entry_find(const struct leases *w, uint64_t hash, struct slice policy,
				      struct slice key)
{
	struct lease_entry *e = w->buckets[hash % BUCKETS];

	while (e != NULL && (e->hash != hash || !slice_equal(entry_key(e), key) ||
			     !slice_equal(entry_policy(e), policy)))
		e = e->next;
	return e;
}

static void arm(struct leases *w);

static void look_again(struct lease_entry *e, uint64_t at_us)
{
	/* Without memory for it the lease ends by itself; the entry goes with the next timer. */
	if (timer_heap_set(&e->leases->timers, &e->timer, at_us) == KOVA_OK &&
	    timer_heap_first(&e->leases->timers) == &e->timer)
		arm(e->leases);
}

static struct lease_entry *entry_new(struct leases *w, uint64_t hash, struct slice policy,
				     struct slice key)
{
	struct lease_entry *e;

	if (w->n == ENTRIES_MAX)
		return NULL;
	e = calloc(1, sizeof *e + policy.len + key.len);
	if (e == NULL)
		return NULL;
	e->leases = w;
	e->hash = hash;
	e->policy_len = policy.len;
	e->key_len = key.len;
	memcpy(e->name, policy.ptr, policy.len);
	memcpy(e->name + policy.len, key.ptr, key.len);
	e->next = w->buckets[hash % BUCKETS];
	w->buckets[hash % BUCKETS] = e;
	w->n++;
	look_again(e, now_us(w) + IDLE_US);
	return e;
}

static void entry_count(struct lease_entry *e)
{
	int64_t now_ms = (int64_t)(region_now_us(e->leases->engine->region) / 1000);
	struct usage *u = e->leases->engine->usage;

	if (e->admitted > 0)
		usage_add(u, entry_policy(e), entry_key(e), USAGE_ADMITTED, e->admitted, now_ms);
	if (e->refused > 0)
		usage_add(u, entry_policy(e), entry_key(e), USAGE_REFUSED, e->refused, now_ms);
	e->admitted = e->refused = 0;
}

static void entry_free(struct lease_entry *e)
{
	struct leases *w = e->leases;
	struct lease_entry **at = &w->buckets[e->hash % BUCKETS];

	assert(!e->asking && e->first == NULL);
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	timer_heap_remove(&w->timers, &e->timer);
	catalogue_unref(e->catalogue);
	free(e);
	w->n--;
}

/* ---- Calls ---- */

/* A request that stands for the entry, resolved: its checks are those of a take of `cost`. NULL: it has none. */
static struct request_state *entry_request(struct lease_entry *e, uint64_t cost)
{
	struct request *r = request_new(e->leases->engine);
	struct request_state *s;

	if (r == NULL)
		return NULL;
	s = state_of(r);
	r->kind = REQUEST_TAKE;
	r->n_pairs = 1;
	r->pairs[0] = (struct request_pair){entry_policy(e), entry_key(e), cost};
	if (resolve(s) == RESOLVED && s->n_groups == 1)
		return s;
	request_free(r);
	return NULL;
}

static void on_returned(kova_status status, const struct script_answer *answer, void *data)
{
	struct leases *w = data;

	(void)status; /* what did not go back comes back by time */
	(void)answer;
	w->counters.in_flight--;
}

/*
 * Ends the lease `h`, which is none afterwards. What is left goes back; one that is spent is returned as well, since
 * what is outstanding keeps the bucket from refilling.
 */
static void held_return(struct lease_entry *e, struct held *h)
{
	struct leases *w = e->leases;
	struct held was = *h;
	bool runs = was.granted > 0 && was.ends_us > now_us(w) && !w->engine->closing;
	struct request_state *s = runs ? entry_request(e, 1) : NULL;
	struct script_op op;

	*h = (struct held){0};
	if (s == NULL)
		return;
	if (resolve_operation(s, &s->groups[0], &op)) {
		op.kind = SCRIPT_UNLEASE;
		op.amount = was.left;
		op.permit = (struct slice){0};
		memcpy(op.lease, was.id, sizeof op.lease);
		w->counters.in_flight++;
		w->counters.returned++;
		region_submit(w->engine->region, s->groups[0].slot, &op, 0, on_returned, w);
	}
	request_free(&s->request);
}

/* Everything known of the key is forgotten, and what is leased goes back. */
static void entry_reset(struct lease_entry *e)
{
	held_return(e, &e->spent);
	held_return(e, &e->next_one);
	e->refusal.until_us = 0;
	if (!e->asking) {
		catalogue_unref(e->catalogue);
		e->catalogue = NULL;
	}
}

/* Permits to ask for; 0: the key gets no lease now. */
static uint64_t lease_wanted(struct lease_entry *e, const struct request_state *s, uint64_t ttl_us,
			     uint32_t sharers)
{
	const struct policy *p = s->checks[0].policy;
	uint64_t rate = lease_demand_rate(&e->demand, now_us(e->leases)), wanted = UINT64_MAX;

	for (uint16_t i = 0; i < s->n_checks; i++) {
		uint64_t size = lease_size(rate, ttl_us, p->lease.max,
					   limit_capacity(s->checks[i].limit), sharers);

		if (size < wanted)
			wanted = size;
	}
	return wanted;
}

/* What is known of the key is what `s` was resolved to; its check `check` is the one to show. */
static void entry_learn(struct lease_entry *e, const struct request_state *s, uint16_t check)
{
	catalogue_unref(e->catalogue);
	e->catalogue = catalogue_ref(s->catalogue);
	e->policy = s->checks[check].policy;
	e->shown = s->checks[check].limit;
	e->shown_level = s->checks[check].level_name;
}

static void on_lease(kova_status status, const struct script_answer *answer, void *data);

static void submit_lease(struct lease_entry *e, struct request_state *s, uint64_t amount,
			 uint32_t sharers)
{
	struct leases *w = e->leases;
	struct script_op op;

	if (!resolve_operation(s, &s->groups[0], &op)) {
		on_lease(KOVA_ENOMEM, NULL, e);
		return;
	}
	op.kind = SCRIPT_LEASE;
	op.permit = (struct slice){0};
	op.amount = amount;
	op.ttl_us = e->asked.ttl_us;
	op.sharers = sharers;
	memcpy(op.lease, e->asked.id, sizeof op.lease);
	region_submit(w->engine->region, s->groups[0].slot, &op, 0, on_lease, e);
}

/* Asks for a lease that is good for `cost` at least. False: none is worth it, or the region can't be asked. */
static bool ask_lease(struct lease_entry *e, uint64_t cost)
{
	struct leases *w = e->leases;
	struct request_state *s = entry_request(e, cost);
	uint32_t sharers = heartbeat_agents(w->engine->heartbeat);
	uint64_t wanted = 0;

	if (s == NULL)
		return false;
	if (lease_terms_allow(s) && region_up(w->engine->region, s->groups[0].slot)) {
		uint64_t ttl_us = lease_jitter(s->checks[0].policy->lease.ttl_us, random_32(w));

		wanted = lease_wanted(e, s, ttl_us, sharers);
		/* sent_at: read before the request leaves, after those that it is asked for were read. */
		e->asked = (struct held){.ttl_us = ttl_us, .ends_us = now_us(w) + ttl_us};
	}
	if (wanted > 0) {
		engine_random(w->engine, e->asked.id, sizeof e->asked.id);
		e->asking = true;
		e->asked_cost = cost;
		w->counters.in_flight++;
		e->n_checks = (uint8_t)s->n_checks;
		for (uint8_t i = 0; i < e->n_checks; i++) {
			e->checks[i].limit = s->checks[i].limit;
			e->checks[i].level_name = s->checks[i].level_name;
		}
		entry_learn(e, s, 0);
		submit_lease(e, s, wanted > cost ? wanted : cost, sharers);
	}
	request_free(&s->request);
	return wanted > 0;
}

/* ---- Spending ---- */

static bool spend(struct lease_entry *e, uint64_t cost)
{
	uint64_t now = now_us(e->leases);

	if ((e->spent.left < cost || e->spent.ends_us <= now) && e->next_one.granted > 0) {
		held_return(e, &e->spent);
		e->spent = e->next_one;
		e->next_one = (struct held){0};
	}
	if (e->spent.left < cost || e->spent.ends_us <= now)
		return false;
	e->spent.left -= cost;
	if (e->spent.left == 0)
		held_return(e, &e->spent);
	return true;
}

static bool remembers_refusal(const struct lease_entry *e, uint64_t cost)
{
	return lease_refusal_is_believed(&e->refusal, e->leases->clock.now_us, cost);
}

static void renew_early(struct lease_entry *e)
{
	const struct held *h = &e->spent;

	if (e->asking || e->next_one.granted > 0 ||
	    !lease_renews(h->left, h->granted, h->ends_us - e->leases->clock.now_us, h->ttl_us,
			  random_32(e->leases)))
		return;
	if (remembers_refusal(e, 1))
		return;
	ask_lease(e, 1);
}

static struct check_ref shown_ref(const struct lease_entry *e)
{
	return (struct check_ref){
		.policy = e->policy, .limit = e->shown, .level_name = e->shown_level};
}

static uint64_t time_until(const struct lease_entry *e, uint64_t at_us)
{
	return at_us > e->leases->clock.now_us ? at_us - e->leases->clock.now_us : 0;
}

static void answer_granted(struct lease_entry *e, struct request_state *s)
{
	lease_answer_granted(&s->request.answer, shown_ref(e),
			     e->spent.left + e->next_one.left + e->beyond,
			     time_until(e, e->full_us));
	engine_counts(e->leases->engine, e->policy)->allowed++;
	e->admitted += s->request.pairs[0].cost;
	e->leases->counters.decisions++;
}

static void answer_refused(struct lease_entry *e, struct request_state *s)
{
	uint64_t left = e->spent.left + e->next_one.left + e->beyond;
	int64_t wait_us = lease_refusal_wait_us(&e->refusal, e->leases->clock.now_us);

	lease_answer_refused(&s->request.answer, shown_ref(e), left, time_until(e, e->full_us),
			     wait_us, e->refusal.why);
	engine_counts(e->leases->engine, e->policy)->refused++;
	e->refused += s->request.pairs[0].cost;
	e->leases->counters.decisions++;
}

/* What is from another catalogue, or from before a leap of a clock. */
static void forget_what_is_stale(struct lease_entry *e)
{
	uint64_t leaps = clock_leaps(e->leases);

	if (e->leaps != leaps ||
	    (e->catalogue != NULL && e->catalogue != control_catalogue(e->leases->engine->control)))
		entry_reset(e);
	e->leaps = leaps;
}

enum lease_verdict leases_try(struct request_state *s)
{
	struct leases *w = s->engine->leases;
	const struct request_pair *q = &s->request.pairs[0];
	uint64_t hash = hash_of(q->policy, q->key);
	struct lease_entry *e = entry_find(w, hash, q->policy, q->key);

	if (e == NULL && lease_heat_add(&w->heat, hash, now_us(w), q->cost))
		e = entry_new(w, hash, q->policy, q->key);
	if (e == NULL)
		return LEASE_NONE;
	e->used_us = now_us(w);
	lease_demand_add(&e->demand, e->used_us, q->cost);
	forget_what_is_stale(e);
	if (spend(e, q->cost)) {
		answer_granted(e, s);
		renew_early(e);
		return LEASE_DECIDED;
	}
	if (s->request.wait_ms == 0 && remembers_refusal(e, q->cost)) {
		answer_refused(e, s);
		return LEASE_DECIDED;
	}
	if (e->asking || ask_lease(e, q->cost))
		return LEASE_PENDING;
	return LEASE_NONE;
}

/* ---- Pending requests ---- */

void leases_join(struct request_state *s)
{
	const struct request_pair *q = &s->request.pairs[0];
	struct leases *w = s->engine->leases;
	struct lease_entry *e = entry_find(w, hash_of(q->policy, q->key), q->policy, q->key);

	assert(e != NULL && s->lease_entry == NULL);
	s->lease_entry = e;
	s->lease_prev = e->last;
	s->lease_next = NULL;
	if (e->last != NULL)
		e->last->lease_next = s;
	else
		e->first = s;
	e->last = s;
	if (!e->asking) /* it was answered from within the asking */
		look_again(e, now_us(w));
}

void leases_leave(struct request_state *s)
{
	struct lease_entry *e = s->lease_entry;

	if (e == NULL)
		return;
	*(s->lease_prev != NULL ? &s->lease_prev->lease_next : &e->first) = s->lease_next;
	*(s->lease_next != NULL ? &s->lease_next->lease_prev : &e->last) = s->lease_prev;
	s->lease_entry = NULL;
}

static void serve_one(struct lease_entry *e, struct request_state *s)
{
	uint64_t cost = s->request.pairs[0].cost;

	leases_leave(s);
	if (spend(e, cost)) {
		answer_granted(e, s);
		request_decided(s);
	} else if (s->request.wait_ms == 0 && remembers_refusal(e, cost)) {
		answer_refused(e, s);
		request_decided(s);
	} else {
		request_start(s);
	}
}

/* Answers those who are pending now; a request that comes meanwhile is for the next time. */
static void serve_pending(struct lease_entry *e)
{
	unsigned n = 0;

	for (const struct request_state *s = e->first; s != NULL; s = s->lease_next)
		n++;
	while (n-- > 0 && e->first != NULL)
		serve_one(e, e->first);
}

static void fail_pending(struct lease_entry *e)
{
	struct request_state *s;

	while ((s = e->first) != NULL) {
		leases_leave(s);
		request_in_doubt(s);
	}
}

static void remember_refusal(struct lease_entry *e, uint64_t cost, const struct script_answer *said)
{
	uint64_t now = now_us(e->leases);

	lease_refusal_hear(&e->refusal, now, cost, said);
	e->beyond = said->remaining;
	e->full_us = now + said->reset_us;
}

/* An ordinary take instead of a lease: who asked for it has it now; it may not be kept for later. */
static void grant_at_once(struct lease_entry *e, uint64_t amount)
{
	struct request_state *s = e->first;

	if (s == NULL || s->request.pairs[0].cost > amount)
		return;
	leases_leave(s);
	answer_granted(e, s);
	request_decided(s);
}

static void hold(struct lease_entry *e, uint64_t amount)
{
	struct held *place = &e->spent;

	if (e->spent.left > 0 && e->spent.ends_us > now_us(e->leases))
		place = &e->next_one;
	else
		held_return(e, &e->spent);
	*place = e->asked;
	place->left = place->granted = amount;
	e->leases->counters.granted++;
	look_again(e, e->spent.ends_us - RETURN_BEFORE_US);
}

static void on_lease(kova_status status, const struct script_answer *answer, void *data)
{
	struct lease_entry *e = data;
	struct leases *w = e->leases;

	w->counters.in_flight--;
	w->clock.is_old = true;
	e->asking = false;
	if (status != KOVA_OK || answer->check >= e->n_checks) {
		e->dropped = false;
		fail_pending(e);
		return;
	}
	e->shown = e->checks[answer->check].limit;
	e->shown_level = e->checks[answer->check].level_name;
	if (answer->status == SCRIPT_REFUSED) {
		remember_refusal(e, e->asked_cost, answer);
	} else if (answer->status == SCRIPT_ALLOWED) {
		lease_refusal_forget(&e->refusal);
		e->beyond = answer->remaining;
		e->full_us = now_us(w) + answer->reset_us;
		if (answer->lease_us > 0)
			hold(e, answer->amount);
		else
			grant_at_once(e, answer->amount);
	}
	if (e->dropped || (answer->status == SCRIPT_REFUSED && answer->why == SCRIPT_HELD)) {
		e->dropped = false;
		held_return(e, &e->spent);
		held_return(e, &e->next_one);
	}
	serve_pending(e);
}

void leases_refused(const struct request_state *s, const struct script_answer *said)
{
	const struct request_pair *q = &s->request.pairs[0];
	const struct check_ref *ref = &s->checks[said->check];
	struct leases *w = s->engine->leases;
	struct lease_entry *e;

	if (s->request.n_pairs != 1 || ref->limit->algorithm == ALGORITHM_CONCURRENCY ||
	    ref->policy->lease.off ||
	    said->why == SCRIPT_BREAKER_OPEN) /* a trial's outcome may come any time */
		return;
	e = entry_find(w, hash_of(q->policy, q->key), q->policy, q->key);
	if (e == NULL || e->asking || e->spent.left > 0)
		return;
	w->clock.is_old = true;
	entry_learn(e, s, said->check);
	remember_refusal(e, q->cost, said);
}

/* ---- What others ask ---- */

static struct lease_entry *find(struct leases *w, struct slice policy, struct slice key)
{
	return entry_find(w, hash_of(policy, key), policy, key);
}

void leases_forget(struct leases *w, struct slice policy, struct slice key)
{
	struct lease_entry *e = find(w, policy, key);

	if (e != NULL)
		e->refusal.until_us = 0;
}

static void drop(struct lease_entry *e)
{
	e->dropped = e->asking;
	entry_reset(e);
}

/* Whether `e` is of the key path, or of one that begins with all of its parts. */
static bool is_below(const struct lease_entry *e, struct slice policy, struct slice key)
{
	struct slice path = entry_key(e);

	return slice_equal(entry_policy(e), policy) && path.len >= key.len &&
	       memcmp(path.ptr, key.ptr, key.len) == 0 &&
	       (path.len == key.len || path.ptr[key.len] == '/');
}

void leases_drop(struct leases *w, const struct policy *policy, struct slice key)
{
	struct slice name = slice_of(policy->name);
	struct lease_entry *e = policy->n_levels > 1 ? NULL : find(w, name, key);

	if (e != NULL)
		drop(e);
	for (size_t i = 0; i < BUCKETS && policy->n_levels > 1; i++)
		for (e = w->buckets[i]; e != NULL; e = e->next)
			if (is_below(e, name, key))
				drop(e);
}

uint64_t leases_left(struct leases *w, struct slice policy, struct slice key)
{
	const struct lease_entry *e = find(w, policy, key);
	uint64_t now = now_us(w), left = 0;

	if (e != NULL && e->spent.ends_us > now)
		left += e->spent.left;
	if (e != NULL && e->next_one.ends_us > now)
		left += e->next_one.left;
	return left;
}

void leases_count(struct leases *w, struct slice policy, struct slice key)
{
	struct lease_entry *e = find(w, policy, key);

	if (e != NULL)
		entry_count(e);
}

void leases_return_all(struct leases *w)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct lease_entry *e = w->buckets[i]; e != NULL; e = e->next)
			entry_reset(e);
}

struct leases_counters leases_counters(const struct leases *w)
{
	return w->counters;
}

/* ---- Time ---- */

static void look(struct lease_entry *e)
{
	uint64_t now = now_us(e->leases), idle_us = e->used_us + IDLE_US, at_us = idle_us;

	entry_count(e);
	if (!e->asking && e->first != NULL)
		serve_pending(e);
	if (e->spent.left > 0 && e->spent.ends_us <= now + RETURN_BEFORE_US) {
		held_return(e, &e->spent);
		e->spent = e->next_one;
		e->next_one = (struct held){0};
	}
	if (!e->asking && e->first == NULL && e->spent.left == 0 && idle_us <= now) {
		entry_free(e);
		return;
	}
	if (e->spent.left > 0 && e->spent.ends_us - RETURN_BEFORE_US < at_us)
		at_us = e->spent.ends_us - RETURN_BEFORE_US;
	look_again(e, at_us > now ? at_us : now + RETURN_BEFORE_US);
}

static void on_timer(uv_timer_t *t)
{
	struct leases *w = t->data;
	struct timer_entry *first;

	w->clock.is_old = true;
	while ((first = timer_heap_first(&w->timers)) != NULL && first->at <= now_us(w)) {
		struct lease_entry *e =
			(struct lease_entry *)((char *)first - offsetof(struct lease_entry, timer));

		timer_heap_remove(&w->timers, first);
		look(e);
	}
	arm(w);
}

static void arm(struct leases *w)
{
	const struct timer_entry *first = timer_heap_first(&w->timers);
	uint64_t now = now_us(w);

	if (first == NULL || w->stopped)
		uv_timer_stop(&w->timer);
	else
		uv_timer_start(&w->timer, on_timer,
			       first->at > now ? (first->at - now + 999) / 1000 : 0, 0);
}

/* ---- Life ---- */

struct leases *leases_new(struct engine *e)
{
	struct leases *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->engine = e;
	w->clock.is_old = true;
	do
		engine_random(e, (unsigned char *)&w->random, sizeof w->random);
	while (w->random == 0);
	uv_timer_init(e->loop, &w->timer);
	w->timer.data = w;
	return w;
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

void leases_stop(struct leases *w)
{
	w->stopped = true;
	arm(w);
}

void leases_free(struct leases *w)
{
	if (w == NULL)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (w->buckets[i] != NULL)
			entry_free(w->buckets[i]);
	timer_heap_release(&w->timers);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
