/*
 * When each entry is to be looked at: a timing wheel (Varghese, Lauck 1987) of singly linked lists, since an entry is
 * never taken out before it is due.
 */
#pragma once

#include <stdint.h>

#include "lease_table.h"

enum { LEASE_WHEEL_SLOTS = 512, LEASE_WHEEL_SLOT_US = 10000 };

/* All zeros: empty. */
struct lease_wheel {
	struct lease_entry *slot[LEASE_WHEEL_SLOTS];
	uint64_t next; /* number of the slot, since the clock's zero, that is taken next */
	size_t n;      /* entries in it */
};

/* `e`, which is not in it, is due at `at_us` or up to a slot before; what is further away than the wheel is around, earlier. */
void lease_wheel_add(struct lease_wheel *w, struct lease_entry *e, uint64_t now_us, uint64_t at_us);
/* Takes one that is due at `now_us`; NULL: none is. */
struct lease_entry *lease_wheel_take(struct lease_wheel *w, uint64_t now_us);
/* Takes any; NULL: it is empty. */
struct lease_entry *lease_wheel_take_any(struct lease_wheel *w);
