/*
 * What gossip says, as bytes: big-endian, every length bounded, the same on every machine. docs/gossip.md has the layout.
 * The envelope that authenticates a datagram is not here (io/gossip_seal.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/bytes.h"
#include "core/name.h"

enum {
	GOSSIP_DATAGRAM_MAX =
		1400,           /* bytes of an UDP payload: no IP fragments on the usual links */
	GOSSIP_SEAL_BYTES = 51, /* of it, what authenticates it */
	GOSSIP_BODY_MAX = GOSSIP_DATAGRAM_MAX - GOSSIP_SEAL_BYTES,
	GOSSIP_ID_MAX = 2048,
	GOSSIP_WHO_MAX = 255,
	GOSSIP_VALUE_MAX = 1 << 20,
};

struct gossip_address {
	uint8_t family; /* 4 or 6; 0: none */
	uint16_t port;
	uint8_t host[16]; /* the first 4 of it with family 4; the rest 0 */
};

static inline bool gossip_address_equal(const struct gossip_address *a,
					const struct gossip_address *b)
{
	return a->family == b->family && a->port == b->port &&
	       memcmp(a->host, b->host, sizeof a->host) == 0;
}

enum gossip_role { GOSSIP_AGENT, GOSSIP_COORDINATOR, GOSSIP_ROLES };
enum gossip_state { GOSSIP_ALIVE, GOSSIP_SUSPECT, GOSSIP_DEAD, GOSSIP_STATES };

/* What is said of a member. */
struct gossip_record {
	struct slice name, region; /* valid names */
	enum gossip_role role;
	enum gossip_state state;
	uint32_t incarnation;
	uint32_t accuser; /* of a suspect: the hash of the name of who says so */
	struct gossip_address address;
};

/* A configuration item, or that one was deleted. */
struct gossip_item {
	struct slice id;    /* 1..GOSSIP_ID_MAX bytes: kind and name, of the owner's choosing */
	struct slice value; /* empty: deleted */
	struct slice who;
	struct slice writer; /* the node that stamped it; empty with stamp 0 */
	uint64_t stamp;      /* core/hlc.h */
};

enum gossip_type {
	GOSSIP_PING = 1,
	GOSSIP_ACK,      /* seq: of the ping */
	GOSSIP_PING_REQ, /* please ping `target` for me; its ack is `seq` */
	GOSSIP_NEWS,     /* nothing but elements */
	GOSSIP_DIGESTS,  /* a row of the tree of digests */
	GOSSIP_LIST,     /* the items of one leaf */
	GOSSIP_WANT,     /* please send these items */
	GOSSIP_GRANTS,   /* grants of one region (gossip_grants.h) */
	GOSSIP_TYPES
};

/* How each message begins. */
struct gossip_head {
	enum gossip_type type;
	uint32_t seq;
	uint64_t wall_ms; /* the sender's */
	uint64_t items;   /* digest of all its items */
	uint64_t members; /* digest of the members that it knows */
	struct gossip_record sender;
};

/* What may follow the part that a type has of its own. */
enum gossip_element {
	GOSSIP_E_MEMBER = 'm',
	GOSSIP_E_ITEM = 'i',
	GOSSIP_E_REFUSAL =
		'r', /* writes that were refused, and how far ahead of our clock they were */
	GOSSIP_E_NOTICE = 'n', /* an item too large for a datagram: its hash and stamp */
};

/* ---- Reading: the first error sticks, and everything after it reads as 0 ---- */

struct wire_reader {
	const uint8_t *at, *end;
	bool failed;
};

struct wire_reader wire_reader(struct slice bytes);
uint64_t wire_get(struct wire_reader *r, unsigned n_bytes); /* 1..8 */
struct slice wire_get_bytes(struct wire_reader *r, size_t len);
void wire_get_address(struct wire_reader *r, struct gossip_address *ret_address);
void wire_get_record(struct wire_reader *r, struct gossip_record *ret_record);
/* Slices of the input. A value longer than GOSSIP_VALUE_MAX, an empty id, a writer that is no name: failed. */
void wire_get_item(struct wire_reader *r, struct gossip_item *ret_item);
void wire_get_head(struct wire_reader *r, struct gossip_head *ret_head);

static inline bool wire_at_end(const struct wire_reader *r)
{
	return r->failed || r->at == r->end;
}

/* ---- Writing: into the caller's memory; what does not fit sets `full` and leaves it unfit for use ---- */

struct wire_writer {
	uint8_t *ptr;
	size_t len, cap;
	bool full;
};

void wire_put(struct wire_writer *w, uint64_t value, unsigned n_bytes);
void wire_put_bytes(struct wire_writer *w, struct slice bytes);
void wire_put_address(struct wire_writer *w, const struct gossip_address *address);
void wire_put_record(struct wire_writer *w, const struct gossip_record *record);
void wire_put_item(struct wire_writer *w, const struct gossip_item *item);
void wire_put_head(struct wire_writer *w, const struct gossip_head *head);

/* Bytes that wire_put_item() writes. */
size_t wire_item_bytes(const struct gossip_item *item);

/* Undoes what was written since the writer's length was `len`. */
static inline void wire_undo(struct wire_writer *w, size_t len)
{
	w->len = len;
	w->full = false;
}
