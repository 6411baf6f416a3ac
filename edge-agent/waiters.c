/*
 * A queue a key path and policy, first come first served. The head of a queue asks again when its last refusal
 * said that there could be room; those behind it ask in the same call, chained, so that nobody overtakes: each is
 * refused where the one before it was. How many ask together grows while all are granted and falls to
 * one with a refusal.
 *
 * A request over several pairs stands in the queue of each, in the order in which it came to all of them, and asks
 * only while it is the first in all. Since joining is one step, the oldest of all waiters is first wherever
 * it stands: there is no deadlock.
 *
 * A queue is never left alone: while one of its waiters asks, the answer says when it is tried again; whoever leaves
 * without one (his client hung up, the policy is gone, the store is away) has it tried at once. Only a queue whose first
 * waiter is not the first elsewhere needs no time of its own: the other queue's turn comes.
 *
 * Room can also come without a notice from elsewhere (a permit released, a refund, a raised limit at another
 * agent), so no queue sleeps longer than RETRY_MAX_MS, and one for permits not longer than PERMIT_RETRY_MS.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/hash.h"
#include "engine.h"

enum { BUCKETS = 8192, CHAIN_MAX = 32, RETRY_MAX_MS = 1000, PERMIT_RETRY_MS = 50 };

struct wait_queue {
	struct wait_queue *next; /* in its bucket */
	uint64_t hash;
	struct timer_entry try_at; /* loop ms */
	struct wait_place *first, *last;
	uint32_t n;
	unsigned together;     /* how many may ask in one call */
	struct answer refusal; /* the last one ... */
	uint64_t refused_ms;   /* ... and when it came, loop ms */
	size_t policy_len, key_len;
	char name[]; /* policy, key */
};

struct waiters {
	struct engine *engine;
	uv_timer_t timer;
	struct timer_heap tries, deadlines;
	unsigned n;
	struct wait_queue *buckets[BUCKETS];
};

/* ---- Queues ---- */

static uint64_t queue_hash(struct slice policy, struct slice key)
{
	return hash_bytes(key, hash_bytes(policy, 0));
}

static struct slice queue_policy(const struct wait_queue *q)
{
	return (struct slice){q->name, q->policy_len};
}

static struct wait_queue *queue_find(const struct waiters *w, struct slice policy, struct slice key)
{
	uint64_t hash = queue_hash(policy, key);

	for (struct wait_queue *q = w->buckets[hash % BUCKETS]; q != NULL; q = q->next)
		if (q->hash == hash && slice_equal(queue_policy(q), policy) &&
		    slice_equal((struct slice){q->name + q->policy_len, q->key_len}, key))
			return q;
	return NULL;
}

static struct wait_queue *queue_new(struct waiters *w, struct slice policy, struct slice key)
{
	struct wait_queue *q = calloc(1, sizeof *q + policy.len + key.len);

	if (q == NULL)
		return NULL;
	q->hash = queue_hash(policy, key);
	q->together = 1;
	q->policy_len = policy.len;
	q->key_len = key.len;
	memcpy(q->name, policy.ptr, policy.len);
	memcpy(q->name + policy.len, key.ptr, key.len);
	q->next = w->buckets[q->hash % BUCKETS];
	w->buckets[q->hash % BUCKETS] = q;
	return q;
}

static void queue_free_if_empty(struct waiters *w, struct wait_queue *q)
{
	struct wait_queue **at = &w->buckets[q->hash % BUCKETS];

	if (q->n > 0)
		return;
	while (*at != q)
		at = &(*at)->next;
	*at = q->next;
	timer_heap_remove(&w->tries, &q->try_at);
	free(q);
}

static bool is_asking(const struct request_state *s)
{
	return s->groups_asked > 0;
}

static bool queue_is_asking(const struct wait_queue *q)
{
	for (const struct wait_place *p = q->first; p != NULL && p != q->first->next; p = p->next)
		if (is_asking(p->state))
			return true;
	return false;
}

