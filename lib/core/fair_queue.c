#include "core/fair_queue.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

void fair_queue_release(struct fair_queue *q)
{
	free(q->flows);
	*q = (struct fair_queue){0};
}

/* ---- The heap ---- */

static bool is_before(const struct fair_flow *a, const struct fair_flow *b)
{
	int64_t between = (int64_t)(a->finish - b->finish);

	return between != 0 ? between < 0 : a->arrival < b->arrival;
}

static void put(struct fair_queue *q, size_t place, struct fair_flow *f)
{
	q->flows[place - 1] = f;
	f->place = place;
}

static void sift_up(struct fair_queue *q, struct fair_flow *f)
{
	size_t place = f->place;

	while (place > 1 && is_before(f, q->flows[place / 2 - 1])) {
		put(q, place, q->flows[place / 2 - 1]);
		place /= 2;
	}
	put(q, place, f);
}

static void sift_down(struct fair_queue *q, struct fair_flow *f)
{
	size_t place = f->place;

	for (;;) {
		size_t child = place * 2;

		if (child > q->n)
			break;
		if (child < q->n && is_before(q->flows[child], q->flows[child - 1]))
			child++;
		if (!is_before(q->flows[child - 1], f))
			break;
		put(q, place, q->flows[child - 1]);
		place = child;
	}
	put(q, place, f);
}

static void sift(struct fair_queue *q, struct fair_flow *f)
{
	sift_up(q, f);
	sift_down(q, f);
}

static bool grow(struct fair_queue *q)
{
	size_t cap = q->cap == 0 ? 4 : q->cap * 2;
	struct fair_flow **flows = realloc(q->flows, cap * sizeof *flows);

	if (flows == NULL)
		return false;
	q->flows = flows;
	q->cap = cap;
	return true;
}

/* ---- Virtual time ---- */

static void set_finish(struct fair_flow *f, uint64_t cost)
{
	assert(cost >= 1);
	f->finish = f->start + cost * FAIR_QUEUE_WEIGHT_MAX / f->weight;
}

kova_status fair_queue_add(struct fair_queue *q, struct fair_flow *f, uint32_t weight,
			   uint64_t cost)
{
	assert(f->place == 0 && weight >= 1 && weight <= FAIR_QUEUE_WEIGHT_MAX);
	if (q->n == q->cap && !grow(q))
		return KOVA_ENOMEM;
	f->weight = weight;
	f->arrival = q->arrivals++;
	f->start = q->now;
	set_finish(f, cost);
	put(q, ++q->n, f);
	sift_up(q, f);
	return KOVA_OK;
}

void fair_queue_remove(struct fair_queue *q, struct fair_flow *f)
{
	if (f->place == 0)
		return;
	assert(q->flows[f->place - 1] == f);

	struct fair_flow *last = q->flows[--q->n];

	if (last != f) {
		put(q, f->place, last);
		sift(q, last);
	}
	f->place = 0;
}

void fair_queue_put_back(struct fair_queue *q, struct fair_flow *f)
{
	assert(f->place == 0 && q->n < q->cap);
	put(q, ++q->n, f);
	sift_up(q, f);
}

struct fair_flow *fair_queue_first(const struct fair_queue *q)
{
	return q->n == 0 ? NULL : q->flows[0];
}

void fair_queue_serve(struct fair_queue *q, struct fair_flow *f, uint64_t cost)
{
	if ((int64_t)(f->finish - q->now) > 0)
		q->now = f->finish;
	if (cost == 0) {
		fair_queue_remove(q, f);
		return;
	}
	f->start = f->finish;
	set_finish(f, cost);
	sift(q, f);
}

void fair_queue_replace(struct fair_queue *q, struct fair_flow *f, uint64_t cost)
{
	set_finish(f, cost);
	sift(q, f);
}

void fair_queue_set(struct fair_queue *q, struct fair_flow *f, uint64_t now, uint64_t start,
		    uint64_t cost)
{
	q->now = now;
	f->start = start;
	fair_queue_replace(q, f, cost);
}
