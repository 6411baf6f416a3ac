#include "lease_refusal.h"

#include "core/lease.h"

enum { REFUSALS_HOT = 4 }; /* in a row: they make the next ones believed for longer */

/* Soon after the last one was heard of or was over. */
static bool is_next_in_a_row(const struct lease_refusal *r, uint64_t now_us)
{
	return now_us < r->until_us + LEASE_WINDOW_US;
}

void lease_refusal_hear(struct lease_refusal *r, uint64_t asked_us, uint64_t now_us, uint64_t cost,
			const struct script_answer *said)
{
	bool never = said->wait_us < 0;
	uint64_t most_us = now_us + LEASE_REFUSAL_MAX_US;

	r->in_a_row = is_next_in_a_row(r, now_us) ? r->in_a_row + 1 : 1;
	/* A single one holds only for those who are served with it, too. */
	if (r->in_a_row < REFUSALS_HOT)
		most_us = now_us + 1;
	/* The wait counts from when the script ran: after `asked_us`, before `now_us`. */
	r->until_us = never ? most_us : asked_us + (uint64_t)said->wait_us;
	if (r->until_us <= now_us) /* for those who are served with it */
		r->until_us = now_us + 1;
	if (r->until_us > most_us)
		r->until_us = most_us;
	r->room_us = never ? UINT64_MAX : now_us + (uint64_t)said->wait_us;
	r->cost = cost;
	r->why = said->why == SCRIPT_HELD ? REASON_HELD : REASON_LIMITED;
	r->remaining = said->remaining;
	r->full_us = now_us + said->reset_us;
}

bool lease_refusal_is_believed(const struct lease_refusal *r, uint64_t now_us, uint64_t cost)
{
	return r->until_us > now_us && cost >= r->cost;
}

int64_t lease_refusal_wait_us(const struct lease_refusal *r, uint64_t now_us)
{
	if (r->room_us == UINT64_MAX)
		return -1;
	return r->room_us > now_us ? (int64_t)(r->room_us - now_us) : 0;
}