static bool first_everywhere(const struct request_state *s)
{
	for (uint8_t i = 0; i < s->waiter.n_places; i++)
		if (s->waiter.places[i].prev != NULL)
			return false;
	return true;
}

/* ---- Time ---- */

static void on_timer(uv_timer_t *t);

static void arm(struct waiters *w)
{
	const struct timer_entry *try = timer_heap_first(&w->tries);
	const struct timer_entry *deadline = timer_heap_first(&w->deadlines);
	uint64_t now_ms = uv_now(w->engine->loop), at = UINT64_MAX;

	if (try != NULL)
		at = try->at;
	if (deadline != NULL && deadline->at < at)
		at = deadline->at;
	if (at == UINT64_MAX)
		uv_timer_stop(&w->timer);
	else
		uv_timer_start(&w->timer, on_timer, at > now_ms ? at - now_ms : 0, 0);
}

static void try_at(struct waiters *w, struct wait_queue *q, uint64_t at_ms)
{
	/* Without memory for the entry its waiters still have their deadlines. */
	if (timer_heap_set(&w->tries, &q->try_at, at_ms) == KOVA_OK)
		arm(w);
}

/* The next in line that is not asking, or NULL when somebody in front of it can't be asked with it. */
static struct request_state *next_to_ask(const struct wait_queue *q)
{
	for (const struct wait_place *p = q->first; p != NULL; p = p->next) {
		if (!is_asking(p->state)) {
			bool alone = p == q->first ? first_everywhere(p->state)
						   : p->state->waiter.n_places == 1;

			return alone ? p->state : NULL;
		}
		if (p->state->waiter.n_places > 1)
			return NULL;
	}
	return NULL;
}

static void queue_try(struct wait_queue *q)
{
	struct waiters *w = q->first->state->engine->waiters;
	char name[sizeof q->refusal.policy + REQUEST_KEY_MAX];
	struct slice policy = {name, q->policy_len}, key = {name + q->policy_len, q->key_len};
	unsigned n = q->together < q->n ? q->together : q->n;

	if (queue_is_asking(q))
		return;
	memcpy(name, q->name, q->policy_len + q->key_len);
	for (unsigned i = 0; i < n && q != NULL; i++) {
		struct request_state *s = next_to_ask(q);

		if (s == NULL)
			return;
		request_try_again(s, i > 0, n - 1 - i);
		/* It may have ended at once, and others and the queue with it. */
		q = queue_find(w, policy, key);
	}
}

static void on_timer(uv_timer_t *t)
{
	struct waiters *w = t->data;
	uint64_t now_ms = uv_now(w->engine->loop);
	struct timer_entry *e;

	while ((e = timer_heap_first(&w->tries)) != NULL && e->at <= now_ms) {
		struct wait_queue *q =
			(struct wait_queue *)((char *)e - offsetof(struct wait_queue, try_at));

		timer_heap_remove(&w->tries, e);
		queue_try(q);
	}
	while ((e = timer_heap_first(&w->deadlines)) != NULL && e->at <= now_ms) {
		struct request_state *s =
			(struct request_state *)((char *)e -
						 offsetof(struct request_state, waiter.deadline));

		timer_heap_remove(&w->deadlines, e);
		if (!is_asking(s)) /* else its answer decides: waiters_refused() */
			request_refuse(s, REASON_WAIT_TIMEOUT);
	}
	arm(w);
}

/* ---- Joining and leaving ---- */

bool waiters_is_waiting(const struct request_state *s)
{
	return s->waiter.places != NULL;
}

bool waiters_ahead(const struct request_state *s)
{
	const struct request *r = &s->request;

	if (s->engine->waiters->n == 0)
		return false;
	for (uint8_t i = 0; i < r->n_pairs; i++)
		if (queue_find(s->engine->waiters, r->pairs[i].policy, r->pairs[i].key) != NULL)
			return true;
	return false;
}

static void place_add(struct wait_place *p, struct wait_queue *q)
{
	p->queue = q;
	p->prev = q->last;
	if (q->last != NULL)
		q->last->next = p;
	else
		q->first = p;
	q->last = p;
	q->n++;
}

