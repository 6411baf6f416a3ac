#include "core/bucket.h"

#include <assert.h>

#include "core/divide.h"

uint64_t bucket_credit_ut(const struct limit *l, uint64_t from_us, uint64_t to_us, uint64_t most)
{
	uint64_t quanta = to_us / l->quantum_us - from_us / l->quantum_us;

	if (l->quantum_ut == 0)
		return 0;
	return quanta >= divide_up(most, l->quantum_ut) ? most : quanta * l->quantum_ut;
}

uint64_t bucket_debt_ut(const struct bucket *b, const struct limit *l, uint64_t now_us)
{
	if (now_us < b->stamp_us)
		return b->debt_ut;
	return b->debt_ut - bucket_credit_ut(l, b->stamp_us, now_us, b->debt_ut);
}

uint64_t bucket_most_ut(const struct limit *l)
{
	return l->cap_ut + ((BUCKET_STAMP_US - 1) / l->quantum_us + 1) * l->quantum_ut;
}

void bucket_set_debt(struct bucket *b, const struct limit *l, uint64_t now_us, uint64_t debt_ut)
{
	uint64_t stamp_us = now_us - now_us % BUCKET_STAMP_US;

	if (debt_ut == 0) {
		*b = (struct bucket){0, 0};
		return;
	}
	if (b->debt_ut > 0 && now_us < b->stamp_us)
		stamp_us = b->stamp_us;
	else
		debt_ut += bucket_credit_ut(l, stamp_us, now_us, UINT64_MAX / 2);
	b->debt_ut = divide_up(debt_ut, l->scale_ut) * l->scale_ut;
	b->stamp_us = stamp_us;
}

void bucket_init_empty(struct bucket *b, const struct limit *l, uint64_t now_us)
{
	*b = (struct bucket){0, 0};
	bucket_set_debt(b, l, now_us, l->cap_ut);
}

uint64_t bucket_time_us(const struct limit *l, uint64_t now_us, uint64_t lack_ut)
{
	uint64_t quanta = divide_up(lack_ut, l->quantum_ut);
	uint64_t us;

	if (quanta > LIMIT_FOREVER_US / l->quantum_us + 1)
		return LIMIT_FOREVER_US;
	us = quanta * l->quantum_us - now_us % l->quantum_us;
	return us < LIMIT_FOREVER_US ? us : LIMIT_FOREVER_US;
}

uint64_t bucket_decide(const struct limit *l, uint64_t now_us, uint64_t debt_ut, uint64_t cost,
		       struct limiter_verdict *ret_verdict)
{
	struct limiter_verdict v = {.wait_us = VERDICT_NEVER};
	uint64_t cost_ut = cost * LIMIT_UT;

	assert(cost >= 1 && cost <= LIMIT_MAX);
	if (debt_ut + cost_ut <= l->cap_ut) {
		debt_ut += cost_ut;
		v.allowed = true;
		v.wait_us = (int64_t)bucket_time_us(l, now_us,
						    LIMIT_UT - (l->cap_ut - debt_ut) % LIMIT_UT);
	} else if (cost_ut <= l->cap_ut) {
		v.wait_us = (int64_t)bucket_time_us(l, now_us, debt_ut + cost_ut - l->cap_ut);
	}
	if (debt_ut < l->cap_ut)
		v.remaining = (l->cap_ut - debt_ut) / LIMIT_UT;
	v.reset_us = debt_ut > 0 ? bucket_time_us(l, now_us, debt_ut) : 0;
	*ret_verdict = v;
	return debt_ut;
}

void bucket_take(struct bucket *b, const struct limit *l, uint64_t now_us, uint64_t cost,
		 struct limiter_verdict *ret_verdict)
{
	uint64_t debt_ut = bucket_debt_ut(b, l, now_us);

	if (debt_ut > bucket_most_ut(l)) { /* what is beyond the limit is forgotten, now */
		debt_ut = l->cap_ut;
		if (debt_ut > 0)
			bucket_set_debt(b, l, now_us, debt_ut);
	}
	debt_ut = bucket_decide(l, now_us, debt_ut, cost, ret_verdict);
	if (ret_verdict->allowed)
		bucket_set_debt(b, l, now_us, debt_ut);
}

void bucket_give(struct bucket *b, const struct limit *l, uint64_t now_us, uint64_t cost)
{
	uint64_t debt_ut = bucket_debt_ut(b, l, now_us);
	uint64_t given_ut = cost * LIMIT_UT;

	if (l->cap_ut == 0)
		return;
	debt_ut = debt_ut > bucket_most_ut(l) ? l->cap_ut : debt_ut;
	bucket_set_debt(b, l, now_us, debt_ut - (given_ut < debt_ut ? given_ut : debt_ut));
}
