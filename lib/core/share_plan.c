#include "core/share_plan.h"

#include <assert.h>
#include <string.h>

#include "core/divide.h"

void share_plan_init(struct share_plan *p, uint64_t clock, uint64_t now_us, uint32_t parts)
{
	*p = (struct share_plan){.clock = clock, .piece = {{now_us, parts}}, .n = 1};
}

uint32_t share_plan_at(const struct share_plan *p, uint64_t at_us)
{
	uint32_t i = p->n - 1;

	while (i > 0 && p->piece[i].from_us > at_us)
		i--;
	return p->piece[i].parts;
}

/* The two oldest pieces become one. */
static void merge_oldest(struct share_plan *p)
{
	uint32_t least =
		p->piece[0].parts < p->piece[1].parts ? p->piece[0].parts : p->piece[1].parts;

	p->piece[0].parts = least;
	p->n--;
	memmove(&p->piece[1], &p->piece[2], (p->n - 1) * sizeof *p->piece);
}

void share_plan_then(struct share_plan *p, uint64_t at_us, uint32_t parts)
{
	if (p->piece[p->n - 1].parts == parts)
		return;
	assert(p->n < SHARE_PIECES_MAX && at_us >= p->piece[p->n - 1].from_us);
	p->piece[p->n++] = (struct share_piece){at_us, parts};
}

void share_plan_set(struct share_plan *p, uint64_t now_us, uint32_t parts)
{
	while (p->n > 1 && p->piece[p->n - 1].from_us >= now_us)
		p->n--;
	while (p->n > SHARE_PIECES_MAX - SHARE_PIECES_AHEAD)
		merge_oldest(p);
	share_plan_then(p,
			now_us > p->piece[p->n - 1].from_us ? now_us : p->piece[p->n - 1].from_us,
			parts);
}

void share_plan_restart(struct share_plan *p, uint64_t clock, uint64_t now_us, uint32_t parts)
{
	for (uint32_t i = 0; i < p->n; i++)
		parts = p->piece[i].parts < parts ? p->piece[i].parts : parts;
	share_plan_init(p, clock, now_us, parts);
}

uint32_t share_scale_down(uint32_t parts, uint32_t from, uint32_t to)
{
	return (uint32_t)((uint64_t)parts * to / from);
}

uint32_t share_scale_up(uint32_t parts, uint32_t from, uint32_t to)
{
	return (uint32_t)divide_up((uint64_t)parts * to, from);
}

void share_plan_scale(struct share_plan *p, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < p->n; i++)
		p->piece[i].parts = share_scale_down(p->piece[i].parts, from, to);
}

uint32_t share_whole(const struct limit *l)
{
	return l->algorithm == ALGORITHM_TOKEN_BUCKET ? SHARE_RATE_WHOLE : (uint32_t)l->limit;
}

/*
 * `thousandths` of a token in each per_us. Of odd shares the exact quantum would be long, and a refill in few large steps overflows a small burst: then a rate
 * that is at most a thousandth slower.
 */
static void share_rate(struct limit *share, uint64_t thousandths)
{
	uint64_t refill_ut = thousandths * (LIMIT_UT / SHARE_RATE_WHOLE);
	uint64_t divisor = greatest_common_divisor(refill_ut, share->per_us);

	share->quantum_ut = refill_ut / divisor;
	share->quantum_us = share->per_us / divisor;
	if (share->quantum_us > SHARE_QUANTUM_US && share->quantum_ut > SHARE_QUANTUM_UT) {
		share->quantum_us = divide_up(share->per_us, thousandths);
		if (share->quantum_us < SHARE_QUANTUM_US)
			share->quantum_us = SHARE_QUANTUM_US;
		share->quantum_ut = refill_ut * share->quantum_us / share->per_us;
	}
	if (share->quantum_ut / share->quantum_us >= LIMIT_RATE_MAX_UT_PER_US) {
		share->quantum_ut = LIMIT_RATE_MAX_UT_PER_US;
		share->quantum_us = 1;
	}
}

struct limit share_of(const struct limit *l, uint32_t parts, uint32_t whole)
{
	struct limit share = *l;

	assert(parts <= whole);
	if (l->algorithm != ALGORITHM_TOKEN_BUCKET) {
		share.limit = whole == 0 ? 0 : l->limit * parts / whole;
		return share;
	}
	assert(whole == SHARE_RATE_WHOLE);
	share.cap_ut = l->cap_ut / SHARE_RATE_WHOLE * parts;
	share_rate(&share, l->limit * parts);
	return share;
}
