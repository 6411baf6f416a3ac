#include "lease_refusal.h"

#include "core/lease.h"

enum {
	REFUSALS_HOT = 4,         /* in a row: they make the next ones believed for longer */
	REFUSAL_MIN_US = 5000,    /* to wait for less is not worth remembering ... */
	REFUSAL_MAX_US = 1000000, /* ... and nothing is believed for longer: limits are raised,
				   * permits refunded, elsewhere */
};

void lease_refusal_hear(struct lease_refusal *r, uint64_t now_us, uint64_t cost,
			const struct script_answer *said)
{
	uint64_t wait_us = said->wait_us < 0 ? UINT64_MAX : (uint64_t)said->wait_us;

	r->room_us = said->wait_us < 0 ? UINT64_MAX : now_us + wait_us;
	r->in_a_row = now_us - r->heard_us < LEASE_WINDOW_US ? r->in_a_row + 1 : 1;
	r->heard_us = now_us;
	/* A single one, or one that is short, holds only for those who are served with it. */
	if (wait_us < REFUSAL_MIN_US || r->in_a_row < REFUSALS_HOT)
		wait_us = 1;
	r->until_us = now_us + (wait_us < REFUSAL_MAX_US ? wait_us : REFUSAL_MAX_US);
	r->cost = cost;
	r->why = said->why == SCRIPT_HELD ? REASON_HELD : REASON_LIMITED;
}

void lease_refusal_forget(struct lease_refusal *r)
{
	r->until_us = 0;
	r->in_a_row = 0;
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
