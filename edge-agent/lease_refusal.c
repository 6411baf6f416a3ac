#include "lease_refusal.h"

#include "core/lease.h"

enum { REFUSALS_HOT = 4 }; /* in a row: they make the next ones believed for longer */

/* Soon after the last one was heard of or was over. */
static bool is_next_in_a_row(const struct lease_refusal *r, uint64_t now_us)
{
	return now_us < r->until.us + LEASE_WINDOW_US;
}

/* For how long from `now_us` it is believed. */
static uint64_t believed_us(const struct lease_refusal *r, uint64_t asked_us, uint64_t now_us,
			    int64_t wait_us)
{
	uint64_t passed_us = now_us - asked_us, us = LEASE_REFUSAL_MAX_US;

	/* The wait counts from when the script ran: after `asked_us`, before `now_us`. */
	if (wait_us >= 0 && (uint64_t)wait_us < us + passed_us)
		us = (uint64_t)wait_us > passed_us ? (uint64_t)wait_us - passed_us : 0;
	/* A single one, or one that is over, holds only for those who are served with it. */
	return r->in_a_row < REFUSALS_HOT || us == 0 ? 1 : us;
}

void lease_refusal_hear(struct lease_refusal *r, uint64_t asked_us, struct lease_instant now,
			uint64_t cost, const struct script_answer *said)
{
	uint64_t us;

	r->in_a_row = is_next_in_a_row(r, now.us) ? r->in_a_row + 1 : 1;
	us = believed_us(r, asked_us, now.us, said->wait_us);
	r->until = (struct lease_instant){now.us + us, now.wall_us + us};
	r->room_us = said->wait_us < 0 ? UINT64_MAX : now.wall_us + (uint64_t)said->wait_us;
	r->full_us = now.wall_us + said->reset_us;
	r->cost = cost;
	r->why = said->why == SCRIPT_HELD ? REASON_HELD : REASON_LIMITED;
	r->remaining = said->remaining;
}

bool lease_refusal_is_believed(const struct lease_refusal *r, struct lease_instant now,
			       uint64_t cost)
{
	return r->until.us > now.us && r->until.wall_us > now.wall_us && cost >= r->cost;
}

static uint64_t from_now(uint64_t at_us, struct lease_instant now)
{
	return at_us > now.wall_us ? at_us - now.wall_us : 0;
}

int64_t lease_refusal_wait_us(const struct lease_refusal *r, struct lease_instant now)
{
	return r->room_us == UINT64_MAX ? -1 : (int64_t)from_now(r->room_us, now);
}

uint64_t lease_refusal_full_us(const struct lease_refusal *r, struct lease_instant now)
{
	return from_now(r->full_us, now);
}
