#include "lease_answer.h"

#include "core/calendar.h"

/* A bucket refills evenly: what it misses tells how long. */
static void say_of_bucket(const struct limit *l, uint64_t remaining, struct script_answer *said)
{
	uint64_t capacity = limit_capacity(l);
	uint64_t missing = remaining < capacity ? capacity - remaining : 0;

	said->reset_us =
		(uint64_t)((double)limit_horizon_us(l) * (double)missing / (double)capacity);
	said->wait_us = missing > 0 ? (int64_t)(l->per_us / l->limit) + 1 : 0;
}

/* Until the window ends, or until what the lease still counts for has left it. */
static uint64_t window_us(const struct limit *l, uint64_t lease_us, uint64_t now_us)
{
	uint32_t passed;

	if (l->algorithm != ALGORITHM_CALENDAR)
		return script_lease_hold_us(lease_us) + l->per_us;
	passed = calendar_edges_passed(&l->edges, now_us);
	return passed < l->edges.n ? l->edges.edge_us[passed] - now_us : 0;
}

static bool is_bucket(const struct limit *l)
{
	return l->algorithm == ALGORITHM_TOKEN_BUCKET && limit_capacity(l) > 0;
}

void lease_answer_granted(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t lease_us, uint64_t now_us)
{
	struct script_answer said = {.remaining = remaining};

	if (is_bucket(ref.limit)) {
		say_of_bucket(ref.limit, remaining, &said);
	} else {
		said.reset_us = window_us(ref.limit, lease_us, now_us);
		said.wait_us = (int64_t)said.reset_us;
	}
	resolve_answer(a, &ref, &said, true);
	a->reason = REASON_OK;
}

void lease_answer_refused(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t full_in_us, int64_t wait_us, enum reason why)
{
	struct script_answer said = {
		.remaining = remaining, .reset_us = full_in_us, .wait_us = wait_us};

	/* Of a held bucket nothing remains, however full it is. */
	if (why == REASON_LIMITED && is_bucket(ref.limit))
		say_of_bucket(ref.limit, remaining, &said);
	said.wait_us = wait_us;
	resolve_answer(a, &ref, &said, false);
	a->reason = why;
}
