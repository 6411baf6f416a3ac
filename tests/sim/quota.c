#include "quota.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static enum algorithm algorithm_of(const struct quota *q)
{
	return q->limit->algorithm;
}

void quota_release(struct quota *q)
{
	window_release(&q->window);
}

void quota_copy(struct quota *to, const struct quota *from)
{
	const struct admission_log *log = &from->window.log;
	struct admission_log copy = {0};

	for (size_t i = log->first; i < log->first + log->n; i++)
		if (!admission_log_add(&copy, log->entry[i].at_us, log->entry[i].weight,
				       log->entry[i].name))
			abort();
	quota_release(to);
	*to = *from;
	to->window.log = copy;
}

/* ---- Token bucket ---- */

/* The bucket as an operation finds it. */
static void bucket_begin(struct quota *q, uint64_t now_us)
{
	struct outstanding *o = &q->bucket.leases;

	while (q->mutation == SIM_LAZY_REFILL && o->n > 0 && o->lease[0].end_us <= now_us)
		outstanding_remove_first(o);
	if (q->mutation == SIM_CLOCK_BACK_REFILLS && now_us < q->bucket.bucket.stamp_us)
		q->bucket.bucket.stamp_us = now_us - now_us % BUCKET_STAMP_US;
}

static struct limiter_verdict bucket_look(const struct quota *q, uint64_t now_us, uint64_t cost)
{
	struct quota copy = *q;
	struct limiter_verdict v;

	bucket_begin(&copy, now_us);
	leased_bucket_take(&copy.bucket, q->limit, now_us, false, cost, &v);
	return v;
}

static void bucket_lease(struct quota *q, uint64_t now_us, uint64_t amount, uint64_t id,
			 uint64_t end_us)
{
	struct leased_bucket_request r = {amount, amount, 1, id, end_us - now_us};
	struct limiter_verdict v;
	uint64_t granted;

	bucket_begin(q, now_us);
	if (!leased_bucket_lease(&q->bucket, q->limit, now_us, false, &r, &granted, &v))
		assert(v.allowed); /* an ordinary take: nobody may keep it for later, and nobody will */
}

static uint64_t bucket_give_above(struct quota *q, uint64_t cost)
{
	uint64_t debt_ut = q->bucket.bucket.debt_ut, given_ut = cost * LIMIT_UT;

	q->bucket.bucket.debt_ut -= given_ut < debt_ut ? given_ut : debt_ut;
	return cost;
}

/* ---- Sliding window ---- */

static uint64_t window_room(const struct quota *q, uint64_t now_us)
{
	uint64_t used = admission_log_used(&q->window.log, now_us, q->limit->per_us, false);

	return used < q->limit->limit ? q->limit->limit - used : 0;
}

static bool window_leasable(const struct quota *q, uint64_t now_us, uint64_t id)
{
	const struct admission_log *log = &q->window.log;
	unsigned ahead = 0;

	for (size_t i = log->first + log->n; i > log->first && log->entry[i - 1].at_us > now_us;
	     i--)
		ahead += log->entry[i - 1].name == id ? OUTSTANDING_MAX : 1;
	return ahead < OUTSTANDING_MAX;
}

static void log_add(struct admission_log *log, uint64_t at_us, uint64_t weight, uint64_t name)
{
	if (weight > 0 && !admission_log_add(log, at_us, weight, name))
		abort();
}

static bool window_unlease(struct quota *q, uint64_t now_us, uint64_t id, uint64_t back)
{
	struct admission *entry = admission_log_find(&q->window.log, id);
	uint64_t weight;

	if (entry == NULL || entry->at_us <= now_us)
		return false;
	weight = entry->weight;
	admission_log_remove(&q->window.log, entry);
	log_add(&q->window.log, now_us, back < weight ? weight - back : 0, 0);
	return true;
}

