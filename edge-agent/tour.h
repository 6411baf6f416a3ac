/*
 * A visit to every loop of the agent, one after the other, from home and back: how what all loops know is added up, and
 * how what all must know is spread. Two tours from one home visit each loop in the order in which they left. With one loop
 * all of it happens in tour_start().
 */
#pragma once

#include "io/mailbox.h"

struct agent;

struct tour {
	struct message message; /* first: the two convert into each other */
	struct agent *home, *at;
	void (*visit)(struct tour *t, struct agent *a); /* on each loop, home first */
	void (*done)(struct tour *t);                   /* at home; may free the tour */
};

/* On the loop `home`. `t` stays where it is until `done`; the rest of what is in it goes along. */
void tour_start(struct tour *t, struct agent *home, void (*visit)(struct tour *t, struct agent *a),
		void (*done)(struct tour *t));
