#include "core/hlc.h"

uint64_t hlc_now(struct hlc *h, uint64_t now_ms)
{
	uint64_t wall = now_ms << HLC_COUNTER_BITS;

	/* A counter that is used up carries into the milliseconds: still greater, a little ahead of time. */
	h->last = wall > h->last ? wall : h->last + 1;
	return h->last;
}

bool hlc_hear(struct hlc *h, uint64_t stamp, uint64_t now_ms, uint64_t max_ahead_ms)
{
	if (hlc_ms(stamp) > now_ms + max_ahead_ms)
		return false;
	h->last = stamp > h->last ? stamp : h->last;
	return true;
}
