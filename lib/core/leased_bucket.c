#include "core/leased_bucket.h"

#include <assert.h>

/* A bucket at an instant: what the state says, refilled. Kept only if something changes. */
struct view {
	uint64_t debt_ut;
	uint64_t time_us; /* refill begins here: now, or later if the clock went back */
	struct outstanding leases;
	bool changed; /* to be kept even if nothing is taken */
	bool doubted; /* it stands still: neither refilled, nor is a lease dropped */
};

static uint64_t floor_ut(const struct outstanding *leases)
{
	return leases->amount * LIMIT_UT;
}

/* Refills up to `to_us`, before which no lease ends. */
static void refill(struct view *v, const struct limit *l, uint64_t to_us)
{
	uint64_t most = v->debt_ut - floor_ut(&v->leases);

	if (to_us <= v->time_us)
		return;
	v->debt_ut -= bucket_credit_ut(l, v->time_us, to_us, most);
	v->time_us = to_us;
}

static void view_advance(struct view *v, const struct limit *l, uint64_t now_us)
{
	while (v->leases.n > 0 && v->leases.lease[0].end_us <= now_us) {
		refill(v, l, v->leases.lease[0].end_us);
		outstanding_remove_first(&v->leases);
	}
	refill(v, l, now_us);
	outstanding_remove(&v->leases, OUTSTANDING_DOUBTED);
}

/* Without a lease left it is an ordinary bucket. Should the clock have gone back, that begins to refill at a multiple of 100 ms. */
static void view_settle(struct view *v, uint64_t now_us)
{
	if (v->leases.n > 0)
		return;
	if (v->debt_ut == 0)
		v->time_us = now_us;
	else if (v->time_us > now_us)
		v->time_us = (v->time_us + BUCKET_STAMP_US - 1) / BUCKET_STAMP_US * BUCKET_STAMP_US;
}

/* The limit was lowered: what is beyond it, and not outstanding, is forgotten, now. */
static void view_cap(struct view *v, const struct limit *l)
{
	uint64_t floor = floor_ut(&v->leases);

	if (v->debt_ut <= floor || v->debt_ut <= bucket_most_ut(l))
		return;
	v->debt_ut = floor > l->cap_ut ? floor : l->cap_ut;
	v->changed = true;
}

/* When in its 100 ms an ordinary bucket was written is not known: that is refilled. */
static void view_stand(struct view *v, const struct limit *l, uint64_t now_us, bool is_exact)
{
	uint64_t to_us = v->time_us + BUCKET_STAMP_US;

	if (!is_exact && v->time_us <= now_us)
		refill(v, l, to_us < now_us ? to_us : now_us);
	if (v->debt_ut == 0)
		v->time_us = now_us;
}

static struct view view_of(const struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			   bool doubted)
{
	struct view v = {.debt_ut = b->bucket.debt_ut,
			 .time_us = b->bucket.stamp_us,
			 .leases = b->leases,
			 .doubted = doubted};

	if (doubted) {
		view_stand(&v, l, now_us, b->is_exact);
		return v;
	}
	if (b->is_exact) {
		view_advance(&v, l, now_us);
		view_settle(&v, now_us);
		v.changed = v.leases.n == 0;
	} else {
		v.time_us = v.debt_ut > 0 && v.time_us > now_us ? v.time_us : now_us;
		v.debt_ut = bucket_debt_ut(&b->bucket, l, now_us);
	}
	view_cap(&v, l);
	return v;
}

static void view_keep(const struct view *v, struct leased_bucket *b, const struct limit *l,
		      uint64_t now_us)
{
	b->leases = v->leases;
	b->bucket = (struct bucket){(v->debt_ut + l->scale_ut - 1) / l->scale_ut * l->scale_ut,
				    v->time_us};
	b->is_exact = v->debt_ut > 0 && (v->leases.n > 0 || v->doubted);
	if (!b->is_exact)
		bucket_set_debt(&b->bucket, l, now_us, v->debt_ut);
}

static void view_take(struct view *v, uint64_t now_us, uint64_t cost)
{
	uint64_t end_us;

	v->debt_ut += cost * LIMIT_UT;
	if (!v->doubted)
		return;
	end_us = outstanding_end_us(&v->leases, OUTSTANDING_DOUBTED);
	cost += outstanding_remove(&v->leases, OUTSTANDING_DOUBTED);
	outstanding_add(&v->leases, OUTSTANDING_DOUBTED, cost, end_us > now_us ? end_us : now_us);
}

/* Gives back up to `cost` of what was taken in doubt. Returns how much. */
static uint64_t view_untake(struct view *v, uint64_t cost)
{
	uint64_t end_us = outstanding_end_us(&v->leases, OUTSTANDING_DOUBTED);
	uint64_t taken = outstanding_remove(&v->leases, OUTSTANDING_DOUBTED);
	uint64_t undone = cost < taken ? cost : taken;

	if (undone < taken)
		outstanding_add(&v->leases, OUTSTANDING_DOUBTED, taken - undone, end_us);
	v->debt_ut -= undone * LIMIT_UT;
	return undone;
}

