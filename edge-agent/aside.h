/*
 * Takes that go to the own region's Redis inside another script's call, a pool's, instead of in one of the engine's own: the same
 * checks and counts, and the same answers. Only where nothing but that Redis has a say (aside_begin()).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/script.h"
#include "request.h"

struct engine;

/*
 * Begins the take `r`, filled in for decide(), wait_ms 0, whose keys must be of `slot` where slots matter. *ret_op is what is to be carried
 * out, in the engine's scratch until its next use; *ret_first: how many of its checks are of the first pair. From here on it is in
 * progress, until aside_answer() or aside_drop(). False: it is not to be taken so, and is to be freed: it has an error, needs nothing
 * of Redis, or a say in it have a lease, callers who wait, another region, an answer that is confirmed by replicas or a disk.
 */
bool aside_begin(struct engine *e, struct request *r, uint16_t slot, struct script_op *ret_op,
		 unsigned *ret_first);
/* The operation once more, as aside_begin() gave it. False: out of memory. */
bool aside_again(struct request *r, struct script_op *ret_op);

/*
 * Whether a take of `key` by the policy, instead of one of another key without '/', differs in nothing but the names of keys: no override
 * binds it, nobody waits for it, none of it is leased, it is of `slot`.
 */
bool aside_is_plain(struct engine *e, struct slice policy, struct slice key, uint16_t slot);

/* Whether that is so of every key, as is known without looking at each. */
bool aside_all_plain(struct engine *e, struct slice policy);

/* It was refused, and something else is tried instead: counted. */
void aside_refused(struct request *r, const struct script_answer *said);
/* What the script said of it: r->on_done is called from within. */
void aside_answer(struct request *r, const struct script_answer *said);
/* It was not carried out, or nobody knows: nothing is counted, and it is freed. */
void aside_drop(struct request *r);

/* Part of the pair's limit is leased at this agent: what Redis refuses may be there. */
bool aside_is_leased(struct engine *e, struct slice policy, struct slice key);
