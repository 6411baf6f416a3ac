/*
 * Deadlines in a binary heap, embedded in their owners: O(log n) to add and remove, O(1) to see the
 * earliest. Entries with equal times come out in any order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct timer_entry {
	uint64_t at;  /* in the caller's unit */
	size_t place; /* 1-based place in the heap; 0: not in one. Zero-initialise. */
};

struct timer_heap {
	struct timer_entry **entries; /* owned array of borrowed entries */
	size_t n, cap;
};

void timer_heap_release(struct timer_heap *h);

/* Puts `e` at `at`, moving it if it is in the heap. KOVA_ENOMEM: nothing changed. */
KOVA_MUST_CHECK kova_status timer_heap_set(struct timer_heap *h, struct timer_entry *e,
					   uint64_t at);

/* Takes `e` out; nothing if it is not in. */
void timer_heap_remove(struct timer_heap *h, struct timer_entry *e);

/* The earliest entry, or NULL. */
struct timer_entry *timer_heap_first(const struct timer_heap *h);
