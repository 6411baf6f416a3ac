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
	uint64_t n = span_count(outstanding, from, LIMIT_MAX);

	if (!span_at_most(outstanding, span_times(n, from)))
		n++;
	return span_times(n < l->burst ? n : l->burst, interval_of(l));
}

static struct gcra_span load(struct gcra *g, const struct limit *l, uint64_t now_us)
{
	struct gcra_span now = {now_us, 0}, interval = interval_of(l);
	struct gcra_span outstanding = span_minus(g->arrival, now);
	bool same = g->interval.us == interval.us && g->interval.millionths == interval.millionths;

	if (same || l->limit == 0 || span_at_most(g->arrival, now))
		return outstanding;
	outstanding = recount(outstanding, g->interval, l);
	*g = (struct gcra){span_plus(now, outstanding), interval};
	return outstanding;
}

void gcra_init_empty(struct gcra *g, const struct limit *l, uint64_t now_us)
{
	struct gcra_span full = span_times(l->burst, interval_of(l));

	*g = (struct gcra){span_plus((struct gcra_span){now_us, 0}, full), interval_of(l)};
}

/* µs until `cost` fits beside what is outstanding. */
static uint64_t wait_us(struct gcra_span outstanding, const struct limit *l, uint64_t cost)
{
	return span_up_us(span_minus(outstanding, span_times(l->burst - cost, interval_of(l))));
}

void gcra_take(struct gcra *g, const struct limit *l, uint64_t now_us, uint64_t cost,
	       struct limiter_verdict *ret_verdict)
{
	struct limiter_verdict v = {.wait_us = VERDICT_NEVER};
	struct gcra_span outstanding = load(g, l, now_us);
	struct gcra_span interval = interval_of(l);

	assert(cost >= 1 && cost <= LIMIT_MAX);
	if (l->limit == 0) {
		*ret_verdict = v;
		return;
	}
	if (cost <= l->burst) {
		v.wait_us = (int64_t)wait_us(outstanding, l, cost);
		v.allowed = v.wait_us == 0;
	}
	if (v.allowed) {
		outstanding = span_plus(outstanding, span_times(cost, interval));
		*g = (struct gcra){span_plus((struct gcra_span){now_us, 0}, outstanding), interval};
	}
	v.remaining = span_count(span_minus(span_times(l->burst, interval), outstanding), interval,
				 l->burst);
	if (v.allowed && v.remaining < l->burst)
		v.wait_us = (int64_t)wait_us(outstanding, l, v.remaining + 1);
	v.reset_us = span_up_us(outstanding);
	*ret_verdict = v;
}