static uint64_t window_give(struct quota *q, uint64_t now_us, uint64_t stamp_us, uint64_t cost)
{
	struct admission_log *log = &q->window.log;

	for (size_t i = log->first; i < log->first + log->n; i++) {
		struct admission *e = &log->entry[i];
		uint64_t given = cost < e->weight ? cost : e->weight;
		struct admission rest = {e->at_us, e->weight - given, 0};

		if (e->at_us != stamp_us || e->name != 0 || stamp_us + q->limit->per_us <= now_us)
			continue;
		admission_log_remove(log, e);
		log_add(log, rest.at_us, rest.weight, 0);
		return given;
	}
	return 0;
}

/* ---- Calendar ---- */

/* Begins the window of now, unless a later one has begun; what has ended is outstanding no longer. Returns its end. */
static uint64_t calendar_begin(struct quota *q, uint64_t now_us)
{
	const struct calendar_edges *e = &q->limit->edges;
	uint64_t start_us = e->edge_us[calendar_edges_passed(e, now_us) - 1];

	if (q->calendar.start_us < start_us) {
		q->calendar = (struct calendar){start_us, 0, 0};
		q->leases = (struct outstanding){0};
	}
	while (q->leases.n > 0 && q->leases.lease[0].end_us <= now_us)
		outstanding_remove_first(&q->leases);
	return e->edge_us[calendar_edges_passed(e, q->calendar.start_us)];
}

static uint64_t calendar_room(const struct quota *q, uint64_t now_us)
{
	struct quota copy = *q;

	calendar_begin(&copy, now_us);
	return copy.calendar.used < q->limit->limit ? q->limit->limit - copy.calendar.used : 0;
}

static bool calendar_leasable(const struct quota *q, uint64_t now_us, uint64_t id, uint64_t end_us)
{
	struct quota copy = *q;
	uint64_t stop_us = calendar_begin(&copy, now_us);

	return now_us >= copy.calendar.start_us && outstanding_has_room(&copy.leases, id) &&
	       (end_us <= stop_us || q->mutation == SIM_CALENDAR_OUTLIVES);
}

/* Nothing is written where nothing changed, not even that a window began. */
static bool calendar_unlease(struct quota *q, uint64_t now_us, uint64_t id, uint64_t back)
{
	struct quota next = *q;
	uint64_t amount;

	calendar_begin(&next, now_us);
	amount = outstanding_remove(&next.leases, id);
	if (amount == 0)
		return false;
	next.calendar.used -= back < amount ? back : amount;
	*q = next;
	return true;
}

static uint64_t calendar_give(struct quota *q, uint64_t now_us, uint64_t stamp_us, uint64_t cost)
{
	struct quota next = *q;
	uint64_t given;

	calendar_begin(&next, now_us);
	given = next.calendar.used - next.leases.amount;
	given = cost < given ? cost : given;
	if (stamp_us < next.calendar.start_us || given == 0)
		return 0;
	next.calendar.used -= given;
	*q = next;
	return given;
}

/* ---- Any ---- */

uint64_t quota_room(const struct quota *q, uint64_t now_us)
{
	struct limiter_verdict v;
	struct gcra gcra = q->gcra;

	switch (algorithm_of(q)) {
	case ALGORITHM_TOKEN_BUCKET:
		v = bucket_look(q, now_us, 1);
		break;
	case ALGORITHM_SLIDING_WINDOW:
		return window_room(q, now_us);
	case ALGORITHM_CALENDAR:
		return calendar_room(q, now_us);
	default:
		gcra_take(&gcra, q->limit, now_us, 1, &v);
	}
	return v.allowed ? v.remaining + 1 : 0;
}

uint64_t quota_wait_us(const struct quota *q, uint64_t now_us, uint64_t cost)
{
	struct quota copy = *q;
	struct limiter_verdict v;

	switch (algorithm_of(q)) {
	case ALGORITHM_TOKEN_BUCKET:
		v = bucket_look(q, now_us, cost);
		break;
	case ALGORITHM_SLIDING_WINDOW:
		admission_log_verdict(&q->window.log, q->limit->limit, now_us, q->limit->per_us,
				      cost, false, false, &v);
		break;
	case ALGORITHM_CALENDAR:
		return calendar_begin(&copy, now_us) - now_us;
	default:
		gcra_take(&copy.gcra, q->limit, now_us, cost, &v);
	}
	return v.wait_us < 0 ? LIMIT_FOREVER_US : (uint64_t)v.wait_us;
}

