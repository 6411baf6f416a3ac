#include "core/shared_bucket.h"

#include <assert.h>

#include "core/divide.h"

static uint64_t at_most(uint64_t a, uint64_t most)
{
	return a < most ? a : most;
}

static struct limit share_at(const struct shared_bucket_terms *t, uint32_t piece)
{
	return share_of(t->limit, t->plan->piece[piece].parts, SHARE_RATE_WHOLE);
}

/* What is refilled until `to_us` within a piece that began at `begin_us`. */
static uint64_t credit_ut(const struct limit *share, uint64_t begin_us, uint64_t from_us,
			  uint64_t to_us, uint64_t most)
{
	uint64_t first_us = divide_up(begin_us, share->quantum_us) * share->quantum_us;
	uint64_t quanta;

	if (from_us < first_us)
		from_us = first_us;
	if (share->quantum_ut == 0 || to_us <= from_us)
		return 0;
	quanta = to_us / share->quantum_us - from_us / share->quantum_us;
	return quanta >= divide_up(most, share->quantum_ut) ? most : quanta * share->quantum_ut;
}

/* Tokens and outstanding are at most the burst. */
static uint64_t room_ut(const struct shared_bucket *b, const struct limit *share)
{
	uint64_t outstanding_ut = b->leases.amount * LIMIT_UT;

	return share->cap_ut > outstanding_ut ? share->cap_ut - outstanding_ut : 0;
}

/* Written under a clock that was set since: it was so when the plan begins, at most. */
static void begin_anew(struct shared_bucket *b, const struct shared_bucket_terms *t)
{
	const struct share_piece *first = &t->plan->piece[0];
	uint64_t full_ut = share_at(t, 0).cap_ut;

	b->tokens_ut = b->clock == 0 ? full_ut : at_most(b->tokens_ut, full_ut);
	b->clock = t->plan->clock;
	b->at_us = first->from_us;
	for (uint32_t i = 0; i < b->leases.n; i++)
		b->leases.lease[i].end_us = first->from_us + t->lease_max_us;
}

static uint32_t piece_at(const struct share_plan *p, uint64_t at_us)
{
	uint32_t i = p->n - 1;

	while (i > 0 && p->piece[i].from_us > at_us)
		i--;
	return i;
}

/* Goes through all that changed until now, in its order. */
static void advance(struct shared_bucket *b, const struct shared_bucket_terms *t, uint64_t now_us)
{
	const struct share_plan *p = t->plan;
	uint32_t i;

	if (b->clock != p->clock)
		begin_anew(b, t);
	for (i = piece_at(p, b->at_us);;) {
		struct limit share = share_at(t, i);
		uint64_t begin_us = p->piece[i].from_us, to_us = now_us;
		uint64_t room = room_ut(b, &share);

		b->tokens_ut = at_most(b->tokens_ut, room);
		if (i + 1 < p->n)
			to_us = at_most(to_us, p->piece[i + 1].from_us);
		if (b->leases.n > 0)
			to_us = at_most(to_us, b->leases.lease[0].end_us);
		b->tokens_ut += credit_ut(&share, begin_us, b->at_us, to_us, room - b->tokens_ut);
		if (to_us > b->at_us)
			b->at_us = to_us;
		if (b->leases.n > 0 && b->leases.lease[0].end_us <= now_us &&
		    b->leases.lease[0].end_us <= b->at_us)
			outstanding_remove_first(&b->leases);
		else if (i + 1 < p->n && p->piece[i + 1].from_us <= b->at_us)
			i++;
		else
			break;
	}
}

uint64_t shared_bucket_tokens_ut(struct shared_bucket *b, const struct shared_bucket_terms *t,
				 uint64_t now_us)
{
	advance(b, t, now_us);
	return b->tokens_ut;
}

bool shared_bucket_take(struct shared_bucket *b, const struct shared_bucket_terms *t,
			uint64_t now_us, uint64_t cost)
{
	assert(cost >= 1 && cost <= LIMIT_MAX);
	advance(b, t, now_us);
	if (b->tokens_ut < cost * LIMIT_UT)
		return false;
	b->tokens_ut -= cost * LIMIT_UT;
	return true;
}

bool shared_bucket_lease(struct shared_bucket *b, const struct shared_bucket_terms *t,
			 uint64_t now_us, uint64_t id, uint64_t amount, uint64_t end_us)
{
	assert(end_us <= now_us + t->lease_max_us);
	if (!outstanding_has_room(&b->leases, id) || !shared_bucket_take(b, t, now_us, amount))
		return false;
	outstanding_add(&b->leases, id, amount, end_us);
	return true;
}

bool shared_bucket_unlease(struct shared_bucket *b, const struct shared_bucket_terms *t,
			   uint64_t now_us, uint64_t id, uint64_t back)
{
	uint64_t amount;

	advance(b, t, now_us);
	amount = outstanding_remove(&b->leases, id);
	b->tokens_ut += at_most(back, amount) * LIMIT_UT;
	advance(b, t, now_us);
	return amount > 0;
}
