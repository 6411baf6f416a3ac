/*
 * Gossip on a libuv loop: datagrams that are signed and checked, a timer, and streams on the TCP port of the same number
 * (gossip_stream.h). It carries out what core/gossip.h says; the items stay with their owner, agent or coordinator, which hears
 * of new ones and puts them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "core/gossip.h"
#include "io/gossip_seal.h"

/* Why something that arrived was refused. X(NAME, label) */
#define GOSSIP_REJECTIONS(X)                                                           \
	X(HMAC, "hmac")            /* of none of our keys */                           \
	X(REPLAY, "replay")        /* seen before */                                   \
	X(VERSION, "version")      /* of another version of the protocol */            \
	X(MALFORMED, "malformed")  /* no message */                                    \
	X(SKEW, "clock_skew")      /* an item stamped too far ahead */                 \
	X(INVALID, "invalid")      /* an item that this version does not understand */ \
	X(CONFLICT, "name_in_use") /* a message of another node of our name */         \
	X(OVERFLOW, "overflow")    /* more members or streams than there may be */

enum gossip_rejection {
#define X(name, label) GOSSIP_REJECTED_##name,
	GOSSIP_REJECTIONS(X)
#undef X
		GOSSIP_REJECTED_REASONS
};

struct gossip_udp_conf {
	struct gossip_conf core; /* without its address, seed and `read` */
	const char *listen;    /* "host:port"; the host an IP address or `localhost`; port 0: any */
	const char *advertise; /* what others reach it at; NULL: as `listen`, or what they see */
	const char *const *seeds; /* "host:port", names allowed; at most GOSSIP_SEEDS_MAX */
	size_t n_seeds;
	struct gossip_keys *keys; /* taken over */
	uint64_t epoch;           /* greater than in any earlier life of this node */
};

/* The owner of the items. All on the loop. */
struct gossip_owner {
	gossip_read_item *read;
	/* `item` is newer than what is known; copy it. gossip_put() it once it is kept: now or later. */
	void (*came)(void *data, const struct gossip_item *item);
	/* `item`, which the owner has put, is to be stamped 0, or, if it is a deletion, forgotten. */
	void (*withdrawn)(void *data, const struct gossip_item *item);
	/* The bytes of a grant for our region, newer than any before; copy it. NULL: nobody wants it. */
	void (*granted)(void *data, struct slice grant);
	/* `m` is now what its state says; it was `was`. */
	void (*member)(void *data, const struct gossip_member *m, enum gossip_state was);
	void *data;
};

struct gossip_udp;

/*
 * Opens the sockets and begins. NULL with *ret_error set: an address that is not ours, a port in use. `conf` is copied but for
 * the keys, which are taken over in any case.
 */
struct gossip_udp *gossip_udp_start(uv_loop_t *loop, const struct gossip_udp_conf *conf,
				    const struct gossip_owner *owner, struct buf *ret_error);
/* Says farewell and closes; `on_closed` comes on the loop, once. */
void gossip_udp_close(struct gossip_udp *u, void (*on_closed)(void *data), void *data);

/* To put items, and to look. After a put that is to spread: gossip_udp_kick(). */
struct gossip *gossip_udp_core(struct gossip_udp *u);
void gossip_udp_kick(struct gossip_udp *u);
struct gossip_time gossip_udp_now(void);

/* "host:port" where it listens. */
const char *gossip_udp_address(const struct gossip_udp *u);

/* Other keys from now on; taken over. */
void gossip_udp_set_keys(struct gossip_udp *u, struct gossip_keys *keys);

void gossip_udp_reject(struct gossip_udp *u, enum gossip_rejection why);
/* Since the start, by enum gossip_rejection. */
void gossip_udp_rejected(const struct gossip_udp *u, uint64_t ret_counts[GOSSIP_REJECTED_REASONS]);
const char *gossip_rejection_label(enum gossip_rejection why);

/* "1.2.3.4:5" or "[::1]:5"; "" for none. */
enum { GOSSIP_ADDRESS_TEXT = 64 };
void gossip_address_text(const struct gossip_address *a, char ret_text[static GOSSIP_ADDRESS_TEXT]);
