/*
 * Grants on their way: committed shares of global quotas for regions that Kafka may not reach (docs/gossip.md). They are no items: each
 * ends by itself, the newest of a quota is all that counts, and they travel in messages of their own, so few at a time that a
 * flood of them leaves everything else as it is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/name.h"
#include "core/status.h"

struct wire_reader;
struct wire_writer;

enum {
	GOSSIP_GRANT_BYTES_MAX = 900,
	GOSSIP_GRANTS_MAX =
		1024, /* known at a time; of more, those that were passed on the most often go */
	GOSSIP_GRANT_KEEP_MS_MAX = 120000,
};

struct gossip_grant {
	uint64_t quota;      /* names the region's share of one quota; a hash */
	uint64_t seq;        /* grows with each grant of it */
	uint32_t keep_ms;    /* of use for so long, 1..GOSSIP_GRANT_KEEP_MS_MAX */
	struct slice region; /* a valid name: for whom it is */
	struct slice bytes;  /* 1..GOSSIP_GRANT_BYTES_MAX; none of gossip's business */
};

struct grant_entry {
	uint64_t quota, seq, until_ms;
	uint8_t sends; /* messages that are to carry it */
	bool is_in;    /* in the message that is being written */
	uint8_t region_len;
	uint16_t len;
	char *text; /* owned: the region, then the bytes */
};

struct gossip_grants {
	struct grant_entry list[GOSSIP_GRANTS_MAX];
	uint32_t n, n_sends; /* of these with sends > 0 */
	uint64_t dropped;    /* that had not been passed on as often as they should */
};

void gossip_grants_release(struct gossip_grants *t);

/*
 * Knows `grant` until now_ms + keep_ms, to be carried by `sends` messages. False, and nothing has changed: one of its seq or a later one
 * is known, or there is no memory.
 */
bool gossip_grants_put(struct gossip_grants *t, const struct gossip_grant *grant, uint8_t sends,
		       uint64_t now_ms);

/* Forgets what has ended. */
void gossip_grants_expire(struct gossip_grants *t, uint64_t now_ms);

/* The region of the grant that is to be carried next: the one that was carried the least. False: there is none. */
bool gossip_grants_next(const struct gossip_grants *t, struct slice *ret_region);

/* Writes those of `region` (a slice of the table is fine) that there is room for, each once less to be carried from then on. */
void gossip_grants_write(struct gossip_grants *t, struct slice region, uint64_t now_ms,
			 struct wire_writer *w);

/* One grant of a message; slices of the input. */
void wire_get_grant(struct wire_reader *r, struct gossip_grant *ret_grant);
