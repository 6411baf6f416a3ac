/*
 * A queue a key path and policy, first come first served. The queues that wait for the same limit (of a level above, or
 * their own) form a *line*: whose turn it is there, weighted fair queueing says (core/fair_queue.h), so that a key
 * with a hundred waiters and one with a single one take turns. The line asks again when its last refusal said that there
 * could be room; several ask in one call, chained, so that nobody overtakes: each is refused where the one before it
 * was. How many ask together grows while all are granted and falls to one with a refusal.
 *
 * A queue whose head was refused by another limit than its line's moves to the line of that. It stands in a line of its
 * own where nobody else could use what it waits for: it can't be served before its deadline, so the others need not wait
 * for it; or what refused it keeps shares (lua/shares.lua), and Redis knows whose turn it is.
 *
 * A request over several pairs stands in the queue of each, in the order in which it came to all of them, and asks
 * only while it is the first in all. Since joining is one step, the oldest of all waiters is first wherever
 * it stands: there is no deadlock.
 *
 * A line is never left alone: while one of its waiters asks, the answer says when it is tried again; whoever leaves
 * without one (his client hung up, the policy is gone, the store is away) has it tried at once. Only a queue whose first
 * waiter is not the first elsewhere needs no time of its own: the other queue's turn comes.
 *
 * Room can also come without a notice from elsewhere (a permit released, a refund, a raised limit at another
 * agent), so no line sleeps longer than RETRY_MAX_MS, and one for permits not longer than PERMIT_RETRY_MS.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/fair_queue.h"
#include "core/hash.h"
#include "core/keyspace.h"
#include "engine.h"

enum { BUCKETS = 8192, CHAIN_MAX = 32, RETRY_MAX_MS = 1000, PERMIT_RETRY_MS = 50 };

/* A policy and a key path in a table; first in what is called so, and at its end. */
struct named {
	struct named *next; /* in its bucket */
	uint64_t hash;
	size_t policy_len, path_len;
	char *name; /* policy, path */
};

struct wait_line {
	struct named named;
	bool own;                  /* of one queue, which has the line's name */
	struct timer_entry try_at; /* loop ms */
	struct fair_queue flows;
	unsigned n_queues, n_asking;
	unsigned together;     /* how many may ask in one call */
	bool refused;          /* in this round: those asked behind were refused with it */
	struct answer refusal; /* the last one ... */
	uint64_t refused_ms;   /* ... and when it came, loop ms */
};

struct wait_queue {
	struct named named;
	struct wait_line *line;
	struct fair_flow flow; /* of the first who is not asking */
	struct wait_queue *next_aside;
	struct wait_place *first, *last;
	uint32_t n;
};

struct waiters {
	struct engine *engine;
	uv_timer_t timer;
	struct timer_heap tries, deadlines;
	unsigned n;
	struct named *queues[BUCKETS], *lines[BUCKETS], *own_lines[BUCKETS];
};

/* ---- Tables ---- */

static struct slice named_policy(const struct named *n)
{
	return (struct slice){n->name, n->policy_len};
}

static struct slice named_path(const struct named *n)
{
	return (struct slice){n->name + n->policy_len, n->path_len};
}

static struct named *named_find(struct named *const *buckets, struct slice policy,
				struct slice path)
{
	uint64_t hash = hash_bytes(path, hash_bytes(policy, 0));

	for (struct named *n = buckets[hash % BUCKETS]; n != NULL; n = n->next)
		if (n->hash == hash && slice_equal(named_policy(n), policy) &&
		    slice_equal(named_path(n), path))
			return n;
	return NULL;
}

/* `size` bytes of zeros that begin with a `struct named`, which is in the table. */
static void *named_new(struct named **buckets, size_t size, struct slice policy, struct slice path)
{
	struct named *n = calloc(1, size + policy.len + path.len);

	if (n == NULL)
		return NULL;
	n->name = (char *)n + size;
	n->hash = hash_bytes(path, hash_bytes(policy, 0));
	n->policy_len = policy.len;
	n->path_len = path.len;
	memcpy(n->name, policy.ptr, policy.len);
	memcpy(n->name + policy.len, path.ptr, path.len);
	n->next = buckets[n->hash % BUCKETS];
	buckets[n->hash % BUCKETS] = n;
	return n;
}

