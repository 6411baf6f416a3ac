/*
 * Which stores' clocks differ from the agent's, as its loops find out, so that an event is said once when one begins to. Each
 * loop is visited in turn; then what they know is compared with the time before.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "region_clock.h"

struct agent;

enum { SKEW_PEERS_MAX = 64 }; /* those beyond are not told of */

struct skew_peer {
	char name[REGION_PEER_BYTES];
	int64_t us; /* its clock minus ours */
	bool now, before;
};

/* All zeros at first. */
struct skew_watch {
	struct skew_peer peers[SKEW_PEERS_MAX];
	unsigned n;
};

/* On the loop of `a`, which has its engine; nobody else is visited meanwhile. */
void skew_watch_visit(struct skew_watch *w, const struct agent *a);
/* On the owner's loop, when all were visited. */
void skew_watch_end(struct skew_watch *w, struct agent *owner);
