/*
 * Gossip: who is there, and the configuration that all agree on, without a centre. Membership by SWIM
 * (gossip_members.h), changes carried on its messages and sent on by whoever hears them (Demers et al., "Epidemic
 * Algorithms for Replicated Database Maintenance", 1987), and what was missed found by comparing digests.
 *
 * Pure: gossip_step() gets the time and what came in, and says what is to be sent and what was learned. Whoever carries that
 * out (io/gossip_udp.h, the simulator) sends the datagrams, keeps the items, and calls again at gossip_wake_ms() at the latest.
 * docs/gossip.md tells the protocol.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/buf.h"
#include "core/gossip_grants.h"
#include "core/gossip_items.h"
#include "core/gossip_members.h"
#include "core/gossip_wire.h"
#include "core/status.h"

enum {
	GOSSIP_SEEDS_MAX = 16,
	GOSSIP_INTERVAL_MS = 100, /* news go out this often: a round */
	GOSSIP_PROBE_MS = 500,    /* one member is probed this often */
};

struct gossip_time {
	uint64_t mono_ms; /* any monotonic clock */
	uint64_t wall_ms; /* since the epoch, < 2^47 */
};

struct gossip_conf {
	struct slice name, region; /* copied; valid names, the region may be empty */
	enum gossip_role role;
	struct gossip_address address; /* where others reach it; family 0: what they see */
	uint64_t max_skew_ms;
	uint64_t seed;          /* of its random choices */
	gossip_read_item *read; /* gossip_items.h */
};

struct gossip;

/* NULL: out of memory. */
struct gossip *gossip_new(const struct gossip_conf *conf, struct gossip_time now);
void gossip_free(struct gossip *g); /* NULL is nothing */

/* Who is asked first, and again while it is not among the live members; at most GOSSIP_SEEDS_MAX. */
void gossip_set_seeds(struct gossip *g, const struct gossip_address *seeds, size_t n);

/* ---- What a step says ---- */

enum gossip_output_kind {
	GOSSIP_SEND,   /* body: send it to `to` */
	GOSSIP_CAME,   /* item: newer than what is known; gossip_put() it once it is kept */
	GOSSIP_MEMBER, /* member is now what its state says, and was `was` */
	GOSSIP_WITHDRAWN, /* item: stamped ahead, as others have found out: it is to be as if it had been
			     written before any other (stamp 0), a deletion as if it were not there */
	GOSSIP_GRANTED, /* grant: for our region, newer than any before */
	GOSSIP_PULL, /* fetch what differs from the member at `to`, by a stream (gossip_bulk.h) */
};

struct gossip_output {
	enum gossip_output_kind kind;
	struct gossip_address to;
	size_t at, len;                     /* of the body in `bytes` */
	struct gossip_item item;            /* slices of the input */
	struct gossip_grant grant;          /* likewise */
	const struct gossip_member *member; /* until the next step */
	enum gossip_state was;
};

/* Zero at first; grows. What there is no memory for is left out, as if the network had lost it. */
struct gossip_out {
	struct gossip_output *list;
	size_t n, room;
	struct buf bytes;
};

void gossip_out_clear(struct gossip_out *out);
void gossip_out_release(struct gossip_out *out);

/* A datagram's body, authenticated. */
struct gossip_input {
	struct gossip_address from;
	struct slice body;
};

/*
 * Does what is due at `now`, and takes `input` (NULL: none) in. Appends to *out. Time never goes back on the monotonic clock.
 */
void gossip_step(struct gossip *g, struct gossip_time now, const struct gossip_input *input,
		 struct gossip_out *out);
/* When, on the monotonic clock, the next step is due at the latest. */
uint64_t gossip_wake_ms(const struct gossip *g);

/* Says farewell: to others it is dead at once, and stays so. */
void gossip_leave(struct gossip *g, struct gossip_time now, struct gossip_out *out);

/* ---- Items ---- */

/*
 * Knows the owner's `item` from now on; with `spread`, tells others. *ret_replaced: the owner's item whose place it takes, or
 * NULL. KOVA_ENOMEM: nothing changed.
 */
KOVA_MUST_CHECK kova_status gossip_put(struct gossip *g, const void *item, bool spread,
				       const void **ret_replaced);
/* The owner has dropped the item of `id` for good; returns what it had put, or NULL. */
const void *gossip_forget(struct gossip *g, struct slice id);
/* The digest of all items: nodes of the same digest have the same. */
uint64_t gossip_digest(const struct gossip *g);
size_t gossip_n_items(const struct gossip *g);

/*
 * The writes that were refused for their stamps, to be kept over a restart: up to GOSSIP_REFUSALS_MAX. They are forgotten when
 * our own clock is set forward, for it judged them.
 */
const struct gossip_refusal *gossip_refusals(const struct gossip *g, size_t *ret_n);
void gossip_set_refusals(struct gossip *g, const struct gossip_refusal *list, size_t n);

/*
 * Whether what this node would stamp now was refused before, when its clock was ahead: until that is over it can make no writes. *ret_ms: by
 * how much it was ahead, at least.
 */
bool gossip_stamps_refused(const struct gossip *g, struct gossip_time now, int64_t *ret_ms);

/* ---- Grants ---- */

/*
 * Tells a grant to the nodes of its region. Only of a grant that is committed: of another the next allocator would not know
 * (docs/global.md, step 6). KOVA_ETOOBIG: more than GOSSIP_GRANT_BYTES_MAX bytes; KOVA_ERANGE: no time to keep it, or too long. One that is
 * not newer than what is known is left as it is.
 */
KOVA_MUST_CHECK kova_status gossip_grant(struct gossip *g, struct gossip_time now,
					 const struct gossip_grant *grant);

/* ---- Members ---- */

const struct gossip_members *gossip_members(const struct gossip *g);
struct gossip_record gossip_self(const struct gossip *g);
/* As gossip_members_skew(), at `now`. */
bool gossip_skew(const struct gossip *g, struct gossip_time now, int64_t *ret_ms);
/* What one member's clock is ahead of ours, ms. False: it was not measured. */
bool gossip_member_skew(const struct gossip_member *m, struct gossip_time now, int64_t *ret_ms);

/* ---- Counters, since the beginning ---- */

struct gossip_counts {
	uint64_t malformed; /* bodies that were no messages */
	uint64_t skew;      /* items refused for their stamp */
	uint64_t conflicts; /* messages of two nodes of one name */
	uint64_t overflow;  /* members that there was no room for */
	uint64_t grants;    /* for our region, that were new */
};
/* Grants that made room for others before they were passed on as often as they should. */
uint64_t gossip_grants_dropped(const struct gossip *g);
const struct gossip_counts *gossip_counts(const struct gossip *g);
