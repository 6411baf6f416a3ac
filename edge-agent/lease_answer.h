/* The verdict on a request that is decided in memory, by what was last heard of its key. */
#pragma once

#include "engine.h"

/*
 * `ref` speaks for the key: of its policy, limit and level's name alone. `remaining` units are there; the lease ends in
 * `lease_us`; `now_us` is Redis's clock.
 */
void lease_answer_granted(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t lease_us, uint64_t now_us);
/* Refused because of `why` for `wait_us` from now, -1: for ever; it is full in `full_in_us`. */
void lease_answer_refused(struct answer *a, struct check_ref ref, uint64_t remaining,
			  uint64_t full_in_us, int64_t wait_us, enum reason why);
