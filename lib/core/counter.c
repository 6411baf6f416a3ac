#include "core/counter.h"

#include <assert.h>

#include "core/divide.h"

void counter_init_empty(struct counter *c, const struct limit *l, uint64_t now_us)
{
	*c = (struct counter){now_us - now_us % l->per_us, 0, l->limit, now_us};
}

/* Ticks of the window before that the sliding window still covers when it was last written. */
static uint64_t ticks_left(const struct counter *c, const struct limit *l)
{
	uint64_t passed_us = c->last_us > c->start_us ? c->last_us - c->start_us : 0;

	passed_us = passed_us < l->per_us ? passed_us : l->per_us;
	return l->window_ticks - passed_us / l->tick_us;
}

/* A window that is not yet over by this clock stays the current one: the clock went back. In doubt all that counted goes
 * on counting, as taken in the window before. */
static void roll_on(struct counter *c, const struct limit *l, uint64_t now_us, bool doubted)
{
	uint64_t start_us = now_us - now_us % l->per_us;

	if (c->start_us >= start_us) {
		c->last_us = doubted ? c->last_us : now_us;
		return;
	}
	if (doubted)
		c->before = divide_up(c->before * ticks_left(c, l), l->window_ticks) + c->current;
	else
		c->before = c->start_us + l->per_us >= start_us ? c->current : 0;
	c->current = 0;
	c->start_us = start_us;
	c->last_us = doubted ? start_us : now_us;
}

/* µs until no more than `ticks` of the window before the one that starts at `start_us` are covered. */
static uint64_t time_us(const struct limit *l, uint64_t now_us, uint64_t start_us, uint64_t ticks)
{
	if (ticks >= l->window_ticks)
		return start_us - now_us;
	if (ticks == 0)
		return start_us + l->per_us - now_us;
	return start_us + (l->window_ticks - ticks) * l->tick_us - now_us;
}

/* The most ticks that `weight` may count for when `room` is left. */
static uint64_t ticks_of(const struct limit *l, uint64_t weight, uint64_t room)
{
	return weight == 0 ? l->window_ticks : room * l->window_ticks / weight;
}

/* 0: it fits. */
static int64_t wait_us(const struct counter *c, const struct limit *l, uint64_t now_us,
		       bool doubted, uint64_t cost)
{
	uint64_t room;

	if (cost > l->limit)
		return VERDICT_NEVER;
	if (c->current + cost > l->limit)
		return verdict_later_us((int64_t)time_us(l, now_us, c->start_us + l->per_us,
							 ticks_of(l, c->current, l->limit - cost)),
					doubted);
	room = l->limit - cost - c->current;
	if (c->before * ticks_left(c, l) <= room * l->window_ticks)
		return 0;
	return verdict_later_us(
		(int64_t)time_us(l, now_us, c->start_us, ticks_of(l, c->before, room)), doubted);
}

static uint64_t remaining(const struct counter *c, const struct limit *l)
{
	uint64_t used = c->before * ticks_left(c, l);
	uint64_t room = c->current < l->limit ? (l->limit - c->current) * l->window_ticks : 0;

	return room > used ? (room - used) / l->window_ticks : 0;
}

static uint64_t reset_us(const struct counter *c, const struct limit *l, uint64_t now_us)
{
	if (c->current > 0)
		return c->start_us + 2 * l->per_us - now_us;
	return c->before > 0 ? c->start_us + l->per_us - now_us : 0;
}

static void take(struct counter *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		 bool doubted, struct limiter_verdict *ret_verdict)
{
	struct limiter_verdict v = {0};
	struct counter next =
		*c; /* kept only if something is taken: the next limit may have another window */

	assert(cost >= 1 && cost <= LIMIT_MAX);
	roll_on(&next, l, now_us, doubted);
	v.wait_us = wait_us(&next, l, now_us, doubted, cost);
	v.allowed = v.wait_us == 0;
	if (v.allowed) {
		next.current += cost;
		*c = next;
	}
	v.remaining = remaining(&next, l);
	if (v.allowed && v.remaining < l->limit)
		v.wait_us = wait_us(&next, l, now_us, doubted, v.remaining + 1);
	v.reset_us = reset_us(&next, l, now_us);
	*ret_verdict = v;
}

void counter_take(struct counter *c, const struct limit *l, uint64_t now_us, uint64_t cost,
		  struct limiter_verdict *ret_verdict)
{
	take(c, l, now_us, cost, false, ret_verdict);
}

void counter_take_doubted(struct counter *c, const struct limit *l, uint64_t now_us, uint64_t cost,
			  struct limiter_verdict *ret_verdict)
{
	take(c, l, now_us, cost, true, ret_verdict);
}
