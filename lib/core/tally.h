/*
 * What was consumed, by policy and root of the key, on its way to a reader who keeps the maximum of each counter: counters that
 * only grow, a bounded number of them, of which nothing is lost.
 *
 * A counter has a window: the stamp from which on it counts. One whose last value has arrived (it is *settled*) may be given up
 * to make room, and a new one for that root has a later window. Where there is room for no more, because too much has not
 * arrived yet, what is added is counted in one counter of its policy for all other roots.
 *
 *   changed ──tally_next()──▶ sent ──tally_done()──▶ settled, or changed again
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"

/* Sums of costs. */
struct tally_counts {
	uint64_t admitted, refused;
	uint64_t waited; /* of those admitted: after waiting */
};

struct tally_key {
	struct slice policy, root;
	bool other; /* of the policy's roots that have no counter of their own; `root` is empty */
};

struct tally;
struct tally_entry;

/* For `roots_max` roots (at least 1) at once, and one counter more for each policy. NULL: out of memory. */
struct tally *tally_new(size_t roots_max);
void tally_free(struct tally *t); /* NULL is nothing */

/*
 * Adds `counts`. `stamp` grows from call to call: it is the window of a counter that begins. False: out of memory, nothing was
 * counted.
 */
bool tally_add(struct tally *t, const struct tally_key *key, const struct tally_counts *counts,
	       uint64_t stamp);

/* The counter that changed longest ago, which is now sent: as it is, until tally_done(). NULL: none has changed. */
struct tally_entry *tally_next(struct tally *t);
/* What was sent has arrived or not. `e` is to be forgotten. */
void tally_done(struct tally *t, struct tally_entry *e, bool arrived);
/* Instead of tally_next(): takes what was counted since it was taken last; it is settled. False: nothing has changed. The
 * key is borrowed until the next tally_add(). */
bool tally_take(struct tally *t, struct tally_key *ret_key, struct tally_counts *ret_counts);

struct tally_key tally_entry_key(const struct tally_entry *e);
struct tally_counts tally_entry_counts(const struct tally_entry *e);
uint64_t tally_entry_window(const struct tally_entry *e);

/* Counters whose present value is not known to have arrived. */
size_t tally_unsettled(const struct tally *t);
/* How often something was added to a policy's counter for other roots. */
uint64_t tally_overflows(const struct tally *t);
