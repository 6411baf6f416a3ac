/*
 * Which of a sender's messages were seen before (the anti-replay window of RFC 4303, 3.4.3, per epoch of the sender): each
 * is taken once, in any order within the window.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GOSSIP_WINDOW = 1024 }; /* messages that one may be late by */

/* Zero at first. */
struct gossip_window {
	uint64_t epoch; /* of the sender's life; later lives have greater ones */
	uint64_t top;   /* the greatest number seen */
	uint64_t seen[GOSSIP_WINDOW / 64];
};

/* Takes message `number` of `epoch` in. False: it was seen, is too old to tell, or is of an earlier life. */
bool gossip_window_admit(struct gossip_window *w, uint64_t epoch, uint64_t number);

/* A window for each sender. */
struct gossip_senders {
	struct gossip_sender *list; /* open addressing; NULL: there are none */
	uint32_t n, mask;
};

enum {
	GOSSIP_SENDERS_MAX = 16384,
	GOSSIP_SENDER_KEPT_MS =
		3600000, /* one that was not heard for so long makes room, when it is needed */
};

void gossip_senders_release(struct gossip_senders *t);

/*
 * The window of a sender that has shown a key, by a hash of its name, at `now_ms` of a monotonic clock; until the next call. NULL:
 * there is no room, or no memory.
 */
struct gossip_window *gossip_senders_window(struct gossip_senders *t, uint64_t name_hash,
					    uint64_t now_ms);
