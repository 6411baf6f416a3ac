#include "lease_wheel.h"

void lease_wheel_add(struct lease_wheel *w, struct lease_entry *e, uint64_t now_us, uint64_t at_us)
{
	uint64_t slot = at_us / LEASE_WHEEL_SLOT_US, first = now_us / LEASE_WHEEL_SLOT_US + 1;

	if (w->n == 0)
		w->next = first;
	if (slot < first)
		slot = first;
	if (slot >= w->next + LEASE_WHEEL_SLOTS)
		slot = w->next + LEASE_WHEEL_SLOTS - 1;
	e->next_due = w->slot[slot % LEASE_WHEEL_SLOTS];
	w->slot[slot % LEASE_WHEEL_SLOTS] = e;
	w->n++;
}

static struct lease_entry *take_from(struct lease_wheel *w, uint64_t slot)
{
	struct lease_entry **list = &w->slot[slot % LEASE_WHEEL_SLOTS], *e = *list;

	if (e != NULL) {
		*list = e->next_due;
		w->n--;
	}
	return e;
}

struct lease_entry *lease_wheel_take(struct lease_wheel *w, uint64_t now_us)
{
	uint64_t now = now_us / LEASE_WHEEL_SLOT_US;

	/* We were stopped: once around is all, but for the slot after this one, where those go that are added meanwhile. */
	if (now > w->next + LEASE_WHEEL_SLOTS - 2)
		w->next = now - (LEASE_WHEEL_SLOTS - 2);
	while (w->n > 0 && w->next <= now) {
		struct lease_entry *e = take_from(w, w->next);

		if (e != NULL)
			return e;
		w->next++;
	}
	return NULL;
}

struct lease_entry *lease_wheel_take_any(struct lease_wheel *w)
{
	struct lease_entry *e = NULL;

	for (uint64_t slot = 0; slot < LEASE_WHEEL_SLOTS && e == NULL; slot++)
		e = take_from(w, slot);
	return e;
}
