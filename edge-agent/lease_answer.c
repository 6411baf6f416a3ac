#include "lease_answer.h"

/* A bucket refills evenly: what it misses tells how long. */
static void say_of_bucket(const struct limit *l, uint64_t remaining, struct script_answer *said)
{
	uint64_t capacity = limit_capacity(l);
	uint64_t missing = remaining < capacity ? capacity - remaining : 0;

	said->reset_us =
		(uint64_t)((double)limit_horizon_us(l) * (double)missing / (double)capacity);
	said->wait_us = missing > 0 ? (int64_t)(l->per_us / l->limit) + 1 : 0;
}

void lease_answer_granted(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t full_in_us)
{
	struct script_answer said = {
		.remaining = remaining, .reset_us = full_in_us, .wait_us = (int64_t)full_in_us};

	if (ref.limit->algorithm == ALGORITHM_TOKEN_BUCKET && limit_capacity(ref.limit) > 0)
		say_of_bucket(ref.limit, remaining, &said);
	resolve_answer(a, &ref, &said, true);
	a->reason = REASON_OK;
}

void lease_answer_refused(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t full_in_us, int64_t wait_us, enum reason why)
{
	struct script_answer said = {
		.remaining = remaining, .reset_us = full_in_us, .wait_us = wait_us};

	/* Of a held bucket nothing remains, however full it is. */
	if (why == REASON_LIMITED && ref.limit->algorithm == ALGORITHM_TOKEN_BUCKET &&
	    limit_capacity(ref.limit) > 0)
		say_of_bucket(ref.limit, remaining, &said);
	said.wait_us = wait_us;
	resolve_answer(a, &ref, &said, false);
	a->reason = why;
}