static void named_free(struct named **buckets, struct named *n)
{
	struct named **at = &buckets[n->hash % BUCKETS];

	while (*at != n)
		at = &(*at)->next;
	*at = n->next;
	free(n);
}

static struct wait_queue *queue_find(const struct waiters *w, struct slice policy, struct slice key)
{
	return (struct wait_queue *)named_find(w->queues, policy, key);
}

static struct wait_line *line_get(struct waiters *w, struct slice policy, struct slice path,
				  bool own)
{
	struct named **table = own ? w->own_lines : w->lines;
	struct wait_line *l = (struct wait_line *)named_find(table, policy, path);

	if (l != NULL)
		return l;
	l = named_new(table, sizeof *l, policy, path);
	if (l != NULL) {
		l->own = own;
		l->together = 1;
	}
	return l;
}

/* The next line of a limit that counts this key or what is above it; *at: 0 at first. NULL: no more. */
static struct wait_line *line_above(const struct waiters *w, struct slice policy, struct slice key,
				    size_t *at)
{
	while (*at <= key.len) {
		size_t end = *at + slice_index(slice_after(key, *at), '/');
		struct slice path = {key.ptr, end};
		struct named *n = named_find(w->lines, policy, path);

		*at = end + 1;
		if (n != NULL)
			return (struct wait_line *)n;
	}
	return NULL;
}

static void line_free_if_idle(struct waiters *w, struct wait_line *l)
{
	if (l->n_queues > 0 || l->n_asking > 0)
		return;
	timer_heap_remove(&w->tries, &l->try_at);
	fair_queue_release(&l->flows);
	named_free(l->own ? w->own_lines : w->lines, &l->named);
}

/* ---- Queues and their lines ---- */

static bool is_asking(const struct request_state *s)
{
	return s->groups_asked > 0;
}

/* The first who is not asking, or NULL. */
static struct wait_place *queue_head(const struct wait_queue *q)
{
	struct wait_place *p = q->first;

	while (p != NULL && p->asked_by != NULL)
		p = p->next;
	return p;
}

/* Its flow follows who is first now. */
static void queue_set_head(struct wait_queue *q)
{
	const struct wait_place *p = queue_head(q);

	if (p != NULL)
		fair_queue_replace(&q->line->flows, &q->flow, p->cost);
}

/* False: out of memory, nothing is changed. */
static bool queue_move(struct waiters *w, struct wait_queue *q, struct wait_line *to,
		       uint32_t weight, uint64_t cost)
{
	struct wait_line *from = q->line;

	if (from != NULL)
		fair_queue_remove(&from->flows, &q->flow);
	if (fair_queue_add(&to->flows, &q->flow, weight, cost) != KOVA_OK) {
		if (from != NULL)
			fair_queue_put_back(&from->flows, &q->flow);
		return false;
	}
	to->n_queues++;
	q->line = to;
	if (from != NULL) {
		from->n_queues--;
		line_free_if_idle(w, from);
	}
	return true;
}