/* µs from now until the debt is `goal_ut`. */
static uint64_t time_us(const struct view *v, const struct limit *l, uint64_t now_us,
			uint64_t goal_ut)
{
	struct view ahead = *v;
	uint64_t us;

	if (v->leases.n == 0 || v->doubted)
		return bucket_time_us(l, now_us, v->debt_ut - goal_ut);
	while (ahead.leases.n > 0) {
		uint64_t end_us = ahead.leases.lease[0].end_us;

		us = bucket_time_us(l, ahead.time_us, ahead.debt_ut - goal_ut);
		if (end_us > ahead.time_us && goal_ut >= floor_ut(&ahead.leases) &&
		    us <= end_us - ahead.time_us)
			return us + ahead.time_us - now_us;
		refill(&ahead, l, end_us);
		outstanding_remove_first(&ahead.leases);
	}
	us = bucket_time_us(l, ahead.time_us, ahead.debt_ut - goal_ut) + (ahead.time_us - now_us);
	return us < LIMIT_FOREVER_US ? us : LIMIT_FOREVER_US;
}

/* What an answer says; `cost` was taken, or, if not `allowed`, would have to wait. */
static struct limiter_verdict view_verdict(const struct view *v, const struct limit *l,
					   uint64_t now_us, uint64_t cost, bool allowed)
{
	struct limiter_verdict r = {.allowed = allowed, .wait_us = VERDICT_NEVER};

	if (v->debt_ut < l->cap_ut)
		r.remaining = (l->cap_ut - v->debt_ut) / LIMIT_UT;
	if (!allowed && cost * LIMIT_UT <= l->cap_ut)
		r.wait_us = verdict_later_us(
			(int64_t)time_us(v, l, now_us, l->cap_ut - cost * LIMIT_UT), v->doubted);
	else if (allowed)
		r.wait_us =
			(int64_t)time_us(v, l, now_us, l->cap_ut - (r.remaining + 1) * LIMIT_UT);
	if (v->debt_ut > 0)
		r.reset_us = time_us(v, l, now_us, 0);
	return r;
}

/* Whether `cost` fits; if not, what there is to keep is kept and the verdict filled in. */
static bool fits(struct leased_bucket *b, const struct limit *l, uint64_t now_us, bool doubted,
		 uint64_t cost, struct view *ret_view, struct limiter_verdict *ret_verdict)
{
	assert(cost >= 1 && cost <= LIMIT_MAX);
	if (l->cap_ut == 0) {
		*ret_verdict = (struct limiter_verdict){.wait_us = VERDICT_NEVER};
		return false;
	}
	*ret_view = view_of(b, l, now_us, doubted);
	if (ret_view->debt_ut + cost * LIMIT_UT <= l->cap_ut)
		return true;
	if (ret_view->changed)
		view_keep(ret_view, b, l, now_us);
	*ret_verdict = view_verdict(ret_view, l, now_us, cost, false);
	return false;
}

void leased_bucket_take(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			bool doubted, uint64_t cost, struct limiter_verdict *ret_verdict)
{
	struct view v;

	if (!fits(b, l, now_us, doubted, cost, &v, ret_verdict))
		return;
	view_take(&v, now_us, cost);
	view_keep(&v, b, l, now_us);
	*ret_verdict = view_verdict(&v, l, now_us, cost, true);
}

bool leased_bucket_lease(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			 bool doubted, const struct leased_bucket_request *r, uint64_t *ret_granted,
			 struct limiter_verdict *ret_verdict)
{
	struct view v;
	uint64_t n;
	bool leased;

	if (!fits(b, l, now_us, doubted, r->cost, &v, ret_verdict))
		return false;
	leased = !doubted && outstanding_has_room(&v.leases, r->id);
	n = (l->cap_ut - v.debt_ut) / LIMIT_UT / r->sharers;
	n = n < r->amount ? n : r->amount;
	n = leased && n > r->cost ? n : r->cost;
	view_take(&v, now_us, n);
	if (leased)
		outstanding_add(&v.leases, r->id, n, now_us + r->hold_us);
	view_keep(&v, b, l, now_us);
	*ret_granted = n;
	*ret_verdict = view_verdict(&v, l, now_us, r->cost, true);
	return leased;
}

bool leased_bucket_unlease(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			   bool doubted, uint64_t id, uint64_t back, uint64_t *ret_given)
{
	struct view v;
	uint64_t amount;

	if (l->cap_ut == 0 || doubted)
		return false;
	v = view_of(b, l, now_us, false);
	amount = outstanding_remove(&v.leases, id);
	if (amount == 0)
		return false;
	back = back < amount ? back : amount;
	v.debt_ut -= back * LIMIT_UT;
	view_settle(&v, now_us);
	view_cap(&v, l);
	view_keep(&v, b, l, now_us);
	*ret_given = back;
	return true;
}

uint64_t leased_bucket_give(struct leased_bucket *b, const struct limit *l, uint64_t now_us,
			    bool doubted, uint64_t cost)
{
	struct view v;
	uint64_t most, undone, given_ut;

	if (l->cap_ut == 0)
		return 0;
	v = view_of(b, l, now_us, doubted);
	undone = doubted ? view_untake(&v, cost) : 0;
	most = v.debt_ut - floor_ut(&v.leases);
	given_ut = (cost - undone) * LIMIT_UT;
	given_ut = given_ut < most ? given_ut : most;
	if (undone + given_ut == 0)
		return 0;
	v.debt_ut -= given_ut;
	view_keep(&v, b, l, now_us);
	return undone + (given_ut + LIMIT_UT - 1) / LIMIT_UT;
}
