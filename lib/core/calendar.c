#include "core/calendar.h"

#include <assert.h>

#define UNKNOWN_WAIT_US INT64_C(1000000)

uint32_t calendar_edges_passed(const struct calendar_edges *e, uint64_t now_us)
{
	uint32_t low = 0, high = e->n;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (e->edge_us[middle] <= now_us)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t calendar_window_number(const struct calendar_edges *e, uint64_t start_us)
{
	uint32_t n = calendar_edges_passed(e, start_us);

	return n > 0 && e->edge_us[n - 1] == start_us ? e->first + n - 1 : 0;
}

static bool edges_reach(const struct calendar_edges *e, uint64_t now_us)
{
	uint32_t n = calendar_edges_passed(e, now_us);

	return n > 0 && n < e->n;
}

void calendar_init_empty(struct calendar *c, const struct limit *l, uint64_t now_us)
{
	uint32_t n = calendar_edges_passed(&l->edges, now_us);

	*c = (struct calendar){n > 0 ? l->edges.edge_us[n - 1] : 0, l->limit, 0};
}

/* Begins the window that `now_us` is in, unless a later one was begun (the clock went back). Returns its end. */
static uint64_t roll_on(struct calendar *c, const struct calendar_edges *e, uint64_t now_us,
			bool doubted)
{
	uint64_t start_us = e->edge_us[calendar_edges_passed(e, now_us) - 1];
	uint32_t next;

	if (c->start_us < start_us)
		*c = (struct calendar){start_us, 0, c->before + c->used};
	if (c->start_us == start_us && !doubted)
		c->before = 0;
	next = calendar_edges_passed(e, c->start_us);
	return e->edge_us[next < e->n ? next : e->n - 1];
}

static void take(struct calendar *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		 bool doubted, struct limiter_verdict *ret_verdict)
{
	struct limiter_verdict v = {.wait_us = VERDICT_NEVER};
	struct calendar next =
		*c; /* kept only if something is taken: the next limit may have other edges */
	uint64_t end_us, used;

	assert(cost >= 1 && cost <= LIMIT_MAX);
	if (!edges_reach(&l->edges, now_us)) {
		*ret_verdict = (struct limiter_verdict){.wait_us = UNKNOWN_WAIT_US};
		return;
	}
	end_us = roll_on(&next, &l->edges, now_us, doubted);
	used = next.used + next.before;
	v.allowed = used + cost <= l->limit;
	if (v.allowed) {
		next.used += cost;
		used += cost;
		*c = next;
	}
	if (cost <= l->limit)
		v.wait_us = (int64_t)(end_us - now_us);
	if (!v.allowed && cost <= l->limit && next.before > 0)
		v.wait_us = verdict_later_us(0, doubted);
	v.remaining = used < l->limit ? l->limit - used : 0;
	v.reset_us = end_us - now_us;
	*ret_verdict = v;
}

void calendar_take(struct calendar *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		   struct limiter_verdict *ret_verdict)
{
	take(c, l, now_us, cost, false, ret_verdict);
}

void calendar_take_doubted(struct calendar *c, const struct limit *l, uint64_t now_us,
			   uint64_t cost, struct limiter_verdict *ret_verdict)
{
	take(c, l, now_us, cost, true, ret_verdict);
}
