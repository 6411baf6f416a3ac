/* Keys come when they are asked for often, are looked at when the wheel says so, and go when nobody asks for them. */
#include <assert.h>
#include <stdlib.h>

#include "control/control.h"
#include "leases_own.h"
#include "usage.h"

enum {
	ENTRIES_MAX = 262144,
	RETURN_BEFORE_US = 50000, /* what is left of a lease goes back so long before its end */
	LOOK_US = 100000,         /* how often an entry without a lease is looked at */
	IDLE_US = 1000000,        /* it goes when nobody asked for so long */
	SPARE_MAX = 1024,         /* lease_rares */
};

static struct lease_rare *rare_new(struct leases *w)
{
	struct lease_rare *rare = w->spare;

	if (rare == NULL)
		return malloc(sizeof *rare);
	w->spare = rare->next_spare;
	w->n_spare--;
	return rare;
}

static void rare_free(struct leases *w, struct lease_rare *rare)
{
	if (rare == NULL || w->n_spare == SPARE_MAX) {
		free(rare);
		return;
	}
	rare->next_spare = w->spare;
	w->spare = rare;
	w->n_spare++;
}

struct lease_rare *entry_rare(struct leases *w, struct lease_entry *e)
{
	if (e->rare != NULL)
		return e->rare;
	e->rare = rare_new(w);
	if (e->rare != NULL)
		*e->rare = (struct lease_rare){.leases = w, .entry = e};
	return e->rare;
}

void entry_count(struct leases *w, struct lease_entry *e)
{
	int64_t now_ms = (int64_t)(site_now_us(w->engine->own) / 1000);
	struct slice policy = lease_entry_policy(e), key = lease_entry_key(e);
	struct usage *u = w->engine->usage;

	if (e->admitted > 0)
		usage_add(u, policy, key, USAGE_ADMITTED, e->admitted, now_ms);
	e->admitted = 0;
	if (e->rare == NULL || e->rare->refused == 0)
		return;
	usage_add(u, policy, key, USAGE_REFUSED, e->rare->refused, now_ms);
	e->rare->refused = 0;
}

static void count_first(struct leases *w)
{
	struct lease_entry *e = w->uncounted[w->first_uncounted];

	w->first_uncounted = (w->first_uncounted + 1) % UNCOUNTED_MAX;
	w->n_uncounted--;
	e->uncounted = false;
	entry_count(w, e);
}

void entry_uncounted(struct leases *w, struct lease_entry *e)
{
	if (w->uncounted == NULL || e->uncounted)
		return;
	if (w->n_uncounted == UNCOUNTED_MAX)
		count_first(w);
	w->uncounted[(w->first_uncounted + w->n_uncounted++) % UNCOUNTED_MAX] = e;
	e->uncounted = true;
}

void leases_count_all(struct leases *w)
{
	while (w->n_uncounted > 0)
		count_first(w);
}

void entry_forget_refusal(struct lease_entry *e)
{
	if (e->rare != NULL)
		e->rare->refusal = (struct lease_refusal){0};
}

void entry_settle(struct leases *w, struct lease_entry *e)
{
	struct lease_rare *rare = e->rare;

	if (rare == NULL || rare->asking || rare->first != NULL ||
	    rare->refusal.until.us + LEASE_WINDOW_US > leases_now_us(w))
		return;
	entry_count(w, e);
	rare_free(w, rare);
	e->rare = NULL;
}

void entry_reset(struct leases *w, struct lease_entry *e)
{
	entry_return(w, e);
	entry_forget_refusal(e);
	if (entry_asks(e))
		e->rare->dropped = true;
}

/* ---- Coming ---- */

struct request_state *leases_key_request(struct leases *w, struct slice policy, struct slice key,
					 uint64_t cost)
{
	struct request *r = request_new(w->engine);
	struct request_state *s;

	if (r == NULL)
		return NULL;
	s = state_of(r);
	r->kind = REQUEST_TAKE;
	r->n_pairs = 1;
	r->pairs[0] = (struct request_pair){.policy = policy, .key = key, .cost = cost};
	if (resolve(s) == RESOLVED && s->n_groups == 1)
		return s;
	request_free(r);
	return NULL;
}

