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
#include <time.h>

#include "control.h"
#include "core/hash.h"
#include "core/lease.h"
#include "engine.h"
#include "heartbeat.h"
#include "policy_stats.h"
#include "usage.h"

enum {
	BUCKETS = 16384,
	CHECKS_MAX = 8, /* levels of a policy */
	ENTRIES_MAX = 65536,
	HEAT_SLOTS = 16384,
	HOT_COST = 16,             /* asked in each window ... */
	HOT_WINDOWS = 3,           /* ... of so many in a row: a demand, and not a burst, that is worth an entry */
	RETURN_BEFORE_US = 10000,  /* what is left goes back so long before the end */
	IDLE_US = 1000000,         /* an entry goes when nobody asked for so long */
	REFUSALS_HOT = 4,          /* refusals of the region in a row that make the next ones believed for longer */
	REFUSAL_MIN_US = 5000,     /* to wait for less is not worth remembering ... */
	REFUSAL_MAX_US = 1000000,  /* ... and nothing is believed for longer: limits are raised, permits refunded
				    * elsewhere */
	WALL_LEAP_US = 50000,      /* more than this between two looks is a clock that was set */
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
	} checks[CHECKS_MAX]; /* of the lease that is asked for */
	uint8_t n_checks;
	struct held spent, next_one; /* the lease being spent, and the one after it */
	struct held asked;           /* while `asking`; good for this cost at least: */
	uint64_t asked_cost;
	bool asking;
	struct request_state *first, *last; /* pending */
	struct lease_demand demand;
	struct timer_entry timer;
	uint64_t used_us;
	uint64_t beyond;            /* remaining in Redis beside the leases, when last heard */
	uint64_t full_us;           /* when it is full again, as last heard */
	uint64_t refused_until_us;  /* a refusal is believed until then; 0: none is remembered */
	uint64_t refused_cost;      /* ... of this cost and more */
	uint64_t refused_us;        /* when the last refusal was heard */
	unsigned refusals;          /* of the region, one soon after the other */
	uint64_t room_us;           /* when it will fit, as Redis said; UINT64_MAX: never */
	uint64_t leaps;             /* clock_leaps() of the time that all this is from */
	uint64_t admitted, refused; /* costs that usage does not know yet */
	size_t policy_len, key_len;
	char name[]; /* policy, key */
};

struct leases {
	struct engine *engine;
	uv_timer_t timer;
	struct timer_heap timers;
	uint64_t now_us; /* CLOCK_BOOTTIME; read once a batch of requests */
	int64_t wall_offset_us; /* wall clock − now_us, when last looked at */
	uint64_t wall_leaps;
	bool clock_is_old, stopped;
	uint32_t random;
	unsigned n;
	struct leases_counters counters;
	struct lease_entry *buckets[BUCKETS];
	struct heat {
		uint32_t window, asked;
		uint32_t in_a_row; /* windows before this one in which enough was asked */
	} heat[HEAT_SLOTS]; /* what keys without an entry were asked for, by hash */
};

/* ---- Clock and chance ---- */

