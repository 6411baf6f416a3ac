/*
 * A key that is asked for often gets an entry. The happy path: a request finds a lease with permits left and is
 * answered; one that finds none asks for a lease and waits for it, with all that come meanwhile; while a lease is being
 * spent the next is asked for before it is dry, and takes its place. Those who were pending on a lease that was too small
 * for all of them wait for the next, which costs Redis less than each of them would. Shortly before its end what is left
 * goes back. An entry that nobody asked for lately goes.
 *
 * A request over several pairs is answered if each of its keys has enough, or one is known to refuse; else it goes to the
 * region, and for keys without a lease one is asked for meanwhile.
 *
 * Failures: the region refuses: remembered, and those who were pending are refused or, if they may wait, start over the
 * ordinary way. The region can't be asked: each pending request is in doubt, as if it had asked itself. The agent was
 * stopped and goes on after the lease's end: the clock is read after the requests were, so nothing ended is spent. The
 * catalogue changed or a clock leapt: leases go back, and the next request begins anew.
 */
#include "leases.h"

#include <assert.h>

#include "lease_answer.h"
#include "leases_own.h"

/* So often does a request wait for the next lease; then it goes to the region itself. */
enum { LEASES_MISSED_MAX = 3 };

void leases_new_batch(struct leases *w)
{
	w->clock.is_old = true;
}

/* ---- Spending ---- */

static void count_admitted(struct leases *w, struct lease_entry *e, uint64_t cost)
{
	if (e->admitted > UINT32_MAX - cost)
		entry_count(w, e);
	e->admitted += (uint32_t)cost;
	entry_uncounted(w, e);
	engine_counts(w->engine, e->terms->policy)->allowed++;
}

static void spend(struct leases *w, struct lease_entry *e, uint64_t cost)
{
	e->left -= (uint32_t)cost;
	count_admitted(w, e, cost);
	if (e->left == 0 && !e->warm) /* else with the next one, if that comes before its end */
		entry_return(w, e);
}

static bool remembers_refusal(struct leases *w, const struct lease_entry *e, uint64_t cost)
{
	return e->rare != NULL && e->rare->refusal.until.us > w->clock.now_us &&
	       lease_refusal_is_believed(&e->rare->refusal, leases_instant(w), cost);
}

/* On a long way the next lease is asked for while there are enough for as long as that takes, twice over. */
static bool renews_far(struct leases *w, const struct lease_entry *e)
{
	uint64_t ahead_us = 2 * site_round_trip_us(e->terms->site);
	uint64_t rate = lease_demand_rate(&e->demand, w->clock.now_us);

	return lease_renews_ahead(e->left, e->granted, e->ends_us - w->clock.now_us,
				  rate * ahead_us / 1000000, ahead_us);
}

static void renew_early(struct leases *w, struct lease_entry *e)
{
	if (e->granted > 0 && !e->scarce && !entry_asks(e) &&
	    (!e->warm || lease_demand_is_busy(&e->demand, w->clock.now_us)) &&
	    (lease_renews(e->left, e->granted, e->ends_us - w->clock.now_us, lease_ttl_us(e),
			  leases_random(w)) ||
	     (e->terms->site->is_far && renews_far(w, e))))
		entry_ask(w, e, 1);
}

/* ---- Answers ---- */

static struct check_ref shown_ref(const struct lease_entry *e)
{
	const struct lease_check *c = &e->terms->checks[e->shown];

	return (struct check_ref){
		.policy = e->terms->policy, .limit = c->limit, .level_name = c->level_name};
}

/* What this agent can be sure of: what the lease has left, and, if nobody else asks that Redis, what is there beside it. */
static uint64_t remaining(const struct lease_entry *e)
{
	return (uint64_t)e->left + e->beyond;
}

static void answer_granted(struct leases *w, const struct lease_entry *e, struct answer *a)
{
	uint64_t lease_us = e->ends_us > w->clock.now_us ? e->ends_us - w->clock.now_us : 0;

	lease_answer_granted(a, shown_ref(e), remaining(e), lease_us, site_now_us(w->engine->own));
}

static void answer_refused(struct leases *w, struct lease_entry *e, struct request_state *s,
			   uint64_t cost)
{
	const struct lease_refusal *r = &e->rare->refusal;
	struct policy_counts *counts = engine_counts(w->engine, e->terms->policy);
	struct lease_instant now = leases_instant(w);

	lease_answer_refused(&s->request.answer, shown_ref(e), e->left + r->remaining,
			     lease_refusal_full_us(r, now), lease_refusal_wait_us(r, now), r->why);
	counts->refused++;
	counts->held += r->why == REASON_HELD;
	e->rare->refused += cost;
	entry_uncounted(w, e);
	w->counters.decisions++;
}