static void place_remove(struct wait_place *p)
{
	struct wait_queue *q = p->queue;

	*(p->prev != NULL ? &p->prev->next : &q->first) = p->next;
	*(p->next != NULL ? &p->next->prev : &q->last) = p->prev;
	q->n--;
}

static bool has_place_in(const struct request_state *s, const struct wait_queue *q)
{
	for (uint8_t i = 0; i < s->waiter.n_places; i++)
		if (s->waiter.places[i].queue == q)
			return true;
	return false;
}

static bool join_queue(struct request_state *s, const struct request_pair *q_pair)
{
	struct waiters *w = s->engine->waiters;
	const struct policy *policy = catalogue_policy(s->catalogue, q_pair->policy);
	struct wait_queue *q = queue_find(w, q_pair->policy, q_pair->key);

	if (policy == NULL)
		return false;
	if (q == NULL)
		q = queue_new(w, q_pair->policy, q_pair->key);
	if (q == NULL)
		return false;
	if (has_place_in(s, q)) /* the same pair twice */
		return true;
	if (q->n >= policy->wait_max_queue)
		return false;
	s->waiter.places[s->waiter.n_places].state = s;
	place_add(&s->waiter.places[s->waiter.n_places++], q);
	engine_counts(w->engine, policy)->waiters++;
	return true;
}

bool waiters_join(struct request_state *s, uint64_t deadline_ms)
{
	struct waiters *w = s->engine->waiters;
	struct request *r = &s->request;
	bool joined = true;

	assert(!waiters_is_waiting(s));
	s->waiter.places = calloc(r->n_pairs, sizeof *s->waiter.places);
	if (s->waiter.places == NULL)
		return false;
	w->n++;
	for (uint8_t i = 0; i < r->n_pairs && joined; i++)
		joined = join_queue(s, &r->pairs[i]);
	if (!joined || timer_heap_set(&w->deadlines, &s->waiter.deadline, deadline_ms) != KOVA_OK) {
		waiters_leave(s, false);
		return false;
	}
	s->has_waited = true;
	arm(w);
	return true;
}

static void leave_queue(struct waiters *w, struct wait_place *p, bool granted)
{
	struct wait_queue *q = p->queue;
	struct policy_stats *stats = policy_stats_get(queue_policy(q));

	place_remove(p);
	if (stats != NULL)
		policy_counts_of(stats, w->engine->index)->waiters--;
	if (q->n == 0) {
		queue_free_if_empty(w, q);
		return;
	}
	if (granted && q->together < CHAIN_MAX)
		q->together *= 2;
	/* Who was asking and got nothing (its caller is gone, its time is up) leaves nobody behind to be refused. */
	if (!queue_is_asking(q) && (granted || q->try_at.place == 0))
		try_at(w, q, uv_now(w->engine->loop));
}

void waiters_leave(struct request_state *s, bool granted)
{
	struct waiters *w = s->engine->waiters;
	struct wait_place *places = s->waiter.places;

	if (places == NULL)
		return;
	s->waiter.places = NULL;
	for (uint8_t i = 0; i < s->waiter.n_places; i++)
		leave_queue(w, &places[i], granted);
	s->waiter.n_places = 0;
	free(places);
	timer_heap_remove(&w->deadlines, &s->waiter.deadline);
	w->n--;
	arm(w);
}

/* ---- Refusals ---- */

static uint64_t retry_ms(const struct request_state *s, int64_t wait_us)
{
	uint64_t ms = (uint64_t)(wait_us + 999) / 1000, most = RETRY_MAX_MS;

	if (s->wants_permit && s->request.answer.reason != REASON_HELD)
		most = PERMIT_RETRY_MS;
	return ms < 1 ? 1 : ms < most ? ms : most;
}

