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
 * So it is within a loop. Over all loops and agents Redis keeps the order: each line has one ticket there, of whoever asked
 * last as its first (wait_claims.c, lua/turns.lua), and a refusal says when it can be that one's turn, and where in the
 * virtual time of all loops its queue is (line_learn). Who joins is made known there at once (waiters_enter), behind the others
 * of his loop.
 *
 * Room can also come without a notice from elsewhere (a permit released, a refund, a raised limit at another
 * agent), so no line sleeps longer than WAIT_RETRY_MAX_MS, and one for permits not longer than
 * WAIT_PERMIT_RETRY_MS.
 */
#include <assert.h>
#include <stdlib.h>

#include "core/keyspace.h"
#include "waiters_own.h"

enum { CHAIN_LEAST = 2, CHAIN_MAX = 32 };

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
	queue_remove(w, q);
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
	if (w->n > 0 && w->count_ms < at)
		at = w->count_ms;
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

		if (p->state->waiter.joins && p->asked_by == NULL)
			return NULL; /* Redis does not know of him yet */
		if (!is_asking(p->state))
			return single || (p == q->first && !chained && first_everywhere(p->state))
				       ? p
				       : NULL;
		if (!single)
			return NULL;
	}
	return NULL;
}

/*
 * Those whose turn it is, in the order in which they are to ask. They count as asking. Two at least: when the first is
 * granted, the other one's ticket is there before anybody else can ask.
 */
