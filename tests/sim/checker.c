#include "checker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/calendar.h"

void checker_init(struct checker *c, const struct limit *l, bool leases, uint64_t redis_us)
{
	*c = (struct checker){
		.limit = l, .leases = leases, .shown_us = redis_us, .passed_us = redis_us};
	if (l->algorithm == ALGORITHM_TOKEN_BUCKET) {
		c->quantum_us = (int64_t)l->quantum_us;
		c->quantum_units = (int64_t)l->quantum_ut;
		c->cost_units = LIMIT_UT;
		c->cap_units = (int64_t)l->cap_ut;
	} else {
		c->quantum_us = 1;
		c->quantum_units = (int64_t)l->limit;
		c->cost_units = (int64_t)l->per_us;
		c->cap_units = (int64_t)(l->burst * l->per_us);
	}
	c->origin_us = redis_us - redis_us % (uint64_t)c->quantum_us;
}

void checker_release(struct checker *c)
{
	free(c->entries);
}

static bool is_rate(const struct checker *c)
{
	return c->limit->algorithm == ALGORITHM_TOKEN_BUCKET ||
	       c->limit->algorithm == ALGORITHM_GCRA;
}

/* ---- Rates ---- */

/* Units that a limit refills from the origin until then; negative before it. */
static int64_t refilled(const struct checker *c, uint64_t redis_us)
{
	int64_t passed_us = (int64_t)(redis_us - c->origin_us);
	int64_t quanta = passed_us / c->quantum_us - (passed_us % c->quantum_us < 0);

	return quanta * c->quantum_units;
}

static void push(struct checker *c, int64_t seen, int64_t most)
{
	while (c->n_begins > 0 && c->begins[c->n_begins - 1].seen <= seen) {
		int64_t below = c->begins[--c->n_begins].most;

		most = below > most ? below : most;
	}
	assert(c->n_begins < CHECKER_STACK);
	c->begins[c->n_begins++] = (struct checker_begins){seen, most};
}

/* Now, in units refilled. */
static int64_t time_units(const struct checker *c)
{
	return c->leases ? c->passed_units : refilled(c, c->shown_us);
}

static bool admit_rate(struct checker *c, uint64_t cost)
{
	int64_t seen = time_units(c);

	push(c, seen, seen - c->sum);
	c->sum += (int64_t)cost * c->cost_units;
	for (unsigned i = 0; i < c->n_begins; i++)
		if (c->sum + c->begins[i].most - c->begins[i].seen > c->cap_units)
			return false;
	return true;
}

void checker_full(struct checker *c)
{
	int64_t seen = time_units(c), most = INT64_MIN / 2;

	for (unsigned i = 0; i < c->n_begins; i++) {
		int64_t moved = c->begins[i].most - c->begins[i].seen + seen;

		most = moved > most ? moved : most;
	}
	c->n_begins = 0;
	push(c, seen, most);
}

/* ---- Windows ---- */

static void forget_old(struct checker *c, uint64_t redis_us)
{
	while (c->first < c->n && c->entries[c->first].at_us + c->limit->per_us <= redis_us)
		c->inside -= c->entries[c->first++].cost;
}

static void make_room(struct checker *c)
{
	if (c->n < c->room)
		return;
	if (c->first > 0)
		memmove(c->entries, c->entries + c->first, (c->n - c->first) * sizeof *c->entries);
	c->n -= c->first;
	c->first = 0;
	if (c->n < c->room / 2)
		return;
	c->room = c->room > 0 ? 2 * c->room : 256;
	c->entries = realloc(c->entries, c->room * sizeof *c->entries);
	if (c->entries == NULL)
		abort();
}

static uint64_t time_us(const struct checker *c)
{
	return c->leases ? c->passed_us : c->shown_us;
}

static bool admit_window(struct checker *c, uint64_t redis_us, uint64_t cost)
{
	uint64_t at_us = time_us(c), i;

	make_room(c);
	for (i = c->n++; i > c->first && c->entries[i - 1].at_us > at_us; i--)
		c->entries[i] = c->entries[i - 1];
	c->entries[i] = (struct checker_entry){at_us, redis_us, cost};
	c->inside += cost;
	return c->inside <= c->limit->limit;
}

/* From those admitted then, whichever: they leave together. */
static void refund_window(struct checker *c, uint64_t stamp_us, uint64_t cost)
{
	for (uint64_t i = c->n; i > c->first && cost > 0; i--) {
		struct checker_entry *e = &c->entries[i - 1];
		uint64_t part = e->stamp_us != stamp_us ? 0 : cost < e->cost ? cost : e->cost;

		e->cost -= part;
		c->inside -= part;
		cost -= part;
	}
}

/* ---- Any ---- */

void checker_observe(struct checker *c, uint64_t redis_us)
{
	if (redis_us > c->shown_us) {
		c->passed_us += redis_us - c->shown_us;
		c->passed_units += refilled(c, redis_us) - refilled(c, c->shown_us);
	}
	c->shown_us = redis_us;
	if (is_rate(c) && c->n_begins > 0 && time_units(c) >= c->begins[c->n_begins - 1].seen)
		push(c, time_units(c), INT64_MIN / 2);
	else if (c->limit->algorithm == ALGORITHM_SLIDING_WINDOW)
		forget_old(c, time_us(c));
}

void checker_taken(struct checker *c, uint64_t redis_us)
{
	const struct calendar_edges *e = &c->limit->edges;

	checker_observe(c, redis_us);
	if (c->limit->algorithm == ALGORITHM_CALENDAR && redis_us > c->latest_us &&
	    calendar_edges_passed(e, redis_us) > calendar_edges_passed(e, c->latest_us)) {
		c->before = c->inside;
		c->inside = 0;
	}
	c->latest_us = redis_us > c->latest_us ? redis_us : c->latest_us;
}

bool checker_admit(struct checker *c, uint64_t redis_us, uint64_t cost)
{
	checker_taken(c, redis_us);
	c->admitted += cost;
	if (is_rate(c))
		return admit_rate(c, cost);
	if (c->limit->algorithm == ALGORITHM_SLIDING_WINDOW)
		return admit_window(c, redis_us, cost);
	c->inside += cost;
	return c->inside <= c->limit->limit;
}

bool checker_spend(struct checker *c, uint64_t redis_us, uint64_t granted_us, uint64_t cost)
{
	const struct calendar_edges *e = &c->limit->edges;
	uint32_t window = calendar_edges_passed(e, granted_us);

	if (c->limit->algorithm != ALGORITHM_CALENDAR ||
	    window >= calendar_edges_passed(e, c->latest_us))
		return checker_admit(c, redis_us, cost);
	/* Redis's clock was in the next window, and went back. */
	c->admitted += cost;
	c->before += cost;
	return calendar_edges_passed(e, redis_us) <= window && c->before <= c->limit->limit;
}

void checker_refund(struct checker *c, uint64_t stamp_us, uint64_t cost)
{
	const struct calendar_edges *e = &c->limit->edges;

	c->admitted -= cost;
	if (is_rate(c))
		c->sum -= (int64_t)cost * c->cost_units;
	else if (c->limit->algorithm == ALGORITHM_SLIDING_WINDOW)
		refund_window(c, stamp_us, cost);
	else if (calendar_edges_passed(e, stamp_us) == calendar_edges_passed(e, c->latest_us))
		c->inside -= cost;
}