/* ---- A request ---- */

static enum lease_verdict try_one(struct leases *w, struct request_state *s)
{
	uint64_t cost = s->request.pairs[0].cost;
	struct lease_entry *e = entry_asked(w, &s->request.pairs[0]);

	if (e == NULL)
		return LEASE_NONE;
	if (entry_has(w, e, cost)) {
		spend(w, e, cost);
		w->counters.decisions++;
		answer_granted(w, e, &s->request.answer);
		renew_early(w, e);
		return LEASE_DECIDED;
	}
	if (s->request.wait_ms == 0 && remembers_refusal(w, e, cost)) {
		answer_refused(w, e, s, cost);
		return LEASE_DECIDED;
	}
	return entry_asks(e) || entry_ask(w, e, cost) ? LEASE_PENDING : LEASE_NONE;
}

/* What the pairs up to `i` that have the key of pair `i` cost together. */
static uint64_t cost_so_far(const struct request *r, struct lease_entry *const *entry, uint8_t i)
{
	uint64_t cost = 0;

	for (uint8_t j = 0; j <= i; j++)
		if (entry[j] == entry[i])
			cost += r->pairs[j].cost;
	return cost;
}

static void spend_all(struct leases *w, struct request_state *s, struct lease_entry *const *entry)
{
	const struct request *r = &s->request;
	uint8_t least = 0;

	for (uint8_t i = 0; i < r->n_pairs; i++)
		spend(w, entry[i], r->pairs[i].cost);
	for (uint8_t i = 1; i < r->n_pairs; i++)
		if (remaining(entry[i]) < remaining(entry[least]))
			least = i;
	w->counters.decisions++;
	answer_granted(w, entry[least], &s->request.answer);
	s->request.answer.pair = least;
	for (uint8_t i = 0; i < r->n_pairs; i++)
		renew_early(w, entry[i]);
}

/* Of the keys that are known to refuse, the one that does so for the longest. */
static bool refuse_all(struct leases *w, struct request_state *s, struct lease_entry *const *entry)
{
	const struct request *r = &s->request;
	int longest = -1;

	for (uint8_t i = 0; i < r->n_pairs && r->wait_ms == 0; i++)
		if (entry[i] != NULL && entry[i]->left < r->pairs[i].cost &&
		    remembers_refusal(w, entry[i], r->pairs[i].cost) &&
		    (longest < 0 ||
		     entry[i]->rare->refusal.room_us > entry[longest]->rare->refusal.room_us))
			longest = i;
	if (longest < 0)
		return false;
	answer_refused(w, entry[longest], s, r->pairs[longest].cost);
	s->request.answer.pair = (uint8_t)longest;
	return true;
}

/* Whether two are known to be kept in two regions. */
static bool are_apart(struct lease_entry *const *entry, uint8_t n)
{
	const struct site *site = NULL;

	for (uint8_t i = 0; i < n; i++) {
		if (entry[i] != NULL && site != NULL && entry[i]->terms->site != site)
			return true;
		site = entry[i] != NULL ? entry[i]->terms->site : site;
	}
	return false;
}

/* From all leases or from none. */
static enum lease_verdict try_all(struct leases *w, struct request_state *s)
{
	const struct request *r = &s->request;
	struct lease_entry *entry[REQUEST_PAIRS_MAX];
	bool has[REQUEST_PAIRS_MAX], all = true;

	for (uint8_t i = 0; i < r->n_pairs; i++)
		entry[i] = entry_asked(w, &r->pairs[i]);
	if (are_apart(entry, r->n_pairs))
		return LEASE_NONE;
	for (uint8_t i = 0; i < r->n_pairs; i++) {
		has[i] = entry[i] != NULL && entry_has(w, entry[i], cost_so_far(r, entry, i));
		all = all && has[i];
	}
	if (all) {
		spend_all(w, s, entry);
		return LEASE_DECIDED;
	}
	if (refuse_all(w, s, entry))
		return LEASE_DECIDED;
	for (uint8_t i = 0; i < r->n_pairs; i++)
		if (entry[i] != NULL && !has[i] && !entry_asks(entry[i]))
			entry_ask(w, entry[i], r->pairs[i].cost);
	return LEASE_NONE;
}

enum lease_verdict leases_try(struct request_state *s)
{
	struct leases *w = s->engine->leases;

	s->lease_asked_us = leases_now_us(w);
	return s->request.n_pairs == 1 ? try_one(w, s) : try_all(w, s);
}

/* ---- Pending requests ---- */

