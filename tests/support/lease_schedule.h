/*
 * A random schedule of takes and of leases whose holders spend at the worst times: all at once right after the grant, all of
 * it in the last µs before the end, or little by little; never at the end or later. Replies get lost, returns too, some
 * are sent twice or come late. What was admitted is checked afterwards, in every interval.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/limit.h"
#include "dice.h"

/* What the schedule runs against, at times that never go back. */
struct lease_store {
	void *state;
	bool (*take)(void *state, uint64_t now_us, uint64_t cost);
	/* Returns what is granted (0: refused) until script_lease_hold_us(ttl_us) from now; *ret_leased: false if it is an ordinary
	 * take. */
	uint64_t (*lease)(void *state, uint64_t now_us, uint64_t id, uint64_t amount,
			  uint64_t sharers, uint64_t ttl_us, bool *ret_leased);
	void (*unlease)(void *state, uint64_t now_us, uint64_t id, uint64_t unspent);
};

struct spent {
	uint64_t at_us, cost;
};

enum { SPENT_MAX = 20000, HOLDERS = 6 };

struct lease_holder {
	uint64_t id, left, end_us; /* id 0: has none */
};

struct lease_schedule {
	uint64_t start_us, step_us, ttl_max_us, amount_max; /* to be filled in */
	unsigned steps;                                     /* as well */
	struct dice dice;                                   /* as well */
	uint64_t now_us, last_id;
	struct lease_holder holder[HOLDERS];
	struct spent spent[SPENT_MAX]; /* when done, in order of time */
	size_t n_spent;
	uint64_t n_leases, n_by_lease; /* leases granted, and what was spent from them */
};

void lease_schedule_run(struct lease_schedule *s, const struct lease_store *store);

/* In every interval at most the burst and what is refilled in it. */
bool spent_within_bucket(const struct spent *s, size_t n, const struct limit *l);
/* In every span of l->per_us (half-open) at most l->limit. */
bool spent_within_windows(const struct spent *s, size_t n, const struct limit *l);
/* In every window of l->edges at most l->limit. */
bool spent_within_calendar(const struct spent *s, size_t n, const struct limit *l);
