/*
 * Each key goes through these once, moved on by the requests for it, which are refused for a moment meanwhile:
 *
 *   (new) ──may it come to its home?──▶ asking ──▶ welcome ──MOVE_OUT at each earlier home──▶ leaving ──all left──▶ left
 *   left ──MOVE_IN at the home──▶ arriving ──▶ here
 *
 * Where leases are outstanding at an earlier home, or the key is held there, or its breaker is open, it is asked again when that is over. An answer
 * that does not come, or a home that says the key has left it too, begin anew. Every answer finds its entry: entries stay
 * while calls are out.
 */
#include "handover.h"

#include <stdlib.h>
#include <string.h>

#include "core/divide.h"
#include "core/hash.h"
#include "core/keyspace.h"
#include "edge_regions.h"
#include "engine.h"

enum {
	BUCKETS = 16384,
	KEYS_MAX = 262144, /* then what is known is forgotten */
	AGAIN_US = 50000,  /* a call is under way: ask again so much later, or after a round trip */
	REFUSED_US = 1000000 /* the key has left its home by a later version */
};

enum step {
	STEP_NEW,
	STEP_ASKING,
	STEP_WELCOME,
	STEP_LEAVING,
	STEP_LEFT,
	STEP_ARRIVING,
	STEP_HERE
};

struct moved {
	struct moved *next; /* in its bucket */
	struct handover *handover;
	enum step step;
	unsigned calls;     /* under way */
	bool failed;        /* one of them */
	uint64_t remaining; /* the least that an earlier home has left */
	uint64_t
		leaving_us; /* the longest that leases are outstanding at one, or the key may not be asked for there */
	uint64_t window_us;  /* of a calendar: the end of the home's window, by its clock; else 0 */
	uint64_t not_before; /* loop ms */
	uint64_t ids_ms;     /* loop ms from which no earlier home remembers an id */
	size_t name_len;
	char name[];
};

struct handover {
	struct engine *engine;
	const struct edge_regions *regions;
	size_t n;
	struct moved *buckets[BUCKETS];
};

/* ---- What is known of keys ---- */

static struct moved **bucket_of(struct handover *h, struct slice name)
{
	return &h->buckets[hash_mix(hash_bytes(name, 0)) % BUCKETS];
}

static struct moved *find(struct handover *h, struct slice name)
{
	struct moved *m = *bucket_of(h, name);

	while (m != NULL && !slice_equal((struct slice){m->name, m->name_len}, name))
		m = m->next;
	return m;
}

static void forget_all(struct handover *h)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct moved **at = &h->buckets[i], *m; (m = *at) != NULL;) {
			if (m->calls > 0) {
				at = &m->next;
				continue;
			}
			*at = m->next;
			h->n--;
			free(m);
		}
}

static struct moved *find_or_add(struct handover *h, struct slice name)
{
	struct moved *m = find(h, name);

	if (m != NULL)
		return m;
	if (h->n == KEYS_MAX)
		forget_all(h);
	m = calloc(1, sizeof *m + name.len);
	if (m == NULL)
		return NULL;
	m->handover = h;
	m->name_len = name.len;
	memcpy(m->name, name.ptr, name.len);
	m->next = *bucket_of(h, name);
	*bucket_of(h, name) = m;
	h->n++;
	return m;
}

/* ---- Earlier homes ---- */

/* By number of the site; the present one, and those that are dead, are none. */
static unsigned earlier_homes(const struct handover *h, const struct site *home, struct slice key,
			      unsigned ret_sites[REGIONS_BEFORE_MAX])
{
	const struct edge_regions *r = h->regions;
	const uint64_t hash = rendezvous_hash(keyspace_root(key));
	unsigned n = 0;

	for (size_t i = 0; i < r->n_before; i++) {
		unsigned site = (unsigned)rendezvous_choose(r->before[i], r->n, hash), j = 0;

		while (j < n && ret_sites[j] != site)
			j++;
		if (j == n && &h->engine->sites[site] != home && !r->of[site].is_dead)
			ret_sites[n++] = site;
	}
	return n;
}

static uint16_t slot_at(const struct site *site, struct slice name)
{
	return region_by_slot(site->region) ? keyspace_slot(name) : 0;
}

static bool can_ask(const struct site *site, struct slice name)
{
	return site->region != NULL && region_up(site->region, slot_at(site, name));
}

/* ---- Steps ---- */

