#include "core/gossip_replay.h"

#include <string.h>

static uint64_t *word_of(struct gossip_window *w, uint64_t number)
{
	return &w->seen[number % GOSSIP_WINDOW / 64];
}

/* Moves the window up to `number`: what comes into it was not seen. */
static void advance(struct gossip_window *w, uint64_t number)
{
	if (number - w->top >= GOSSIP_WINDOW) {
		memset(w->seen, 0, sizeof w->seen);
	} else {
		for (uint64_t i = w->top + 1; i <= number; i++)
			*word_of(w, i) &= ~(UINT64_C(1) << i % 64);
	}
	w->top = number;
}

bool gossip_window_admit(struct gossip_window *w, uint64_t epoch, uint64_t number)
{
	uint64_t bit = UINT64_C(1) << number % 64;

	if (epoch < w->epoch)
		return false;
	if (epoch > w->epoch)
		*w = (struct gossip_window){.epoch = epoch, .top = number};
	else if (number > w->top)
		advance(w, number);
	else if (w->top - number >= GOSSIP_WINDOW || (*word_of(w, number) & bit) != 0)
		return false;
	*word_of(w, number) |= bit;
	return true;
}