/* NULL: nothing of the key is decided in memory. */
static struct lease_terms *find_terms(struct leases *w, struct slice policy, struct slice key)
{
	const struct policy *p = catalogue_policy(control_catalogue(w->engine->control), policy);
	struct request_state *s = NULL;
	struct lease_terms *terms;

	if (p != NULL && !p->lease.off)
		s = leases_key_request(w, policy, key, 1);
	if (s == NULL)
		return NULL;
	terms = lease_terms_get(&w->terms, s);
	request_free(&s->request);
	return terms;
}

static void due(struct leases *w, struct lease_entry *e, uint64_t at_us);

static struct lease_entry *entry_new(struct leases *w, uint64_t hash, struct slice policy,
				     struct slice key)
{
	struct lease_terms *terms = w->table.n < ENTRIES_MAX ? find_terms(w, policy, key) : NULL;
	struct lease_entry *e;

	if (terms == NULL)
		return NULL;
	e = calloc(1, offsetof(struct lease_entry, key) + key.len);
	if (e == NULL || !lease_table_add(&w->table, hash, e)) {
		lease_terms_unref(&w->terms, terms);
		free(e);
		return NULL;
	}
	e->terms = terms;
	e->key_len = (uint16_t)key.len;
	memcpy(e->key, key.ptr, key.len);
	due(w, e, leases_now_us(w));
	return e;
}

/* The catalogue changed since: false, if nothing of the key is decided in memory any more. It is gone then. */
static bool entry_renew(struct leases *w, struct lease_entry *e)
{
	struct lease_terms *terms;

	if (e->terms->catalogue == control_catalogue(w->engine->control))
		return true;
	entry_reset(w, e);
	entry_count(w, e);
	terms = find_terms(w, lease_entry_policy(e), lease_entry_key(e));
	if (terms == NULL) {
		lease_table_remove(&w->table, e);
		e->gone = true;
		return false;
	}
	lease_terms_unref(&w->terms, e->terms);
	e->terms = terms;
	e->shown = 0;
	return true;
}

static uint64_t far_leaps(const struct site *s)
{
	return s->is_far && s->region != NULL ? region_clock_leaps(s->region) : 0;
}

/* Leases and refusals from before a leap of a clock, Redis's or ours, are not relied on. */
static void watch_clocks(struct leases *w)
{
	uint64_t leaps;

	leases_now_us(w);
	leaps = w->clock.wall_leaps + region_clock_leaps(w->engine->own->region);
	for (unsigned i = 0; w->engine->n_sites > 1 && i < w->engine->n_sites; i++)
		leaps += far_leaps(&w->engine->sites[i]);
	if (leaps != w->leaps)
		leases_return_all(w);
	w->leaps = leaps;
}

/*
 * Where feedback comes that may hold keys, an agent must not go on for seconds without hearing of it: these leases end as soon
 * as it is known that it comes.
 */
static void watch_feedback(struct leases *w)
{
	unsigned with_feedback = policy_stats_with_feedback();

	for (size_t i = 0; i < w->table.cap && with_feedback != w->with_feedback; i++) {
		struct lease_entry *e = w->table.entries[i];

		if (e != NULL && policy_stats_has_feedback(e->terms->policy->stats) &&
		    (e->warm || (entry_asks(e) && e->rare->warm)))
			entry_reset(w, e);
	}
	w->with_feedback = with_feedback;
}

static bool is_warm(struct leases *w, uint64_t hash, struct slice policy)
{
	const struct policy *p;

	if (!lease_warmth_add(&w->warmth, hash, leases_now_us(w)))
		return false;
	p = catalogue_policy(control_catalogue(w->engine->control), policy);
	return p != NULL && lease_terms_may_be_warm(p) && !policy_stats_has_feedback(p->stats);
}