void quota_take(struct quota *q, uint64_t now_us, uint64_t cost)
{
	struct limiter_verdict v;

	switch (algorithm_of(q)) {
	case ALGORITHM_TOKEN_BUCKET:
		bucket_begin(q, now_us);
		leased_bucket_take(&q->bucket, q->limit, now_us, false, cost, &v);
		break;
	case ALGORITHM_SLIDING_WINDOW:
		window_take(&q->window, q->limit, now_us, cost, &v);
		break;
	case ALGORITHM_CALENDAR:
		calendar_begin(q, now_us);
		calendar_take(&q->calendar, q->limit, now_us, cost, &v);
		break;
	default:
		gcra_take(&q->gcra, q->limit, now_us, cost, &v);
	}
	assert(v.allowed);
}

bool quota_leasable(const struct quota *q, uint64_t now_us, uint64_t id, uint64_t end_us)
{
	switch (algorithm_of(q)) {
	case ALGORITHM_TOKEN_BUCKET:
		return outstanding_has_room(&q->bucket.leases, id);
	case ALGORITHM_SLIDING_WINDOW:
		return window_leasable(q, now_us, id);
	case ALGORITHM_CALENDAR:
		return calendar_leasable(q, now_us, id, end_us);
	default:
		return false;
	}
}

void quota_lease(struct quota *q, uint64_t now_us, uint64_t amount, uint64_t id, uint64_t end_us)
{
	if (algorithm_of(q) == ALGORITHM_TOKEN_BUCKET) {
		bucket_lease(q, now_us, amount, id, end_us);
	} else if (algorithm_of(q) == ALGORITHM_SLIDING_WINDOW) {
		admission_log_expire(&q->window.log, now_us, q->limit->per_us);
		log_add(&q->window.log, q->mutation == SIM_WINDOW_AT_BEGIN ? now_us : end_us,
			amount, id);
	} else {
		calendar_begin(q, now_us);
		q->calendar.used += amount;
		outstanding_add(&q->leases, id, amount, end_us);
	}
}

static bool unlease(struct quota *q, uint64_t now_us, uint64_t id, uint64_t back)
{
	uint64_t given;

	switch (algorithm_of(q)) {
	case ALGORITHM_TOKEN_BUCKET:
		bucket_begin(q, now_us);
		return leased_bucket_unlease(&q->bucket, q->limit, now_us, false, id, back, &given);
	case ALGORITHM_SLIDING_WINDOW:
		return window_unlease(q, now_us, id, back);
	case ALGORITHM_CALENDAR:
		return calendar_unlease(q, now_us, id, back);
	default:
		return false;
	}
}

bool quota_unlease(struct quota *q, uint64_t now_us, uint64_t id, uint64_t back)
{
	bool known = unlease(q, now_us, id, back);

	if (!known && back > 0 && q->mutation == SIM_RETURN_TWICE) {
		if (algorithm_of(q) == ALGORITHM_TOKEN_BUCKET)
			bucket_give_above(q, back);
		else if (algorithm_of(q) == ALGORITHM_CALENDAR)
			q->calendar.used -= back < q->calendar.used ? back : q->calendar.used;
	}
	return known;
}

uint64_t quota_give(struct quota *q, uint64_t now_us, uint64_t stamp_us, uint64_t cost)
{
	switch (algorithm_of(q)) {
	case ALGORITHM_TOKEN_BUCKET:
		bucket_begin(q, now_us);
		if (q->mutation == SIM_REFUND_ABOVE)
			return bucket_give_above(q, cost);
		return leased_bucket_give(&q->bucket, q->limit, now_us, false, cost);
	case ALGORITHM_SLIDING_WINDOW:
		return window_give(q, now_us, stamp_us, cost);
	case ALGORITHM_CALENDAR:
		return calendar_give(q, now_us, stamp_us, cost);
	default:
		return 0; /* lua/gcra.lua gives back; its twin does not */
	}
}