static void submit(const struct site *site, const struct moved *m, const struct check_ref *ref,
		   enum script_op_kind kind, uint64_t amount, region_answer *on_answer,
		   struct moved *data)
{
	const struct slice name = {m->name, m->name_len};
	const struct script_check check = {
		.limit = ref->limit, .key = name, .cost = 1, .breaker = ref->breaker};
	const struct script_op op = {.kind = kind,
				     .checks = &check,
				     .n_checks = 1,
				     .stamp_us = m->handover->regions->version,
				     .amount = amount};

	data->calls++;
	region_submit(site->region, slot_at(site, name), &op, 0, on_answer, data);
}

static uint64_t now_ms(const struct moved *m)
{
	return uv_now(m->handover->engine->loop);
}

static void all_left(struct moved *m)
{
	m->step = m->failed || m->leaving_us > 0 ? STEP_NEW : STEP_LEFT;
	m->not_before = m->failed ? 0 : now_ms(m) + divide_up(m->leaving_us, 1000);
}

static void max_in(uint64_t *most, uint64_t value)
{
	*most = value > *most ? value : *most;
}

/* What is left of a later window says nothing of the home's: the clocks of two Redises differ. */
static uint64_t remaining_of(const struct moved *m, const struct script_answer *answer)
{
	bool is_later = m->window_us > 0 && answer->now_us + answer->reset_us > m->window_us;

	return is_later ? 0 : answer->remaining;
}

static void on_left(kova_status status, const struct script_answer *answer, void *data)
{
	struct moved *m = data;

	m->calls--;
	if (status != KOVA_OK || answer->status != SCRIPT_ALLOWED) {
		m->failed = true;
	} else {
		uint64_t remaining = remaining_of(m, answer);

		m->remaining = remaining < m->remaining ? remaining : m->remaining;
		max_in(&m->leaving_us, answer->amount);
		max_in(&m->ids_ms, now_ms(m) + divide_up((uint64_t)answer->wait_us, 1000));
	}
	if (m->calls == 0)
		all_left(m);
}

static void leave(struct moved *m, const struct check_ref *ref, const unsigned *sites, unsigned n)
{
	struct site *all = m->handover->engine->sites;

	m->step = STEP_LEAVING;
	m->failed = false;
	m->remaining = LIMIT_MAX;
	m->leaving_us = 0;
	m->calls++; /* until all are asked: an answer may come from within */
	for (unsigned i = 0; i < n; i++)
		submit(&all[sites[i]], m, ref, SCRIPT_MOVE_OUT, 0, on_left, m);
	if (--m->calls == 0)
		all_left(m);
}

/* What comes of asking the home; `next` if it agrees. */
static void home_answered(struct moved *m, kova_status status, const struct script_answer *answer,
			  enum step next)
{
	m->calls--;
	m->step = status == KOVA_OK && answer->status == SCRIPT_ALLOWED ? next : STEP_NEW;
	if (status == KOVA_OK && answer->status == SCRIPT_UNKNOWN)
		m->not_before = now_ms(m) + REFUSED_US / 1000;
}

static void on_asked(kova_status status, const struct script_answer *answer, void *data)
{
	struct moved *m = data;

	home_answered(m, status, answer, STEP_WELCOME);
	if (m->step == STEP_WELCOME && m->window_us > 0)
		m->window_us = answer->now_us + answer->reset_us;
}

/* If it has left by a later version, its earlier homes may be its homes again: they are not to be disturbed. */
static void ask_home(struct moved *m, const struct site *home, const struct check_ref *ref)
{
	m->step = STEP_ASKING;
	m->window_us = ref->limit->algorithm == ALGORITHM_CALENDAR;
	submit(home, m, ref, SCRIPT_MOVE_IN, UINT64_MAX, on_asked, m);
}

static void on_arrived(kova_status status, const struct script_answer *answer, void *data)
{
	home_answered(data, status, answer, STEP_HERE);
}

static void arrive(struct moved *m, const struct site *home, const struct check_ref *ref)
{
	m->step = STEP_ARRIVING;
	submit(home, m, ref, SCRIPT_MOVE_IN, m->remaining, on_arrived, m);
}

/* How long until it is worth asking again. */
static int64_t wait_us(const struct moved *m, const struct site *home)
{
	uint64_t now = now_ms(m), trip_us = site_round_trip_us(home);

	if (m->not_before > now)
		return (int64_t)(m->not_before - now) * 1000;
	return (int64_t)(trip_us > AGAIN_US ? trip_us : AGAIN_US);
}

