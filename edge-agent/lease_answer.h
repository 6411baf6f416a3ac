/* The verdict on a request that is decided in memory, by what was last heard of its key. */
#pragma once

#include "engine.h"

/*
 * `ref` speaks for the key: of its policy, limit and level's name alone. `remaining` units are there; it is full in
 * `full_in_us`, by what the region said last.
 */
void lease_answer_granted(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t full_in_us);
/* Refused because of `why` for `wait_us` from now; -1: for ever. */
void lease_answer_refused(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t full_in_us, int64_t wait_us, enum reason why);
