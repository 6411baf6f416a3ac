#include "core/gcra.h"

#include <assert.h>

#define MILLION UINT64_C(1000000)

static struct gcra_span span_times(uint64_t n, struct gcra_span s)
{
	return (struct gcra_span){n * s.us + n * s.millionths / MILLION,
				  n * s.millionths % MILLION};
}

static struct gcra_span span_plus(struct gcra_span a, struct gcra_span b)
{
	uint64_t millionths = a.millionths + b.millionths;

	return (struct gcra_span){a.us + b.us + millionths / MILLION, millionths % MILLION};
}

static bool span_at_most(struct gcra_span a, struct gcra_span b)
{
	return a.us < b.us || (a.us == b.us && a.millionths <= b.millionths);
}

/* `a` - `b`, zero if that is negative. */
static struct gcra_span span_minus(struct gcra_span a, struct gcra_span b)
{
	if (span_at_most(a, b))
		return (struct gcra_span){0, 0};
	if (a.millionths < b.millionths)
		return (struct gcra_span){a.us - b.us - 1, a.millionths + MILLION - b.millionths};
	return (struct gcra_span){a.us - b.us, a.millionths - b.millionths};
}

static bool span_is_zero(struct gcra_span s)
{
	return s.us == 0 && s.millionths == 0;
}

static uint64_t span_up_us(struct gcra_span s)
{
	return s.us + (s.millionths > 0);
}

static struct gcra_span interval_of(const struct limit *l)
{
	return (struct gcra_span){l->interval_us, l->interval_millionths};
}

/* Whole intervals in `s`, at most `most`: by halving, for the exact quotient needs 128 bits. */
static uint64_t span_count(struct gcra_span s, struct gcra_span interval, uint64_t most)
{
	uint64_t low = 0, high = most;

	if (interval.us > 0 && s.us / interval.us < high)
		high = s.us / interval.us;
	while (low < high) {
		uint64_t middle = low + (high - low + 1) / 2;

		if (span_at_most(span_times(middle, interval), s))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Under another limit as many intervals are outstanding as under the old one, a part counting as one. */
static struct gcra_span recount(struct gcra_span outstanding, struct gcra_span from,
				const struct limit *l)
{
	uint64_t n;

	if (span_is_zero(outstanding))
		return outstanding;
	n = span_count(outstanding, from, LIMIT_MAX);
	if (!span_at_most(outstanding, span_times(n, from)))
		n++;
	return span_times(n < l->burst ? n : l->burst, interval_of(l));
}

/* What is outstanding, and what of it already was when it was last written without doubt. */
struct view {
	struct gcra_span outstanding, base;
	bool doubted;
};

static struct gcra_span at_us(uint64_t us)
{
	return (struct gcra_span){us, 0};
}

/* The arrival time with what was taken in doubt. */
static struct gcra_span arrival_of(const struct gcra *g, uint64_t now_us)
{
	uint64_t stop_us = g->stop_us < now_us ? g->stop_us : now_us;

	if (span_is_zero(g->taken))
		return g->arrival;
	return span_plus(g->arrival.us < stop_us ? at_us(stop_us) : g->arrival, g->taken);
}

static void keep(struct gcra *g, const struct limit *l, uint64_t now_us, const struct view *v)
{
	uint64_t last_us = v->doubted && g->arrival.us > 0 ? g->last_us : now_us;
	uint64_t stop_us = g->stop_us > now_us ? g->stop_us : now_us;

	*g = (struct gcra){.interval = interval_of(l), .last_us = last_us};
	g->arrival = span_plus(at_us(last_us), v->doubted ? v->base : v->outstanding);
	if (!v->doubted)
		return;
	g->taken = span_minus(v->outstanding, v->base);
	g->stop_us = stop_us;
}

static struct view load(struct gcra *g, const struct limit *l, uint64_t now_us, bool doubted)
{
	struct gcra_span interval = interval_of(l);
	bool other =
		(g->interval.us != interval.us || g->interval.millionths != interval.millionths) &&
		l->limit > 0;
	struct view v = {.doubted = doubted};

	if (doubted) {
		struct gcra_span taken = g->taken;

		v.base = span_minus(g->arrival, at_us(g->last_us));
		if (other) {
			v.base = recount(v.base, g->interval, l);
			taken = recount(taken, g->interval, l);
		}
		v.outstanding = span_plus(v.base, taken);
		return v;
	}
	v.outstanding = span_minus(arrival_of(g, now_us), at_us(now_us));
	if (other && !span_is_zero(v.outstanding)) {
		v.outstanding = recount(v.outstanding, g->interval, l);
		keep(g, l, now_us, &v);
	}
	return v;
}

void gcra_init_empty(struct gcra *g, const struct limit *l, uint64_t now_us)
{
	struct gcra_span full = span_times(l->burst, interval_of(l));

	*g = (struct gcra){.arrival = span_plus(at_us(now_us), full),
			   .interval = interval_of(l),
			   .last_us = now_us};
}

/* µs until `cost` fits beside what is outstanding. */
static uint64_t wait_us(struct gcra_span outstanding, const struct limit *l, uint64_t cost)
{
	return span_up_us(span_minus(outstanding, span_times(l->burst - cost, interval_of(l))));
}

static void take(struct gcra *g, const struct limit *l, uint64_t now_us, uint64_t cost,
		 bool doubted, struct limiter_verdict *ret_verdict)
{
	struct limiter_verdict v = {.wait_us = VERDICT_NEVER};
	struct view view = load(g, l, now_us, doubted);
	struct gcra_span *outstanding = &view.outstanding;
	struct gcra_span interval = interval_of(l);

	assert(cost >= 1 && cost <= LIMIT_MAX);
	if (l->limit == 0) {
		*ret_verdict = v;
		return;
	}
	if (cost <= l->burst) {
		v.wait_us = (int64_t)wait_us(*outstanding, l, cost);
		v.allowed = v.wait_us == 0;
	}
	if (v.allowed) {
		*outstanding = span_plus(*outstanding, span_times(cost, interval));
		keep(g, l, now_us, &view);
	}
	v.remaining = span_count(span_minus(span_times(l->burst, interval), *outstanding), interval,
				 l->burst);
	if (v.allowed && v.remaining < l->burst)
		v.wait_us = (int64_t)wait_us(*outstanding, l, v.remaining + 1);
	if (v.wait_us > 0)
		v.wait_us = verdict_later_us(v.wait_us, doubted);
	v.reset_us = span_up_us(*outstanding);
	*ret_verdict = v;
}

void gcra_take(struct gcra *g, const struct limit *l, uint64_t now_us, uint64_t cost,
	       struct limiter_verdict *ret_verdict)
{
	take(g, l, now_us, cost, false, ret_verdict);
}

void gcra_take_doubted(struct gcra *g, const struct limit *l, uint64_t now_us, uint64_t cost,
		       struct limiter_verdict *ret_verdict)
{
	take(g, l, now_us, cost, true, ret_verdict);
}
