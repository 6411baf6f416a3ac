#include "core/outstanding.h"

#include <assert.h>
#include <string.h>

static uint32_t find(const struct outstanding *o, uint64_t id)
{
	uint32_t i = 0;

	while (i < o->n && o->lease[i].id != id)
		i++;
	return i;
}

bool outstanding_has_room(const struct outstanding *o, uint64_t id)
{
	return o->n < OUTSTANDING_MAX && find(o, id) == o->n;
}

void outstanding_add(struct outstanding *o, uint64_t id, uint64_t amount, uint64_t end_us)
{
	uint32_t i = o->n;

	assert(outstanding_has_room(o, id) || (id == OUTSTANDING_DOUBTED && find(o, id) == o->n));
	for (; i > 0 && o->lease[i - 1].end_us > end_us; i--)
		o->lease[i] = o->lease[i - 1];
	o->lease[i] = (struct outstanding_lease){id, amount, end_us};
	o->n++;
	o->amount += amount;
}

static uint64_t remove_at(struct outstanding *o, uint32_t i)
{
	uint64_t amount = o->lease[i].amount;

	o->n--;
	memmove(&o->lease[i], &o->lease[i + 1], (o->n - i) * sizeof *o->lease);
	o->amount -= amount;
	return amount;
}

uint64_t outstanding_remove(struct outstanding *o, uint64_t id)
{
	uint32_t i = find(o, id);

	return i < o->n ? remove_at(o, i) : 0;
}

uint64_t outstanding_end_us(const struct outstanding *o, uint64_t id)
{
	uint32_t i = find(o, id);

	return i < o->n ? o->lease[i].end_us : 0;
}

uint64_t outstanding_remove_first(struct outstanding *o)
{
	assert(o->n > 0);
	return remove_at(o, 0);
}