void waiters_refused(struct request_state *s, int64_t wait_us)
{
	struct waiters *w = s->engine->waiters;
	uint64_t now_ms = uv_now(w->engine->loop);

	if (s->waiter.deadline.place == 0) { /* it passed while the answer was on its way */
		request_refuse(s, REASON_WAIT_TIMEOUT);
		return;
	}
	for (uint8_t i = 0; i < s->waiter.n_places; i++) {
		struct wait_place *p = &s->waiter.places[i];

		p->queue->together = 1;
		if (p->prev != NULL) /* the one in front said it already */
			continue;
		if (slice_equal(queue_policy(p->queue), slice_of(s->request.answer.policy))) {
			p->queue->refusal = s->request.answer;
			p->queue->refused_ms = now_ms;
		}
		try_at(w, p->queue, now_ms + retry_ms(s, wait_us));
	}
}

/* The queue's own limit has not refused anybody: its first waiter waits for another one as well. */
static void refusal_by_others(const struct request_state *s, uint8_t pair, struct answer *a)
{
	const struct script_answer unknown = {.wait_us = (int64_t)RETRY_MAX_MS * 1000};
	const struct check_ref *ref = s->checks;

	for (uint16_t i = 0; i < s->n_checks; i++)
		if (s->checks[i].pair == pair)
			ref = &s->checks[i];
	resolve_answer(a, ref, &unknown, false);
}

/* A limit may have room when the queue is tried next; a hold and a breaker say until when there is none. */
static int64_t time_left_ms(const struct wait_queue *q, const struct answer *a, uint64_t now_ms)
{
	int64_t ms = a->retry_after_ms;

	if (a->reason == REASON_HELD || a->reason == REASON_BREAKER_OPEN)
		ms -= (int64_t)(now_ms - q->refused_ms);
	else if (q->try_at.place > 0 && q->try_at.at > now_ms)
		ms = (int64_t)(q->try_at.at - now_ms);
	return ms < 1 ? 1 : ms;
}

void waiters_refusal(const struct request_state *s, struct answer *a)
{
	const struct waiters *w = s->engine->waiters;
	const struct request *r = &s->request;
	uint64_t now_ms = uv_now(w->engine->loop);

	for (uint8_t i = 0; i < r->n_pairs; i++) {
		const struct wait_queue *q = queue_find(w, r->pairs[i].policy, r->pairs[i].key);

		if (q == NULL)
			continue;
		*a = q->refusal;
		if (a->policy[0] == '\0')
			refusal_by_others(s, i, a);
		a->retry_after_ms = a->more_after_ms = time_left_ms(q, a, now_ms);
		a->allowed = false;
		if (a->reason != REASON_HELD && a->reason != REASON_BREAKER_OPEN)
			a->reason = REASON_LIMITED;
		return;
	}
}

static void wake(struct waiters *w, struct wait_queue *q)
{
	try_at(w, q, uv_now(w->engine->loop));
}

void waiters_wake(struct waiters *w, struct slice policy, struct slice key)
{
	if (w->n == 0)
		return;
	if (policy.ptr != NULL) {
		struct wait_queue *q = queue_find(w, policy, key);

		if (q != NULL)
			wake(w, q);
		return;
	}
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct wait_queue *q = w->buckets[i]; q != NULL; q = q->next)
			wake(w, q);
}

void waiters_drain(struct waiters *w)
{
	struct timer_entry *e;

	while ((e = timer_heap_first(&w->deadlines)) != NULL) {
		struct request_state *s =
			(struct request_state *)((char *)e -
						 offsetof(struct request_state, waiter.deadline));

		timer_heap_remove(&w->deadlines, e);
		if (!is_asking(s))
			request_refuse(s, REASON_WAIT_TIMEOUT);
	}
}

unsigned waiters_count(const struct waiters *w)
{
	return w->n;
}

/* ---- Life ---- */

struct waiters *waiters_new(struct engine *e)
{
	struct waiters *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->engine = e;
	uv_timer_init(e->loop, &w->timer);
	w->timer.data = w;
	return w;
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

void waiters_free(struct waiters *w)
{
	if (w == NULL)
		return;
	assert(w->n == 0);
	timer_heap_release(&w->tries);
	timer_heap_release(&w->deadlines);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
