#include "core/shares.h"

#include <assert.h>

/* Whole doubles from 2^53 on; below, the fraction is cut off. */
static double whole(double x)
{
	return x < 9007199254740992.0 ? (double)(uint64_t)x : x;
}

static double whole_up(double x)
{
	return whole(x) < x ? whole(x) + 1 : x;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

uint64_t shares_idle_us(const struct limit *parent)
{
	uint64_t us = limit_horizon_us(parent);

	if (us < SHARES_IDLE_MIN_US)
		return SHARES_IDLE_MIN_US;
	return us < SHARES_IDLE_MAX_US ? us : SHARES_IDLE_MAX_US;
}

static double all_weights(const struct shares *p)
{
	double sum = 0;

	for (unsigned i = 0; i < p->n; i++)
		sum += p->child[i].claim.weight;
	return sum;
}

/* The i-th goes; the last takes its place. */
static void drop(struct shares *p, unsigned i)
{
	p->child[i] = p->child[--p->n];
	p->settled = false;
}

static void lapse(struct shares *p, uint64_t now_s, uint64_t idle_us)
{
	for (unsigned i = p->n; i-- > 0;)
		if (now_s > p->child[i].asked_s &&
		    (double)(now_s - p->child[i].asked_s) > (double)idle_us / 1000000)
			drop(p, i);
}

/* ---- Reserves ---- */

static double open_weights(const struct shares *p)
{
	double open = 0;

	for (unsigned i = 0; i < p->n; i++)
		if (p->child[i].reserve_ut < p->caps_ut[i])
			open += p->child[i].claim.weight;
	return open;
}

/* What is free goes into the reserves that have room, by weight, until there is none or all are full. */
static void fill(struct shares *p)
{
	bool full = true;

	while (full && p->free_ut > 0) {
		double open = open_weights(p), rest = p->free_ut;

		full = false;
		for (unsigned i = 0; i < p->n; i++) {
			struct share *s = &p->child[i];
			double room = p->caps_ut[i] - s->reserve_ut, part = rest;

			if (room <= 0)
				continue;
			if (s->claim.weight < open)
				part = whole(rest * s->claim.weight / open);
			part = smaller(part, p->free_ut);
			if (part >= room) {
				part = room;
				full = true;
			}
			s->reserve_ut += part;
			p->sum_ut += part;
			p->free_ut -= part;
		}
	}
}

/* Some went elsewhere: feedback, a lowered limit. */
static void scale_down(struct shares *p, double tokens_ut)
{
	double all = p->sum_ut;

	p->sum_ut = 0;
	for (unsigned i = 0; i < p->n; i++) {
		p->child[i].reserve_ut = whole(p->child[i].reserve_ut * tokens_ut / all);
		p->sum_ut += p->child[i].reserve_ut;
	}
}

static void settle(struct shares *p, double tokens_ut, double cap_ut)
{
	double weights = all_weights(p);

	p->sum_ut = p->all_caps_ut = 0;
	for (unsigned i = 0; i < p->n; i++) {
		struct share *s = &p->child[i];

		p->caps_ut[i] = smaller(whole(cap_ut * s->claim.weight / weights),
					(double)s->claim.most * LIMIT_UT);
		s->reserve_ut = smaller(s->reserve_ut, p->caps_ut[i]);
		p->sum_ut += s->reserve_ut;
		p->all_caps_ut += p->caps_ut[i];
	}
	if (p->sum_ut > tokens_ut)
		scale_down(p, tokens_ut);
	p->free_ut = tokens_ut - p->sum_ut;
	p->cap_ut = cap_ut;
	p->settled = true;
	fill(p);
}

/* ---- Children ---- */

static void evict(struct shares *p)
{
	unsigned oldest = 0;

	for (unsigned i = 1; i < p->n; i++)
		if (p->child[i].asked_s < p->child[oldest].asked_s)
			oldest = i;
	drop(p, oldest);
}

/* A newcomer: everyone gives the part of his reserve that is the newcomer's by weight. */
static void add(struct shares *p, const struct share_claim *claim, double tokens_ut, uint64_t now_s)
{
	double weights, left = tokens_ut;

	if (p->n == SHARES_MAX)
		evict(p);
	weights = all_weights(p);
	for (unsigned i = 0; i < p->n; i++) {
		struct share *s = &p->child[i];

		s->reserve_ut = whole(s->reserve_ut * weights / (weights + claim->weight));
		left -= s->reserve_ut;
	}
	p->child[p->n++] = (struct share){*claim, left > 0 ? left : 0, now_s};
	p->changed = true;
}

static unsigned find(const struct shares *p, uint64_t id)
{
	unsigned i = 0;

	while (i < p->n && p->child[i].claim.id != id)
		i++;
	return i;
}

/* The child asks: its place, with all reserves as they are now. */
static unsigned ask(struct shares *p, const struct share_claim *claim, double tokens_ut,
		    double cap_ut, uint64_t now_s, uint64_t idle_us)
{
	unsigned i;
	struct share *s;

	if (!p->settled || p->free_ut != tokens_ut - p->sum_ut || p->free_ut < 0 ||
	    p->cap_ut != cap_ut)
		settle(p, tokens_ut, cap_ut);
	i = find(p, claim->id);
	if (i == p->n) {
		add(p, claim, tokens_ut, now_s);
		settle(p, tokens_ut, cap_ut);
		return p->n - 1;
	}
	s = &p->child[i];
	if (s->claim.weight != claim->weight || s->claim.most != claim->most) {
		s->claim = *claim;
		p->changed = true;
		settle(p, tokens_ut, cap_ut);
	}
	uint64_t since_s = now_s > s->asked_s ? now_s - s->asked_s : s->asked_s - now_s;

	if ((double)since_s * 8000000 >= (double)idle_us) {
		s->asked_s = now_s;
		p->changed = true;
	}
	return i;
}

/* ---- Decisions ---- */

/* What is kept from the i-th for the others when it takes `cost_ut`: their reserves, unless a full parent would not
 * hold both. */
static double kept(const struct shares *p, unsigned i, double cost_ut)
{
	double others = p->all_caps_ut - p->caps_ut[i], beside = p->cap_ut - cost_ut, sum = 0;

	if (others <= beside)
		return p->sum_ut - p->child[i].reserve_ut;
	for (unsigned j = 0; j < p->n; j++)
		if (j != i)
			sum += smaller(p->child[j].reserve_ut,
				       whole(p->caps_ut[j] * beside / others));
	return sum;
}

/* Parts are rounded down: so many µtokens may be missing to what was promised, and are taken from the others. */
static double rounding(const struct shares *p)
{
	return 2.0 * (p->n - 1);
}

static double room(const struct shares *p, unsigned i)
{
	double tokens = p->sum_ut + p->free_ut, more;
	double room_ut = p->child[i].reserve_ut + p->free_ut + rounding(p);

	if (room_ut < LIMIT_UT && p->cap_ut >= LIMIT_UT) {
		more = tokens - kept(p, i, LIMIT_UT);
		room_ut = more > room_ut ? more : room_ut;
	}
	room_ut = smaller(room_ut, tokens);
	return room_ut > 0 ? room_ut : 0;
}

/* What must come to the parent until `cost_ut` fits the i-th; 0: it fits. At most until the parent is full. */
static double lack(const struct shares *p, unsigned i, double cost_ut)
{
	double tokens = p->sum_ut + p->free_ut, own = p->caps_ut[i] - p->child[i].reserve_ut;
	double need, sum = 0;

	if (cost_ut <= p->child[i].reserve_ut + p->free_ut)
		return 0;
	need = cost_ut + kept(p, i, cost_ut) - tokens;
	if (need <= rounding(p))
		return 0;
	for (unsigned j = 0; j < p->n; j++) {
		double part = whole_up(need * p->child[j].claim.weight / p->child[i].claim.weight);
		double left = p->caps_ut[j] - p->child[j].reserve_ut;

		sum += part < left && need <= own ? part : left;
	}
	if (need > own)
		sum += need - own;
	return smaller(sum, p->cap_ut - tokens);
}

static void spend(struct shares *p, unsigned i, double cost_ut)
{
	double own = cost_ut > p->free_ut ? cost_ut - p->free_ut : 0;

	own = smaller(own,
		      p->child[i].reserve_ut); /* while something is free all reserves are full */
	p->child[i].reserve_ut -= own;
	p->sum_ut -= own;
	p->free_ut -= cost_ut - own;
	p->changed = true;
}

void shares_take(struct shares *p, struct bucket *b, const struct limit *l, uint64_t now_us,
		 const struct share_claim *claim, uint64_t cost,
		 struct limiter_verdict *ret_verdict)
{
	uint64_t idle_us = shares_idle_us(l), debt_ut, tokens_ut;
	double cost_ut = (double)cost * LIMIT_UT, lack_ut, room_ut;
	struct bucket after = *b;
	unsigned i;

	assert(claim->weight >= 1 && claim->weight <= SHARE_WEIGHT_MAX);
	lapse(p, now_us / 1000000, idle_us);
	bucket_take(&after, l, now_us, cost, ret_verdict);
	if (!ret_verdict->allowed)
		*b = after;
	if (!ret_verdict->allowed && ret_verdict->wait_us == VERDICT_NEVER)
		return;
	debt_ut = bucket_debt_ut(b, l, now_us);
	tokens_ut = debt_ut < l->cap_ut ? l->cap_ut - debt_ut : 0;
	i = ask(p, claim, (double)tokens_ut, (double)l->cap_ut, now_us / 1000000, idle_us);
	lack_ut = lack(p, i, cost_ut);
	if (lack_ut > 0) {
		uint64_t beyond_ut = debt_ut > l->cap_ut ? debt_ut - l->cap_ut : 0;
		int64_t wait_us = (int64_t)bucket_time_us(l, now_us, beyond_ut + (uint64_t)lack_ut);

		if (ret_verdict->allowed || wait_us > ret_verdict->wait_us)
			ret_verdict->wait_us = wait_us;
		ret_verdict->remaining = tokens_ut / LIMIT_UT;
		ret_verdict->reset_us = debt_ut > 0 ? bucket_time_us(l, now_us, debt_ut) : 0;
		ret_verdict->allowed = false;
	} else if (ret_verdict->allowed) {
		*b = after;
		spend(p, i, cost_ut);
	}
	room_ut = whole(room(p, i) / LIMIT_UT);
	if (room_ut < (double)ret_verdict->remaining)
		ret_verdict->remaining = (uint64_t)room_ut;
}