struct lease_entry *entry_asked(struct leases *w, const struct request_pair *q)
{
	uint64_t hash = lease_hash(q->policy, q->key);
	struct lease_entry *e;

	watch_clocks(w);
	watch_feedback(w);
	e = lease_table_find(&w->table, hash, q->policy, q->key);
	if (e == NULL && (lease_heat_add(&w->heat, hash, leases_now_us(w), q->cost) ||
			  is_warm(w, hash, q->policy) || resolve_is_far(w->engine, q)))
		e = entry_new(w, hash, q->policy, q->key);
	if (e == NULL || !entry_renew(w, e))
		return NULL;
	lease_demand_add(&e->demand, leases_now_us(w), q->cost);
	return e;
}

/* ---- What others ask ---- */

static struct lease_entry *find(const struct leases *w, struct slice policy, struct slice key)
{
	return lease_table_find(&w->table, lease_hash(policy, key), policy, key);
}

void leases_forget(struct leases *w, struct slice policy, struct slice key)
{
	struct lease_entry *e = find(w, policy, key);

	if (e != NULL)
		entry_forget_refusal(e);
}

/* Whether `e` is of the key path, or of one that begins with all of its parts. */
static bool is_below(const struct lease_entry *e, struct slice policy, struct slice key)
{
	struct slice path = lease_entry_key(e);

	return slice_equal(lease_entry_policy(e), policy) && path.len >= key.len &&
	       memcmp(path.ptr, key.ptr, key.len) == 0 &&
	       (path.len == key.len || path.ptr[key.len] == '/');
}

void leases_drop(struct leases *w, const struct policy *policy, struct slice key)
{
	struct slice name = slice_of(policy->name);
	struct lease_entry *e = policy->n_levels > 1 ? NULL : find(w, name, key);

	if (e != NULL)
		entry_reset(w, e);
	for (size_t i = 0; i < w->table.cap && policy->n_levels > 1; i++)
		if (w->table.entries[i] != NULL && is_below(w->table.entries[i], name, key))
			entry_reset(w, w->table.entries[i]);
}

uint64_t leases_left(struct leases *w, struct slice policy, struct slice key)
{
	const struct lease_entry *e = find(w, policy, key);

	return e != NULL && entry_has(w, e, 1) ? e->left : 0;
}

uint64_t leases_returns(const struct leases *w)
{
	return w->returns;
}

bool leases_give_up(struct leases *w, struct slice policy, struct slice key, uint64_t returns)
{
	struct lease_entry *e = find(w, policy, key);

	if (e == NULL)
		return false;
	if (entry_has(w, e, 1))
		entry_return(w, e);
	return w->returns != returns;
}

void leases_took(struct leases *w, const struct request_pair *q)
{
	struct lease_entry *e = w->table.n > 0 ? find(w, q->policy, q->key) : NULL;
	struct lease_refusal *refusal;

	if (e == NULL)
		return;
	e->beyond -= q->cost < e->beyond ? (uint32_t)q->cost : e->beyond;
	if (e->rare == NULL)
		return;
	refusal = &e->rare->refusal;
	refusal->remaining -= q->cost < refusal->remaining ? q->cost : refusal->remaining;
}

void leases_count(struct leases *w, struct slice policy, struct slice key)
{
	struct lease_entry *e = find(w, policy, key);

	if (e != NULL)
		entry_count(w, e);
}

void leases_return_all(struct leases *w)
{
	for (size_t i = 0; i < w->table.cap; i++)
		if (w->table.entries[i] != NULL)
			entry_reset(w, w->table.entries[i]);
}

struct leases_counters leases_counters(const struct leases *w)
{
	struct leases_counters c = w->counters;

	c.keys = w->table.n;
	return c;
}

/* ---- Time ---- */

