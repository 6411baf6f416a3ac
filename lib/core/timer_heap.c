#include "core/timer_heap.h"

#include <assert.h>
#include <stdlib.h>

void timer_heap_release(struct timer_heap *h)
{
	free(h->entries);
	*h = (struct timer_heap){0};
}

static void put(struct timer_heap *h, size_t place, struct timer_entry *e)
{
	h->entries[place - 1] = e;
	e->place = place;
}

static void sift_up(struct timer_heap *h, struct timer_entry *e)
{
	size_t place = e->place;

	while (place > 1 && h->entries[place / 2 - 1]->at > e->at) {
		put(h, place, h->entries[place / 2 - 1]);
		place /= 2;
	}
	put(h, place, e);
}

static void sift_down(struct timer_heap *h, struct timer_entry *e)
{
	size_t place = e->place;

	for (;;) {
		size_t child = place * 2;

		if (child > h->n)
			break;
		if (child < h->n && h->entries[child]->at < h->entries[child - 1]->at)
			child++;
		if (h->entries[child - 1]->at >= e->at)
			break;
		put(h, place, h->entries[child - 1]);
		place = child;
	}
	put(h, place, e);
}

static bool grow(struct timer_heap *h)
{
	size_t cap = h->cap == 0 ? 16 : h->cap * 2;
	struct timer_entry **entries = realloc(h->entries, cap * sizeof *entries);

	if (entries == NULL)
		return false;
	h->entries = entries;
	h->cap = cap;
	return true;
}

kova_status timer_heap_set(struct timer_heap *h, struct timer_entry *e, uint64_t at)
{
	if (e->place == 0) {
		if (h->n == h->cap && !grow(h))
			return KOVA_ENOMEM;
		put(h, ++h->n, e);
	}
	assert(h->entries[e->place - 1] == e);
	e->at = at;
	sift_up(h, e);
	sift_down(h, e);
	return KOVA_OK;
}

void timer_heap_remove(struct timer_heap *h, struct timer_entry *e)
{
	if (e->place == 0)
		return;
	assert(h->entries[e->place - 1] == e);

	struct timer_entry *last = h->entries[--h->n];

	if (last != e) {
		put(h, e->place, last);
		sift_up(h, last);
		sift_down(h, last);
	}
	e->place = 0;
}

struct timer_entry *timer_heap_first(const struct timer_heap *h)
{
	return h->n == 0 ? NULL : h->entries[0];
}
