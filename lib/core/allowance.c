#include "core/allowance.h"

#include <assert.h>
#include <string.h>

enum {
	RATE_MAX = 1000000000,
	COUNT_US =
		200000, /* demand is measured over so long at least: reports may come in close succession */
	LOW_PART = 7, /* an allowance of which one in so many is left, is low */
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- A client ---- */

static void count_demand(struct allowance *a, uint64_t now_us, uint64_t asked)
{
	uint64_t passed_us, rate;

	a->counting = least(a->counting + least(asked, RATE_MAX), RATE_MAX);
	if (a->counted_us == 0) /* nothing is known but that it has begun */
		a->counted_us = now_us > COUNT_US ? now_us - COUNT_US : 0;
	passed_us = now_us - a->counted_us;
	if (passed_us < COUNT_US)
		return;
	rate = least(a->counting * 1000000 / passed_us, RATE_MAX);
	a->rate = (uint32_t)(rate > a->rate ? rate : (a->rate + rate) / 2);
	a->counted_us = now_us;
	a->counting = 0;
}

static void drop_first(struct allowance *a)
{
	a->n--;
	memmove(&a->part[0], &a->part[1], a->n * sizeof a->part[0]);
}

/* Of the oldest first. Those that are over leave: whatever was spent of them is reported by now. */
static void settle(struct allowance *a, uint64_t now_us, uint64_t allowed,
		   struct allowance_settled *ret_settled)
{
	struct allowance_settled *s = ret_settled;

	*s = (struct allowance_settled){.n = 0};
	for (unsigned i = 0; i < a->n && allowed > 0; i++) {
		struct allowance_part *p = &a->part[i];
		uint32_t spent = (uint32_t)least(allowed, p->amount - p->spent);

		if (spent == 0)
			continue;
		p->spent += spent;
		allowed -= spent;
		s->of[s->n].lease = p->lease;
		s->of[s->n++].amount = spent;
	}
	s->beyond = allowed;
	while (a->n > 0 && (a->part[0].spent == a->part[0].amount ||
			    a->part[0].ends_us + ALLOWANCE_DELIVERY_US <= now_us))
		drop_first(a);
}

void allowance_report(struct allowance *a, uint64_t now_us, uint64_t allowed, uint64_t denied,
		      struct allowance_settled *ret_settled)
{
	settle(a, now_us, allowed, ret_settled);
	if (allowed > 0 || denied > 0 || a->reported_us == 0)
		a->asked_us = now_us;
	count_demand(a, now_us, least(allowed, RATE_MAX) + least(denied, RATE_MAX));
	a->reported_us = now_us;
}

uint64_t allowance_left(const struct allowance *a, uint64_t now_us)
{
	const struct allowance_part *last = a->n > 0 ? &a->part[a->n - 1] : NULL;
	uint64_t since_us = a->given_us > a->reported_us ? a->given_us : a->reported_us;
	uint64_t left, guessed;

	if (last == NULL || a->stops_us <= now_us)
		return 0;
	left = last->amount - last->spent;
	guessed = a->rate * (now_us - since_us) / 1000000;
	return left > guessed ? left - guessed : 0;
}

uint32_t allowance_want(const struct allowance *a, uint64_t now_us, uint64_t ttl_us, uint32_t most)
{
	uint64_t needed = 1 + a->rate * (ttl_us / 1000) / 1000 * 11 / 10;

	if (a->n == ALLOWANCE_PARTS_MAX || most == 0)
		return 0;
	if (a->stops_us > now_us + ALLOWANCE_RENEW_US && a->n > 0 &&
	    allowance_left(a, now_us) > a->part[a->n - 1].amount / LOW_PART)
		return 0;
	return (uint32_t)least(needed, most);
}

void allowance_give(struct allowance *a, uint64_t now_us, const struct allowance_part *part,
		    uint64_t ttl_us)
{
	assert(a->n < ALLOWANCE_PARTS_MAX);
	a->part[a->n++] = *part;
	a->given_us = now_us;
	a->stops_us = now_us + ttl_us;
}

void allowance_split(uint64_t whole, const uint32_t *want, unsigned n, unsigned first,
		     uint32_t *ret_given)
{
	uint64_t sum = 0, given = 0;

	for (unsigned i = 0; i < n; i++)
		sum += want[i];
	whole = least(least(whole, sum), RATE_MAX); /* so that nothing below overflows */
	for (unsigned i = 0; i < n; i++) {
		ret_given[i] = sum > 0 ? (uint32_t)(whole * want[i] / sum) : 0;
		given += ret_given[i];
	}
	for (unsigned i = first; given < whole; i = (i + 1) % n)
		if (ret_given[i] < want[i]) {
			ret_given[i]++;
			given++;
		}
}

/* ---- Leases ---- */

bool allowance_leases_add(struct allowance_leases *l, uint64_t id, uint64_t amount,
			  uint64_t ends_us)
{
	if (l->n == ALLOWANCE_LEASES_MAX)
		return false;
	l->lease[l->n++] = (struct allowance_lease){.id = id, .amount = amount, .ends_us = ends_us};
	return true;
}

static void lease_remove(struct allowance_leases *l, unsigned i)
{
	l->lease[i] = l->lease[--l->n];
}

bool allowance_leases_spend(struct allowance_leases *l, uint64_t id, uint64_t amount)
{
	for (unsigned i = 0; i < l->n; i++) {
		if (l->lease[i].id != id)
			continue;
		l->lease[i].spent += amount;
		if (l->lease[i].spent < l->lease[i].amount)
			return false;
		lease_remove(l, i);
		return true;
	}
	return false;
}

void allowance_leases_expire(struct allowance_leases *l, uint64_t now_us)
{
	for (unsigned i = l->n; i-- > 0;)
		if (l->lease[i].ends_us <= now_us)
			lease_remove(l, i);
}
