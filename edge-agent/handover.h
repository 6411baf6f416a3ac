/*
 * A change of the regions: a key that was at home elsewhere by an earlier version has to leave that home before anything is
 * decided at its new one, and begins there with no more than was left. Rules and proof: docs/home.md, "Changing the regions".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct group;
struct handover;
struct request_state;
struct edge_regions;

/* `regions` is borrowed for good. NULL: out of memory. */
struct handover *handover_new(struct engine *e, const struct edge_regions *regions);
/* No operation may be under way. NULL is nothing. */
void handover_free(struct handover *h);

/*
 * Whether the keys of `s`, resolved, are at home where it asks. Else what has to be done for it goes on.
 * HANDOVER_WAIT: *ret_group is the group of a key that is waited for, its answer a refusal that says for how long.
 * HANDOVER_NO_STORE: a home can't be asked, or other agents contradict the `regions` here.
 */
enum handover_state { HANDOVER_DONE, HANDOVER_WAIT, HANDOVER_NO_STORE };
enum handover_state handover_step(struct request_state *s, struct group **ret_group);

/* The home said that a key of `s` is held: perhaps because it has left, by others who know less. It is looked at anew. */
void handover_doubt(const struct request_state *s);
