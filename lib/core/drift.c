#include "core/drift.h"

void drift_look(struct drift_root *r, int64_t ledger, int64_t kafka, uint64_t now_us,
		uint64_t rest_us)
{
	bool moved = r->moved_us == 0 || ledger != r->ledger || kafka != r->kafka;

	if (moved)
		r->moved_us = now_us;
	r->ledger = ledger;
	r->kafka = kafka;
	r->resting = !moved && now_us - r->moved_us >= rest_us;
	if (!r->resting)
		return;
	if (!r->known && ledger < kafka)
		r->forgotten = kafka - ledger;
	r->known = true;
	r->drift = ledger + r->forgotten - kafka;
}

static uint64_t magnitude(int64_t n)
{
	return n < 0 ? -(uint64_t)n : (uint64_t)n;
}

bool drift_alarm_step(struct drift_alarm *a, int64_t drift, uint64_t threshold)
{
	bool other_way = (drift < 0) != (a->told < 0);
	uint64_t told = other_way ? 0 : magnitude(a->told), is = magnitude(drift);

	if (is <= threshold) {
		a->told = 0;
		return false;
	}
	if (is > told && is - told > threshold) {
		a->told = drift;
		return true;
	}
	if (is < told || other_way)
		a->told = drift;
	return false;
}
