#include "lease_schedule.h"

#include <stdlib.h>

#include "core/script.h"

static void spend(struct lease_schedule *s, uint64_t at_us, uint64_t cost)
{
	if (cost == 0)
		return;
	if (s->n_spent == SPENT_MAX)
		abort();
	s->spent[s->n_spent++] = (struct spent){at_us, cost};
}

static void spend_lease(struct lease_schedule *s, struct lease_holder *h, uint64_t at_us,
			uint64_t cost)
{
	spend(s, at_us, cost);
	h->left -= cost;
	s->n_by_lease += cost;
}

/* Three in four spend the rest in the last µs. Of the others some return it, too late. */
static void end_leases(struct lease_schedule *s, const struct lease_store *store)
{
	for (int i = 0; i < HOLDERS; i++) {
		struct lease_holder *h = &s->holder[i];

		if (h->id == 0 || h->end_us > s->now_us)
			continue;
		if (dice_below(&s->dice, 4) > 0)
			spend_lease(s, h, h->end_us - 1, h->left);
		else if (dice_below(&s->dice, 2) == 0)
			store->unlease(store->state, s->now_us, h->id, h->left);
		h->id = 0;
	}
}

static struct lease_holder *any_holder(struct lease_schedule *s, bool with_lease)
{
	struct lease_holder *h = &s->holder[dice_below(&s->dice, HOLDERS)];

	return (h->id != 0) == with_lease ? h : NULL;
}

static void begin_lease(struct lease_schedule *s, const struct lease_store *store)
{
	struct lease_holder *h = any_holder(s, false);
	uint64_t ttl_us = SCRIPT_LEASE_TTL_MIN_US + dice_below(&s->dice, s->ttl_max_us);
	uint64_t granted;
	bool leased;

	if (h == NULL)
		return;
	granted = store->lease(store->state, s->now_us, ++s->last_id,
			       1 + dice_below(&s->dice, s->amount_max), 1 + dice_below(&s->dice, 3),
			       ttl_us, &leased);
	if (granted > 0 && !leased)
		spend(s, s->now_us, granted);
	if (granted == 0 || !leased || dice_below(&s->dice, 10) == 0) /* or the reply is lost */
		return;
	s->n_leases++;
	*h = (struct lease_holder){s->last_id, granted, s->now_us + script_lease_hold_us(ttl_us)};
	if (dice_below(&s->dice, 5) == 0)
		spend_lease(s, h, s->now_us, h->left);
}

static void return_lease(struct lease_schedule *s, const struct lease_store *store)
{
	struct lease_holder *h = any_holder(s, true);
	uint64_t times = dice_below(&s->dice, 3); /* 0: it gets lost */

	if (h == NULL)
		return;
	if (dice_below(&s->dice, 2) == 0)
		spend_lease(s, h, s->now_us, dice_below(&s->dice, h->left + 1));
	while (times-- > 0)
		store->unlease(store->state, s->now_us, h->id, h->left);
	h->id = 0;
}

static void take(struct lease_schedule *s, const struct lease_store *store, uint64_t cost,
		 uint64_t times)
{
	while (times-- > 0 && store->take(store->state, s->now_us, cost))
		spend(s, s->now_us, cost);
}

static void step(struct lease_schedule *s, const struct lease_store *store)
{
	struct lease_holder *h;

	s->now_us += dice_below(&s->dice,
				dice_below(&s->dice, 12) == 0 ? 40 * s->step_us : 2 * s->step_us);
	end_leases(s, store);
	switch (dice_below(&s->dice, 8)) {
	case 0:
	case 1:
	case 2:
		begin_lease(s, store);
		break;
	case 3:
		return_lease(s, store);
		break;
	case 4:
		h = any_holder(s, true);
		if (h != NULL)
			spend_lease(s, h, s->now_us, dice_below(&s->dice, h->left + 1));
		break;
	case 5:
		take(s, store, 1, s->amount_max);
		break;
	default:
		take(s, store, 1 + dice_below(&s->dice, 3), 1 + dice_below(&s->dice, 3));
	}
}

static int by_time(const void *a, const void *b)
{
	const struct spent *x = a, *y = b;

	return (x->at_us > y->at_us) - (x->at_us < y->at_us);
}

void lease_schedule_run(struct lease_schedule *s, const struct lease_store *store)
{
	s->now_us = s->start_us;
	for (unsigned i = 0; i < s->steps; i++)
		step(s, store);
	qsort(s->spent, s->n_spent, sizeof *s->spent, by_time);
}

/* A quantum at the instant of an admission may have been there before it: only those after the first count. */
bool spent_within_bucket(const struct spent *s, size_t n, const struct limit *l)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t sum_ut = 0;

		for (size_t j = i; j < n; j++) {
			uint64_t quanta = s[j].at_us / l->quantum_us - s[i].at_us / l->quantum_us;

			sum_ut += s[j].cost * LIMIT_UT;
			if (sum_ut > l->cap_ut + quanta * l->quantum_ut)
				return false;
		}
	}
	return true;
}

bool spent_within_windows(const struct spent *s, size_t n, const struct limit *l)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t sum = 0;

		for (size_t j = i; j < n && s[j].at_us < s[i].at_us + l->per_us; j++)
			sum += s[j].cost;
		if (sum > l->limit)
			return false;
	}
	return true;
}

bool spent_within_calendar(const struct spent *s, size_t n, const struct limit *l)
{
	const struct calendar_edges *e = &l->edges;
	size_t i = 0;

	for (uint32_t w = 0; w + 1 < e->n; w++) {
		uint64_t sum = 0;

		for (; i < n && s[i].at_us < e->edge_us[w + 1]; i++)
			sum += s[i].cost;
		if (sum > l->limit)
			return false;
	}
	return i == n;
}