static void join(struct lease_entry *e, struct request_state *s)
{
	struct lease_rare *rare = e->rare;

	assert(entry_asks(e) && s->lease_entry == NULL);
	s->lease_entry = e;
	s->lease_prev = rare->last;
	s->lease_next = NULL;
	*(rare->last != NULL ? &rare->last->lease_next : &rare->first) = s;
	rare->last = s;
}

void leases_join(struct request_state *s)
{
	const struct request_pair *q = &s->request.pairs[0];
	struct leases *w = s->engine->leases;

	join(lease_table_find(&w->table, lease_hash(q->policy, q->key), q->policy, q->key), s);
}

void leases_leave(struct request_state *s)
{
	struct lease_rare *rare;

	if (s->lease_entry == NULL)
		return;
	rare = s->lease_entry->rare;
	*(s->lease_prev != NULL ? &s->lease_prev->lease_next : &rare->first) = s->lease_next;
	*(s->lease_next != NULL ? &s->lease_next->lease_prev : &rare->last) = s->lease_prev;
	s->lease_entry = NULL;
}

static void serve(struct leases *w, struct lease_entry *e, struct request_state *s)
{
	uint64_t cost = s->request.pairs[0].cost;

	leases_leave(s);
	s->asked_far = e->terms->site->is_far;
	if (entry_has(w, e, cost)) {
		spend(w, e, cost);
		w->counters.decisions++;
		w->counters.far += s->asked_far;
		answer_granted(w, e, &s->request.answer);
		request_decided(s);
	} else if (s->request.wait_ms == 0 && remembers_refusal(w, e, cost)) {
		answer_refused(w, e, s, cost);
		w->counters.far += s->asked_far;
		request_decided(s);
	} else if (s->request.wait_ms == 0 && s->leases_missed < LEASES_MISSED_MAX &&
		   (entry_asks(e) || entry_ask(w, e, cost))) {
		s->leases_missed++;
		join(e, s);
	} else {
		request_start(s);
	}
}

static struct request_state *first_pending(const struct lease_entry *e)
{
	return e->rare != NULL ? e->rare->first : NULL;
}

/* A request that comes meanwhile is for the next time. */
void entry_serve(struct leases *w, struct lease_entry *e)
{
	struct request_state *s;
	unsigned n = 0;

	for (s = first_pending(e); s != NULL; s = s->lease_next)
		n++;
	while (n-- > 0 && (s = first_pending(e)) != NULL)
		serve(w, e, s);
}

bool entry_serve_first(struct leases *w, struct lease_entry *e, uint64_t amount)
{
	struct request_state *s = first_pending(e);

	if (s == NULL || s->request.pairs[0].cost != amount)
		return false;
	leases_leave(s);
	count_admitted(w, e, amount);
	w->counters.decisions++;
	w->counters.far += e->terms->site->is_far;
	answer_granted(w, e, &s->request.answer);
	request_decided(s);
	return true;
}

void entry_fail(struct lease_entry *e)
{
	struct request_state *s;

	while ((s = first_pending(e)) != NULL) {
		leases_leave(s);
		request_in_doubt(s);
	}
}

/* ---- What the region said ---- */

/* A refusal of several pairs together may be due to their sum. */
static bool is_of_one_key(const struct request *r, uint8_t pair)
{
	for (uint8_t i = 0; i < r->n_pairs; i++)
		if (i != pair && slice_equal(r->pairs[i].policy, r->pairs[pair].policy))
			return false;
	return true;
}

/* Which of the entry's checks the region named. */
static bool find_check(const struct lease_entry *e, const struct check_ref *ref, uint8_t *ret_check)
{
	for (uint16_t i = 0; i < e->terms->n_checks && i < UINT8_MAX; i++)
		if (e->terms->checks[i].limit == ref->limit) {
			*ret_check = (uint8_t)i;
			return true;
		}
	return false;
}

void leases_refused(const struct request_state *s, const struct check_ref *ref,
		    const struct script_answer *said)
{
	const struct request_pair *q = &s->request.pairs[ref->pair];
	struct leases *w = s->engine->leases;
	struct lease_entry *e;

	if (ref->limit->algorithm == ALGORITHM_CONCURRENCY ||
	    said->why == SCRIPT_BREAKER_OPEN || /* a trial's outcome may come any time */
	    !is_of_one_key(&s->request, ref->pair))
		return;
	e = lease_table_find(&w->table, lease_hash(q->policy, q->key), q->policy, q->key);
	if (e == NULL || entry_asks(e) || e->left > 0 || e->terms->catalogue != s->catalogue ||
	    !find_check(e, ref, &e->shown) || entry_rare(w, e) == NULL)
		return;
	w->clock.is_old = true;
	lease_refusal_hear(&e->rare->refusal, s->lease_asked_us, leases_instant(w), q->cost, said);
}