static unsigned line_pick(struct wait_line *l, struct request_state **ret_state)
{
	struct wait_queue *aside = NULL;
	struct fair_flow *f;
	unsigned n = 0, most = l->together > CHAIN_LEAST ? l->together : CHAIN_LEAST;

	while (n < most && (f = fair_queue_first(&l->flows)) != NULL) {
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

	if (n > 0) {
		l->refused = false;
		l->has_turned = l->turns_to_other;
		l->turns_to_other = false;
	}
	/* One may end at once, and the line with it. */
	for (unsigned i = 0; i < n; i++) {
		state[i]->groups_asked--;
		if (state[i]->abandoned) {
			request_refuse(state[i], REASON_WAIT_TIMEOUT);
			continue;
		}
		waiter_changes(state[i]);
		request_try_again(state[i], i > 0, n - 1 - i);
	}
}

static void count_all(struct waiters *w)
{
	for (size_t i = 0; i < WAIT_BUCKETS; i++)
		for (struct named *n = w->queues[i]; n != NULL; n = n->next)
			queue_count(w, (struct wait_queue *)n);
}

static void on_timer(uv_timer_t *t)
{
	struct waiters *w = t->data;
	uint64_t now_ms = uv_now(w->engine->loop);
	struct timer_entry *e;

	if (now_ms >= w->count_ms) {
		count_all(w);
		w->count_ms = now_ms + WAIT_COUNT_MS;
	}

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

bool waiters_has(const struct waiters *w, struct slice policy, struct slice key)
{
	size_t at = 0;

	return w->n > 0 &&
	       (queue_find(w, policy, key) != NULL || line_above(w, policy, key, &at) != NULL);
}

bool waiters_ahead(const struct request_state *s)
{
	const struct request *r = &s->request;

	for (uint8_t i = 0; i < r->n_pairs; i++)
		if (waiters_has(s->engine->waiters, r->pairs[i].policy, r->pairs[i].key))
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
	struct wait_queue *q = queue_add(w, r->policy, r->key);
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
	p->pair = pair;
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
	if (w->n++ == 0)
		w->count_ms = uv_now(w->engine->loop) + WAIT_COUNT_MS;
	s->waiter.joins = true;
	waiter_arrives(s);
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

unsigned waiters_position(const struct request_state *s)
{
	unsigned n = 0;

	for (const struct wait_place *p = s->waiter.places; p != NULL; p = p->prev)
		n++;
	return n;
}

void waiters_enter(struct request_state *s)
{
	bool behind = !first_everywhere(s);

	for (uint8_t i = 0; i < s->waiter.n_places; i++)
		behind |= s->waiter.places[i].queue->line->n_queues > 1;
	s->waiter.behind = behind;
	for (uint8_t i = 0; i < s->waiter.n_places && !behind; i++) {
		struct wait_place *p = &s->waiter.places[i];

		p->asked_by = p->queue->line;
		p->start = p->queue->flow.start;
		p->asked_by->n_asking++;
		p->asked_by->refused = false;
	}
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
	waiter_withdraws(s);
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

/* Where the queue of this place waits after `by` refused it; NULL: out of memory. */
static struct wait_line *line_of_refusal(const struct wait_place *p, const struct check_ref *by,
					 const struct script_answer *said)
{
	const struct request_state *s = p->state;
	const struct request_pair *pair = &s->request.pairs[by->pair];
	struct slice policy = named_policy(&p->queue->named), path = named_path(&p->queue->named);
	bool own = by->share.weight > 0 || waiter_is_in_vain(s, said) ||
		   !slice_equal(policy, pair->policy) || !slice_equal(path, pair->key);

	if (!own)
		keyspace_path(pair->key, by->level_index, by->policy->n_levels, &path);
	return line_get(s->engine->waiters, policy, path, own);
}

/* The line's virtual time is the one that Redis has for all loops, and so is where the queue stands in it. */
static void line_learn(struct wait_line *l, const struct wait_place *p,
		       const struct turn_place *turn)
{
	fair_queue_set(&l->flows, &p->queue->flow, turn->now, turn->start, p->cost);
	l->holder = &p->queue->flow;
	l->is_known = true;
}

/* The queue of `p` is to wait in the line `l`; the one that it is in after that. */
static struct wait_line *line_change(struct waiters *w, const struct wait_place *p,
				     struct wait_line *l, uint8_t pair)
{
	struct wait_line *old = p->queue->line;
	bool stays = old->n_queues > 1 || old->n_asking > 0;

	if (l == NULL || l == old)
		return old;
	if (!queue_move(w, p->queue, l, weight_of(p->state, pair), p->cost)) {
		line_free_if_idle(w, l);
		return old;
	}
	if (stays)
		line_try_now(w, old);
	return l;
}

static bool is_next(const struct wait_line *l, const struct wait_queue *q)
{
	return fair_queue_first(&l->flows) == &q->flow;
}

/* All answers are there: where it was learned that it is the turn of another than the holder of the ticket, that one asks. */
static void line_turns(struct waiters *w, struct wait_line *l)
{
	if (!l->is_known || l->has_turned || l->n_asking > 0 ||
	    fair_queue_first(&l->flows) == l->holder)
		return;
	l->turns_to_other = true;
	line_try_now(w, l);
}

static void place_refused(struct waiters *w, struct wait_place *p, const struct check_ref *by,
			  const struct script_answer *said)
{
	struct request_state *s = p->state;
	uint64_t now_ms = uv_now(w->engine->loop);
	uint64_t at_ms = now_ms + waiter_retry_ms(s, said->wait_us);
	bool behind = p->asked_by != NULL && p->asked_by->refused;
	struct wait_line *from, *l;

	if (p->asked_by != NULL)
		p->asked_by->refused = true;
	from = place_answered(w, p, true);
	if (behind || p->prev != NULL) { /* the one in front said it already */
		if (from != NULL)
			line_turns(w, from);
		return;
	}
	if (s->waiter
		    .behind) { /* his line goes on without him, unless he comes before all others */
		l = p->queue->line;
		if (l->try_at.place == 0 || is_next(l, p->queue))
			line_try_now(w, l);
		return;
	}
	l = line_change(w, p, line_of_refusal(p, by, said), by->pair);
	if (slice_equal(named_policy(&p->queue->named), slice_of(s->request.answer.policy))) {
		l->refusal = s->request.answer;
		l->refused_ms = now_ms;
	}
	if (said->turn.known && !l->own)
		line_learn(l, p, &said->turn);
	if (from == l)
		l->together = 1;
	if (from == l || l->try_at.place == 0 || l->try_at.at > at_ms)
		line_try_at(w, l, at_ms);
	line_turns(w, l);
}

void waiters_refused(struct request_state *s, const struct script_answer *said,
		     const struct check_ref *by)
{
	if (s->waiter.deadline.place == 0) { /* it passed while the answer was on its way */
		request_refuse(s, REASON_WAIT_TIMEOUT);
		return;
	}
	for (uint8_t i = 0; i < s->waiter.n_places; i++)
		place_refused(s->engine->waiters, &s->waiter.places[i], by, said);
	s->waiter.joins = s->waiter.behind = false;
	if (said->turn
		    .behind_others) /* those before it may leave: request_refuse() asks the line */
		s->request.answer.policy[0] = '\0';
}

static void wake_all(struct waiters *w, struct named *const *lines)
{
	for (size_t i = 0; i < WAIT_BUCKETS; i++)
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

void waiters_wake_root(struct waiters *w, struct slice policy, struct slice root)
{
	struct wait_line *l = NULL;

	while ((l = line_of_root(w, policy, root, l)) != NULL)
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
	engine_random(e, (unsigned char *)&w->loop_id, sizeof w->loop_id);
	w->loop_id = w->loop_id % TURN_ID_MAX + 1;
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
