#include "core/gossip_replay.h"

#include <stdlib.h>
#include <string.h>

struct gossip_sender {
	uint64_t name_hash; /* 0: the place is empty */
	uint64_t heard_ms;
	struct gossip_window window;
};

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

/* ---- Senders ---- */

void gossip_senders_release(struct gossip_senders *t)
{
	free(t->list);
	*t = (struct gossip_senders){0};
}

static struct gossip_sender *place_of(const struct gossip_senders *t, uint64_t name_hash)
{
	uint32_t i = (uint32_t)name_hash & t->mask;

	while (t->list[i].name_hash != 0 && t->list[i].name_hash != name_hash)
		i = (i + 1) & t->mask;
	return &t->list[i];
}

static bool is_kept(const struct gossip_sender *s, uint64_t now_ms)
{
	return s->name_hash != 0 && now_ms - s->heard_ms < GOSSIP_SENDER_KEPT_MS;
}

/* Forgets who was not heard for long, and has room for twice as many as are left. */
static bool make_room(struct gossip_senders *t, uint64_t now_ms)
{
	struct gossip_senders next = {.mask = 15};
	uint32_t kept = 0;

	for (uint32_t i = 0; t->list != NULL && i <= t->mask; i++)
		kept += is_kept(&t->list[i], now_ms);
	if (kept >= GOSSIP_SENDERS_MAX)
		return false;
	while (kept * 4 > next.mask)
		next.mask = next.mask * 2 + 1;
	next.list = calloc((size_t)next.mask + 1, sizeof *next.list);
	if (next.list == NULL)
		return false;
	for (uint32_t i = 0; t->list != NULL && i <= t->mask; i++)
		if (is_kept(&t->list[i], now_ms))
			*place_of(&next, t->list[i].name_hash) = t->list[i];
	next.n = kept;
	free(t->list);
	*t = next;
	return true;
}

struct gossip_window *gossip_senders_window(struct gossip_senders *t, uint64_t name_hash,
					    uint64_t now_ms)
{
	struct gossip_sender *s = t->list != NULL ? place_of(t, name_hash | 1) : NULL;

	if (s == NULL || s->name_hash == 0) {
		if ((t->n >= GOSSIP_SENDERS_MAX || t->list == NULL || t->n * 2 > t->mask) &&
		    !make_room(t, now_ms))
			return NULL;
		s = place_of(t, name_hash | 1);
		s->name_hash = name_hash | 1;
		t->n++;
	}
	s->heard_ms = now_ms;
	return &s->window;
}