static void queue_free(struct waiters *w, struct wait_queue *q)
{
	if (q->line != NULL) {
		fair_queue_remove(&q->line->flows, &q->flow);
		q->line->n_queues--;
	}
	named_free(w->queues, &q->named);
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

static void line_try_at(struct waiters *w, struct wait_line *l, uint64_t at_ms)
{
	/* Without memory for the entry its waiters still have their deadlines. */
	if (timer_heap_set(&w->tries, &l->try_at, at_ms) == KOVA_OK)
		arm(w);
}

static void line_try_now(struct waiters *w, struct wait_line *l)
{
	line_try_at(w, l, uv_now(w->engine->loop));
}

/* The next of `q` who may ask, or NULL when somebody in front of it can't be asked with it. */
static struct wait_place *next_to_ask(const struct wait_queue *q, bool chained)
{
	for (struct wait_place *p = q->first; p != NULL; p = p->next) {
		bool single = p->state->waiter.n_places == 1;

		if (!is_asking(p->state))
			return single || (p == q->first && !chained && first_everywhere(p->state))
				       ? p
				       : NULL;
		if (!single)
			return NULL;
	}
	return NULL;
}

/* Those whose turn it is, at most l->together, in the order in which they are to ask. They count as asking. */
static unsigned line_pick(struct wait_line *l, struct request_state **ret_state)
{
	struct wait_queue *aside = NULL;
	struct fair_flow *f;
	unsigned n = 0;

	while (n < l->together && (f = fair_queue_first(&l->flows)) != NULL) {
		struct wait_queue *q =
			(struct wait_queue *)((char *)f - offsetof(struct wait_queue, flow));
		struct wait_place *p = next_to_ask(q, n > 0);

		if (p == NULL) {
			fair_queue_remove(&l->flows, f);
			q->next_aside = aside;
			aside = q;
			continue;
		}
		p->asked_by = l;
		p->start = f->start;
		p->state->groups_asked++;
		l->n_asking++;
		fair_queue_serve(&l->flows, f, p->next != NULL ? p->next->cost : p->cost);
		ret_state[n++] = p->state;
		if (p->state->waiter.n_places > 1)
			break;
	}
	for (; aside != NULL; aside = aside->next_aside)
		fair_queue_put_back(&l->flows, &aside->flow);
	return n;
}

static void line_try(struct wait_line *l)
{
	struct request_state *state[CHAIN_MAX];
	unsigned n = l->n_asking == 0 ? line_pick(l, state) : 0;

	if (n > 0)
		l->refused = false;
	/* One may end at once, and the line with it. */
	for (unsigned i = 0; i < n; i++) {
		state[i]->groups_asked--;
		if (state[i]->abandoned)
			request_refuse(state[i], REASON_WAIT_TIMEOUT);
		else
			request_try_again(state[i], i > 0, n - 1 - i);
	}
}

static void on_timer(uv_timer_t *t)
{
	struct waiters *w = t->data;
	uint64_t now_ms = uv_now(w->engine->loop);
	struct timer_entry *e;

	while ((e = timer_heap_first(&w->tries)) != NULL && e->at <= now_ms) {
		struct wait_line *l =
			(struct wait_line *)((char *)e - offsetof(struct wait_line, try_at));

		timer_heap_remove(&w->tries, e);
		line_try(l);
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
	for (uint8_t i = 0; i < r->n_pairs; i++) {
		const struct request_pair *q = &r->pairs[i];
		size_t at = 0;

		if (queue_find(s->engine->waiters, q->policy, q->key) != NULL ||
		    line_above(s->engine->waiters, q->policy, q->key, &at) != NULL)
			return true;
	}
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

/* Of a key: that of the level that it is on. */
static uint32_t weight_of(const struct request_state *s, uint8_t pair)
{
	uint32_t weight = 0;

	for (uint16_t i = 0; i < s->n_checks; i++)
		if (s->checks[i].pair == pair && s->checks[i].level != NULL)
			weight = s->checks[i].level->weight;
	return weight > 0 ? weight : 1;
}

/* A queue for this pair, in a line that is there for a limit above it, else in its own. */
static struct wait_queue *queue_new(const struct request_state *s, uint8_t pair)
{
	struct waiters *w = s->engine->waiters;
	const struct request_pair *r = &s->request.pairs[pair];
	struct wait_queue *q = named_new(w->queues, sizeof *q, r->policy, r->key);
	size_t at = 0;
	struct wait_line *l = line_above(w, r->policy, r->key, &at);

	if (q == NULL)
		return NULL;
	if (l == NULL)
		l = line_get(w, r->policy, r->key, true);
	if (l != NULL && queue_move(w, q, l, weight_of(s, pair), r->cost))
		return q;
	if (l != NULL)
		line_free_if_idle(w, l);
	queue_free(w, q);
	return NULL;
}

static bool join_queue(struct request_state *s, uint8_t pair)
{
	struct waiters *w = s->engine->waiters;
	const struct request_pair *r = &s->request.pairs[pair];
	const struct policy *policy = catalogue_policy(s->catalogue, r->policy);
	struct wait_queue *q = queue_find(w, r->policy, r->key);
	struct wait_place *p = &s->waiter.places[s->waiter.n_places];

	if (policy == NULL)
		return false;
	if (q == NULL)
		q = queue_new(s, pair);
	if (q == NULL)
		return false;
	if (has_place_in(s, q)) /* the same pair twice */
		return true;
	if (q->n >= policy->wait_max_queue)
		return false;
	s->waiter.n_places++;
	p->state = s;
	p->cost = r->cost;
	place_add(p, q);
	queue_set_head(q);
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
		joined = join_queue(s, i);
	if (!joined || timer_heap_set(&w->deadlines, &s->waiter.deadline, deadline_ms) != KOVA_OK) {
		waiters_leave(s, false);
		return false;
	}
	s->has_waited = true;
	arm(w);
	return true;
}

/* Its question was answered: `refused`, its turn is yet to come. */
static struct wait_line *place_answered(struct waiters *w, struct wait_place *p, bool refused)
{
	struct wait_line *l = p->asked_by;
	struct wait_queue *q = p->queue;

	if (l == NULL)
		return NULL;
	p->asked_by = NULL;
	l->n_asking--;
	if (refused && q->line == l && (int64_t)(p->start - q->flow.start) < 0) {
		q->flow.start = p->start;
		queue_set_head(q);
	}
	if (l->n_queues > 0 && l->n_asking == 0 && l->try_at.place == 0)
		line_try_now(w, l);
	if (l != q->line)
		line_free_if_idle(w, l);
	return l == q->line ? l : NULL;
}

static void leave_queue(struct waiters *w, struct wait_place *p, bool granted)
{
	struct wait_queue *q = p->queue;
	struct policy_stats *stats = policy_stats_get(named_policy(&q->named));
	struct wait_line *asked_by = place_answered(w, p, !granted), *l = q->line;

	place_remove(p);
	if (stats != NULL)
		policy_counts_of(stats, w->engine->index)->waiters--;
	if (granted && asked_by != NULL && l->together < CHAIN_MAX)
		l->together *= 2;
	if (q->n == 0)
		queue_free(w, q);
	else
		queue_set_head(q);
	/* Who was asking and got nothing (its caller is gone, its time is up) leaves nobody behind to be refused. */
	if (l->n_queues > 0 && l->n_asking == 0 && (granted || l->try_at.place == 0))
		line_try_now(w, l);
	line_free_if_idle(w, l);
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

/* A bucket says exactly when there can be room. */
static bool is_in_vain(const struct request_state *s, int64_t wait_us)
{
	return !s->wants_permit && s->request.answer.reason == REASON_LIMITED &&
	       uv_now(s->engine->loop) + (uint64_t)wait_us / 1000 > s->waiter.deadline.at;
}

/* Where the queue of this place waits after `by` refused it; NULL: out of memory. */
static struct wait_line *line_of_refusal(const struct wait_place *p, const struct check_ref *by,
					 int64_t wait_us)
{
	const struct request_state *s = p->state;
	const struct request_pair *pair = &s->request.pairs[by->pair];
	struct slice policy = named_policy(&p->queue->named), path = named_path(&p->queue->named);
	bool own = by->share.weight > 0 || is_in_vain(s, wait_us) ||
		   !slice_equal(policy, pair->policy) || !slice_equal(path, pair->key);

	if (!own)
		keyspace_path(pair->key, by->level_index, by->policy->n_levels, &path);
	return line_get(s->engine->waiters, policy, path, own);
}

static void place_refused(struct waiters *w, struct wait_place *p, const struct check_ref *by,
			  int64_t wait_us)
{
	struct request_state *s = p->state;
	uint64_t now_ms = uv_now(w->engine->loop), at_ms = now_ms + retry_ms(s, wait_us);
	bool behind = p->asked_by != NULL && p->asked_by->refused;
	struct wait_line *from, *l;

	if (p->asked_by != NULL)
		p->asked_by->refused = true;
	from = place_answered(w, p, true);
	if (behind || p->prev != NULL) /* the one in front said it already */
		return;
	l = line_of_refusal(p, by, wait_us);
	if (l == NULL)
		l = p->queue->line;
	if (l != p->queue->line) {
		struct wait_line *old = p->queue->line;
		bool stays = old->n_queues > 1 || old->n_asking > 0;

		if (!queue_move(w, p->queue, l, weight_of(s, by->pair), p->cost)) {
			line_free_if_idle(w, l);
			l = p->queue->line;
		} else if (stays) {
			line_try_now(w, old);
		}
	}
	if (slice_equal(named_policy(&p->queue->named), slice_of(s->request.answer.policy))) {
		l->refusal = s->request.answer;
		l->refused_ms = now_ms;
	}
	if (from == l)
		l->together = 1;
	if (from == l || l->try_at.place == 0 || l->try_at.at > at_ms)
		line_try_at(w, l, at_ms);
}

void waiters_refused(struct request_state *s, int64_t wait_us, const struct check_ref *by)
{
	if (s->waiter.deadline.place == 0) { /* it passed while the answer was on its way */
		request_refuse(s, REASON_WAIT_TIMEOUT);
		return;
	}
	for (uint8_t i = 0; i < s->waiter.n_places; i++)
		place_refused(s->engine->waiters, &s->waiter.places[i], by, wait_us);
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

/* As its first waiter was told, if he was; under a limit not before the queue is tried next, which may be for others. */
static int64_t time_left_ms(const struct wait_line *l, const struct answer *a, uint64_t now_ms)
{
	bool tries = l->try_at.place > 0 && l->try_at.at > now_ms;
	int64_t next_ms = tries ? (int64_t)(l->try_at.at - now_ms) : 0, ms = a->retry_after_ms;

	if (l->refusal.policy[0] == '\0' && tries)
		ms = next_ms;
	if (a->reason != REASON_HELD && a->reason != REASON_BREAKER_OPEN && ms < next_ms)
		ms = next_ms;
	return ms < 1 ? 1 : ms;
}

void waiters_refusal(const struct request_state *s, struct answer *a)
{
	const struct waiters *w = s->engine->waiters;
	const struct request *r = &s->request;
	uint64_t now_ms = uv_now(w->engine->loop);

	for (uint8_t i = 0; i < r->n_pairs; i++) {
		const struct request_pair *pair = &r->pairs[i];
		const struct wait_queue *q = queue_find(w, pair->policy, pair->key);
		size_t at = 0;
		const struct wait_line *l =
			q != NULL ? q->line : line_above(w, pair->policy, pair->key, &at);

		if (l == NULL)
			continue;
		*a = l->refusal;
		if (a->policy[0] == '\0')
			refusal_by_others(s, i, a);
		else
			answer_age(a, now_ms - l->refused_ms);
		a->retry_after_ms = a->more_after_ms = time_left_ms(l, a, now_ms);
		a->allowed = false;
		if (a->reason != REASON_HELD && a->reason != REASON_BREAKER_OPEN)
			a->reason = REASON_LIMITED;
		return;
	}
}

static void wake_all(struct waiters *w, struct named *const *lines)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct named *n = lines[i]; n != NULL; n = n->next)
			line_try_now(w, (struct wait_line *)n);
}

void waiters_wake(struct waiters *w, struct slice policy, struct slice key)
{
	struct wait_queue *q;
	struct wait_line *l;
	size_t at = 0;

	if (w->n == 0)
		return;
	if (policy.ptr == NULL) {
		wake_all(w, w->lines);
		wake_all(w, w->own_lines);
		return;
	}
	q = queue_find(w, policy, key);
	if (q != NULL)
		line_try_now(w, q->line);
	while ((l = line_above(w, policy, key, &at)) != NULL)
		line_try_now(w, l);
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
