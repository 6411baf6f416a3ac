/* Items for tests of gossip: their owner is the test, which keeps them in memory of its own. */
#pragma once

#include <stdlib.h>

#include "core/gossip.h"

/* An item, and what gossip asks of it. */
static inline void fixture_read(const void *item, struct gossip_item *ret_item)
{
	*ret_item = *(const struct gossip_item *)item;
}

/* A copy in one block: free(). */
static inline struct gossip_item *fixture_keep(const struct gossip_item *said)
{
	size_t len = said->id.len + said->value.len + said->who.len + said->writer.len;
	struct gossip_item *item = malloc(sizeof *item + len + 1);
	struct slice *parts[4];
	char *at = (char *)(item + 1);

	if (item == NULL)
		abort();
	*item = *said;
	parts[0] = &item->id;
	parts[1] = &item->value;
	parts[2] = &item->who;
	parts[3] = &item->writer;
	for (int i = 0; i < 4; i++) {
		if (parts[i]->len > 0)
			memcpy(at, parts[i]->ptr, parts[i]->len);
		parts[i]->ptr = at;
		at += parts[i]->len;
	}
	return item;
}

static inline struct gossip_address fixture_address(uint8_t n)
{
	return (struct gossip_address){.family = 4, .port = 7414, .host = {127, 0, 0, n}};
}

/* A node `n` whose clock is at 0 and 1 700 000 000 s. */
static inline struct gossip *fixture_node(uint8_t n, const char *name)
{
	struct gossip_conf conf = {.name = slice_of(name),
				   .region = SLICE("here"),
				   .address = fixture_address(n),
				   .max_skew_ms = 250,
				   .seed = n,
				   .read = fixture_read};

	return gossip_new(&conf, (struct gossip_time){0, UINT64_C(1700000000000)});
}