static uint64_t boot_us(void)
{
	struct timespec t;

	/* Goes on while the machine sleeps: a lease ends all the same. */
	if (clock_gettime(CLOCK_BOOTTIME, &t) != 0)
		return UINT64_MAX / 2; /* every lease has ended */
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

void leases_new_batch(struct leases *w)
{
	w->clock_is_old = true;
}

/* A wall clock that was set may be Redis's as well. */
static void watch_wall_clock(struct leases *w)
{
	struct timespec t;
	int64_t offset_us;

	if (clock_gettime(CLOCK_REALTIME_COARSE, &t) != 0)
		return;
	offset_us = (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000 - (int64_t)w->now_us;
	if (offset_us - w->wall_offset_us > WALL_LEAP_US || offset_us - w->wall_offset_us < -WALL_LEAP_US)
		w->wall_leaps++;
	w->wall_offset_us = offset_us;
}

static uint64_t now_us(struct leases *w)
{
	if (w->clock_is_old) {
		w->now_us = boot_us();
		w->clock_is_old = false;
		watch_wall_clock(w);
	}
	return w->now_us;
}

/* Leases and refusals from before a leap of a clock, Redis's or ours, are not relied on. */
static uint64_t clock_leaps(const struct leases *w)
{
	return w->wall_leaps + region_clock_leaps(w->engine->region);
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

/* Whether a key without an entry has become worth one. Keys that share a slot are taken for one, which only costs an
 * entry now and then. */
static bool is_hot(struct leases *w, uint64_t hash, uint64_t cost)
{
	uint32_t window = (uint32_t)(now_us(w) / LEASE_WINDOW_US);
	struct heat *h = &w->heat[hash / BUCKETS % HEAT_SLOTS];

	if (h->window != window) {
		h->in_a_row = h->window + 1 == window && h->asked >= HOT_COST ? h->in_a_row + 1 : 0;
		h->window = window;
		h->asked = 0;
	}
	h->asked += cost < HOT_COST ? (uint32_t)cost : HOT_COST;
	return h->asked >= HOT_COST && h->in_a_row >= HOT_WINDOWS - 1;
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
	e->refused_until_us = 0;
	if (!e->asking) {
		catalogue_unref(e->catalogue);
		e->catalogue = NULL;
	}
}

static bool leasable(const struct request_state *s)
{
	if (s->n_checks > CHECKS_MAX || s->durable != NULL)
		return false;
	for (uint16_t i = 0; i < s->n_checks; i++) {
		const struct check_ref *ref = &s->checks[i];
		enum algorithm a = ref->limit->algorithm;

		if (ref->policy->shadow || ref->policy->lease.off || ref->level->has_slots ||
		    (a != ALGORITHM_TOKEN_BUCKET && a != ALGORITHM_SLIDING_WINDOW &&
		     a != ALGORITHM_CALENDAR))
			return false;
	}
	return true;
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
	if (leasable(s) && region_up(w->engine->region, s->groups[0].slot)) {
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
	return e->refused_until_us > e->leases->now_us && cost >= e->refused_cost;
}

static void renew_early(struct lease_entry *e)
{
	const struct held *h = &e->spent;

	if (e->asking || e->next_one.granted > 0 ||
	    !lease_renews(h->left, h->granted, h->ends_us - e->leases->now_us, h->ttl_us,
			  random_32(e->leases)))
		return;
	if (remembers_refusal(e, 1))
		return;
	ask_lease(e, 1);
}

static void fill_shown(const struct lease_entry *e, struct answer *a, uint64_t remaining)
{
	struct script_answer said = {.remaining = remaining};
	struct check_ref ref = {.policy = e->policy, .limit = e->shown, .level_name = e->shown_level};
	uint64_t now = e->leases->now_us, capacity = limit_capacity(e->shown);

	said.reset_us = e->full_us > now ? e->full_us - now : 0;
	if (e->shown->algorithm == ALGORITHM_TOKEN_BUCKET && capacity > 0) {
		uint64_t missing = remaining < capacity ? capacity - remaining : 0;

		said.reset_us = (uint64_t)((double)limit_horizon_us(e->shown) * (double)missing /
					   (double)capacity);
		said.wait_us = missing > 0 ? (int64_t)(e->shown->per_us / e->shown->limit) + 1 : 0;
	} else {
		said.wait_us = (int64_t)said.reset_us;
	}
	resolve_answer(a, &ref, &said, true);
}

static void answer_granted(struct lease_entry *e, struct request_state *s)
{
	struct answer *a = &s->request.answer;
	uint64_t cost = s->request.pairs[0].cost;

	fill_shown(e, a, e->spent.left + e->next_one.left + e->beyond);
	a->reason = REASON_OK;
	e->policy->stats->allowed++;
	e->admitted += cost;
	e->leases->counters.decisions++;
}

static void answer_refused(struct lease_entry *e, struct request_state *s)
{
	struct answer *a = &s->request.answer;
	uint64_t now = e->leases->now_us;

	fill_shown(e, a, e->spent.left + e->next_one.left + e->beyond);
	a->allowed = false;
	a->retry_after_ms = e->room_us == UINT64_MAX ? -1 : (int64_t)((e->room_us - now + 999) / 1000);
	a->more_after_ms = a->retry_after_ms;
	a->reason = REASON_LIMITED;
	memcpy(a->level, e->shown_level, strlen(e->shown_level) + 1);
	e->policy->stats->refused++;
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

	if (e == NULL && is_hot(w, hash, q->cost))
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
	uint64_t wait_us = said->wait_us < 0 ? UINT64_MAX : (uint64_t)said->wait_us;

	e->room_us = said->wait_us < 0 ? UINT64_MAX : now + wait_us;
	e->refusals = now - e->refused_us < LEASE_WINDOW_US ? e->refusals + 1 : 1;
	e->refused_us = now;
	/* A single one, or one that is short, holds only for those who are served with it. */
	if (wait_us < REFUSAL_MIN_US || e->refusals < REFUSALS_HOT)
		wait_us = 1;
	e->refused_until_us = now + (wait_us < REFUSAL_MAX_US ? wait_us : REFUSAL_MAX_US);
	e->refused_cost = cost;
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
	w->clock_is_old = true;
	e->asking = false;
	if (status != KOVA_OK || answer->check >= e->n_checks) {
		fail_pending(e);
		return;
	}
	e->shown = e->checks[answer->check].limit;
	e->shown_level = e->checks[answer->check].level_name;
	if (answer->status == SCRIPT_REFUSED) {
		remember_refusal(e, e->asked_cost, answer);
	} else if (answer->status == SCRIPT_ALLOWED) {
		e->refused_until_us = e->refusals = 0;
		e->beyond = answer->remaining;
		e->full_us = now_us(w) + answer->reset_us;
		if (answer->lease_us > 0)
			hold(e, answer->amount);
		else
			grant_at_once(e, answer->amount);
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
	    ref->policy->lease.off)
		return;
	e = entry_find(w, hash_of(q->policy, q->key), q->policy, q->key);
	if (e == NULL || e->asking || e->spent.left > 0)
		return;
	w->clock_is_old = true;
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
		e->refused_until_us = 0;
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

	w->clock_is_old = true;
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
		uv_timer_start(&w->timer, on_timer, first->at > now ? (first->at - now + 999) / 1000 : 0, 0);
}

/* ---- Life ---- */

struct leases *leases_new(struct engine *e)
{
	struct leases *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->engine = e;
	w->clock_is_old = true;
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
