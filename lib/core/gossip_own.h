/* The inside of struct gossip, for gossip*.c only. */
#pragma once

#include "core/gossip.h"
#include "core/gossip_bulk.h"
#include "core/gossip_rules.h"

enum {
	FANOUT = 3,          /* members that are told in a round */
	GRANT_MESSAGES = 3,  /* in a round, of any number of grants */
	RELAY_SENDS = 2,     /* messages that carry a grant that is not for our region */
	INDIRECT = 3,        /* members that are asked to probe another */
	PINGS = 16,          /* of which we know when they left */
	RELAYS = 32,         /* probes for others that are under way */
	HEALTH_MAX = 4,      /* Lifeguard's local health multiplier: up to 5 times as slow */
	SYNC_MS = 1000,      /* digests are compared at most this often */
	SYNC_BUSY_MS = 5000, /* and while there are news, at least */
	REFUSAL_MS = 200,    /* a refusal is told at most this often */
	SAMPLE_MS = 2000,    /* members are compared at most this often */
	PULL_MS = 1000,
	LONELY_MS = 1000, /* a seed is asked this often while nobody is there */
	SEED_MS = 5000,   /* seeds and dead members, else */
	DEAD_KEPT_MS = 3600000,
};

#define TOMBSTONE_MS (UINT64_C(30) * 86400000)

struct relay {
	uint32_t seq; /* of our ping; 0: free */
	uint32_t origin_seq;
	struct gossip_address origin;
};

struct gossip {
	char name[NAME_BYTES_MAX], region[NAME_BYTES_MAX];
	struct gossip_record self; /* its names are the above */
	uint8_t self_sends;
	bool leaving;
	uint64_t name_hash, max_skew_ms;
	struct gossip_items items;
	struct gossip_members members;
	struct gossip_grants grants;
	uint64_t random;
	uint32_t seq;
	struct {
		uint32_t seq;
		uint64_t sent_ms;
	} pings[PINGS];
	struct gossip_address seeds[GOSSIP_SEEDS_MAX];
	size_t n_seeds;
	struct {
		struct gossip_member *target; /* NULL: nobody is being probed */
		uint32_t seq;
		uint64_t sent_ms;
		bool asked; /* others, to probe it as well */
	} probe;
	uint32_t probe_at; /* place in the members' list */
	unsigned health;
	struct relay relays[RELAYS];
	unsigned next_relay;
	uint64_t probe_due_ms, news_due_ms, seed_due_ms, grants_due_ms;
	uint64_t sync_from_ms, sample_from_ms, pull_from_ms, refusal_from_ms; /* not before */
	const struct gossip_member *teller; /* who says what is being taken in; NULL: not known */
	uint64_t synced_ms;
	int64_t clock_ms; /* our wall clock minus the monotonic one, at the last step */
	struct gossip_counts counts;
};

/* ---- gossip.c ---- */

uint64_t gossip_below(struct gossip *g, uint64_t n); /* random, 0..n-1 */
uint8_t gossip_sends(const struct gossip *g);        /* messages that are to carry a change */

struct gossip_output *gossip_output(struct gossip_out *out, enum gossip_output_kind kind);
/* Asks for a pull from there, unless there was one just now. */
void gossip_want_pull(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
		      struct gossip_out *out);

/* A message under construction. */
struct message {
	struct wire_writer w;
	uint8_t body[GOSSIP_BODY_MAX];
};
void message_begin(struct gossip *g, struct message *m, enum gossip_type type, uint32_t seq,
		   struct gossip_time now);
void message_send(struct message *m, const struct gossip_address *to, struct gossip_out *out);

/* ---- gossip_grants_turn.c ---- */

/* Sends what grants are due. */
void grants_turn(struct gossip *g, struct gossip_time now, struct gossip_out *out);
/* The part of a message of grants that is its own; `take` false: only whether it is well-formed. */
bool grants_take(struct gossip *g, struct gossip_time now, struct wire_reader *r, bool take,
		 struct gossip_out *out);

/* ---- gossip_news.c ---- */

/* Applies what is said of a member, ourselves included. `heard` from itself. */
void gossip_hear(struct gossip *g, struct gossip_time now, const struct gossip_record *record,
		 struct gossip_out *out);
/* Whether `r` holds nothing but whole elements. */
bool news_are_valid(struct wire_reader r);
void news_take(struct gossip *g, struct gossip_time now, const struct gossip_address *from,
	       struct wire_reader r, struct gossip_out *out);
/* Adds what is to be spread, as much as there is room for. */
void news_add(struct gossip *g, struct message *m);
void news_add_member(struct message *m, const struct gossip_member *member);
/* False: there is no room. */
bool news_add_item(struct gossip *g, struct message *m, const struct gossip_entry *e);

/* ---- gossip_sync.c ---- */

/* Compares what `head` says of the sender's digests with ours, and begins to find out what differs. */
void sync_compare(struct gossip *g, struct gossip_time now, const struct gossip_head *head,
		  const struct gossip_address *from, struct gossip_out *out);
/* The part of a message that is its type's own. `take` false: only whether it is well-formed. */
bool sync_take(struct gossip *g, struct gossip_time now, enum gossip_type type,
	       const struct gossip_address *from, struct wire_reader *r, bool take,
	       struct gossip_out *out);
