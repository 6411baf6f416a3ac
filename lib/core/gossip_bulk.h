/*
 * What differs between two nodes, by a stream: for a node that joins, and for what does not fit into datagrams. One asks
 * with the digests of its leaves; the other answers with its members and all items of the leaves that differ.
 */
#pragma once

#include "core/gossip.h"

enum {
	GOSSIP_PULL_BYTES = GOSSIP_LEAVES * 8,
	GOSSIP_CHUNK_BYTES = 64 << 10, /* about what one part of the answer has */
	GOSSIP_CHUNK_MAX = 4 << 20,    /* and never more */
};

/* Appends the question, GOSSIP_PULL_BYTES. */
void gossip_pull_write(const struct gossip *g, struct buf *out);

/*
 * Appends the next part of the answer to `question` (GOSSIP_PULL_BYTES). *at: 0 at first, and what was left there afterwards. False:
 * that was the last. Items may change between the parts.
 */
bool gossip_bulk_write(const struct gossip *g, struct slice question, uint32_t *at,
		       struct buf *out);

/* Takes one part of the answer in; outputs as of gossip_step(). KOVA_EPROTO: it is none, and nothing of it counts. */
KOVA_MUST_CHECK kova_status gossip_bulk_read(struct gossip *g, struct gossip_time now,
					     struct slice part, struct gossip_out *out);