static bool can_ask_all(const struct handover *h, const struct site *home, struct slice name,
			const unsigned *sites, unsigned n)
{
	bool can = can_ask(home, name);

	for (unsigned i = 0; i < n; i++)
		can = can && can_ask(&h->engine->sites[sites[i]], name);
	return can;
}

static enum handover_state move_on(struct moved *m, const struct site *home,
				   const struct check_ref *ref, const unsigned *sites, unsigned n)
{
	const struct slice name = {m->name, m->name_len};

	if (m->step == STEP_HERE)
		return HANDOVER_DONE;
	if (m->step == STEP_NEW && now_ms(m) >= m->not_before) {
		if (!can_ask_all(m->handover, home, name, sites, n))
			return HANDOVER_NO_STORE;
		ask_home(m, home, ref);
	} else if (m->step == STEP_WELCOME) {
		if (!can_ask_all(m->handover, home, name, sites, n))
			return HANDOVER_NO_STORE;
		leave(m, ref, sites, n);
	} else if (m->step == STEP_LEFT) {
		if (!can_ask(home, name))
			return HANDOVER_NO_STORE;
		arrive(m, home, ref);
	}
	return m->step == STEP_HERE ? HANDOVER_DONE : HANDOVER_WAIT;
}

/* What lets nothing pass, or refuses nothing, need not wait. */
static bool is_kept_at_home(const struct check_ref *ref)
{
	return ref->policy != NULL && ref->policy->scope == SCOPE_HOME && !ref->policy->shadow &&
	       ref->limit->limit > 0;
}

/* Says so in the answer of the check's group, which is returned. */
static struct group *refuse(struct request_state *s, uint16_t check, int64_t us)
{
	struct group *g = s->groups;

	while (check >= g->first_check + g->n_checks)
		g++;
	g->answer = (struct script_answer){.status = SCRIPT_REFUSED,
					   .why = SCRIPT_LIMITED,
					   .check = (uint16_t)(check - g->first_check),
					   .wait_us = us,
					   .reset_us = (uint64_t)us};
	return g;
}

enum handover_state handover_step(struct request_state *s, struct group **ret_group)
{
	struct handover *h = s->engine->handover;
	enum handover_state state = HANDOVER_DONE;
	unsigned sites[REGIONS_BEFORE_MAX];

	for (uint16_t i = 0; h != NULL && i < s->n_checks; i++) {
		const struct check_ref *ref = &s->checks[i];
		char text[KEYSPACE_NAME_MAX];
		unsigned n = 0;
		enum handover_state one;
		int64_t us;
		struct moved *m;

		if (!is_kept_at_home(ref))
			continue;
		if (engine_is_contradicted(s->engine))
			return HANDOVER_NO_STORE;
		if (h->regions->n_before > 0)
			n = earlier_homes(h, s->site, s->request.pairs[ref->pair].key, sites);
		if (n == 0)
			continue;
		m = find_or_add(h, (struct slice){text, resolve_name(s, ref, text)});
		one = m != NULL ? move_on(m, s->site, ref, sites, n) : HANDOVER_NO_STORE;
		if (one == HANDOVER_NO_STORE)
			return one;
		us = wait_us(m, s->site);
		if (one == HANDOVER_DONE && s->request.id.len > 0 && m->ids_ms > now_ms(m)) {
			one = HANDOVER_WAIT;
			us = (int64_t)(m->ids_ms - now_ms(m)) * 1000;
		}
		if (one == HANDOVER_WAIT && state == HANDOVER_DONE) {
			state = one;
			*ret_group = refuse(s, i, us);
		}
	}
	return state;
}

void handover_doubt(const struct request_state *s)
{
	struct handover *h = s->engine->handover;

	for (uint16_t i = 0; h != NULL && i < s->n_checks; i++) {
		char text[KEYSPACE_NAME_MAX];
		struct moved *m =
			find(h, (struct slice){text, resolve_name(s, &s->checks[i], text)});

		if (m != NULL && m->step == STEP_HERE)
			m->step = STEP_NEW;
	}
}

/* ---- Life ---- */

struct handover *handover_new(struct engine *e, const struct edge_regions *regions)
{
	struct handover *h = calloc(1, sizeof *h);

	if (h != NULL) {
		h->engine = e;
		h->regions = regions;
	}
	return h;
}

void handover_free(struct handover *h)
{
	if (h == NULL)
		return;
	forget_all(h);
	free(h);
}