static uint64_t at_most(uint64_t us, uint64_t most_us)
{
	return us < most_us ? us : most_us;
}

/* How long before a lease's end what is left goes back. */
static uint64_t early_us(const struct lease_entry *e)
{
	uint64_t trip_us = site_round_trip_us(e->terms->site);

	return at_most(RETURN_BEFORE_US + trip_us, lease_ttl_us(e) / (trip_us > 0 ? 4 : 10));
}

static void on_timer(uv_timer_t *t);

/* In the wheel, to be looked at by `at_us`. */
static void due(struct leases *w, struct lease_entry *e, uint64_t at_us)
{
	/* Should it get a lease, it must be looked at before that ends. */
	uint64_t look_us = at_most(LOOK_US, terms_ttl_us(e->terms) / 2);

	if (at_us < leases_now_us(w) + look_us && e->granted == 0)
		at_us = leases_now_us(w) + look_us;
	lease_wheel_add(&w->wheel, e, leases_now_us(w), at_us);
	if (w->timer_runs || w->stopped)
		return;
	w->timer_runs = true;
	uv_timer_start(&w->timer, on_timer, LEASE_WHEEL_SLOT_US / 1000, LEASE_WHEEL_SLOT_US / 1000);
}

static void entry_free(struct leases *w, struct lease_entry *e)
{
	assert(!entry_asks(e) && (e->rare == NULL || e->rare->first == NULL));
	if (!e->gone)
		lease_table_remove(&w->table, e);
	rare_free(w, e->rare);
	lease_terms_unref(&w->terms, e->terms);
	free(e);
}

static bool is_of_use(struct leases *w, const struct lease_entry *e)
{
	return e->granted > 0 || e->rare != NULL || e->uncounted ||
	       (!e->gone && lease_demand_idle_us(&e->demand, leases_now_us(w)) < IDLE_US);
}

static void look(struct leases *w, struct lease_entry *e)
{
	entry_count(w, e);
	if (e->granted > 0 && e->ends_us <= leases_now_us(w) + early_us(e) + LEASE_WHEEL_SLOT_US) {
		if (e->warm && e->left == 0)
			e->granted = 0; /* it ends by itself */
		entry_return(w, e);
	}
	entry_settle(w, e);
	if (is_of_use(w, e))
		due(w, e, e->granted > 0 ? e->ends_us - early_us(e) : 0);
	else
		entry_free(w, e);
}

static void on_timer(uv_timer_t *t)
{
	struct leases *w = t->data;
	struct lease_entry *e;

	w->clock.is_old = true;
	while ((e = lease_wheel_take(&w->wheel, leases_now_us(w))) != NULL)
		look(w, e);
	if (w->wheel.n > 0)
		return;
	w->timer_runs = false;
	uv_timer_stop(t);
}

/* ---- Life ---- */

struct leases *leases_new(struct engine *e)
{
	struct leases *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->engine = e;
	w->clock.is_old = true;
	engine_random(e, (unsigned char *)&w->first_id, sizeof w->first_id);
	do
		engine_random(e, (unsigned char *)&w->random, sizeof w->random);
	while (w->random == 0);
	if (e->feed != NULL &&
	    (w->uncounted = calloc(UNCOUNTED_MAX, sizeof *w->uncounted)) == NULL) {
		free(w);
		return NULL;
	}
	uv_timer_init(e->loop, &w->timer);
	w->timer.data = w;
	return w;
}

void leases_stop(struct leases *w)
{
	w->stopped = true;
	uv_timer_stop(&w->timer);
}

static void on_timer_closed(uv_handle_t *h)
{
	free(h->data);
}

void leases_free(struct leases *w)
{
	struct lease_entry *e;

	if (w == NULL)
		return;
	while ((e = lease_wheel_take_any(&w->wheel)) != NULL)
		entry_free(w, e);
	while (w->spare != NULL)
		free(rare_new(w));
	lease_table_release(&w->table);
	free(w->uncounted);
	uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}
