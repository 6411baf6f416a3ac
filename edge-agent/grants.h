/*
 * What coordinators grant: kova.grants.v1, read from its beginning and then on, and whatever brings committed grants beside it. On
 * the owner's loop.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/buf.h"
#include "core/bytes.h"
#include "edge_conf.h"

struct agent;
struct grants;

/*
 * A grant was read: the bytes of a ShareGrant (proto/kova_share.proto). It must be committed. Another region's, one of a quota that
 * this agent has nothing to do with, and what is no grant, is passed over; one that comes again, or late, does no harm. Nothing, where there is no Kafka, or there are no `regions`.
 */
void grants_read(struct agent *owner, struct slice grant);

struct grants_numbers {
	uint64_t read;      /* of this region, of quotas that this agent takes part in */
	uint64_t ignored;   /* others, and those that came before */
	uint64_t malformed; /* no grants */
	bool caught_up;     /* all that was in the topic at the start was read */
};

/* `conf` (borrowed) has regions and a Kafka. NULL: out of memory. */
struct grants *grants_new(uv_loop_t *loop, const struct edge_conf *conf);
/* From now on the topic is read, as soon as there is a global policy. */
void grants_start(struct grants *g, struct agent *owner);
/* Nothing is read any more. */
void grants_stop(struct grants *g);
/* After that. NULL is nothing. Its handles are closed when the loop has run some more. */
void grants_free(struct grants *g);

struct grants_numbers grants_numbers(const struct grants *g);
